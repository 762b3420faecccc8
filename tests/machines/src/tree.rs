//! A tree of files as data: by its path from the top, each folder, link or file. It is written into a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A folder, which may be empty.
    Folder,
    /// A symbolic link, with its target.
    Link(String),
    /// A regular file, with its content.
    File(Vec<u8>),
}

/// A tree. Folders above an entry need no entry of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(pub(crate) BTreeMap<String, Node>);

impl Tree {
    /// Adds a folder.
    pub fn folder(&mut self, at: &str) {
        self.0.insert(at.to_owned(), Node::Folder);
    }

    /// Adds a file with this text.
    pub fn file(&mut self, at: &str, text: &str) {
        self.bytes(at, text.as_bytes());
    }

    /// Adds a file with these bytes.
    pub fn bytes(&mut self, at: &str, bytes: &[u8]) {
        self.0.insert(at.to_owned(), Node::File(bytes.to_owned()));
    }

    /// Adds a link.
    pub fn link(&mut self, at: &str, target: &str) {
        self.0.insert(at.to_owned(), Node::Link(target.to_owned()));
    }

    /// Writes all of it into the folder `to`, which is made where it is missing.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        self.0.iter().try_for_each(|(at, node)| node.write(&to.join(at)))
    }
}

impl Node {
    fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        match self {
            Self::Folder => fs::create_dir_all(path),
            Self::Link(target) => symlink(target, path),
            Self::File(bytes) => fs::write(path, bytes),
        }
    }
}
