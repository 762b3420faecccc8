//! A recorded machine's text, as `record.sh` writes it, becomes a tree. The README of this crate describes the format.

use super::tree::{Node, Tree};

/// The first line of every recording.
const FIRST: &str = "firstlight machine 1";
/// The most that one line may stand for: `zeros 4096`.
const ZEROS: usize = 4096;

/// A line that breaks the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Malformed {
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

impl Tree {
    /// The tree that a recording's text stands for.
    ///
    /// # Errors
    /// The first line that breaks the format.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut tree = Self::default();
        for entry in entries(text)? {
            let line = entry.line;
            add(&mut tree, &entry).map_err(|why| Malformed { line, why })?;
        }
        Ok(tree)
    }
}

fn entries(text: &str) -> Result<Vec<Entry<'_>>, Malformed> {
    let mut lines = (1..).zip(text.lines());
    if lines.next().is_none_or(|(_, first)| first != FIRST) {
        return Err(Malformed { line: 1, why: format!("a recording begins with `{FIRST}`") });
    }
    let mut entries = Vec::<Entry>::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        match (text.strip_prefix('\t'), entries.last_mut()) {
            (Some(content), Some(entry)) => entry.content.push(content),
            (Some(_), None) => return Err(Malformed { line, why: "content before the first entry".into() }),
            (None, _) => {
                let (kind, path) = text.split_once(' ').unwrap_or((text, ""));
                entries.push(Entry { line, kind, path, content: Vec::new() });
            }
        }
    }
    Ok(entries)
}

/// Adds one entry, or says what is wrong with it.
fn add(tree: &mut Tree, entry: &Entry) -> Result<(), String> {
    let path = entry.path;
    if path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return Err(format!("`{path}` is no path from the top of the machine"));
    }
    if entry.kind == "mode" {
        return restrict(tree, entry);
    }
    let node = match (entry.kind, &entry.content[..]) {
        ("folder", []) => Node::Folder,
        ("link", [target]) => Node::Link((*target).to_owned()),
        ("text", lines) => {
            Node::File(lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into(), None)
        }
        ("bytes", lines) => Node::File(bytes(lines)?, None),
        (kind, lines) => return Err(format!("`{kind}` with {} lines is no entry", lines.len())),
    };
    let above = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
    if let Some(other) =
        above.into_iter().find(|above| tree.0.get(*above).is_some_and(|n| *n != Node::Folder))
    {
        return Err(format!("`{path}` lies below `{other}`, which is no folder"));
    }
    match tree.0.insert(path.to_owned(), node) {
        None => Ok(()),
        Some(_) => Err(format!("`{path}` comes twice")),
    }
}

/// `mode PATH` gives a file that came before other permissions.
fn restrict(tree: &mut Tree, entry: &Entry) -> Result<(), String> {
    let mode = match entry.content[..] {
        [mode] => u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777),
        _ => None,
    };
    match (tree.0.get_mut(entry.path), mode) {
        (Some(Node::File(_, of)), Some(_)) => *of = mode,
        (_, None) => return Err("a mode is one line with an octal number".into()),
        _ => return Err(format!("no file `{}` comes before its mode", entry.path)),
    }
    Ok(())
}

/// Lines of hexadecimal digits, and `zeros N`.
fn bytes(lines: &[&str]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for line in lines {
        match line.strip_prefix("zeros ") {
            Some(count) => {
                let count = count.parse().ok().filter(|count: &usize| *count <= ZEROS);
                let count = count.ok_or_else(|| format!("`{line}`: at most {ZEROS} at once"))?;
                bytes.resize(bytes.len() + count, 0);
            }
            None => bytes.extend(hexadecimal(line).ok_or_else(|| format!("`{line}` is not hexadecimal"))?),
        }
    }
    Ok(bytes)
}

fn hexadecimal(line: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = line.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}
