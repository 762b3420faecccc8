//! Parses Ethernet addresses in the forms that people and boot loaders use.

use std::fmt;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

impl Mac {
    /// Parses `aa:bb:cc:dd:ee:ff`, the same with `-`, or twelve hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let separated = text.len() == 17;
        let mut bytes = [0; 6];
        for (n, byte) in bytes.iter_mut().enumerate() {
            let at = n * if separated { 3 } else { 2 };
            let digits = text
                .get(at..at + 2)
                .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            if separated && n > 0 && !matches!(text.get(at - 1..at), Some(":" | "-")) {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        (separated || text.len() == 12).then_some(Self(bytes))
    }

    /// The address of these bytes, as on the wire.
    #[must_use]
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// Its bytes, as on the wire.
    #[must_use]
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Parses the kernel word `BOOTIF=`: pxelinux and iPXE's `${net0/mac:hexhyp}` put the hardware type
    /// before the address, 01 for Ethernet.
    #[must_use]
    pub fn from_bootif(text: &str) -> Option<Self> {
        Self::parse(
            text.strip_prefix("01-")
                .filter(|rest| rest.len() == 17)
                .unwrap_or(text),
        )
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: Vec<_> = self.0.iter().map(|b| format!("{b:02x}")).collect();
        f.write_str(&digits.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_boot_loaders_write_them() {
        let want = Some(Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        for text in ["52:54:00:12:34:56", "52-54-00-12-34-56", "525400123456"] {
            assert_eq!(Mac::parse(text), want, "{text}");
            assert_eq!(Mac::from_bootif(text), want, "{text}");
        }
        assert_eq!(Mac::from_bootif("01-52-54-00-12-34-56"), want);
        assert_eq!(
            Mac::parse("AA:bb:CC:dd:EE:ff").unwrap().to_string(),
            "aa:bb:cc:dd:ee:ff"
        );
        for bad in [
            "",
            "eth0",
            "52:54:00:12:34",
            "52:54:00:12:34:5g",
            "52.54.00.12.34.56",
            "+1:54:00:12:34:56",
            "5254001234567",
            "01-52-54-00-12-34-56-78",
            "52:54:00:12:34:56:78",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(Mac::parse(bad), None, "{bad}");
        }
    }
}
