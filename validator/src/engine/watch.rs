//! Watches the kernel log and the kernel's taint flags while tests run: a new fault there is reported with the running
//! test.

use crate::machine::host::faults::{self, Taint, faults, tainted};
use crate::machine::host::kmsg::{Cursor, News};
use crate::machine::host::nvidia::xid::When;
use crate::machine::root::Root;
use crate::outcome::finding::{Code, Finding, Severity};
use std::io::ErrorKind;

/// A position in the log, or why there is none.
pub(super) enum Watch {
    /// Watching, with the lines since the last test's end.
    On(Cursor, News),
    /// Not watching; reported with the next test.
    Blind(String),
    /// Not watching; already reported.
    Reported,
}

impl Watch {
    /// Starts watching.
    pub(super) fn begin(root: &Root) -> Self {
        Cursor::at_end(root).map_or_else(Self::Blind, |cursor| Self::On(cursor, News::default()))
    }

    /// Reads the new lines: called often, because the kernel overwrites unread lines.
    pub(super) fn look(&mut self) {
        if let Self::On(cursor, news) = self {
            match cursor.news() {
                Ok(more) => {
                    news.lines.extend(more.lines);
                    news.lost = news.lost.saturating_add(more.lost);
                }
                Err(why) => *self = Self::Blind(why),
            }
        }
    }

    /// The findings in the lines that `look` has read since the last call.
    pub(super) fn news(&mut self) -> Vec<Finding> {
        match self {
            Self::On(_, news) => {
                let News { lines, lost } = std::mem::take(news);
                let holes = (lost > 0).then(|| faults::lost(lost));
                faults(&lines, When::During).into_iter().chain(holes).collect()
            }
            Self::Blind(why) => {
                let message = format!("the kernel log is not watched for faults: {why}");
                *self = Self::Reported;
                vec![Code::KmsgUnreadable.finding(Severity::Info, "machine", message)]
            }
            Self::Reported => Vec::new(),
        }
    }
}

/// The kernel's taint flags at the last reading, or why they are unknown.
pub(super) enum Flags {
    /// Watching.
    At(Taint),
    /// Not watching; reported with the next test.
    Blind(Severity, String),
    /// Not watching; already reported.
    Reported,
}

impl Flags {
    /// Starts watching: flags that are set now are those from before the tests, which test `xid` judges.
    pub(super) fn begin(root: &Root) -> Self {
        match Taint::read(root) {
            Ok(taint) => Self::At(taint),
            // A machine may have been recorded without them.
            Err(e) if e.kind() == ErrorKind::NotFound && !root.is_live() => {
                Self::Blind(Severity::Info, e.to_string())
            }
            Err(e) => Self::Blind(Severity::Warn, e.to_string()),
        }
    }

    /// The flags that were set since the last call.
    pub(super) fn news(&mut self, root: &Root) -> Option<Finding> {
        if let Self::At(before) = *self {
            match Taint::read(root) {
                Ok(now) => {
                    *self = Self::At(now.and(before));
                    return tainted(now.since(before), When::During);
                }
                Err(e) => *self = Self::Blind(Severity::Warn, e.to_string()),
            }
        }
        let Self::Blind(severity, why) = std::mem::replace(self, Self::Reported) else { return None };
        let message = format!("the kernel's taint flags are not watched: {why}");
        Some(Code::KernelTainted.finding(severity, "machine", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_log_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::begin(&Root::new(dir.path()));
        assert!(watch.news()[0].is(Code::KmsgUnreadable));
        assert_eq!(watch.news(), []);
    }

    #[test]
    fn only_flags_that_are_set_meanwhile_count_and_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let file = dir.path().join("proc/sys/kernel/tainted");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let set = |flags: u64| std::fs::write(&file, format!("{flags}\n")).unwrap();
        set(12288 | 1 << 9);
        let mut flags = Flags::begin(&root);
        assert_eq!(flags.news(&root), None);
        set(12288 | 1 << 9 | 1 << 7);
        let found = flags.news(&root).unwrap();
        assert!(found.severity == Severity::Fail && !found.message.contains("W:"), "{found:?}");
        assert_eq!(flags.news(&root), None);
        std::fs::write(&file, "").unwrap();
        let found = flags.news(&root).unwrap();
        assert!(found.severity == Severity::Warn && found.message.contains("allowed: a number"), "{found:?}");
        assert_eq!(flags.news(&root), None);
    }

    #[test]
    fn a_machine_in_files_without_flags_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut flags = Flags::begin(&root);
        let found = flags.news(&root).unwrap();
        assert!(found.is(Code::KernelTainted) && found.severity == Severity::Info);
        assert_eq!(flags.news(&root), None);
    }

    #[test]
    fn a_fault_is_reported_with_the_running_test() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("dev/kmsg");
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(&log, "3,1,1,-;NVRM: Xid (PCI:0000:41:00): 79, old\n").unwrap();
        let mut watch = Watch::begin(&Root::new(dir.path()));
        watch.look();
        assert_eq!(watch.news(), []);
        let mut text = std::fs::read_to_string(&log).unwrap();
        text.push_str("3,2,1,-;NVRM: Xid (PCI:0000:41:00): 31, new\n");
        std::fs::write(&log, &text).unwrap();
        watch.look();
        let news = watch.news();
        assert!(news.len() == 1 && news[0].evidence[0].contains("new"));
        assert_eq!(watch.news(), []);
        text.push_str("6,9,1,-;something\n");
        std::fs::write(&log, text).unwrap();
        watch.look();
        assert!(watch.news()[0].is(Code::KmsgLost));
    }
}
