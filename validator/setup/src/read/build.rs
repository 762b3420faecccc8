//! What building modules needs: the kernel's headers, and programs.

use crate::state::Build;
use machine::root::Root;

/// Folders of programs.
const PROGRAMS: &[&str] = &["usr/bin", "usr/sbin", "bin", "sbin"];
/// The first Python whose library reads the description of the edits (tomllib).
const PYTHON: u32 = 11;

pub(super) fn read(root: &Root, release: &str) -> Build {
    let headers = !release.is_empty()
        && root
            .exists(format!("lib/modules/{release}/build/Makefile"))
            .unwrap_or(false);
    let mut missing: Vec<_> = ["dkms", "make", "gcc"]
        .into_iter()
        .filter(|name| !has(root, name))
        .map(str::to_owned)
        .collect();
    if !python(root) {
        missing.push(format!("python3 (3.{PYTHON} or newer)"));
    }
    Build { headers, missing }
}

fn has(root: &Root, name: &str) -> bool {
    PROGRAMS
        .iter()
        .any(|folder| root.exists(format!("{folder}/{name}")).unwrap_or(false))
}

/// Distributions make python3 a link to the program with the version in its name; another form is tried as it is.
fn python(root: &Root) -> bool {
    if !has(root, "python3") {
        return false;
    }
    let target = root.link("usr/bin/python3").ok();
    let name = target
        .as_deref()
        .and_then(|target| target.file_name())
        .and_then(|name| name.to_str());
    let minor = name
        .and_then(|name| name.strip_prefix("python3."))
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= PYTHON)
}
