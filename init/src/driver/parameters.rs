//! The parameters of each module: the driver image's values for all machines and for the families present,
//! and the configuration's, which take precedence. Pure.

use super::description::{Description, Family};
use super::report::{Code, Finding};
use crate::config::cmdline;
use crate::modules::deps::name_of;
use std::collections::BTreeMap;

/// The parameter that is a list of `KEY=VALUE` separated by `;`, so that two lists can be merged.
const LIST: &str = "NVreg_RegistryDwords";

/// One parameter. A `None` value is a word without `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its name.
    pub name: String,
    /// The value to set.
    pub value: Option<String>,
}

/// The parameters of one module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given(pub Vec<Word>);

impl Given {
    /// The parameters as on insmod's command line.
    #[must_use]
    pub fn line(&self) -> String {
        let words = self.0.iter().map(|word| match &word.value {
            Some(value) if value.contains(char::is_whitespace) => format!("{}=\"{value}\"", word.name),
            Some(value) => format!("{}={value}", word.name),
            None => word.name.clone(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The parameters of `module`, and findings about values that contradict each other.
#[must_use]
pub fn given(
    module: &str,
    description: Option<&Description>,
    families: &[&Family],
    configured: &BTreeMap<String, String>,
) -> (Given, Vec<Finding>) {
    let of = |parameters: &super::description::Parameters| {
        let mine = parameters.iter().filter(|(name, _)| name_of(name) == name_of(module));
        mine.flat_map(|(_, values)| values.clone()).collect::<BTreeMap<_, _>>()
    };
    let base = description.map_or_else(BTreeMap::new, |d| of(&d.parameters));
    let ours: Vec<_> = configured.iter().filter(|(name, _)| name_of(name) == name_of(module)).collect();
    let ours: Vec<Word> = ours.into_iter().flat_map(|(_, line)| words(line)).collect();
    let mut wanted: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let families: Vec<_> =
        families.iter().map(|family| (family.name.as_str(), of(&family.parameters))).collect();
    for (family, values) in &families {
        for (name, value) in values.iter().filter(|(name, _)| !ours.iter().any(|word| word.name == **name)) {
            wanted.entry(name.as_str()).or_default().push((family, value.as_str()));
        }
    }
    let (mut merged, mut findings) = (base.clone(), Vec::new());
    for (name, values) in wanted {
        match agree(name, base.get(name).map(String::as_str), &values) {
            Ok(value) => drop(merged.insert(name.to_owned(), value)),
            Err(why) => findings.push(Finding::fail(Code::DriverParameters, module, why)),
        }
    }
    merged.retain(|name, _| !ours.iter().any(|word| word.name == *name));
    let merged = merged.into_iter().map(|(name, value)| Word { name, value: Some(value) });
    (Given(merged.chain(ours).collect()), findings)
}

/// The configuration's words; the last of a name counts, as in the kernel.
fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for word in cmdline::words(line) {
        words.retain(|earlier| earlier.name != word.name);
        words.push(Word { name: word.name, value: word.value });
    }
    words
}

/// Merges the values that the families want, or returns why that is impossible: the value for all machines
/// is kept then.
fn agree(name: &str, base: Option<&str>, wanted: &[(&str, &str)]) -> Result<String, String> {
    let refuse = |what: &str, (one, its): (&str, &str), (other, others): (&str, &str)| {
        let stays = base.map_or_else(|| "is not set".to_owned(), |base| format!("stays {base}"));
        format!("{one} wants {what}={its} and {other} wants {what}={others}: {name} {stays}")
    };
    let Some(first) = wanted.first() else { return Err(format!("{name}: no family sets it")) };
    if name != LIST {
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
    let all: Vec<_> = kept.chain(united.iter().map(|(key, (_, value))| (*key, *value))).collect();
    Ok(all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";"))
}

fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let items = list.split(';').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.split_once('=').unwrap_or((item, "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::description::parse;

    const HEAD: &str = "schema = \"firstlight.driver-image/1\"\nversion = \"1\"\nsource = \"debian\"\npatch = \"\"\n\
                        kernel = \"k\"\nnccl = \"2\"\nfabric_manager = \"\"\n";

    /// The parameters of nvidia on a machine with all these families.
    fn of(text: &str, configured: &[(&str, &str)]) -> (String, Vec<String>) {
        let description = parse(&format!("{HEAD}{text}")).unwrap();
        let families: Vec<_> = description.family.iter().collect();
        let configured = configured.iter().map(|(m, p)| ((*m).to_owned(), (*p).to_owned())).collect();
        let (given, findings) = given("nvidia", Some(&description), &families, &configured);
        (given.line(), findings.into_iter().map(|f| f.message).collect())
    }

    fn family(name: &str, parameters: &str) -> String {
        format!("[[family]]\nname = \"{name}\"\ndevices = []\n[family.parameters.nvidia]\n{parameters}\n")
    }

    #[test]
    fn a_family_adds_to_what_all_machines_get() {
        let text =
            "[parameters.nvidia]\nA = \"1\"\nB = \"1\"\n[parameters.nvidia-uvm]\nC = \"1\"\n".to_owned();
        assert_eq!(of(&(text + &family("ada", "B = \"2\"")), &[]), ("A=1 B=2".into(), vec![]));
    }

    #[test]
    fn the_configuration_wins_by_name_and_may_add() {
        let text = family("ada", "A = \"1\"\nB = \"1\"");
        assert_eq!(
            of(&text, &[("nvidia", "B=7 D=\"x y\" flag B=8"), ("other", "A=9")]).0,
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
            ("", vec!["ada wants A=1 and ampere wants A=2: A is not set".to_owned()])
        );
        let (line, why) = of(&format!("[parameters.nvidia]\nA = \"0\"\n{text}"), &[]);
        assert_eq!((line.as_str(), why.len()), ("A=0", 1));
        assert_eq!(of(&text, &[("nvidia", "A=3")]), ("A=3".into(), vec![]));
    }

    #[test]
    fn lists_of_registry_keys_are_united_by_key() {
        let base = "[parameters.nvidia]\nNVreg_RegistryDwords = \"X=1;P=0\"\n";
        let ada = family("ada", "NVreg_RegistryDwords = \"P=17; Q=2\"");
        let hopper = family("hopper", "NVreg_RegistryDwords = \"P=17;R=3;\"");
        let (line, why) = of(&format!("{base}{ada}{hopper}"), &[]);
        assert_eq!((line.as_str(), why.len()), ("NVreg_RegistryDwords=X=1;P=17;Q=2;R=3", 0));
        let other = family("ampere", "NVreg_RegistryDwords = \"Q=9\"");
        let (line, why) = of(&format!("{base}{ada}{other}"), &[]);
        assert_eq!(line, "NVreg_RegistryDwords=X=1;P=0");
        assert_eq!(why, ["ada wants Q=2 and ampere wants Q=9: NVreg_RegistryDwords stays X=1;P=0"]);
    }

    #[test]
    fn without_an_image_the_configuration_alone_counts() {
        let configured = [("nvidia_uvm".to_owned(), "a=1".to_owned())].into();
        assert_eq!(given("nvidia-uvm", None, &[], &configured).0.line(), "a=1");
    }
}
