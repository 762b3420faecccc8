//! Whether the module parameters that were requested for the driver are in force. Without RMForceStaticBar1 and
//! similar parameters the patched driver behaves like the stock driver.

use crate::suite::context::{TestContext, known};
use crate::suite::{FILE_DEADLINE, Group, Test};
use contract::driver::same_value;
use machine::host::nvidia::ReadResult;
use machine::host::nvidia::account::{Account, Parameter};
use machine::host::nvidia::params;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use report::Level;
use serde_json::Value;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::DRIVER_PARAMS,
    title: "Driver parameters",
    proves: "every module parameter that firstlight asked for is in force",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = context.no_driver()? {
        return Ok(nothing);
    }
    let Some(account) = known(&context.nvidia.account)? else {
        return Ok(Judgement::not_applicable("not started by firstlight: the requested parameters are unknown"));
    };
    let own = params::read(&context.root);
    let own = known(&own)?;
    let in_force = |asked: &Parameter| match asked.name.strip_prefix("NVreg_") {
        Some(name) if asked.module == "nvidia" => Ok(own.get(name).cloned()),
        _ => params::of_module(&context.root, &asked.module, &asked.name),
    };
    Ok(judge(account, in_force))
}

/// `in_force` is a parameter's present value; `None` when the module does not show it.
fn judge(account: &Account, in_force: impl Fn(&Parameter) -> ReadResult<Option<String>>) -> Judgement {
    if account.parameters.is_empty() {
        return Judgement::not_applicable("no parameter was asked for");
    }
    let findings: Vec<_> = account.parameters.iter().filter_map(|p| finding(p, in_force(p))).collect();
    let summary = match findings.first() {
        Some(first) => first.message.to_string(),
        None => {
            let names: Vec<_> = account.parameters.iter().map(|p| p.name.as_str()).collect();
            format!("{} in force: {}", names.len(), names.join(", "))
        }
    };
    Judgement::of(summary, findings)
}

fn finding(asked: &Parameter, now: ReadResult<Option<String>>) -> Option<Finding> {
    let Parameter { module, name, wanted, found } = asked;
    let mismatch = |severity, message: String, now: Value| {
        let finding = Code::DriverParameters.finding(severity, Subject::part(module), message);
        Some(finding.values(now, wanted.as_str(), None))
    };
    // The module may hide a parameter that init was able to read in another way.
    match now.map(|now| now.or_else(|| found.clone())) {
        Ok(Some(now)) if same_value(wanted, &now) => None,
        Ok(Some(now)) => {
            mismatch(Severity::Fail, format!("{name} is '{now}', expected '{wanted}'"), now.as_str().into())
        }
        Ok(None) => {
            mismatch(Severity::Error, format!("{module} does not show {name}, expected '{wanted}'"), Value::Null)
        }
        Err(why) => mismatch(Severity::Error, why, Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::nvidia::fixture::account_with as with;
    use outcome::Outcome;
    use serde_json::json;

    fn asked(found: &Value) -> Account {
        let dwords = json!({ "module": "nvidia", "name": "NVreg_RegistryDwords", "wanted": "a=1;b=2", "found": found });
        with("/parameters", json!([dwords]))
    }

    #[test]
    fn a_parameter_in_force_passes_and_another_value_fails() {
        let now = |value: &str| judge(&asked(&Value::Null), |_| Ok(Some(value.to_owned())));
        assert_eq!(now("a=1;b=2;").outcome(), Outcome::Pass);
        assert_eq!(now("a=1;b=2").summary, "1 in force: NVreg_RegistryDwords");
        let said = now("");
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::DriverParameters));
        assert_eq!(said.summary, "NVreg_RegistryDwords is '', expected 'a=1;b=2'");
    }

    #[test]
    fn a_parameter_that_changed_since_the_start_fails() {
        let said = judge(&asked(&json!("a=1;b=2")), |_| Ok(Some("a=1".to_owned())));
        assert_eq!(said.outcome(), Outcome::Fail);
    }

    #[test]
    fn an_unreadable_parameter_is_an_error() {
        assert_eq!(judge(&asked(&Value::Null), |_| Ok(None)).outcome(), Outcome::Error);
        assert_eq!(judge(&asked(&Value::Null), |_| Err("denied".to_owned())).outcome(), Outcome::Error);
        assert_eq!(judge(&asked(&json!("a=1;b=2")), |_| Ok(None)).outcome(), Outcome::Pass);
    }

    #[test]
    fn no_requested_parameter_is_not_applicable() {
        let said = judge(&with("/load", json!(true)), |_| Ok(None));
        assert_eq!(said.outcome(), Outcome::NotApplicable);
    }
}
