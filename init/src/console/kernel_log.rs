//! Writes every line to the kernel's log as well. While the consoles work, the kernel itself shows only
//! notices and worse, so that no line appears twice.

use crate::config::cmdline::KernelWord;
use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// The kernel cuts a record at about 1000 bytes (LOG_LINE_MAX).
const LONGEST: usize = 900;

/// Whether the kernel shows the lines that init writes to its log. It shows records below its console log
/// level: at 7 it shows ours (6, info), at 6 it does not.
#[derive(Debug, Clone, Copy)]
pub enum InitLines {
    /// The kernel does not show init's lines.
    Hidden,
    /// The kernel shows them, because a console does not accept them from init.
    Shown,
}

/// Maximum bytes of children's lines in the kernel's log: a quarter of its size (CONFIG_LOG_BUF_SHIFT is 18). Otherwise a
/// child could push out the kernel's own lines, which are evidence.
const OF_CHILDREN: usize = 64 << 10;

/// /dev/kmsg, if there is one.
#[derive(Debug, Default)]
pub struct KernelLog {
    file: Option<File>,
    of_children: usize,
}

impl KernelLog {
    /// Opens it and, unless it `is_unlimited`, lifts the limit on the number of lines a program may write.
    #[must_use]
    pub fn open(is_unlimited: bool) -> Self {
        if !is_unlimited {
            // A kernel word may fix the limit; then lines are missing from the log only.
            let _fixed = fs::write("/proc/sys/kernel/printk_devkmsg", "on\n");
        }
        Self {
            file: OpenOptions::new().write(true).open("/dev/kmsg").ok(),
            of_children: 0,
        }
    }

    /// Writes one record of level info.
    pub fn line(&mut self, text: &str) {
        let Some(file) = &mut self.file else { return };
        let end = (0..=LONGEST.min(text.len()))
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        let record = format!("<6>firstlight: {}\n", text.get(..end).unwrap_or(""));
        let _log_is_gone = file.write_all(record.as_bytes());
    }

    /// Writes a child's line, while there is room for one.
    pub fn line_of_child(&mut self, text: &str) {
        let before = self.of_children;
        self.of_children = before.saturating_add(text.len());
        if self.of_children <= OF_CHILDREN {
            self.line(text);
        } else if before <= OF_CHILDREN {
            self.line("further lines of programs are in boot.log only");
        }
    }
}

/// Whether the kernel was started with `printk.devkmsg=on`.
#[must_use]
pub fn is_unlimited(words: &[KernelWord]) -> bool {
    words
        .iter()
        .any(|word| word.name == "printk.devkmsg" && word.value.as_deref() == Some("on"))
}

/// Whether the kernel shows what init writes to its log, according to the command line
/// (CONFIG_CONSOLE_LOGLEVEL_DEFAULT is 7, CONFIG_CONSOLE_LOGLEVEL_QUIET is 4).
#[must_use]
pub fn shows_init_lines(words: &[KernelWord]) -> bool {
    let level = words.iter().rev().find_map(|word| {
        match (
            word.name.as_str(),
            word.value.as_ref().and_then(|v| v.parse().ok()),
        ) {
            ("loglevel", Some(level)) => Some(level),
            ("quiet", _) => Some(4),
            ("debug", _) => Some(10),
            _ => None,
        }
    });
    level.unwrap_or(7_u32) > 6
}

/// Sets what the kernel shows on its consoles; a quieter setting is left unchanged.
pub fn show(what: InitLines) {
    const FILE: &str = "/proc/sys/kernel/printk";
    let now = fs::read_to_string(FILE).ok();
    let level = now.and_then(|text| text.split_whitespace().next()?.parse::<u32>().ok());
    let wanted = match (what, level) {
        (InitLines::Hidden, Some(7..)) => "6",
        (InitLines::Shown, Some(..7)) => "7",
        _ => return,
    };
    let _read_only = fs::write(FILE, wanted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cmdline::words;

    #[test]
    fn children_cannot_push_the_kernels_lines_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        let mut log = KernelLog {
            file: Some(File::create(&path).unwrap()),
            of_children: 0,
        };
        (0..4000).for_each(|_| log.line_of_child(&"x".repeat(500)));
        log.line("ours");
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() < 80_000, "{}", text.len());
        assert_eq!(text.matches("further lines").count(), 1);
        assert!(text.ends_with("firstlight: ours\n"));
    }

    #[test]
    fn the_last_word_about_the_level_decides() {
        for (line, shown) in [
            ("", true),
            ("loglevel=4", false),
            ("quiet", false),
            ("quiet loglevel=7", true),
        ] {
            assert_eq!(shows_init_lines(&words(line)), shown, "{line}");
        }
    }

    #[test]
    fn only_on_lifts_the_limit() {
        assert!(is_unlimited(&words("a printk.devkmsg=on")));
        assert!(!is_unlimited(&words("printk.devkmsg=ratelimit")));
    }
}
