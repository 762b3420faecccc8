//! Logical processors: how many are possible, present and online.

use crate::root::Root;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

const FOLDER: &str = "sys/devices/system/cpu";
/// More than any kernel is built for; a list beyond it is invalid.
const MOST: usize = 1 << 16;

/// Logical processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpus {
    /// `/sys/devices/system/cpu/possible`.
    pub possible: usize,
    /// `/sys/devices/system/cpu/present`.
    pub present: usize,
    /// `/sys/devices/system/cpu/online`.
    pub online: usize,
}

/// Why the processors could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// A list that every Linux has could not be read.
    #[error("cannot read /{file}, so the number of processors is unknown")]
    Unreadable {
        /// The file.
        file: String,
        /// The error.
        source: io::Error,
    },
    /// A file that is not a list of processors.
    #[error("/{file} holds '{text}', expected a list of processors such as 0-63,128-191")]
    Malformed {
        /// The file.
        file: String,
        /// Its content.
        text: String,
    },
}

/// Counts possible, present and online processors.
///
/// # Errors
/// If one of the three lists cannot be read or is invalid.
pub fn read(root: &Root) -> Result<Cpus, CpuError> {
    let counted = |name: &str| {
        let file = format!("{FOLDER}/{name}");
        match root.text(&file) {
            Ok(text) => count(&text).ok_or(CpuError::Malformed { file, text }),
            Err(source) => Err(CpuError::Unreadable { file, source }),
        }
    };
    Ok(Cpus {
        possible: counted("possible")?,
        present: counted("present")?,
        online: counted("online")?,
    })
}

/// A processor's maker, family and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`.
    pub vendor: String,
    /// Its family.
    pub family: u32,
    /// Its model.
    pub model: u32,
}

/// The model of the first processor of /proc/cpuinfo; `None` if that has none, as on other architectures or in a
/// recording.
#[must_use]
pub fn model(root: &Root) -> Option<CpuModel> {
    root.text("proc/cpuinfo")
        .ok()
        .as_deref()
        .and_then(first_model)
}

/// Whether /proc/cpuinfo is that of arm64, which names the implementer of its processors.
#[must_use]
pub fn is_arm64(root: &Root) -> bool {
    root.text("proc/cpuinfo")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with("CPU implementer")))
}

fn first_model(cpuinfo: &str) -> Option<CpuModel> {
    let first = cpuinfo.split("\n\n").next()?;
    let value = |name: &str| {
        let pairs = first.lines().filter_map(|line| line.split_once(':'));
        pairs
            .into_iter()
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    let number = |name: &str| value(name)?.parse().ok();
    Some(CpuModel {
        vendor: value("vendor_id")?.to_owned(),
        family: number("cpu family")?,
        model: number("model")?,
    })
}

/// How many processors a list such as `0-3,8` names.
#[must_use]
pub fn count(list: &str) -> Option<usize> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < MOST).then(|| last - first + 1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count("0-127"), Some(128));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("24-31,88-95"), Some(16));
    }

    #[test]
    fn the_first_processor_gives_the_model() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
            model name\t: x: y\n\nprocessor\t: 1\nmodel\t\t: 1\n";
        let model = CpuModel {
            vendor: "GenuineIntel".to_owned(),
            family: 6,
            model: 143,
        };
        assert_eq!(first_model(text), Some(model));
        assert_eq!(first_model("processor: 0\nBogoMIPS: 1\n"), None);
    }

    #[test]
    fn an_invalid_list_is_not_counted_as_zero() {
        for bad in [
            "",
            "x",
            "3-1",
            "0-",
            "0,,1",
            "0-18446744073709551615",
            "0-70000",
        ] {
            assert_eq!(count(bad), None, "'{bad}'");
        }
    }

    #[test]
    fn a_missing_list_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(&Root::new(dir.path())).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("sys/devices/system/cpu/possible"),
            "{error}"
        );
    }
}
