//! The sections of a unified kernel image, by profile.

/// One section: its name and its content.
pub type Section<'a> = (String, &'a [u8]);

/// All sections of a PE file, in order; `None` when it is none.
#[must_use]
pub fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        Some(file.get(at..at + bytes)?.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    let header = number(0x3c, 4)?;
    if file.get(header..header + 4)? != b"PE\0\0" {
        return None;
    }
    let (count, optional) = (number(header + 6, 2)?, number(header + 20, 2)?);
    let table = header + 24 + optional;
    (0..count)
        .map(|n| {
            let at = table + n * 40;
            let name = String::from_utf8_lossy(file.get(at..at + 8)?).trim_end_matches('\0').to_owned();
            // What is in memory; in the file it is padded.
            let (bytes, start) = (number(at + 8, 4)?.min(number(at + 16, 4)?), number(at + 20, 4)?);
            Some((name, file.get(start..start + bytes)?))
        })
        .collect()
}

/// The profiles of a unified kernel image, as systemd-stub sees them: each its own sections and, where it has
/// none of a name, those that stand before the first profile.
#[must_use]
pub fn profiles<'a>(sections: &[Section<'a>]) -> Vec<Vec<Section<'a>>> {
    let mut parts = sections;
    let first = parts.iter().position(|s| s.0 == ".profile").unwrap_or(parts.len());
    let base = &parts[..first];
    parts = &parts[first..];
    let mut found = Vec::new();
    while !parts.is_empty() {
        let end = parts[1..].iter().position(|s| s.0 == ".profile").map_or(parts.len(), |at| at + 1);
        let own = &parts[..end];
        let inherited = base.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        found.push(own.iter().chain(inherited).cloned().collect());
        parts = &parts[end..];
    }
    found
}

/// The content of the section of that name.
#[must_use]
pub fn section<'a>(sections: &[Section<'a>], name: &str) -> Option<&'a [u8]> {
    sections.iter().find(|s| s.0 == name).map(|s| s.1)
}
