//! The notes of a release: are they the titles of the commits by part, the same twice, and is a checkout from which no release
//! can be made refused?

use harness::workspace;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A git repository with the script, and the commits that a test makes.
struct History(TempDir);

impl History {
    fn new() -> Self {
        let history = Self(tempfile::tempdir().unwrap());
        for file in ["image/release/notes.sh", "image/lib/common.sh"] {
            let to = history.path().join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(workspace().join(file), to).unwrap();
        }
        fs::write(
            history.path().join("Cargo.toml"),
            "[workspace.package]\nversion = \"1.2.3\"\n",
        )
        .unwrap();
        history.git(&["init", "-q", "-b", "main"]);
        history.git(&["add", "."]);
        history
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.org",
            "-c",
            "commit.gpgSign=false",
        ])
        .args(words);
        let output = git
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, title: &str) {
        self.git(&["commit", "-q", "--allow-empty", "-m", title]);
    }

    fn notes(&self, since: &str) -> Output {
        let mut notes = Command::new(self.path().join("image/release/notes.sh"));
        notes
            .arg(since)
            .env("FIRSTLIGHT_CACHE", self.path().join(".git/cache"))
            .output()
            .unwrap()
    }

    fn text(&self, since: &str) -> String {
        let output = self.notes(since);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn refuses(&self, since: &str, says: &[&str]) {
        let output = self.notes(since);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        assert!(
            text.lines().count() == 1 && says.iter().all(|word| text.contains(word)),
            "{text}"
        );
    }
}

#[test]
fn the_notes_are_the_titles_since_the_last_tag_by_part() {
    let history = History::new();
    history.commit("image: before everything");
    let all = history.text("");
    let commit = history.git(&["rev-parse", "HEAD"]);
    assert_eq!(
        all,
        format!(
            "firstlight 1.2.3\ncommit {commit}\n\nAll changes (1):\n\nimage\n  - before everything\n"
        )
    );
    history.git(&["tag", "v1.2.2"]);
    for title in [
        "image: b\u{e4}rs, \"quoted\" $(here)",
        "No part at all",
        "boots: one",
        "image: the last: twice",
    ] {
        history.commit(title);
    }
    let commit = history.git(&["rev-parse", "HEAD"]);
    let expected = format!(
        "firstlight 1.2.3\ncommit {commit}\n\nChanges since v1.2.2 (4):\n\nboots\n  - one\n\nimage\n  - b\u{e4}rs, \"quoted\" \
         $(here)\n  - the last: twice\n\nother\n  - No part at all\n"
    );
    assert_eq!(history.text(""), expected);
    assert_eq!(
        history.text(""),
        expected,
        "the same commit gives other notes"
    );
    // The tag of this release changes nothing.
    history.git(&["tag", "v1.2.3"]);
    assert_eq!(history.text(""), expected);
    assert_eq!(history.text("v1.2.2"), expected);
}

#[test]
fn a_checkout_without_a_commit_of_its_own_is_refused() {
    let history = History::new();
    history.refuses(
        "",
        &["is not a git checkout (a release is made of a commit)"],
    );
    history.commit("image: one");
    history.refuses("v9", &["there is no tag 'v9'"]);
    history.git(&["tag", "v1"]);
    history.git(&["checkout", "-q", "--orphan", "other"]);
    history.commit("image: another beginning");
    history.refuses("v1", &["tag 'v1' is not before commit "]);
    fs::write(history.path().join("new"), "").unwrap();
    history.refuses("", &["1 files are not as in commit ", "the first: new"]);
    let shallow = tempfile::tempdir().unwrap();
    fs::remove_file(history.path().join("new")).unwrap();
    history.commit("image: two");
    let from = format!("file://{}", history.path().display());
    history.git(&[
        "clone",
        "-q",
        "--depth",
        "1",
        &from,
        shallow.path().join("a").to_str().unwrap(),
    ]);
    let history = History(shallow);
    fs::rename(history.path().join("a"), history.path().join("b")).unwrap();
    let output = Command::new(history.path().join("b/image/release/notes.sh"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success()
            && text.contains("has not all commits (git fetch --unshallow --tags)"),
        "{text}"
    );
}
