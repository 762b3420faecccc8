//! The children that store the last words of a fault in the firmware and read them at the next boot. The
//! kernel's efi-pstore keeps its records as EFI variables with known names; our record is another of these,
//! so that every system that reads pstore finds it. Firmware can hang, so this runs in children only.

use super::{SUCCESS, firmware, say};
use crate::file_io::write_atomically;
use crate::paths::{EFI_VARIABLES, PSTORE};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The backend that stores the kernel's records.
const BACKEND: &str = "/sys/module/pstore/parameters/backend";
/// LINUX_EFI_CRASH_GUID of include/linux/efi.h.
const CRASH: &str = "cfc8fc79-be2e-4ddc-97f0-9f98bfe298a0";
/// Prefix of every line of ours.
const OURS: &str = "firstlight: ";
/// efi-pstore reads 1024 bytes of a record (its parameter record_size).
const LARGEST: usize = 1000;
/// Non-volatile, available to boot services and at run time: the attributes that precede the value of a
/// variable.
const ATTRIBUTES: u32 = 0x7;

/// Stores the lines.
pub(super) fn keep(lines: &[String]) -> Result<i32, String> {
    let backend = fs::read_to_string(BACKEND).map_err(|e| format!("{BACKEND}: {e}"))?;
    if backend.trim() != "efi_pstore" {
        return Err(format!("{BACKEND}: {}, not efi_pstore", backend.trim()));
    }
    let folder = firmware::variables()
        .ok_or_else(|| format!("{EFI_VARIABLES}: not variables of this machine"))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let path = folder.join(variable(now));
    let mut bytes = ATTRIBUTES.to_le_bytes().to_vec();
    bytes.extend(record(lines).into_bytes());
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    // One write, because each write sets the whole variable.
    file.and_then(|mut file| file.write_all(&bytes))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(SUCCESS)
}

/// The name that efi_pstore_write() would use: type 0 is the kernel's log, part 1 of record 1, not
/// compressed.
fn variable(seconds: u64) -> String {
    format!("dump-type0-1-1-{seconds}-D-{CRASH}")
}

fn record(lines: &[String]) -> String {
    let mut text: String = lines.iter().map(|line| format!("{OURS}{line}\n")).collect();
    let cut = (0..=LARGEST.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    text.truncate(cut);
    text
}

/// Prints the records in the store, copies them to `to`, and removes ours. Records of other systems stay.
pub(super) fn show(to: &str) -> Result<i32, String> {
    let mut names: Vec<_> = fs::read_dir(PSTORE)
        .map_err(|e| format!("{PSTORE}: {e}"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    fs::create_dir_all(to).map_err(|e| format!("{to}: {e}"))?;
    for name in names {
        let path = Path::new(PSTORE).join(&name);
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        write_atomically(&Path::new(to).join(&name), &bytes)
            .map_err(|e| format!("{to}/{name}: {e}"))?;
        let (lines, ours) = shown(&name, &String::from_utf8_lossy(&bytes));
        lines.iter().for_each(|line| say(line));
        if ours {
            fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(SUCCESS)
}

/// The lines to print for a record, and whether it is ours.
fn shown(name: &str, text: &str) -> (Vec<String>, bool) {
    let ours: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix(OURS))
        .map(str::to_owned)
        .collect();
    if !ours.is_empty() {
        return (ours, true);
    }
    let last = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("empty");
    (
        vec![format!(
            "{name} is a record of a kernel, and stays: {}",
            last.trim()
        )],
        false,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_fits_and_its_lines_come_back() {
        let long = "x".repeat(900);
        let text = record(&[
            "ERROR     INIT-CONFIG: a: b".to_owned(),
            long.clone(),
            "\u{e9}".repeat(200),
        ]);
        assert!(text.len() <= LARGEST && text.len() > LARGEST - 2);
        let (lines, ours) = shown("dmesg-efi_pstore-1", &text);
        assert!(ours);
        assert_eq!(lines[..2], ["ERROR     INIT-CONFIG: a: b", &long]);
    }

    #[test]
    fn a_kernels_record_is_shown_and_stays() {
        let (lines, ours) = shown(
            "dmesg-efi_pstore-7",
            "Panic#1 Part1\n<0>[ 1.0] Kernel panic - not syncing\n\n",
        );
        assert_eq!(
            lines,
            [
                "dmesg-efi_pstore-7 is a record of a kernel, and stays: <0>[ 1.0] Kernel panic - not syncing"
            ]
        );
        assert!(!ours);
    }

    #[test]
    fn a_variable_is_named_as_efi_pstore_reads_it() {
        assert_eq!(variable(1700), format!("dump-type0-1-1-1700-D-{CRASH}"));
    }
}
