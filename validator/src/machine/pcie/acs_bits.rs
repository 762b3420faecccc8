//! The bits of the ACS Control register (include/uapi/linux/pci_regs.h).

/// Control bits from bit 0 up.
const NAMES: [&str; 7] = ["SV", "TB", "RR", "CR", "UF", "EC", "DT"];
/// Request redirect, completion redirect, egress control: what `pci=disable_acs_redir=` clears.
pub const REDIRECT: u16 = 0x04 | 0x08 | EGRESS;
/// Egress control.
pub const EGRESS: u16 = 0x20;

/// The names of the bits that are set.
#[must_use]
pub fn names(ctrl: u16) -> Vec<String> {
    let set = |n: &usize| ctrl >> n & 1 == 1;
    (0..).zip(NAMES).filter(|(n, _)| set(n)).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_standard_enable_is_named_bit_by_bit() {
        assert_eq!(names(0x001d), ["SV", "RR", "CR", "UF"]);
        assert_eq!(names(0x007f), NAMES);
        assert_eq!(names(0x0000), Vec::<String>::new());
    }
}
