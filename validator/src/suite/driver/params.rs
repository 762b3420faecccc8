//! Whether the module parameters that were requested for the driver are in force: by firstlight's init, or on an installed
//! system by modprobe's configuration. Without RMForceStaticBar1 and similar parameters the patched driver behaves like the
//! stock driver.

use crate::suite::context::{TestContext, known};
use crate::suite::{FILE_DEADLINE, Group, Test};
use contract::driver_account::same_value;
use machine::host::modprobe::{self, Passed};
use machine::host::nvidia::ReadResult;
use machine::host::nvidia::account::{Account, Parameter};
use machine::host::nvidia::params;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use report::Level;
use serde_json::Value;
use std::collections::BTreeMap;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::DRIVER_PARAMS,
    title: "Driver parameters",
    proves: "every module parameter that firstlight or modprobe's configuration asked for is in force",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

/// The driver's modules that have parameters.
const MODULES: [&str; 4] = ["nvidia", "nvidia_modeset", "nvidia_drm", "nvidia_uvm"];

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = context.no_driver()? {
        return Ok(nothing);
    }
    let own = params::read(&context.root);
    let own = known(&own)?;
    let in_force = |module: &str, name: &str| match name.strip_prefix("NVreg_") {
        Some(name) if module == "nvidia" => Ok(own.get(name).cloned()),
        _ => params::of_module(&context.root, module, name),
    };
    if let Some(account) = known(&context.nvidia.account)? {
        return Ok(judge(account, |asked| in_force(&asked.module, &asked.name)));
    }
    let mut passed = Vec::new();
    for module in MODULES {
        let of_module = modprobe::passed(&context.root, module);
        passed.extend(known(&of_module)?.iter().map(|word| (module, word.clone())));
    }
    Ok(judge_modprobe(&passed, in_force))
}

/// The parameter with the registry keys of the driver, among them those for peer-to-peer.
const KEYS: &str = "NVreg_RegistryDwords";

/// Judges what modprobe passes to each module. A value that the module does not show may belong to another version of the
/// driver or to a module that is not loaded, so that alone is no fault.
fn judge_modprobe(
    passed: &[(&str, Passed)],
    in_force: impl Fn(&str, &str) -> ReadResult<Option<String>>,
) -> Judgement {
    if passed.is_empty() {
        return Judgement::not_applicable(
            "not started by firstlight, and modprobe's configuration has no parameters",
        );
    }
    let mut last = BTreeMap::new();
    let mut findings = Vec::new();
    for (module, word) in passed {
        let Passed { name, value, place } = word;
        match value {
            // In a value, modprobe's words are the kernel's: only `#` cannot be meant for the module.
            None if name.starts_with('#') => {
                let message =
                    format!("{place}: modprobe passes the remark behind the options to {module}");
                findings.push(Code::DriverParameters.finding(
                    Severity::Info,
                    Subject::part(module),
                    message,
                ));
            }
            None => {}
            Some(value) => {
                last.insert((*module, name.as_str()), (value.as_str(), place.as_str()));
            }
        }
    }
    let mut shown = Vec::new();
    for ((module, name), (wanted, place)) in last {
        let (severity, message, now) = match in_force(module, name) {
            Ok(Some(now)) if same_value(wanted, &now) => {
                shown.push(name);
                continue;
            }
            Ok(Some(now)) => {
                // Only the registry's keys decide about peer-to-peer.
                let severity = if name == KEYS {
                    Severity::Warn
                } else {
                    Severity::Info
                };
                (
                    severity,
                    format!("{name} is '{now}', but {place} has '{wanted}'"),
                    now.as_str().into(),
                )
            }
            Ok(None) => (
                Severity::Info,
                format!("{module} does not show {name}, which {place} sets"),
                Value::Null,
            ),
            Err(why) if name == KEYS => (Severity::Error, why, Value::Null),
            Err(why) => (Severity::Info, why, Value::Null),
        };
        let finding = Code::DriverParameters.finding(severity, Subject::part(module), message);
        findings.push(finding.values(now, wanted, None));
    }
    let worst = findings
        .iter()
        .find(|finding| finding.severity > Severity::Info);
    let summary = match worst {
        Some(finding) => finding.message.to_string(),
        None => format!(
            "{} of modprobe's configuration in force: {}",
            shown.len(),
            shown.join(", ")
        ),
    };
    Judgement::of(summary, findings)
}

/// `in_force` is a parameter's present value; `None` when the module does not show it.
fn judge(
    account: &Account,
    in_force: impl Fn(&Parameter) -> ReadResult<Option<String>>,
) -> Judgement {
    if account.parameters.is_empty() {
        return Judgement::not_applicable("no parameter was asked for");
    }
    let findings: Vec<_> = account
        .parameters
        .iter()
        .filter_map(|p| finding(p, in_force(p)))
        .collect();
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
    let Parameter {
        module,
        name,
        wanted,
        found,
    } = asked;
    let mismatch = |severity, message: String, now: Value| {
        let finding = Code::DriverParameters.finding(severity, Subject::part(module), message);
        Some(finding.values(now, wanted.as_str(), None))
    };
    // The module may hide a parameter that init was able to read in another way.
    match now.map(|now| now.or_else(|| found.clone())) {
        Ok(Some(now)) if same_value(wanted, &now) => None,
        Ok(Some(now)) => mismatch(
            Severity::Fail,
            format!("{name} is '{now}', expected '{wanted}'"),
            now.as_str().into(),
        ),
        Ok(None) => mismatch(
            Severity::Error,
            format!("{module} does not show {name}, expected '{wanted}'"),
            Value::Null,
        ),
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
        assert_eq!(
            said.summary,
            "NVreg_RegistryDwords is '', expected 'a=1;b=2'"
        );
    }

    #[test]
    fn a_parameter_that_changed_since_the_start_fails() {
        let said = judge(&asked(&json!("a=1;b=2")), |_| Ok(Some("a=1".to_owned())));
        assert_eq!(said.outcome(), Outcome::Fail);
    }

    #[test]
    fn an_unreadable_parameter_is_an_error() {
        assert_eq!(
            judge(&asked(&Value::Null), |_| Ok(None)).outcome(),
            Outcome::Error
        );
        assert_eq!(
            judge(&asked(&Value::Null), |_| Err("denied".to_owned())).outcome(),
            Outcome::Error
        );
        assert_eq!(
            judge(&asked(&json!("a=1;b=2")), |_| Ok(None)).outcome(),
            Outcome::Pass
        );
    }

    /// The outcome and the findings' messages for these words of modprobe, with A, B and the keys in force as 1.
    fn by_modprobe(words: &[&str]) -> (Outcome, Vec<String>) {
        let word = |text: &&str| {
            let (name, value) = text.split_once('=').map_or((*text, None), |(name, value)| {
                (name, Some(value.to_owned()))
            });
            (
                "nvidia",
                Passed {
                    name: name.to_owned(),
                    value,
                    place: "x.conf line 1".to_owned(),
                },
            )
        };
        let words: Vec<_> = words.iter().map(word).collect();
        let said = judge_modprobe(&words, |_, name| {
            Ok(["A", "B", KEYS].contains(&name).then(|| "1".to_owned()))
        });
        (
            said.outcome(),
            said.findings
                .iter()
                .map(|f| f.message.to_string())
                .collect(),
        )
    }

    #[test]
    fn on_an_installed_system_the_last_value_of_modprobe_must_be_in_force() {
        assert_eq!(
            by_modprobe(&["A=0", "A=1", "B=Y"]),
            (Outcome::Pass, Vec::new())
        );
        let (outcome, messages) = by_modprobe(&["A=1", "#", "was", "A=0"]);
        assert_eq!(outcome, Outcome::Pass, "it has nothing to do with peers");
        assert_eq!(
            messages[0],
            "x.conf line 1: modprobe passes the remark behind the options to nvidia"
        );
        assert_eq!(messages[1], "A is '1', but x.conf line 1 has '0'");
        assert_eq!(by_modprobe(&["NVreg_RegistryDwords=0"]).0, Outcome::Warn);
    }

    #[test]
    fn on_an_installed_system_a_parameter_that_is_not_shown_is_only_noted() {
        let (outcome, messages) = by_modprobe(&["NVreg_New=1"]);
        assert_eq!((outcome, messages.len()), (Outcome::Pass, 1));
        assert_eq!(by_modprobe(&[]).0, Outcome::NotApplicable);
        let words = [(
            "nvidia",
            Passed {
                name: KEYS.to_owned(),
                value: Some("1".to_owned()),
                place: String::new(),
            },
        )];
        assert_eq!(
            judge_modprobe(&words, |_, _| Err("denied".to_owned())).outcome(),
            Outcome::Error
        );
    }

    #[test]
    fn no_requested_parameter_is_not_applicable() {
        let said = judge(&with("/load", json!(true)), |_| Ok(None));
        assert_eq!(said.outcome(), Outcome::NotApplicable);
    }
}
