//! A folder that loses power, runs full, and holds what is not ours.

use super::*;

fn names(shelf: &Shelf) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(shelf.dir())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_newest_files_are_kept_and_others_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path().join("reports"), 3);
    assert_eq!(shelf.files().unwrap(), []);
    shelf.keep("x-PASS", b"{}").unwrap();
    fs::write(shelf.dir().join("notes.txt"), "mine").unwrap();
    for n in 2..=5 {
        let kept = shelf.keep("x-PASS", b"{}").unwrap();
        assert_eq!((kept.name, kept.removed.len()), (format!("{n:06}-x-PASS.json"), usize::from(n > 3)));
    }
    let want = ["000003-x-PASS.json", "000004-x-PASS.json", "000005-x-PASS.json", "notes.txt"];
    assert_eq!(names(&shelf), want);
}

#[test]
fn what_a_pulled_stick_left_half_written_goes_and_whole_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path(), 20);
    fs::write(dir.path().join("000007-a-PASS.json"), "old").unwrap();
    fs::write(dir.path().join(".000008-b-PASS.json.part"), "half").unwrap();
    fs::write(dir.path().join(".profile.part"), "mine").unwrap();
    assert_eq!(shelf.keep("c-FAIL", b"new").unwrap().name, "000008-c-FAIL.json");
    assert_eq!(names(&shelf), [".profile.part", "000007-a-PASS.json", "000008-c-FAIL.json"]);
    assert_eq!(shelf.read("000007-a-PASS.json").unwrap(), b"old");
}

#[test]
fn a_file_that_cannot_be_written_costs_no_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path(), 1);
    shelf.keep("a", b"old").unwrap();
    // A folder in its way: the name cannot be taken, at whatever step.
    fs::create_dir(dir.path().join("000002-b.json")).unwrap();
    fs::write(dir.path().join("000002-b.json/x"), "").unwrap();
    fs::create_dir(dir.path().join(".000003-b.json.part")).unwrap();
    assert!(shelf.keep("b", b"new").is_err());
    assert_eq!(shelf.read("000001-a.json").unwrap(), b"old");
}

#[test]
fn an_old_file_that_cannot_go_is_told_and_the_new_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path(), 1);
    fs::create_dir(dir.path().join("000001-a.json")).unwrap();
    let kept = shelf.keep("b", b"new").unwrap();
    assert!(kept.left.unwrap().starts_with("000001-a.json: "));
    assert_eq!(shelf.read(&kept.name).unwrap(), b"new");
}

#[test]
fn only_our_own_names_have_a_number() {
    assert_eq!(number_of("000012-a-PASS.json"), Some(12));
    for other in ["report.json", "12-a.json", "000012-a.txt", "0000x2-a.json", "-a.json", "+00012-a.json"] {
        assert_eq!(number_of(other), None, "{other}");
    }
    assert!(number_of("99999999999999999999-a.json").is_none());
}

#[test]
fn no_number_is_used_twice() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(format!("{}-a.json", u64::MAX)), "").unwrap();
    let error = Shelf::new(dir.path(), 3).keep("b", b"").unwrap_err();
    assert_eq!(error.to_string(), "no number is left");
}

#[test]
fn hostile_words_become_plain_names() {
    assert_eq!(plain("../2026-11-20T10:00:00Z"), "20261120T100000Z");
    assert_eq!(plain(&"x".repeat(300)).len(), 20);
}
