//! Does a build leave the pinned trees as they were made?

use harness::workspace;
use std::process::Command;

/// A Python that ignores its environment keeps compiled files wherever it can; mkosi starts one.
#[test]
fn a_command_in_a_tree_cannot_change_it() {
    let script = "python3 -I -c 'import json'
        for folder in tmp run root build; do touch /$folder/new; done
        ! touch /usr/new 2> /tmp/why || exit 3
        grep -q 'Read-only' /tmp/why
        ! find /usr -name '*.pyc' | grep .";
    let output = Command::new(workspace().join("image/in-tools.sh"))
        .args(["tools", "bash", "-euc", script])
        .output()
        .expect("in-tools.sh starts");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
