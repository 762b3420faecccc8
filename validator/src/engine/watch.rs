//! Watches the kernel log while tests run: a fault in it belongs to the running test.

use crate::machine::host::faults::{self, faults};
use crate::machine::host::kmsg::{Cursor, News};
use crate::machine::host::nvidia::xid::When;
use crate::machine::root::Root;
use crate::outcome::finding::{Code, Finding, Severity};

/// A position in the log, or why there is none.
pub(super) enum Watch {
    /// Watching, with the lines since the last test's end.
    On(Cursor, News),
    /// Not watching; reported with the next test.
    Blind(String),
    /// Not watching; already reported.
    Told,
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

    /// What `look` has read since the last call.
    pub(super) fn news(&mut self) -> Vec<Finding> {
        match self {
            Self::On(_, news) => {
                let News { lines, lost } = std::mem::take(news);
                let holes = (lost > 0).then(|| faults::lost(lost));
                faults(&lines, When::During).into_iter().chain(holes).collect()
            }
            Self::Blind(why) => {
                let message = format!("the kernel log is not watched for faults: {why}");
                *self = Self::Told;
                vec![Code::KmsgUnreadable.finding(Severity::Info, "machine", message)]
            }
            Self::Told => Vec::new(),
        }
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
