//! The kernel's log while tests run: a fault that the kernel sees belongs to the test that ran.

use crate::finding::{Code, Finding, Severity};
use crate::host::kmsg::{self, Cursor};
use crate::root::Root;

/// A place in the log, or why there is none.
pub(super) enum Watch {
    /// Watching.
    On(Cursor),
    /// Not watching; told with the next test.
    Blind(String),
    /// Not watching; already told.
    Told,
}

impl Watch {
    /// From now on.
    pub(super) fn begin(root: &Root) -> Self {
        Cursor::at_end(root).map_or_else(Self::Blind, Self::On)
    }

    /// What the kernel saw since the last time.
    pub(super) fn news(&mut self) -> Vec<Finding> {
        let lines = match self {
            Self::On(cursor) => cursor.new_lines(),
            Self::Blind(why) => Err(std::mem::take(why)),
            Self::Told => Ok(Vec::new()),
        };
        lines.map_or_else(
            |why| {
                *self = Self::Told;
                let message = format!("faults that the kernel logs are not seen: {why}");
                vec![Code::KmsgUnreadable.finding(Severity::Info, "machine", message)]
            },
            |lines| kmsg::faults(&lines),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_read_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::begin(&Root::new(dir.path()));
        assert!(watch.news()[0].is(Code::KmsgUnreadable));
        assert_eq!(watch.news(), []);
    }

    #[test]
    fn a_fault_is_told_with_the_test_during_which_it_came() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("dev/kmsg");
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(&log, "3,1,1,-;NVRM: Xid (PCI:0000:41:00): 79, old\n").unwrap();
        let mut watch = Watch::begin(&Root::new(dir.path()));
        assert_eq!(watch.news(), []);
        let mut text = std::fs::read_to_string(&log).unwrap();
        text.push_str("3,2,1,-;NVRM: Xid (PCI:0000:41:00): 31, new\n");
        std::fs::write(&log, text).unwrap();
        let news = watch.news();
        assert!(news.len() == 1 && news[0].evidence[0].contains("new"));
        assert_eq!(watch.news(), []);
    }
}
