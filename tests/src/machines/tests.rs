use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Every file and link below `dir`, with what it holds.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let here = path.strip_prefix(dir).unwrap().to_owned();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                found.insert(here, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else {
                found.insert(here, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_checked_in_machines_are_what_their_descriptions_say() {
    for machine in ALL.map(|machine| machine()) {
        let fresh = tempfile::tempdir().unwrap();
        write(&machine, fresh.path()).unwrap();
        let (expected, found) = (contents(fresh.path()), contents(&folder().join(machine.name)));
        let names = |c: &BTreeMap<PathBuf, Vec<u8>>| c.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&found), names(&expected), "{}: run record-machines", machine.name);
        for (name, bytes) in expected {
            assert!(
                found[&name] == bytes,
                "{}: {} differs: run record-machines",
                machine.name,
                name.display()
            );
        }
    }
}

#[test]
fn every_folder_has_a_description() {
    let described: BTreeSet<String> = ALL.iter().map(|m| m().name.to_owned()).collect();
    let folders = fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|e| e.path().is_dir());
    let found: BTreeSet<String> = folders.map(|e| e.file_name().into_string().unwrap()).collect();
    assert_eq!(found, described);
    assert_eq!(described.len(), ALL.len(), "two machines share a name");
}

#[test]
fn a_changed_byte_is_noticed() {
    let machine = small::narrow_link();
    let dir = tempfile::tempdir().unwrap();
    write(&machine, dir.path()).unwrap();
    let config = dir.path().join("sys/bus/pci/devices/0000:02:00.0/config");
    let mut bytes = fs::read(&config).unwrap();
    bytes[0x72] ^= 1;
    fs::write(&config, bytes).unwrap();
    assert_ne!(contents(dir.path()), contents(&folder().join(machine.name)));
}
