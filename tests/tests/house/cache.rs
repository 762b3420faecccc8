//! Does a build notice that a tree in the cache is no longer what it was when it was made?

use harness::Checkout;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

/// Has tools.sh make or find a tree of no packages, as a run of its own or as a part of the named one.
fn tree(checkout: &Checkout, run: Option<&str>) -> Output {
    let mut tools = checkout.script("image/tools.sh");
    tools
        .arg("testing")
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
        .env_remove("FIRSTLIGHT_RUN");
    let output = tools
        .envs(run.map(|run| ("FIRSTLIGHT_RUN", run)))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

#[test]
fn a_tree_of_the_cache_that_was_changed_is_named_and_made_again() {
    let checkout = Checkout::new(&["image/lib/", "image/tools.sh", "image/fetch.sh"]).unwrap();
    fs::write(checkout.path("image/inputs.lock"), "").unwrap();
    let first = tree(&checkout, None);
    let folder = String::from_utf8(first.stdout.clone()).unwrap();
    let path = Path::new(folder.trim_end());
    let at = |name: &str| path.join(name);
    let was = fs::read_to_string(at("etc/passwd")).unwrap();

    let change_one_byte = || fs::write(at("etc/passwd"), was.replacen("root", "toor", 1)).unwrap();
    let changes: [(&dyn Fn(), &str); 5] = [
        (&change_one_byte, "etc/passwd"),
        (
            &|| fs::set_permissions(at("etc/group"), fs::Permissions::from_mode(0o4755)).unwrap(),
            "etc/group",
        ),
        (
            &|| fs::write(at("usr/bin/more"), "").unwrap(),
            "usr/bin/more",
        ),
        (
            &|| fs::remove_file(at("etc/machine-id")).unwrap(),
            "etc/machine-id",
        ),
        (
            &|| {
                fs::remove_file(at("bin"))
                    .and_then(|()| symlink("usr/lib", at("bin")))
                    .unwrap();
            },
            "bin usr/lib",
        ),
    ];
    for (change, name) in changes {
        assert_eq!(
            tree(&checkout, None),
            Output {
                stderr: Vec::new(),
                ..first.clone()
            },
            "before {name}"
        );
        change();
        let output = tree(&checkout, None);
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = errors
            .lines()
            .filter(|line| line.contains("is not what it was"))
            .collect();
        assert!(
            lines.len() == 1 && lines[0].contains("trees/") && lines[0].trim_end().ends_with(name),
            "{errors}"
        );
        assert_eq!(
            (
                fs::read_to_string(at("etc/passwd")).unwrap(),
                at("usr/bin/more").exists()
            ),
            (was.clone(), false)
        );
    }
    // Hashing hundreds of megabytes at each of many steps would take longer than the steps.
    let names = |run| {
        String::from_utf8(tree(&checkout, Some(run)).stderr)
            .unwrap()
            .contains("is not what it was")
    };
    assert!(!names("one"));
    change_one_byte();
    assert_eq!(
        (names("one"), names("two")),
        (false, true),
        "a run looks once, and another run looks again"
    );
}
