//! Cuts a child's output into printable lines: bounded in length, UTF-8, without control characters, so
//! that no child can move the cursor or fill the memory.

use crate::sys::terminal::printable;
use std::collections::VecDeque;

/// Length in bytes at which a line is broken.
const LONGEST: usize = 4096;

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub struct LineSplitter(Vec<u8>);

impl LineSplitter {
    /// Adds bytes and returns the lines that they complete.
    #[must_use]
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || self.0.len() >= LONGEST {
                lines.push(printable(&std::mem::take(&mut self.0)));
            }
            if byte != b'\n' {
                self.0.push(byte);
            }
        }
        lines
    }

    /// Ends the stream and returns a last line that has no line feed.
    #[must_use]
    pub fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.0);
        (!rest.is_empty()).then(|| printable(&rest))
    }
}

/// Keeps the last lines of an output.
#[derive(Debug, Default)]
pub struct Tail(VecDeque<String>);

impl Tail {
    /// How many lines are kept.
    pub const LINES: usize = 20;

    /// Adds a line; beyond the limit, drops the oldest one.
    pub fn push(&mut self, line: String) {
        if self.0.len() == Self::LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    /// The lines, oldest first.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_bytes_were() {
        let mut s = LineSplitter::default();
        assert_eq!(s.feed(b"a\nb"), ["a"]);
        assert_eq!(s.feed(b"c\n\n"), ["bc", ""]);
        assert_eq!(s.feed(b"end"), [""; 0]);
        assert_eq!(s.finish().as_deref(), Some("end"));
        assert_eq!(s.finish(), None);
    }

    #[test]
    fn an_endless_line_is_broken() {
        let mut s = LineSplitter::default();
        let lines = s.feed(&vec![b'x'; 3 * LONGEST]);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|l| l.len() == LONGEST));
    }

    #[test]
    fn a_tail_keeps_the_last_lines() {
        let mut tail = Tail::default();
        (0..25).for_each(|n| tail.push(n.to_string()));
        let lines = tail.into_lines();
        assert_eq!((lines.len(), lines[0].as_str()), (20, "5"));
    }
}
