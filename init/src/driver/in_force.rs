//! Checks whether a loaded module uses the parameters that it was given: `/proc/driver/nvidia/params` shows
//! those of the driver's core, sysfs the others.

use super::parameters::ModuleParameters;
use super::report::{Code, Finding, Parameter, Severity};
use crate::modules::deps::module_name;
use contract::driver_account::same_value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The prefix that the driver's file omits.
const PREFIX: &str = "NVreg_";

/// Parses `Name: value` lines; quotes around a value are removed.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let unquoted = |value: &str| {
        let value = value.trim();
        let inner = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(value).to_owned()
    };
    pairs
        .map(|(name, value)| (name.trim().to_owned(), unquoted(value)))
        .collect()
}

/// The driver's list of parameters; empty when there is none.
#[must_use]
pub fn driver_params(proc: &Path) -> BTreeMap<String, String> {
    fs::read_to_string(proc.join("driver/nvidia/params"))
        .map_or_else(|_| BTreeMap::new(), |text| parse(&text))
}

/// The values in use of the parameters that `module` was given.
#[must_use]
pub fn read_back(
    module: &str,
    given: &ModuleParameters,
    sys: &Path,
    own: &BTreeMap<String, String>,
) -> Vec<Parameter> {
    let folder = sys
        .join("module")
        .join(module_name(module))
        .join("parameters");
    let words = given.0.iter().map(|word| {
        let found = match word.name.strip_prefix(PREFIX) {
            Some(name) => own.get(name).cloned(),
            None => fs::read_to_string(folder.join(&word.name))
                .ok()
                .map(|text| text.trim().to_owned()),
        };
        let wanted = word.value.clone().unwrap_or_else(|| "Y".to_owned());
        Parameter {
            module: module.to_owned(),
            name: word.name.clone(),
            wanted,
            found,
        }
    });
    words.collect()
}

/// The finding for a parameter that is not in force, or whose value cannot be read.
#[must_use]
pub fn judge(parameter: &Parameter) -> Option<Finding> {
    let Parameter {
        module,
        name,
        wanted,
        found,
    } = parameter;
    let finding = |message| Some(Finding::fail(Code::DriverParameters, module, message));
    match found {
        Some(found) if same_value(wanted, found) => None,
        Some(found) => finding(format!("{name} is {found}, wanted {wanted}")),
        None if name.starts_with(PREFIX) => {
            finding(format!("{name}={wanted}: the driver has no such parameter"))
        }
        // Many modules do not show their parameters; that does not prove a problem.
        None => finding(format!(
            "{name}={wanted}: nothing shows whether it is in force"
        ))
        .map(|finding| finding.as_severe_as(Severity::Warn)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::parameters::ModuleParameter;
    use crate::sample::files;

    const PARAMS: &str = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileMode: 438\n\
                          RegistryDwords: \"ForceP2P=17;RMForceP2PType=2\"\nRmMsg: \"\"\n";

    #[test]
    fn the_drivers_list_is_read_with_and_without_quotes() {
        let read = parse(PARAMS);
        assert_eq!(read["RegistryDwords"], "ForceP2P=17;RMForceP2PType=2");
        assert_eq!(
            (read["DeviceFileMode"].as_str(), read["RmMsg"].as_str()),
            ("438", "")
        );
        assert_eq!(parse("no colon\n: \n").len(), 1);
    }

    #[test]
    fn what_differs_or_does_not_exist_is_found_and_the_rest_is_not() {
        let sys = files(&[("module/nvidia/parameters/plain", "N\n")]);
        let given = [
            ("NVreg_ResmanDebugLevel", "-1"),
            ("NVreg_ModifyDeviceFiles", "0x1"),
            ("NVreg_RegistryDwords", "ForceP2P=1"),
            ("NVreg_Nonsense", "1"),
            ("plain", "0"),
            ("hidden", "1"),
        ];
        let parameter = |(name, value): (&str, &str)| ModuleParameter {
            name: name.into(),
            value: Some(value.into()),
        };
        let given = ModuleParameters(given.map(parameter).into());
        let found = read_back("nvidia", &given, sys.path(), &parse(PARAMS));
        let findings: Vec<_> = found
            .iter()
            .filter_map(judge)
            .map(|f| (f.severity, f.message))
            .collect();
        assert_eq!(
            findings,
            [
                (
                    Severity::Fail,
                    "NVreg_RegistryDwords is ForceP2P=17;RMForceP2PType=2, wanted ForceP2P=1"
                        .to_owned()
                ),
                (
                    Severity::Fail,
                    "NVreg_Nonsense=1: the driver has no such parameter".to_owned()
                ),
                (
                    Severity::Warn,
                    "hidden=1: nothing shows whether it is in force".to_owned()
                ),
            ]
        );
    }
}
