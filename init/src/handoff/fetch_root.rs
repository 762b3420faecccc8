//! Fetches a root from a server into memory, where it is mounted like an image on a disk. A child fetches
//! it; afterwards the file either has the right checksum or does not exist.

use crate::child::{End, on_output};
use crate::config::remote::Remote;
use crate::config::types::Network;
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::stages::network;
use crate::sys::mount::{self, Flags};
use log::info;
use std::fs;
use std::path::Path;

/// Fetches it to [`paths::FETCHED_ROOT`].
///
/// # Errors
/// An interruption; the inner result is the cause in one line.
pub(super) fn fetch_root(
    m: &mut Machine,
    remote: &Remote,
    config: &Network,
) -> Result<Result<(), String>, Fault> {
    if let Err(why) = network::reach(m, config)? {
        return Ok(Err(format!("no network: {why}")));
    }
    let mib = match room() {
        Ok(mib) => mib,
        Err(why) => return Ok(Err(why)),
    };
    info!("root      fetches {}, at most {mib} MiB: half of the free memory", remote.url);
    let mut line = on_output(|line| info!("root      {line}"));
    let done = m.run(&helper::fetch_root(remote, mib, config), &mut line, |_| true)?;
    if done.end != End::Exited(helper::FINE) {
        return Ok(Err(done.reason_after(&format!("firstlight: {}: ", remote.url))));
    }
    info!("root      fetched in {} s", done.took.as_secs());
    Ok(Ok(()))
}

/// Mounts a file system in memory for the file and returns its size in MiB.
fn room() -> Result<u64, String> {
    let meminfo = fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let mib = share(&meminfo).ok_or("/proc/meminfo: no MemAvailable of 2 MiB and more")?;
    let at = Path::new(paths::FETCHED_ROOT).parent().unwrap_or(Path::new(paths::RUN));
    let made = || {
        fs::create_dir_all(at)?;
        mount::mount("tmpfs", at, "tmpfs", Flags::NOSUID | Flags::NODEV, &format!("mode=0700,size={mib}m"))
    };
    made().map_err(|e| format!("tmpfs on {}: {e}", at.display()))?;
    Ok(mib)
}

/// Half of the free memory in MiB: the other half is for the programs that run from it.
fn share(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 2 / 1024).filter(|mib| *mib > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_free_memory_is_for_the_file() {
        assert_eq!(share("MemTotal: 9000000 kB\nMemAvailable:    614400 kB\n"), Some(300));
        assert_eq!(share("MemTotal: 9000000 kB\n"), None);
        assert_eq!(share("MemAvailable: 1000 kB\n"), None);
    }
}
