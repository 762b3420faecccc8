//! Watches the kernel log and the kernel's taint flags while tests run: a new fault there is reported with the running
//! test.

use machine::host::faults::{self, Scene, Taint, faults, tainted};
use machine::host::kmsg::{Cursor, NewLines};
use machine::host::nvidia::xid::TestPhase;
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::io::ErrorKind;

/// The watch on the kernel log.
pub(super) enum KernelLogWatch {
    /// Reading at this position; with the lines since the last test ended.
    Watching(Cursor, NewLines),
    /// Not watching; reported with the next test.
    Failed(String),
    /// Not watching; already reported.
    Reported,
}

impl KernelLogWatch {
    /// Starts watching.
    pub(super) fn begin(root: &Root) -> Self {
        Cursor::at_end(root).map_or_else(Self::Failed, |cursor| {
            Self::Watching(cursor, NewLines::default())
        })
    }

    /// Reads the new lines. It is called often, because the kernel overwrites unread lines.
    pub(super) fn read_new(&mut self) {
        if let Self::Watching(cursor, new_lines) = self {
            match cursor.read_new() {
                Ok(more) => {
                    new_lines.lines.extend(more.lines);
                    new_lines.lost = new_lines.lost.saturating_add(more.lost);
                }
                Err(why) => *self = Self::Failed(why),
            }
        }
    }

    /// The findings in the lines that [`Self::read_new`] has read since the last call.
    pub(super) fn new_findings(&mut self, scene: &Scene) -> Vec<Finding> {
        match self {
            Self::Watching(_, new_lines) => {
                let NewLines { lines, lost } = std::mem::take(new_lines);
                let lost_lines = (lost > 0).then(|| faults::lost(lost));
                faults(&lines, TestPhase::During, scene)
                    .into_iter()
                    .chain(lost_lines)
                    .collect()
            }
            Self::Failed(why) => {
                let message = format!("the kernel log is not watched for faults: {why}");
                *self = Self::Reported;
                vec![Code::KmsgUnreadable.finding(Severity::Info, Subject::Machine, message)]
            }
            Self::Reported => Vec::new(),
        }
    }
}

/// The watch on the kernel's taint flags.
pub(super) enum TaintWatch {
    /// The flags at the last reading.
    Watching(Taint),
    /// Not watching; reported with the next test.
    Failed(Severity, String),
    /// Not watching; already reported.
    Reported,
}

impl TaintWatch {
    /// Starts watching: flags that are set now are those from before the tests, which test `xid` judges.
    pub(super) fn begin(root: &Root) -> Self {
        match Taint::read(root) {
            Ok(taint) => Self::Watching(taint),
            // A machine may have been recorded without them.
            Err(e) if e.kind() == ErrorKind::NotFound && !root.is_live() => {
                Self::Failed(Severity::Info, e.to_string())
            }
            Err(e) => Self::Failed(Severity::Warn, e.to_string()),
        }
    }

    /// The flags that were set since the last call.
    pub(super) fn new_findings(&mut self, root: &Root) -> Option<Finding> {
        if let Self::Watching(before) = *self {
            match Taint::read(root) {
                Ok(now) => {
                    *self = Self::Watching(now.and(before));
                    return tainted(now.since(before), TestPhase::During);
                }
                Err(e) => *self = Self::Failed(Severity::Warn, e.to_string()),
            }
        }
        let Self::Failed(severity, why) = std::mem::replace(self, Self::Reported) else {
            return None;
        };
        let message = format!("the kernel's taint flags are not watched: {why}");
        Some(Code::KernelTainted.finding(severity, Subject::Machine, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_log_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = KernelLogWatch::begin(&Root::new(dir.path()));
        assert!(watch.new_findings(&Scene::default())[0].is(Code::KmsgUnreadable));
        assert_eq!(watch.new_findings(&Scene::default()), []);
    }

    #[test]
    fn only_flags_that_are_set_meanwhile_count_and_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let file = dir.path().join("proc/sys/kernel/tainted");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let set = |flags: u64| std::fs::write(&file, format!("{flags}\n")).unwrap();
        set(12288 | 1 << 9);
        let mut flags = TaintWatch::begin(&root);
        assert_eq!(flags.new_findings(&root), None);
        set(12288 | 1 << 9 | 1 << 7);
        let found = flags.new_findings(&root).unwrap();
        assert!(
            found.severity == Severity::Fail && !found.message.contains("W:"),
            "{found:?}"
        );
        assert_eq!(flags.new_findings(&root), None);
        std::fs::write(&file, "").unwrap();
        let found = flags.new_findings(&root).unwrap();
        assert!(
            found.severity == Severity::Warn && found.message.contains("allowed: a number"),
            "{found:?}"
        );
        assert_eq!(flags.new_findings(&root), None);
    }

    #[test]
    fn a_machine_in_files_without_flags_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut flags = TaintWatch::begin(&root);
        let found = flags.new_findings(&root).unwrap();
        assert!(found.is(Code::KernelTainted) && found.severity == Severity::Info);
        assert_eq!(flags.new_findings(&root), None);
    }

    #[test]
    fn a_fault_is_reported_with_the_running_test() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("dev/kmsg");
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(&log, "3,1,1,-;NVRM: Xid (PCI:0000:41:00): 79, old\n").unwrap();
        let mut watch = KernelLogWatch::begin(&Root::new(dir.path()));
        watch.read_new();
        assert_eq!(watch.new_findings(&Scene::default()), []);
        let mut text = std::fs::read_to_string(&log).unwrap();
        text.push_str("3,2,1,-;NVRM: Xid (PCI:0000:41:00): 31, new\n");
        std::fs::write(&log, &text).unwrap();
        watch.read_new();
        let found = watch.new_findings(&Scene::default());
        assert!(found.len() == 1 && found[0].evidence[0].contains("new"));
        assert_eq!(watch.new_findings(&Scene::default()), []);
        text.push_str("6,9,1,-;something\n");
        std::fs::write(&log, text).unwrap();
        watch.read_new();
        assert!(watch.new_findings(&Scene::default())[0].is(Code::KmsgLost));
    }
}
