//! The text of a recorded machine: written by `Display`, read by `parse`.

use super::{Node, Recording};
use outcome::text::shown;
use std::fmt;

/// The first line of every recording.
const FIRST: &str = "firstlight machine 1";
/// The most zeros that one line may represent: `zeros 4096`.
const ZEROS: usize = 4096;
/// Bytes on one line.
const LINE: usize = 16;

/// A line that breaks the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ParseError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// The lines of one entry.
struct Entry<'a> {
    line: usize,
    kind: &'a str,
    path: &'a str,
    content: Vec<&'a str>,
}

impl Recording {
    /// Reads the text of a recorded machine.
    ///
    /// # Errors
    /// The first line that breaks the format.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut recording = Self::default();
        for entry in entries(text)? {
            let line = entry.line;
            add(&mut recording, &entry).map_err(|why| ParseError { line, why })?;
        }
        Ok(recording)
    }
}

fn entries(text: &str) -> Result<Vec<Entry<'_>>, ParseError> {
    let mut lines = (1..).zip(text.lines());
    if lines.next().is_none_or(|(_, first)| first != FIRST) {
        return Err(ParseError {
            line: 1,
            why: format!("a recorded machine begins with '{FIRST}'"),
        });
    }
    let mut entries = Vec::<Entry<'_>>::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        match (text.strip_prefix('\t'), entries.last_mut()) {
            (Some(content), Some(entry)) => entry.content.push(content),
            (Some(_), None) => {
                return Err(ParseError {
                    line,
                    why: "content before the first entry".into(),
                });
            }
            (None, _) => {
                let (kind, path) = text.split_once(' ').unwrap_or((text, ""));
                entries.push(Entry {
                    line,
                    kind,
                    path,
                    content: Vec::new(),
                });
            }
        }
    }
    Ok(entries)
}

/// Adds one entry; the error is what is wrong with it.
fn add(recording: &mut Recording, entry: &Entry<'_>) -> Result<(), String> {
    let path = entry.path;
    if path.split('/').any(|part| ["", ".", ".."].contains(&part))
        || path.contains(char::is_control)
    {
        return Err(format!(
            "'{}' is not a path below the machine's root",
            shown(path)
        ));
    }
    let node = match (entry.kind, entry.content.as_slice()) {
        ("folder", []) => Node::Folder,
        ("link", [target]) if !target.contains(char::is_control) => {
            Node::Link((*target).to_owned())
        }
        ("text", lines) => Node::File(
            lines
                .iter()
                .flat_map(|line| [line, "\n"])
                .collect::<String>()
                .into(),
        ),
        ("bytes", lines) => Node::File(bytes(lines)?),
        (kind, lines) => {
            let kind = shown(kind);
            return Err(format!(
                "'{kind}' with {} lines is not a valid entry; allowed: folder, link, text, bytes",
                lines.len()
            ));
        }
    };
    let above = path
        .match_indices('/')
        .filter_map(|(end, _)| path.get(..end));
    let is_other = |above: &&str| {
        recording
            .0
            .get(*above)
            .is_some_and(|node| *node != Node::Folder)
    };
    if let Some(other) = above.into_iter().find(is_other) {
        return Err(format!(
            "'{}' is below '{}', which is not a folder",
            shown(path),
            shown(other)
        ));
    }
    if node != Node::Folder && recording.has_children(path) {
        return Err(format!(
            "'{}' has entries below it, so it must be a folder",
            shown(path)
        ));
    }
    match recording.0.insert(path.to_owned(), node) {
        None => Ok(()),
        Some(_) => Err(format!("'{}' appears twice", shown(path))),
    }
}

/// Lines of hexadecimal digits, and `zeros N`.
fn bytes(lines: &[&str]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for line in lines {
        match line.strip_prefix("zeros ") {
            Some(count) => {
                let count = count.parse().ok().filter(|count: &usize| *count <= ZEROS);
                let count =
                    count.ok_or_else(|| format!("'{}': at most {ZEROS} at once", shown(line)))?;
                bytes.resize(bytes.len() + count, 0);
            }
            None => {
                bytes.extend(
                    hexadecimal(line)
                        .ok_or_else(|| format!("'{}' is not hexadecimal", shown(line)))?,
                );
            }
        }
    }
    Ok(bytes)
}

fn hexadecimal(line: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = line
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST}")?;
        for (path, node) in &self.0 {
            match node {
                Node::Folder if self.has_children(path) => {}
                Node::Folder => writeln!(f, "folder {path}")?,
                Node::Link(target) => write!(f, "link {path}\n\t{target}\n")?,
                Node::File(content) => match lines(content) {
                    Some(lines) => {
                        writeln!(f, "text {path}")?;
                        lines.lines().try_for_each(|line| writeln!(f, "\t{line}"))?;
                    }
                    None => {
                        writeln!(f, "bytes {path}")?;
                        hexdump(f, content)?;
                    }
                },
            }
        }
        Ok(())
    }
}

impl Recording {
    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.0
            .range(below.clone()..)
            .next()
            .is_some_and(|(path, _)| path.starts_with(&below))
    }
}

/// The content as whole lines of printable ASCII.
fn lines(content: &[u8]) -> Option<&str> {
    let whole = content.is_empty() || content.ends_with(b"\n");
    let plain = content
        .iter()
        .all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~'));
    std::str::from_utf8(content).ok().filter(|_| whole && plain)
}

fn hexdump(f: &mut fmt::Formatter<'_>, content: &[u8]) -> fmt::Result {
    let mut zeros = 0;
    for line in content.chunks(LINE) {
        if line.iter().all(|byte| *byte == 0) && zeros + line.len() <= ZEROS {
            zeros += line.len();
            continue;
        }
        flush(f, &mut zeros)?;
        f.write_str("\t")?;
        line.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("\n")?;
    }
    flush(f, &mut zeros)
}

fn flush(f: &mut fmt::Formatter<'_>, zeros: &mut usize) -> fmt::Result {
    match std::mem::take(zeros) {
        0 => Ok(()),
        zeros => writeln!(f, "\tzeros {zeros}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        Recording::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let text = "firstlight machine 1\n\
            bytes sys/a/config\n\tde10\n\tzeros 4094\n\
            folder sys/class/iommu\n\
            link sys/b\n\t../a\n\
            text proc/cmdline\n\tquiet iommu=pt\n\
            text proc/empty\n";
        let recording = Recording::parse(text).unwrap();
        assert_eq!(Recording::parse(&recording.to_string()).unwrap(), recording);
        assert_eq!(recording.0.len(), 5);
        let Some(Node::File(config)) = recording.0.get("sys/a/config") else {
            panic!("no config")
        };
        assert_eq!((config.len(), &config[..3]), (4096, &[0xde, 0x10, 0][..]));
        assert_eq!(
            recording.0.get("proc/cmdline"),
            Some(&Node::File(b"quiet iommu=pt\n".to_vec()))
        );
    }

    #[test]
    fn what_breaks_the_format_is_named_with_its_line() {
        let first = "firstlight machine 1\n";
        assert_eq!(
            refused("#!/bin/sh\n"),
            "line 1: a recorded machine begins with 'firstlight machine 1'"
        );
        for (text, why) in [
            ("\tx\n", "line 2: content before the first entry"),
            (
                "text ../etc/passwd\n",
                "line 2: '../etc/passwd' is not a path below the machine's root",
            ),
            (
                "text /etc/passwd\n",
                "line 2: '/etc/passwd' is not a path below the machine's root",
            ),
            (
                "mode a\n\t644\n",
                "line 2: 'mode' with 1 lines is not a valid entry; allowed: folder, link, text, bytes",
            ),
            (
                "link a\n\t/etc\ntext a/passwd\n",
                "line 4: 'a/passwd' is below 'a', which is not a folder",
            ),
            (
                "text a/passwd\nlink a\n\t/etc\n",
                "line 3: 'a' has entries below it, so it must be a folder",
            ),
            ("text a\ntext a\n", "line 3: 'a' appears twice"),
            (
                "bytes a\n\tzeros 4097\n",
                "line 2: 'zeros 4097': at most 4096 at once",
            ),
            ("bytes a\n\t0x\n", "line 2: '0x' is not hexadecimal"),
            ("bytes a\n\t012\n", "line 2: '012' is not hexadecimal"),
        ] {
            assert_eq!(refused(&format!("{first}{text}")), why);
        }
    }

    proptest! {
        #[test]
        fn any_content_survives(parts in prop::collection::vec((prop_oneof![0..4_usize, 0..5000_usize], prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let content = parts.into_iter().flat_map(|(zeros, more)| [vec![0; zeros], more].concat()).collect();
            let recording = Recording([("a/b".to_owned(), Node::File(content))].into());
            prop_assert_eq!(Recording::parse(&recording.to_string()).unwrap(), recording);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,200}|firstlight machine 1\n(text|link|bytes|folder) [a-c/.]{0,6}\n(\t[0-9a-z ]{0,12}\n){0,3}") {
            let _ = Recording::parse(&text);
        }
    }
}
