//! The MACs of stored reports: on a disk each is in a file beside its report, in hexadecimal.

use super::finished::verdict_of;
use super::store::{ReportStore, number_of};
use report::mac::Key;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The suffix of the name of a report whose MAC is missing or wrong.
pub(super) const UNPROVEN: &str = "unproven";
/// The suffix of the name of a report that the server does not take although it takes others.
pub(super) const UNSENT: &str = "unsent";
/// Maximum size of the file of a MAC, bytes: 64 hexadecimal digits and a line end.
const LARGEST_MAC: u64 = 66;

/// Refuses a key on the partition that it protects: any program that can write reports there could read or replace it.
/// If the folder is not a mount point, only the folder itself counts.
///
/// # Errors
/// One line with both names.
pub(super) fn check_key_location(key: &Path, partition: &Path) -> Result<(), String> {
    let named = |path: &Path| {
        let why = |e: io::Error| format!("{}: {e}", path.display());
        let real = fs::canonicalize(path).map_err(why)?;
        Ok::<_, String>((fs::metadata(&real).map_err(why)?.dev(), real))
    };
    let ((key_on, key_at), (device, at)) = (named(key)?, named(partition)?);
    let (above, _) = named(at.parent().unwrap_or(&at))?;
    if key_at.starts_with(&at) || (key_on == device && device != above) {
        let (key, partition) = (key.display(), partition.display());
        return Err(format!(
            "{key}: the key is on the partition {partition}; allowed: a file elsewhere"
        ));
    }
    Ok(())
}

impl ReportStore {
    /// Sets the key.
    #[must_use]
    pub(super) fn with_key(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }

    /// The MAC for a report with this name, if there is a key.
    pub(super) fn mac(&self, name: &str, body: &[u8]) -> Option<String> {
        self.key.as_ref().map(|key| key.mac(verdict_of(name), body))
    }

    /// Verifies the MAC of a stored report, and returns it; `None` without a key.
    ///
    /// # Errors
    /// The MAC is missing, unreadable or wrong.
    pub(super) fn proven(&self, name: &str, body: &[u8]) -> Result<Option<String>, String> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let stored = self
            .read_small(&mac_file_name(name), LARGEST_MAC)
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound => "it has no MAC".to_owned(),
                _ => format!("its MAC cannot be read: {e}"),
            })?;
        let stored = String::from_utf8_lossy(&stored);
        if key.proves(stored.trim_end(), verdict_of(name), body) {
            Ok(self.mac(name, body))
        } else {
            Err("its MAC is wrong".to_owned())
        }
    }

    /// Renames a report so that it is not sent and no longer counts as ours; returns its new name. As many are kept as
    /// reports are.
    pub(super) fn set_aside(&self, name: &str, suffix: &str) -> io::Result<String> {
        let aside = format!("{name}.{suffix}");
        fs::rename(self.dir().join(name), self.dir().join(&aside))?;
        self.remove_set_aside()?;
        Ok(aside)
    }

    /// The reports that were set aside, the oldest first.
    pub(super) fn files_set_aside(&self) -> io::Result<Vec<(u64, String)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.dir())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let report = name
                .rsplit_once('.')
                .filter(|(_, suffix)| [UNPROVEN, UNSENT].contains(suffix));
            if let Some(number) = report
                .and_then(|(report, _)| number_of(report))
                .filter(|_| entry.file_type().is_ok_and(|t| t.is_file()))
            {
                all.push((number, name));
            }
        }
        all.sort();
        Ok(all)
    }

    fn remove_set_aside(&self) -> io::Result<()> {
        let all = self.files_set_aside()?;
        let surplus = all.len().saturating_sub(self.keep());
        self.remove_old(all.into_iter().take(surplus).map(|(_, name)| name));
        Ok(())
    }
}

/// The name of the file with a report's MAC.
pub(super) fn mac_file_name(name: &str) -> String {
    format!("{name}.hmac")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_on_the_partition_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let partition = dir.path();
        let (inside, outside) = (partition.join("key"), elsewhere.path().join("key"));
        fs::write(&inside, "x").unwrap();
        std::os::unix::fs::symlink(&inside, &outside).unwrap();
        for key in [&inside, &outside] {
            let why = check_key_location(key, partition).unwrap_err();
            assert!(
                why.starts_with(&key.display().to_string()) && why.contains("is on the partition"),
                "{why}"
            );
        }
        let beside = elsewhere.path().join("other");
        fs::write(&beside, "x").unwrap();
        assert_eq!(check_key_location(&beside, partition), Ok(()));
        assert!(check_key_location(&partition.join("none"), partition).is_err());
        assert!(check_key_location(Path::new("/proc/version"), Path::new("/proc")).is_err());
    }
}
