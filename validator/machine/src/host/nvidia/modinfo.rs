//! The fields that `modinfo` shows, read from a module's file: section `.modinfo` of a 64-bit little-endian
//! ELF file, as on x86-64. No number in the file is trusted.

/// All fields, as `name=value`, in the file's order; `None` if it is not such a file or has no such section.
#[must_use]
pub fn modinfo(file: &[u8]) -> Option<Vec<(String, String)>> {
    // ELF64: e_shoff at 0x28, e_shentsize at 0x3a, e_shnum at 0x3c, e_shstrndx at 0x3e.
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = SectionTable { file, at: long(file, 0x28)?, size: short(file, 0x3a)?, count: short(file, 0x3c)? };
    let names = table.content(short(file, 0x3e)?)?;
    let wanted = (0..table.count).find(|n| table.name(*n, names) == Some(b".modinfo"))?;
    let fields = table.content(wanted)?.split(|b| *b == 0).filter(|f| !f.is_empty());
    Some(fields.filter_map(field).collect())
}

/// The value of the first field of that name.
#[must_use]
pub fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

fn field(bytes: &[u8]) -> Option<(String, String)> {
    let (name, value) = std::str::from_utf8(bytes).ok()?.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// The section table.
struct SectionTable<'a> {
    file: &'a [u8],
    at: usize,
    size: usize,
    count: usize,
}

impl<'a> SectionTable<'a> {
    /// sh_name at 0, sh_offset at 0x18, sh_size at 0x20.
    fn header(&self, n: usize) -> Option<&'a [u8]> {
        let from = self.at.checked_add(n.checked_mul(self.size)?)?;
        self.file.get(from..from.checked_add(self.size)?)
    }

    fn content(&self, n: usize) -> Option<&'a [u8]> {
        let header = self.header(n)?;
        let (from, length) = (long(header, 0x18)?, long(header, 0x20)?);
        self.file.get(from..from.checked_add(length)?)
    }

    fn name(&self, n: usize, names: &'a [u8]) -> Option<&'a [u8]> {
        let at = u32::from_le_bytes(self.header(n)?.get(..4)?.try_into().ok()?);
        names.get(usize::try_from(at).ok()?..)?.split(|b| *b == 0).next()
    }
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An object file with two sections: the fields and the names.
    pub(crate) fn object(fields: &str) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut headers = vec![0; 64];
        for (name, content) in [(1_u32, fields.as_bytes()), (10, names)] {
            let mut header = vec![0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&file.len().to_le_bytes());
            header[0x20..0x28].copy_from_slice(&content.len().to_le_bytes());
            headers.extend(header);
            file.extend(content);
        }
        let at = file.len().to_le_bytes();
        file[0x28..0x30].copy_from_slice(&at);
        file[0x3a] = 64;
        file[0x3c] = 3;
        file[0x3e] = 2;
        file.extend(headers);
        file
    }

    const FIELDS: &str = "version=555.58.02\0vermagic=6.12.107 SMP \0firstlight.patch=1\0odd\0parm=a=b\0";

    #[test]
    fn fields_are_read_by_name() {
        let fields = modinfo(&object(FIELDS)).unwrap();
        assert_eq!(value(&fields, "version"), Some("555.58.02"));
        assert_eq!(value(&fields, "firstlight.patch"), Some("1"));
        assert_eq!((value(&fields, "parm"), value(&fields, "odd"), fields.len()), (Some("a=b"), None, 4));
    }

    #[test]
    fn other_and_damaged_files_have_no_fields() {
        let good = object(FIELDS);
        for cut in [0, 5, 0x30, 0x40, good.len() - 1] {
            assert_eq!(modinfo(&good[..cut]), None, "{cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] = 0xff;
            let _ = modinfo(&bad);
        }
        assert_eq!(modinfo(b"\x28\xb5\x2f\xfd compressed"), None);
    }
}
