//! The vendor-specific capability by which a hypervisor tells its guest that GPUs may reach each other ("P2P", QEMU's
//! option `x-nv-gpudirect-clique`, hw/vfio/pci-quirks.c). No GPU has it in hardware, so it also shows a virtual machine.
//! NVIDIA's driver reads it (NV_PCI_VIRTUAL_P2P_APPROVAL in its published headers) and lets GPUs of one clique reach
//! each other, whatever the board and without registry keys.

use super::registers::Registers;
use super::walk::Capability;

/// Vendor-specific capability.
const ID: u16 = 0x09;
/// Byte 2 is the length of the capability.
const LENGTH_AT: u16 = 2;
const LENGTH: u8 = 8;
/// Bytes 3 to 5 are the signature.
const SIGNATURE_AT: u16 = 3;
const SIGNATURE: [u8; 3] = *b"P2P";
/// Byte 6: bits 2:0 are the version, of which only 0 is defined; bits 6:3 are the clique.
const CLIQUE_AT: u16 = 6;

/// The clique, 0 to 15; `None` if no capability of the chain approves peers.
pub(super) fn clique(space: Registers, chain: &[Capability]) -> Option<u8> {
    let vendor = chain.iter().filter(|capability| capability.id == ID);
    vendor
        .filter_map(|capability| parse(space, capability.offset))
        .next()
}

fn parse(space: Registers, at: u16) -> Option<u8> {
    let byte = |offset: u16| space.u8(at.checked_add(offset)?);
    let mut signature = (SIGNATURE_AT..).zip(SIGNATURE);
    if byte(LENGTH_AT)? != LENGTH || !signature.all(|(offset, letter)| byte(offset) == Some(letter))
    {
        return None;
    }
    let approval = byte(CLIQUE_AT)?;
    (approval & 0b111 == 0).then_some((approval >> 3) & 0b1111)
}

#[cfg(test)]
mod tests {
    use super::super::parse as space;

    /// A GPU as QEMU shows it to a guest: PCI Express at 40h, then the approval at `at`.
    fn guest(at: u8, approval: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let mut put = |at: usize, new: &[u8]| bytes[at..at + new.len()].copy_from_slice(new);
        put(0x00, &[0xde, 0x10, 0x04, 0x22, 0x06, 0x00, 0x10]);
        put(0x34, &[0x40]);
        put(0x40, &[0x10, at, 0x02]);
        put(usize::from(at), approval);
        bytes
    }

    fn clique(approval: &[u8]) -> Option<u8> {
        space(&guest(0xd4, approval)).clique
    }

    #[test]
    fn the_clique_is_read_at_both_offsets_that_qemu_uses() {
        for (byte, want) in [(0x00, 0), (0x08, 1), (0x78, 15)] {
            let approval = [0x09, 0x00, 0x08, b'P', b'2', b'P', byte, 0x00];
            assert_eq!(clique(&approval), Some(want));
            assert_eq!(space(&guest(0xc8, &approval)).clique, Some(want));
        }
        assert_eq!(
            clique(&[0x09, 0x00, 0x08, b'P', b'2', b'P', 0x90, 0x00]),
            Some(2),
            "the reserved bit"
        );
    }

    #[test]
    fn another_vendor_specific_capability_is_no_approval() {
        let good = [0x09, 0x00, 0x08, b'P', b'2', b'P', 0x10, 0x00];
        for (at, byte) in [
            (0, 0x05),
            (2, 0x14),
            (3, b'X'),
            (4, b'X'),
            (5, 0),
            (6, 0x11),
        ] {
            let mut other = good;
            other[at] = byte;
            assert_eq!(clique(&other), None, "byte {at} is {byte:#x}");
        }
        assert_eq!(clique(&[]), None);
    }

    #[test]
    fn it_is_found_behind_another_vendor_specific_capability() {
        let mut bytes = guest(0xc8, &[0x09, 0xd4, 0x08, 0, 0, 0, 0, 0]);
        bytes[0xd4..0xdc].copy_from_slice(&[0x09, 0x00, 0x08, b'P', b'2', b'P', 0x18, 0x00]);
        assert_eq!(space(&bytes).clique, Some(3));
    }

    #[test]
    fn an_approval_that_is_cut_off_is_none() {
        let mut bytes = guest(0xf8, &[0x09, 0x00, 0x08, b'P', b'2', b'P', 0x08, 0x00]);
        bytes.truncate(0xfe);
        assert_eq!(space(&bytes).clique, None);
        assert_eq!(space(&[0xff; 256]).clique, None);
    }
}
