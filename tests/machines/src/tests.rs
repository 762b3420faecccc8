use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tree::Node;

/// What `record.sh` writes of the machine in `root`, as a tree.
fn recorded(root: &Path) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.txt");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/record.sh");
    let output = Command::new(script).arg(&file).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Tree::parse(&fs::read_to_string(file).unwrap()).unwrap()
}

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

/// Every file, link and empty folder of a machine that firstlight may read is in its recording, byte for byte.
#[test]
fn a_recording_of_a_machine_is_the_machine() {
    for name in ["switch-acs", "boot-display", "iommu-translated", "h200-vm"] {
        let (root, all) = (laid_out(name), named(name).unwrap().tree());
        let recorded = recorded(root.path());
        for (path, node) in &all.0 {
            // Empty slots of a table of addresses, what is only bound, and folders that are not empty.
            let left_out = path == "README"
                || path.contains("/gids/")
                || path.contains("sys/bus/pci/drivers/")
                || path.contains("/iommu_groups/") && path.contains("/devices/")
                || *node == Node::Folder;
            assert!(
                left_out || recorded.0.get(path) == Some(node),
                "{name}: {path}: {:?}",
                recorded.0.get(path)
            );
        }
        for (path, node) in recorded.0.iter().filter(|(_, node)| **node != Node::Folder) {
            let log = path == "dev/kmsg";
            assert!(log || all.0.get(path) == Some(node), "{name}: {path} is recorded as {node:?}");
        }
    }
}

#[test]
fn files_that_are_no_lines_of_text_are_recorded_as_bytes() {
    let root = laid_out("narrow-link");
    let files = [
        ("proc/cmdline", "no newline at the end"),
        ("proc/devices", ""),
        ("proc/driver/nvidia/version", "\n"),
        ("proc/driver/nvidia/params", "two\n\nlines\n"),
        ("sys/class/dmi/id/sys_vendor", "\ttab\n"),
        ("sys/class/dmi/id/product_name", "nul\0\n"),
        ("sys/class/dmi/id/bios_version", "\u{fc}mlaut\n"),
        ("sys/kernel/security/lockdown", "# no remark\n"),
    ];
    for (path, text) in files {
        fs::write(root.path().join(path), text).unwrap();
    }
    let recorded = recorded(root.path());
    for (path, text) in files {
        assert_eq!(recorded.0[path], Node::File(text.into(), None), "{text:?}");
    }
}

#[test]
fn a_parsed_recording_is_written_with_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let text = "firstlight machine 1\n# by hand\n\nbytes a/b\n\t00ff\n\tzeros 3\nmode a/b\n\t0400\nlink c\n\ta\nfolder d/e\n";
    let folder = tempfile::tempdir().unwrap();
    Tree::parse(text).unwrap().write(folder.path()).unwrap();
    let file = folder.path().join("c/b");
    assert_eq!(fs::read(&file).unwrap(), [0, 0xff, 0, 0, 0]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    assert!(folder.path().join("d/e").is_dir());
}

#[test]
fn text_that_is_no_recording_is_refused_with_the_line_that_breaks_it() {
    for (text, why) in [
        ("", "line 1: a recording begins with `firstlight machine 1`"),
        ("\tx\n", "line 2: content before the first entry"),
        ("text /etc/passwd\n", "line 2: `/etc/passwd` is no path from the top of the machine"),
        ("text a/../../b\n", "line 2: `a/../../b` is no path from the top of the machine"),
        ("socket a\n", "line 2: `socket` with 0 lines is no entry"),
        ("link a\n", "line 2: `link` with 0 lines is no entry"),
        ("link a\n\t/\ntext a/b\n", "line 4: `a/b` lies below `a`, which is no folder"),
        ("text a\ntext a\n", "line 3: `a` comes twice"),
        ("bytes a\n\t0g\n", "line 2: `0g` is not hexadecimal"),
        ("bytes a\n\tzeros 99999\n", "line 2: `zeros 99999`: at most 4096 at once"),
        ("mode a\n\t0400\n", "line 2: no file `a` comes before its mode"),
        ("text a\nmode a\n\tread\n", "line 3: a mode is one line with an octal number"),
    ] {
        let text = if text.is_empty() { String::new() } else { format!("firstlight machine 1\n{text}") };
        assert_eq!(Tree::parse(&text).unwrap_err().to_string(), why, "{text}");
    }
}
