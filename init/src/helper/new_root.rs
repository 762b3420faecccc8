//! The children that prepare a new root: one mounts it, one finds its init and writes its nccl.conf. A disk can hang, and a
//! file in it can be anything: a link out of the root, a FIFO. Paths are resolved with the new root as `/`.

use super::{SUCCESS, say, to_status};
use crate::config::values;
use crate::disk::root;
use crate::environment::{self, P2P_OFF, Variable};
use crate::file_io::{read_open, write_durably};
use crate::paths;
use crate::sys::files;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Programs that are tried as init, in this order.
const INITS: [&str; 3] = ["/sbin/init", "/usr/lib/systemd/systemd", "/init"];
/// Mounts that are moved to the new root.
pub const MOVED_MOUNTS: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];
/// The folder of [`paths::NCCL_CONF`], below the root.
const FOLDER: &str = "etc";
/// Size limit of an nccl.conf.
const LARGEST: u64 = 1 << 20;
/// Prefix of the line with the path of the program that becomes process 1.
pub const PROGRAM: &str = "program ";
/// Prefix of a warning.
pub const WARNING: &str = "warning ";

/// Mounts the new root.
pub(super) fn mount(root: &str, target: &str) -> Result<i32, String> {
    let source = values::root_source(root).ok_or_else(|| format!("{root}: not a root"))?;
    to_status(root::mount(&source, Path::new(target)))
}

/// Finds the program, or checks the one that is named, and writes nccl.conf with the variables of `lines`.
pub(super) fn prepare(new_root: &str, program: Option<&str>, lines: &str) -> Result<i32, String> {
    let new_root = Path::new(new_root);
    let named = program.map(|program| [program]);
    let tried = named.as_ref().map_or(&INITS[..], |program| &program[..]);
    let found = tried
        .iter()
        .find(|path| files::is_program_in(new_root, path));
    let found = found.ok_or_else(|| match program {
        None => format!("has none of {}", INITS.join(", ")),
        Some(program) => format!("has no program {program}"),
    })?;
    make_mount_points(new_root)?;
    let variables = environment::parse(&lines.lines().map(str::to_owned).collect::<Vec<_>>())?;
    if let Err(e) = write_nccl_conf(new_root, &variables) {
        let why = format!("{}: {e}", paths::NCCL_CONF);
        if variables.iter().any(|v| v.name == P2P_OFF) {
            return Err(why);
        }
        say(&format!("{WARNING}{why}"));
    }
    say(&format!("{PROGRAM}{found}"));
    Ok(SUCCESS)
}

/// Makes the folders to which the mounts of the old root are moved. A link is refused: it would lead into the old root.
fn make_mount_points(new_root: &Path) -> Result<(), String> {
    for at in MOVED_MOUNTS {
        let folder = new_root.join(at.trim_start_matches('/'));
        match fs::symlink_metadata(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                fs::create_dir(&folder).map_err(|e| format!("{at}: {e}"))?;
            }
            Err(e) => return Err(format!("{at}: {e}")),
            Ok(data) if data.is_dir() => {}
            Ok(_) => return Err(format!("{at}: not a folder")),
        }
    }
    Ok(())
}

fn write_nccl_conf(new_root: &Path, variables: &[Variable]) -> io::Result<()> {
    let name = Path::new(paths::NCCL_CONF)
        .file_name()
        .ok_or(ErrorKind::InvalidInput)?;
    let folder = match files::open_folder_in(new_root, FOLDER) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            fs::create_dir(new_root.join(FOLDER))?;
            files::open_folder_in(new_root, FOLDER)?
        }
        folder => folder?,
    };
    let old = match files::open_file_in(new_root, paths::NCCL_CONF) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        file => read_open(file?, LARGEST)?,
    };
    let old = String::from_utf8(old).map_err(|_| io::Error::other("not UTF-8"))?;
    if !environment::concerns_nccl(&old, variables) {
        return Ok(());
    }
    // The path through the descriptor always leads to the folder that was found in the root. A link with this name is
    // replaced by a file with its content and ours.
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    write_durably(&path, environment::nccl_conf(&old, variables).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    fn new_root() -> tempfile::TempDir {
        let dir = sample::files(&[("sbin/init", "#!/bin/sh\n")]);
        fs::set_permissions(
            dir.path().join("sbin/init"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        dir
    }

    fn prepare_it(dir: &Path, lines: &str) -> Result<i32, String> {
        prepare(dir.to_str().unwrap(), None, lines)
    }

    #[test]
    fn links_of_the_root_are_resolved_within_it() {
        let dir = new_root();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink("/real", dir.path().join("etc")).unwrap();
        prepare_it(dir.path(), "NCCL_P2P_LEVEL=SYS\n").unwrap();
        let text = fs::read_to_string(dir.path().join("real/nccl.conf")).unwrap();
        assert!(text.ends_with("NCCL_P2P_LEVEL=SYS\n"), "{text}");
    }

    #[test]
    fn what_a_link_within_the_root_leads_to_is_kept() {
        let dir = new_root();
        fs::create_dir(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("site.conf"), "NCCL_DEBUG=INFO\n").unwrap();
        symlink("/site.conf", dir.path().join("etc/nccl.conf")).unwrap();
        prepare_it(dir.path(), "NCCL_P2P_LEVEL=SYS\n").unwrap();
        let text = fs::read_to_string(dir.path().join("etc/nccl.conf")).unwrap();
        assert!(
            text.contains("NCCL_DEBUG=INFO\n") && text.contains("NCCL_P2P_LEVEL=SYS\n"),
            "{text}"
        );
    }

    #[test]
    fn a_link_or_a_fifo_as_nccl_conf_is_neither_followed_nor_waited_for() {
        let (dir, outside) = (new_root(), tempfile::tempdir().unwrap());
        let (etc, target) = (dir.path().join("etc"), outside.path().join("f"));
        fs::create_dir(&etc).unwrap();
        fs::write(&target, "theirs").unwrap();
        symlink(&target, etc.join("nccl.conf")).unwrap();
        prepare_it(dir.path(), "NCCL_P2P_LEVEL=SYS\n").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        fs::remove_file(etc.join("nccl.conf")).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(etc.join("nccl.conf"))
                .status()
                .unwrap()
                .success()
        );
        prepare_it(dir.path(), "NCCL_P2P_LEVEL=SYS\n").unwrap();
        let why = prepare_it(dir.path(), "NCCL_P2P_DISABLE=1\n").unwrap_err();
        assert_eq!(why, "/etc/nccl.conf: not a regular file");
    }

    #[test]
    fn a_link_where_a_mount_goes_is_refused() {
        let dir = new_root();
        symlink("/run", dir.path().join("run")).unwrap();
        assert_eq!(
            prepare_it(dir.path(), "").unwrap_err(),
            "/run: not a folder"
        );
        fs::remove_file(dir.path().join("run")).unwrap();
        prepare_it(dir.path(), "").unwrap();
        assert!(dir.path().join("run").is_dir() && dir.path().join("proc").is_dir());
    }

    #[test]
    fn a_root_without_a_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            prepare_it(dir.path(), "")
                .unwrap_err()
                .starts_with("has none of /sbin/init, ")
        );
        let named = prepare(dir.path().to_str().unwrap(), Some("/bin/x"), "").unwrap_err();
        assert_eq!(named, "has no program /bin/x");
    }
}
