//! NVLink SHARP (NVLS): reductions and broadcasts that NVSwitches make by multicast. Multicast that goes wrong can take GPUs out
//! of service, so an inherited `NCCL_NVLS_ENABLE=0` wins over every setting, in every process that firstlight starts and in what
//! it gives to the workload.

use machine::root::Root;
use outcome::Advice;

/// NCCL's variable; 0 forbids NVLS, and 2 is NCCL's default: on GPUs that support it.
pub const VARIABLE: &str = "NCCL_NVLS_ENABLE";
/// The file from which NCCL reads what the environment does not set.
const CONF: &str = "etc/nccl.conf";

/// What NVLS is for in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nvls {
    /// Forbidden from outside; the text says by what.
    Forbidden(String),
    /// Neither forbidden nor asked for: it is not tested, and the workload has NCCL's default.
    Untested,
    /// `validate.nvls = true`
    Tested,
}

impl Nvls {
    /// The setting of the configuration, and what this process inherited.
    #[must_use]
    pub fn of(wanted: bool, forbidden: Option<&str>) -> Self {
        match forbidden {
            Some(by) => Self::Forbidden(by.to_owned()),
            None if wanted => Self::Tested,
            None => Self::Untested,
        }
    }

    /// The setting for the workload without any test; `None` leaves the workload with NCCL's default.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::Forbidden(by) => Some(Advice::new(
                VARIABLE,
                "0",
                &format!("NVLS is forbidden by {by}"),
            )),
            Self::Untested => None,
            // The test nccl-nvls gives another value if it has proven that NVLS is right and faster.
            Self::Tested => Some(Advice::new(
                VARIABLE,
                "0",
                "NVLS is not proven on this machine (see nccl-nvls)",
            )),
        }
    }
}

/// What forbids NVLS from outside: the environment of this process, or this host's nccl.conf.
#[must_use]
pub fn forbidden() -> Option<String> {
    let given = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let file = Root::new("/").text(CONF).unwrap_or_default();
    forbidden_by(given.as_deref(), &file)
}

fn forbidden_by(variable: Option<&str>, file: &str) -> Option<String> {
    if variable.is_some_and(is_zero) {
        return Some(format!("{VARIABLE}=0 in the environment"));
    }
    // More lenient than NCCL: whoever wrote such a line meant it, whatever the blanks.
    let zero = |line: &str| {
        line.split_once('=')
            .is_some_and(|(name, value)| name.trim() == VARIABLE && is_zero(value))
    };
    file.lines()
        .any(zero)
        .then(|| format!("{VARIABLE}=0 in /{CONF}"))
}

/// As NCCL reads numbers: decimal, octal or hexadecimal, and whatever follows it.
fn is_zero(value: &str) -> bool {
    let value = value.trim();
    let digits = value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
        .unwrap_or(value);
    let number: String = digits.chars().take_while(char::is_ascii_hexdigit).collect();
    !number.is_empty() && number.chars().all(|c| c == '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_from_outside_wins_whoever_set_it() {
        for value in ["0", " 0 ", "00", "0x0", "0 # off"] {
            assert_eq!(
                forbidden_by(Some(value), "").as_deref(),
                Some("NCCL_NVLS_ENABLE=0 in the environment"),
                "{value}"
            );
        }
        for file in [
            "NCCL_NVLS_ENABLE=0",
            "# x\nNCCL_NVLS_ENABLE = 0\n",
            "NCCL_NVLS_ENABLE=1\nNCCL_NVLS_ENABLE=0\n",
        ] {
            assert_eq!(
                forbidden_by(Some("1"), file).as_deref(),
                Some("NCCL_NVLS_ENABLE=0 in /etc/nccl.conf"),
                "{file}"
            );
        }
        for (value, file) in [
            (None, ""),
            (Some("2"), "NCCL_NVLS_ENABLE=2"),
            (Some(""), "#NCCL_NVLS_ENABLE=0"),
            (Some("x"), "X=0"),
        ] {
            assert_eq!(forbidden_by(value, file), None, "{value:?} {file}");
        }
    }

    #[test]
    fn nothing_is_exported_about_nvls_that_nobody_asked_about() {
        assert_eq!(Nvls::of(false, None).advice(), None);
        assert_eq!(
            Nvls::of(true, None).advice().map(|a| a.value).as_deref(),
            Some("0"),
            "not proven"
        );
        let off = Nvls::of(true, Some("NCCL_NVLS_ENABLE=0 in the environment"))
            .advice()
            .unwrap();
        assert_eq!(
            (off.value.as_str(), off.reason.as_str()),
            (
                "0",
                "NVLS is forbidden by NCCL_NVLS_ENABLE:0 in the environment"
            )
        );
    }
}
