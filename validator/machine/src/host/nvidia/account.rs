//! init's account of its driver stage, `firstlight.driver/1`: what it found, loaded and created, and its
//! findings as code, severity, subject, message and evidence. Cause and remedy come from the validator's
//! table. Keys that a newer init adds are ignored; a missing key is an error.

use super::{ReadResult, at, confidential};
use crate::host::modules::absent_is_none;
use crate::root::Root;
use contract::driver_account::Code as Noted;
pub use contract::driver_account::{Account, Outcome, Parameter};
use contract::schema;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};

/// Where init writes it.
pub const FILE: &str = "run/firstlight/driver.json";

/// init's findings, with the table's causes and remedies.
#[must_use]
pub fn findings(account: &Account) -> Vec<Finding> {
    account.findings.iter().map(finding).collect()
}

/// A code that init does not write is a defect of one of the two programs, and an error.
fn finding(noted: &contract::driver_account::Finding) -> Finding {
    let (code, severity, message) = match Noted::named(&noted.code) {
        Some(code) => (table_code(code), noted.severity, noted.message.clone()),
        None => {
            let message = format!(
                "/{FILE} has the unknown code {}: {}",
                noted.code, noted.message
            );
            (Code::SysUnreadable, Severity::Error, message)
        }
    };
    let Ok(subject) = noted.subject.parse::<Subject>();
    let finding = code
        .finding(severity, subject, message)
        .seen_all(noted.evidence.clone());
    let obstacle = noted
        .evidence
        .iter()
        .find_map(|line| confidential::obstacle(line));
    match obstacle.filter(|_| code == Code::CcUnsupported) {
        Some(case) => finding.because(Reason::Confidential(case)),
        None => finding,
    }
}

/// The table has a cause and a remedy for every code that init may write.
const fn table_code(code: Noted) -> Code {
    match code {
        Noted::DriverNoGpu => Code::DriverNoGpu,
        Noted::DriverMismatch => Code::DriverMismatch,
        Noted::DriverVermagic => Code::DriverVermagic,
        Noted::DriverMissing => Code::DriverMissing,
        Noted::DriverRefused => Code::DriverRefused,
        Noted::DriverFailed => Code::DriverFailed,
        Noted::DriverTimeout => Code::DriverTimeout,
        Noted::DriverParameters => Code::DriverParameters,
        Noted::GspMissing => Code::GspMissing,
        Noted::GpuNoGsp => Code::GpuNoGsp,
        Noted::GpuNoIrq => Code::GpuNoIrq,
        Noted::GpuVbios => Code::GpuVbios,
        Noted::GpuInit => Code::GpuInit,
        Noted::GpuGone => Code::GpuGone,
        Noted::GpuXid => Code::GpuXid,
        Noted::NodesMissing => Code::NodesMissing,
        Noted::NvswitchNoManager => Code::NvswitchNoManager,
        Noted::Nvlink5NoNvlsm => Code::Nvlink5NoNvlsm,
        Noted::CcUnsupported => Code::CcUnsupported,
        Noted::PatchMissing => Code::PatchMissing,
        Noted::PatchNotEffective => Code::PatchNotEffective,
        Noted::Bar1Small => Code::Bar1Small,
        Noted::Bar1NotStatic => Code::Bar1NotStatic,
        Noted::KmsgUnreadable => Code::KmsgUnreadable,
    }
}

/// Reads it; `None` if firstlight's init did not start the machine.
///
/// # Errors
/// If it exists but cannot be read or is not a valid account.
pub fn read(root: &Root) -> ReadResult<Option<Account>> {
    let bytes = absent_is_none(root.read(FILE)).map_err(|e| at(FILE, &e))?;
    bytes
        .map(|bytes| parse(&bytes).map_err(|e| at(FILE, &e)))
        .transpose()
}

/// Parses it.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Account, String> {
    let account: Account = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if account.schema != schema::DRIVER {
        return Err(format!(
            "schema '{}', expected '{}'",
            account.schema,
            schema::DRIVER
        ));
    }
    Ok(account)
}

#[cfg(test)]
mod tests {
    //! The account of a healthy driver stage, and accounts that are refused.

    use super::super::fixture::{account as healthy, account_with as with, machine};
    use super::*;
    use outcome::finding::ConfidentialCase;
    use serde_json::{Value, json};

    fn noted(code: &str, severity: &str) -> Value {
        json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said", "evidence": ["kernel: x"] }])
    }

    fn findings(noted: Value) -> Vec<Finding> {
        super::findings(&with("/findings", noted))
    }

    #[test]
    fn a_healthy_account_is_read_and_newer_keys_are_left_alone() {
        let account = with("/seconds", json!(2.5));
        assert_eq!(
            account.module("nvidia").map(|m| m.outcome),
            Some(Outcome::Loaded)
        );
        assert_eq!(
            (account.module("nvidia-uvm"), findings(json!([]))),
            (None, vec![])
        );
    }

    #[test]
    fn inits_findings_get_their_cause_and_remedy_from_the_table() {
        let [finding] = &findings(noted("GPU-NO-IRQ", "fail"))[..] else {
            panic!("one")
        };
        assert!(finding.is(Code::GpuNoIrq) && finding.severity == Severity::Fail);
        assert_eq!(finding.reason, None);
        assert_eq!(finding.evidence, ["kernel: x"]);
    }

    #[test]
    fn a_mode_of_confidential_computing_has_the_reason_that_the_modules_line_gives() {
        let line = "kernel: NVRM: GPU0 confComputeConstructEngine_IMPL: CPU does not support confidential compute.";
        let noted = |evidence: &str| {
            json!([{ "code": "CC-UNSUPPORTED", "severity": "fail", "subject": "0000:41:00.0", "message": "said",
                     "evidence": [evidence] }])
        };
        let reason = |evidence: &str| findings(noted(evidence)).remove(0).reason;
        assert_eq!(
            reason(line),
            Some(Reason::Confidential(ConfidentialCase::MachineIsNone))
        );
        assert_eq!(reason("kernel: NVRM: x"), None);
    }

    #[test]
    fn a_code_that_init_has_no_business_with_is_an_error_whatever_its_severity() {
        for code in ["GPU-UNHEARD-OF", "ACS-STUCK", ""] {
            let [finding] = &findings(noted(code, "info"))[..] else {
                panic!("one")
            };
            assert!(
                finding.is(Code::SysUnreadable) && finding.severity == Severity::Error,
                "{code}"
            );
            assert!(finding.message.contains("unknown code"));
        }
    }

    #[test]
    fn the_table_has_the_codes_that_init_may_write_and_no_other_is_taken() {
        let known: Vec<_> = Code::ALL
            .iter()
            .filter(|code| Noted::named(code.as_str()).is_some())
            .collect();
        assert_eq!(known.len(), 24);
        for code in known {
            assert_eq!(Noted::named(code.as_str()).map(table_code), Some(*code));
        }
    }

    #[test]
    fn what_is_no_account_is_refused_with_its_file() {
        let mut other = healthy();
        other["schema"] = json!("firstlight.driver/2");
        let mut cut = healthy();
        cut.as_object_mut().unwrap().remove("findings");
        for text in ["", "{", "[]", &other.to_string(), &cut.to_string()] {
            let dir = machine(&[(FILE, text)]);
            let error = read(&Root::new(dir.path())).unwrap_err();
            assert!(
                error.starts_with("/run/firstlight/driver.json: "),
                "{error}"
            );
        }
        assert_eq!(read(&Root::new(machine(&[]).path())), Ok(None));
    }
}
