//! The network interfaces of the machine that are up, over which NCCL can reach other ranks.

use crate::root::Root;
use std::io::{self, ErrorKind};

const CLASS: &str = "sys/class/net";

/// The names of interfaces that belong to a device and are up, in order; bridges, tunnels and the loopback
/// belong to none.
///
/// # Errors
/// If the class cannot be read; a kernel without network has none, and then no interface is up.
pub fn up(root: &Root) -> io::Result<Vec<String>> {
    let names = match root.names(CLASS) {
        Ok(names) => names,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    // An interface that disappears during the read is not up.
    let is_up = |name: &String| {
        let state = root.text(format!("{CLASS}/{name}/operstate"));
        state.is_ok_and(|s| s.trim() == "up") && root.link(format!("{CLASS}/{name}/device")).is_ok()
    };
    let mut up: Vec<_> = names.filter(is_up).collect();
    up.sort();
    Ok(up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_devices_that_are_up_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, state, device) in [
            ("eth1", "up", true),
            ("eth0", "up", true),
            ("eth2", "down", true),
            ("lo", "unknown", false),
            ("docker0", "up", false),
        ] {
            let folder = dir.path().join(CLASS).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("operstate"), format!("{state}\n")).unwrap();
            if device {
                symlink("../../../0000:01:00.0", folder.join("device")).unwrap();
            }
        }
        assert_eq!(up(&Root::new(dir.path())).unwrap(), ["eth0", "eth1"]);
        assert_eq!(
            up(&Root::new(dir.path().join("elsewhere"))).unwrap(),
            [""; 0]
        );
    }
}
