//! A recorded machine: what its kernel and GPU driver show, as one text file that a user can attach to a bug report.
//! `record` records a machine, `text` writes and reads the file, and `unpack` turns the file into a folder that a
//! `Root` can use.
//!
//! The first line is `firstlight machine 1`. Empty lines and lines that begin with `#` are ignored. Every other line
//! that does not begin with a tab is an entry, `KIND PATH`; the lines below it that begin with a tab are its content:
//!
//! - `folder`: none. Only empty folders need an entry.
//! - `link`: one line, the target of the symbolic link.
//! - `text`: the lines of a regular file, each of which ends with a newline in the file; none for an empty file.
//! - `bytes`: any other regular file: lines of pairs of hexadecimal digits, or `zeros N` for N bytes of zero, at most 4096.
//!
//! A path is relative to the machine's root, has no empty, `.` or `..` part, occurs once, and is not below a
//! link or file. A device node is a `text` whose line is `c MAJOR MINOR`.

mod record;
mod text;
mod unpack;

pub use record::{RecordResult, record};
pub use text::ParseError;
pub use unpack::{OpenError, open};

use std::collections::BTreeMap;

/// The object at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A folder, which may be empty.
    Folder,
    /// A symbolic link, with its target.
    Link(String),
    /// A regular file, with its content.
    File(Vec<u8>),
}

/// A recorded machine: its objects by their path below its root. Folders above an entry need no separate entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording(BTreeMap<String, Node>);
