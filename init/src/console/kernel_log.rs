//! The kernel's log: every line goes there too, and while the consoles work the kernel itself shows
//! only notices and worse, so that no line appears twice.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// The kernel cuts a record at about 1000 bytes (LOG_LINE_MAX).
const LONGEST: usize = 900;

/// Below this number a record is shown by the kernel: 7 shows what we write (6, info), 6 does not.
#[derive(Debug, Clone, Copy)]
pub enum Shown {
    /// Our lines are not shown by the kernel.
    NotOurs,
    /// Our lines are shown by the kernel: a console takes none from us.
    OursToo,
}

/// /dev/kmsg, if there is one.
#[derive(Debug, Default)]
pub struct KernelLog(Option<File>);

impl KernelLog {
    /// Opens it and lifts the limit on how many lines a program may write.
    #[must_use]
    pub fn open() -> Self {
        // The limit may be fixed by a kernel word; then some lines are missing from the log only.
        let _fixed = fs::write("/proc/sys/kernel/printk_devkmsg", "on\n");
        Self(OpenOptions::new().write(true).open("/dev/kmsg").ok())
    }

    /// Writes one record of level info.
    pub fn line(&mut self, text: &str) {
        let Some(file) = &mut self.0 else { return };
        let end = (0..=LONGEST.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let record = format!("<6>firstlight: {}\n", text.get(..end).unwrap_or(""));
        let _log_is_gone = file.write_all(record.as_bytes());
    }
}

/// Sets what the kernel shows on its consoles; a quieter setting is left as it is.
pub fn show(what: Shown) {
    const FILE: &str = "/proc/sys/kernel/printk";
    let now = fs::read_to_string(FILE).ok();
    let level = now.and_then(|text| text.split_whitespace().next()?.parse::<u32>().ok());
    let wanted = match (what, level) {
        (Shown::NotOurs, Some(7..)) => "6",
        (Shown::OursToo, Some(..7)) => "7",
        _ => return,
    };
    let _read_only = fs::write(FILE, wanted);
}
