//! The fields that `modinfo` shows, read from a module's file. Nothing in the file is trusted.

use contract::elf::section_of;

/// All fields, as `name=value`, in the file's order; `None` if it is not a 64-bit little-endian ELF file with a section
/// `.modinfo`.
#[must_use]
pub fn fields(file: &[u8]) -> Option<Vec<(String, String)>> {
    let section = section_of(file, b".modinfo").ok()?;
    Some(section.split(|byte| *byte == 0).filter_map(field).collect())
}

/// The value of the first field of that name.
#[must_use]
pub fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value.as_str())
}

fn field(bytes: &[u8]) -> Option<(String, String)> {
    let (name, value) = std::str::from_utf8(bytes).ok()?.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::elf::sample;

    #[test]
    fn fields_are_read_by_name() {
        let texts =
            "version=555.58.02\0vermagic=6.12.107 SMP \0firstlight.patch=1\0odd\0parm=a=b\0";
        let fields = fields(&sample(".modinfo", texts.as_bytes())).unwrap();
        assert_eq!(value(&fields, "version"), Some("555.58.02"));
        assert_eq!(value(&fields, "firstlight.patch"), Some("1"));
        assert_eq!(
            (value(&fields, "parm"), value(&fields, "odd"), fields.len()),
            (Some("a=b"), None, 4)
        );
    }

    #[test]
    fn other_files_have_no_fields() {
        assert_eq!(fields(b"\x28\xb5\x2f\xfd compressed"), None);
        assert_eq!(fields(&sample(".text", b"version=1\0")), None);
    }
}
