//! JSON Schemas of the words that the report shares with init. The crate `contract` itself has no schemas, so
//! that init does not need the crates for them.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The four verdicts.
#[must_use]
pub fn verdict(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["PASS", "DEGRADED", "FAIL", "ERROR"] })
}

/// The five outcomes.
#[must_use]
pub fn outcome(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pass", "warn", "fail", "error", "not-applicable"] })
}

/// The four severities.
#[must_use]
pub fn severity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["info", "warn", "fail", "error"] })
}

/// What can make a machine work again.
#[must_use]
pub fn recovery(_: &mut SchemaGenerator) -> Schema {
    let words = contract::recovery::Recovery::ALL.map(contract::recovery::Recovery::word);
    json_schema!({ "type": "string", "enum": words })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::outcome::{Outcome, Severity, Verdict};
    use serde_json::{Value, json};

    #[test]
    fn the_schema_has_every_word_of_the_vocabulary() {
        let words = |of: fn(&mut SchemaGenerator) -> Schema| {
            of(&mut SchemaGenerator::default()).as_value()["enum"].clone()
        };
        let is = |of, all: Value| assert_eq!(words(of), all);
        is(
            verdict,
            json!([
                Verdict::Pass,
                Verdict::Degraded,
                Verdict::Fail,
                Verdict::Error
            ]),
        );
        is(
            outcome,
            json!([
                Outcome::Pass,
                Outcome::Warn,
                Outcome::Fail,
                Outcome::Error,
                Outcome::NotApplicable
            ]),
        );
        is(
            severity,
            json!([
                Severity::Info,
                Severity::Warn,
                Severity::Fail,
                Severity::Error
            ]),
        );
        is(recovery, json!(contract::recovery::Recovery::ALL));
    }
}
