use super::*;
use crate::driver::description::parse;

const HEAD: &str = "schema = \"firstlight.driver-image/1\"\nversion = \"1\"\nsource = \"debian\"\npatch = \"\"\n\
                    kernel = \"k\"\nnccl = \"2\"\nfabric_manager = \"\"\n";

/// What nvidia is given on a machine with all these families.
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
    let text = "[parameters.nvidia]\nA = \"1\"\nB = \"1\"\n[parameters.nvidia-uvm]\nC = \"1\"\n".to_owned();
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
