use super::*;

/// A root that does not exist, so that this machine's own boot does not matter.
const ROOT: &str = "/nowhere";

fn journal() -> Journal {
    let bdf = "0000:00:01.1".parse().unwrap();
    let register = "ACS control".to_owned();
    let entry = Entry {
        bdf,
        register,
        offset: 0x2a6,
        width: 2,
        before: 0x1d,
        after: 0,
        readback: Some(0x1d),
        finding: Some("ACS-STUCK".to_owned()),
        when: 7,
    };
    Journal {
        entries: vec![entry],
        ..Journal::new(Path::new(ROOT))
    }
}

#[test]
fn what_is_saved_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/for/it/fabric.json");
    journal().save(&path).unwrap();
    assert_eq!(
        Journal::load(&path, Path::new(ROOT)).unwrap(),
        Some(journal())
    );
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no file is left beside it"
    );
}

#[test]
fn a_missing_journal_is_distinguished_from_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fabric.json");
    assert_eq!(Journal::load(&path, Path::new(ROOT)).unwrap(), None);
    for broken in [
        "",
        "{}",
        "[1]",
        r#"{"schema":"firstlight.journal/1","root":"/","entries":[{}]}"#,
    ] {
        fs::write(&path, broken).unwrap();
        let error = Journal::load(&path, Path::new(ROOT)).unwrap_err();
        assert!(
            matches!(error, JournalError::Malformed { .. }),
            "{broken}: {error}"
        );
    }
}

#[test]
fn another_version_or_another_root_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fabric.json");
    journal().save(&path).unwrap();
    let error = Journal::load(&path, Path::new("/elsewhere")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("was written for the root /nowhere, not for /elsewhere"),
        "{error}"
    );
    Journal {
        schema: "firstlight.journal/2".into(),
        ..journal()
    }
    .save(&path)
    .unwrap();
    assert!(matches!(
        Journal::load(&path, Path::new(ROOT)),
        Err(JournalError::Schema { .. })
    ));
}

#[test]
fn a_journal_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        journal().save(&file.join("fabric.json")),
        Err(JournalError::Write { .. })
    ));
}

/// A machine with one function, in this boot if it is live.
fn machine(ids: (&str, &str), boot: Option<&str>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    put("sys/bus/pci/devices/0000:00:01.1/vendor", ids.0);
    put("sys/bus/pci/devices/0000:00:01.1/device", ids.1);
    if let Some(boot) = boot {
        put("proc/sys/kernel/random/boot_id", boot);
    }
    dir
}

const AMD: (&str, &str) = ("0x1022", "0x1483");

/// A journal of this machine, saved there.
fn own(dir: &Path) -> (Journal, PathBuf) {
    let mut own = Journal {
        entries: journal().entries,
        ..Journal::new(dir)
    };
    own.identify(&Root::new(dir));
    let path = dir.join("fabric.json");
    own.save(&path).unwrap();
    (own, path)
}

#[track_caller]
fn refused(path: &Path, root: &Path) -> String {
    Journal::load(path, root).unwrap_err().to_string()
}

#[test]
fn another_machine_under_the_same_root_is_refused() {
    let dir = machine(AMD, None);
    let (journal, path) = own(dir.path());
    assert_eq!(Journal::load(&path, dir.path()).unwrap(), Some(journal));
    let device = dir.path().join("sys/bus/pci/devices/0000:00:01.1/device");
    fs::write(&device, "0x1484\n").unwrap();
    let why = refused(&path, dir.path());
    assert!(
        why.ends_with("its 0000:00:01.1 is 1022:1483, here it is 1022:1484"),
        "{why}"
    );
    // A function that is gone may come back when restore rescans.
    fs::remove_file(&device).unwrap();
    assert!(Journal::load(&path, dir.path()).is_ok());
}

#[test]
fn another_boot_is_refused_and_an_older_journal_is_read() {
    let dir = machine(AMD, Some("11-22"));
    let (mut journal, path) = own(dir.path());
    assert!(Journal::load(&path, dir.path()).is_ok() && journal.boot.as_deref() == Some("11-22"));
    let id = dir.path().join("proc/sys/kernel/random/boot_id");
    fs::write(&id, "33-44\n").unwrap();
    let why = refused(&path, dir.path());
    assert!(
        why.ends_with("was written in the boot 11-22, not in this one (33-44)"),
        "{why}"
    );
    fs::remove_file(&id).unwrap();
    assert!(refused(&path, dir.path()).ends_with("not in this one (unknown)"));
    (journal.boot, journal.functions) = (None, vec![]);
    journal.save(&path).unwrap();
    assert_eq!(Journal::load(&path, dir.path()).unwrap(), Some(journal));
}

#[test]
fn the_same_root_may_be_written_in_another_way() {
    let dir = machine(AMD, None);
    let (mut journal, path) = own(dir.path());
    std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
    for other in ["", ".", "sys/..", "link"] {
        assert!(
            Journal::load(&path, &dir.path().join(other)).is_ok(),
            "{other}"
        );
    }
    "m".clone_into(&mut journal.root);
    journal.save(&path).unwrap();
    assert!(refused(&path, Path::new("m")).contains("was written for the root m, not for /"));
}

type Spoil = fn(&mut Journal);

#[test]
fn entries_that_no_pass_can_have_written_are_refused() {
    let dir = machine(AMD, None);
    let (good, path) = own(dir.path());
    let tries = vec![Try {
        bytes: 32 << 30,
        together: false,
        outcome: None,
    }];
    let grown = Grown {
        bdf: good.entries[0].bdf,
        bar: 1,
        port: None,
        assigned: true,
        before_bytes: 256 << 20,
        wanted_bytes: 32 << 30,
        after_bytes: None,
        tries,
        finding: None,
        when: 0,
    };
    let good = Journal {
        bars: vec![grown],
        ..good
    };
    good.save(&path).unwrap();
    assert!(Journal::load(&path, dir.path()).is_ok());
    let wrong: [(Spoil, &str); 7] = [
        (
            |j| j.entries[0].width = 9,
            "0000:00:01.1 ACS control has the width 9, allowed is 2",
        ),
        (
            |j| j.entries[0].register = "nonsense".into(),
            "has the register 'nonsense', allowed is 'ACS control'",
        ),
        (
            |j| j.entries[0].before = 0xffff,
            "has the value 0xffff, allowed are the bits of 0x1fff",
        ),
        (
            |j| j.entries[0].after = 0x8000,
            "has the value 0x8000, allowed are the bits of 0x1fff",
        ),
        (|j| j.bars[0].bar = 6, "has the BAR 6, allowed is 0 to 5"),
        (
            |j| j.bars[0].before_bytes = 3 << 20,
            "has the size 3 MiB, allowed are powers of two from 1 MiB",
        ),
        (
            |j| j.bars[0].tries[0].bytes = 0,
            "has the size 0 B, allowed are powers of two from 1 MiB",
        ),
    ];
    for (spoil, why) in wrong {
        let mut journal = good.clone();
        spoil(&mut journal);
        journal.save(&path).unwrap();
        let error = refused(&path, dir.path());
        assert!(
            error.contains("is invalid: ") && error.ends_with(why),
            "{error}"
        );
    }
}
