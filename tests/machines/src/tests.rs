use super::*;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn every_machine_has_a_name_of_its_own_and_can_be_laid_out() {
    let names = names();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), ALL.len(), "{names:?}");
    for name in names {
        let folder = laid_out(name);
        let functions = fs::read_dir(folder.path().join("sys/bus/pci/devices")).unwrap();
        for function in functions.map(Result::unwrap) {
            assert!(function.path().join("config").is_file(), "{name}: {function:?}");
        }
        assert!(folder.path().join("sys/class/iommu").is_dir(), "{name}");
    }
}
