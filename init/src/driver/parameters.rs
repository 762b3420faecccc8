//! The parameters of each module: the driver image's values for all machines and for the families present,
//! and the configuration's, which take precedence. Pure.

use super::description::{Description, Family, ParametersByModule};
use super::hardware::Gpu;
use super::report::{Code, Finding};
use crate::config::cmdline;
use crate::modules::deps::module_name;
use std::collections::BTreeMap;

/// The parameter that is a list of `KEY=VALUE` separated by `;`, so that two lists can be merged.
const REGISTRY_DWORDS: &str = "NVreg_RegistryDwords";
/// The same for single GPUs: `pci=ADDRESS;KEY=VALUE;..` for each of them (nv-reg.h of NVIDIA's open modules).
const PER_DEVICE: &str = "NVreg_RegistryDwordsPerDevice";
/// Size limit of one parameter in the kernel, in bytes (param_set_charp of kernel/params.c).
const LONGEST: usize = 1024;

/// One module parameter. A `None` value is a word without `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleParameter {
    /// Its name.
    pub name: String,
    /// The value to set.
    pub value: Option<String>,
}

/// The parameters of one module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleParameters(pub Vec<ModuleParameter>);

impl ModuleParameters {
    /// The parameters as on insmod's command line.
    #[must_use]
    pub fn line(&self) -> String {
        let words = self.0.iter().map(|word| match &word.value {
            Some(value) if value.contains(char::is_whitespace) => {
                format!("{}=\"{value}\"", word.name)
            }
            Some(value) => format!("{}={value}", word.name),
            None => word.name.clone(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The parameters of `module`, and findings about values that contradict each other.
#[must_use]
pub fn module_parameters(
    module: &str,
    description: Option<&Description>,
    gpus: &[Gpu],
    configured: &BTreeMap<String, String>,
) -> (ModuleParameters, Vec<Finding>) {
    let of = |parameters: &ParametersByModule| {
        let mine = parameters
            .iter()
            .filter(|(name, _)| module_name(name) == module_name(module));
        mine.flat_map(|(_, values)| values.clone())
            .collect::<BTreeMap<_, _>>()
    };
    let base = description.map_or_else(BTreeMap::new, |d| of(&d.parameters));
    let ours = configured
        .iter()
        .filter(|(name, _)| module_name(name) == module_name(module));
    let ours: Vec<ModuleParameter> = ours.flat_map(|(_, line)| words(line)).collect();
    let mut wanted: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let present = description.map_or_else(Vec::new, |d| d.families(gpus));
    let families: Vec<_> = present
        .iter()
        .map(|family| (*family, of(&family.parameters)))
        .collect();
    let same_registry_keys = same_registry_keys(gpus, &families);
    for (family, values) in &families {
        let open = |name: &str| {
            !ours.iter().any(|word| word.name == name)
                && (same_registry_keys || name != REGISTRY_DWORDS)
        };
        for (name, value) in values.iter().filter(|(name, _)| open(name)) {
            wanted
                .entry(name.as_str())
                .or_default()
                .push((&family.name, value.as_str()));
        }
    }
    let (mut merged, mut findings) = (base.clone(), Vec::new());
    let sets_keys =
        |word: &ModuleParameter| [REGISTRY_DWORDS, PER_DEVICE].contains(&word.name.as_str());
    if !same_registry_keys && !ours.iter().any(sets_keys) {
        match per_device(gpus, &families) {
            Ok(value) => drop(merged.insert(PER_DEVICE.to_owned(), value)),
            Err(why) => findings.push(Finding::fail(Code::DriverParameters, module, why)),
        }
    }
    for (name, values) in wanted {
        match merge_values(name, base.get(name).map(String::as_str), &values) {
            Ok(value) => drop(merged.insert(name.to_owned(), value)),
            Err(why) => findings.push(Finding::fail(Code::DriverParameters, module, why)),
        }
    }
    merged.retain(|name, _| !ours.iter().any(|word| word.name == *name));
    let merged = merged.into_iter().map(|(name, value)| ModuleParameter {
        name,
        value: Some(value),
    });
    (ModuleParameters(merged.chain(ours).collect()), findings)
}

/// True when all GPUs want the same registry keys: then one list is enough. Otherwise a list for all GPUs would reach GPUs
/// that must not have its keys: `RMForceP2PType=2` disables NVLink on an H100 beside a GeForce.
fn same_registry_keys(gpus: &[Gpu], families: &[(&Family, BTreeMap<String, String>)]) -> bool {
    let mut lists = gpus.iter().map(|gpu| registry_keys(gpu, families));
    let first = lists.next().flatten();
    lists.all(|list| list == first)
}

/// The registry keys of one GPU's family.
fn registry_keys<'a>(
    gpu: &Gpu,
    families: &'a [(&Family, BTreeMap<String, String>)],
) -> Option<&'a str> {
    let (_, values) = families.iter().find(|(family, _)| family.has(gpu.device))?;
    values.get(REGISTRY_DWORDS).map(String::as_str)
}

/// Each GPU's own registry keys, or why the kernel would not accept them.
fn per_device(
    gpus: &[Gpu],
    families: &[(&Family, BTreeMap<String, String>)],
) -> Result<String, String> {
    let own = gpus
        .iter()
        .filter_map(|gpu| Some((gpu, registry_keys(gpu, families)?)));
    let own = own.map(|(gpu, list)| {
        let keys = entries(list).map(|(key, value)| format!("{key}={value};"));
        format!("pci={};{}", gpu.address, keys.collect::<String>())
    });
    let value = own.collect::<String>();
    if value.len() < LONGEST {
        return Ok(value);
    }
    Err(format!(
        "{PER_DEVICE} has {} bytes, the kernel takes {}: it is not set",
        value.len(),
        LONGEST - 1
    ))
}

/// The configuration's words; the last of a name counts, as in the kernel.
fn words(line: &str) -> Vec<ModuleParameter> {
    let mut words: Vec<ModuleParameter> = Vec::new();
    for word in cmdline::words(line) {
        words.retain(|earlier| earlier.name != word.name);
        words.push(ModuleParameter {
            name: word.name,
            value: word.value,
        });
    }
    words
}

/// Merges the values that the families want, or returns why that is impossible; the value for all machines
/// is then kept.
fn merge_values(name: &str, base: Option<&str>, wanted: &[(&str, &str)]) -> Result<String, String> {
    let refuse = |what: &str, (one, its): (&str, &str), (other, others): (&str, &str)| {
        let stays = base.map_or_else(|| "is not set".to_owned(), |base| format!("stays {base}"));
        format!("{one} wants {what}={its} and {other} wants {what}={others}: {name} {stays}")
    };
    let Some(first) = wanted.first() else {
        return Err(format!("{name}: no family sets it"));
    };
    if name != REGISTRY_DWORDS {
        return match wanted.iter().find(|(_, value)| *value != first.1) {
            None => Ok(first.1.to_owned()),
            Some(other) => Err(refuse(name, *first, *other)),
        };
    }
    let mut united: Vec<(&str, (&str, &str))> = Vec::new();
    for (family, list) in wanted {
        for (key, value) in entries(list) {
            match united.iter().find(|(k, _)| *k == key) {
                Some((_, earlier)) if earlier.1 != value => {
                    return Err(refuse(key, *earlier, (family, value)));
                }
                Some(_) => {}
                None => united.push((key, (family, value))),
            }
        }
    }
    let kept = entries(base.unwrap_or("")).filter(|(key, _)| !united.iter().any(|(k, _)| k == key));
    let all: Vec<_> = kept
        .chain(united.iter().map(|(key, (_, value))| (*key, *value)))
        .collect();
    Ok(all
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(";"))
}

fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let items = list
        .split(';')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items.map(|item| item.split_once('=').unwrap_or((item, "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::description::parse;

    const HEAD: &str = "schema = \"firstlight.driver-image/1\"\nversion = \"1\"\nsource = \"debian\"\npatch = \"\"\n\
                        kernel = \"k\"\nnccl = \"2\"\nfabric_manager = \"\"\n";

    /// The parameters of nvidia on a machine with a GPU of each of these families.
    fn of(text: &str, configured: &[(&str, &str)]) -> (String, Vec<String>) {
        let devices: Vec<_> = (1..).take(text.matches("[[family]]").count()).collect();
        with(text, &devices, configured)
    }

    /// The same with GPUs of these families, which are numbered from 1.
    fn with(text: &str, devices: &[u16], configured: &[(&str, &str)]) -> (String, Vec<String>) {
        let mut numbered = HEAD.to_owned();
        for (number, part) in text.split("devices = []").enumerate() {
            numbered += &if number == 0 {
                part.to_owned()
            } else {
                format!("devices = [\"{number:04x}\"]{part}")
            };
        }
        let description = parse(&numbered).unwrap();
        let gpu = |(at, device): (usize, &u16)| Gpu {
            address: format!("0000:{:02x}:00.0", at + 1),
            device: *device,
            is_without_display: false,
        };
        let gpus: Vec<_> = devices.iter().enumerate().map(gpu).collect();
        let configured = configured
            .iter()
            .map(|(m, p)| ((*m).to_owned(), (*p).to_owned()))
            .collect();
        let (given, findings) = module_parameters("nvidia", Some(&description), &gpus, &configured);
        (
            given.line(),
            findings.into_iter().map(|f| f.message).collect(),
        )
    }

    fn family(name: &str, parameters: &str) -> String {
        format!(
            "[[family]]\nname = \"{name}\"\ndevices = []\n[family.parameters.nvidia]\n{parameters}\n"
        )
    }

    #[test]
    fn a_family_adds_to_what_all_machines_get() {
        let text =
            "[parameters.nvidia]\nA = \"1\"\nB = \"1\"\n[parameters.nvidia-uvm]\nC = \"1\"\n"
                .to_owned();
        assert_eq!(
            of(&(text + &family("ada", "B = \"2\"")), &[]),
            ("A=1 B=2".into(), vec![])
        );
    }

    #[test]
    fn the_configuration_wins_by_name_and_may_add() {
        let text = family("ada", "A = \"1\"\nB = \"1\"");
        assert_eq!(
            of(
                &text,
                &[("nvidia", "B=7 D=\"x y\" flag B=8"), ("other", "A=9")]
            )
            .0,
            "A=1 D=\"x y\" flag B=8"
        );
    }

    #[test]
    fn two_families_that_agree_are_one() {
        let text = family("ada", "A = \"1\"") + &family("ampere", "A = \"1\"");
        assert_eq!(of(&text, &[]), ("A=1".into(), vec![]));
    }

    #[test]
    fn two_families_that_differ_are_a_finding_and_the_common_value_stays() {
        let text = family("ada", "A = \"1\"") + &family("ampere", "A = \"2\"");
        let (line, why) = of(&text, &[]);
        assert_eq!(
            (line.as_str(), why),
            (
                "",
                vec!["ada wants A=1 and ampere wants A=2: A is not set".to_owned()]
            )
        );
        let (line, why) = of(&format!("[parameters.nvidia]\nA = \"0\"\n{text}"), &[]);
        assert_eq!((line.as_str(), why.len()), ("A=0", 1));
        assert_eq!(of(&text, &[("nvidia", "A=3")]), ("A=3".into(), vec![]));
    }

    #[test]
    fn registry_keys_of_one_family_are_united_with_those_of_all_machines() {
        let base = "[parameters.nvidia]\nNVreg_RegistryDwords = \"X=1;P=0\"\n";
        let ada = family("ada", "NVreg_RegistryDwords = \"P=17; Q=2\"");
        let same = family("blackwell", "NVreg_RegistryDwords = \"P=17; Q=2\"");
        let (line, why) = of(&format!("{base}{ada}{same}"), &[]);
        assert_eq!(
            (line.as_str(), why.len()),
            ("NVreg_RegistryDwords=X=1;P=17;Q=2", 0)
        );
    }

    #[test]
    fn gpus_that_want_different_registry_keys_get_their_own() {
        let base = "[parameters.nvidia]\nNVreg_RegistryDwords = \"X=1\"\n";
        let ada = family("ada", "NVreg_RegistryDwords = \"P=17; Q=2\"\nA = \"1\"");
        let (hopper, other) = (
            family("hopper", ""),
            family("other", "NVreg_RegistryDwords = \"P=3\""),
        );
        let text = format!("{base}{ada}{hopper}{other}");
        let own =
            "A=1 NVreg_RegistryDwords=X=1 NVreg_RegistryDwordsPerDevice=pci=0000:01:00.0;P=17;Q=2;";
        for beside in [2, 9] {
            assert_eq!(with(&text, &[1, beside], &[]), (own.to_owned(), vec![]));
        }
        let (line, _) = with(&text, &[1, 2, 3, 1], &[]);
        let more = "pci=0000:03:00.0;P=3;pci=0000:04:00.0;P=17;Q=2;";
        assert_eq!(line, format!("{own}{more}"));
        assert_eq!(
            with(&text, &[1, 1], &[]).0,
            "A=1 NVreg_RegistryDwords=X=1;P=17;Q=2"
        );
        // A configured list replaces all others.
        assert_eq!(
            with(&text, &[1, 2], &[("nvidia", "NVreg_RegistryDwords=Y=1")]).0,
            "A=1 NVreg_RegistryDwords=Y=1"
        );
        let many: Vec<_> = [vec![2], vec![1; 40]].concat();
        let (line, why) = with(&text, &many, &[]);
        assert_eq!(line, "A=1 NVreg_RegistryDwords=X=1");
        assert!(
            why[0].contains("has 1040 bytes, the kernel takes 1023: it is not set"),
            "{why:?}"
        );
    }

    #[test]
    fn without_an_image_the_configuration_alone_counts() {
        let configured = [("nvidia_uvm".to_owned(), "a=1".to_owned())].into();
        assert_eq!(
            module_parameters("nvidia-uvm", None, &[], &configured)
                .0
                .line(),
            "a=1"
        );
    }
}
