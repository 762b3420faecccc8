//! The vital product data (VPD) of a function: whether it leads to NVSwitches. Those of NVLink 5 (B200, B300) are not on the bus;
//! functions of a ConnectX-7 lead to them, which look like InfiniBand cards and are none (NVIDIA's Fabric Manager User Guide,
//! "NVIDIA HGX B200/B300 GPU Baseboard": the field SMDL has the value SW_MNG).

use crate::root::Root;

/// What the VPD of such a function contains.
pub const MANAGEMENT: &[u8] = b"SW_MNG";
/// "Network controller, InfiniBand".
const INFINIBAND: &str = "0x0207";

/// Whether the function in this folder leads to NVSwitches. One whose class or VPD cannot be read does not. Reading a VPD takes
/// milliseconds, so that of other classes is not read.
#[must_use]
pub fn leads_to_nvswitches(root: &Root, function: &str) -> bool {
    if !root
        .text(format!("{function}/class"))
        .is_ok_and(|class| class.starts_with(INFINIBAND))
    {
        return false;
    }
    let mut vpd = Vec::new();
    // The kernel reports an error where a VPD ends too early; what was read until then counts.
    let _what_was_read = root.stream(format!("{function}/vpd"), |piece| {
        vpd.extend_from_slice(piece);
    });
    vpd.windows(MANAGEMENT.len()).any(|part| part == MANAGEMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_function_for_management_tells_it_from_a_card() {
        let of =
            |class: &str, vpd: &str| Root::written(&[("sys/f/class", class), ("sys/f/vpd", vpd)]);
        let managed = "\u{82}name VA MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:SMDL=SW_MNG:MODL=C7010Z";
        let (_dir, root) = of("0x020700\n", managed);
        assert!(leads_to_nvswitches(&root, "sys/f"));
        assert!(!leads_to_nvswitches(&root, "sys/g"));
        for (class, vpd) in [
            ("0x020700\n", "\u{82}name VA MLX:CSKU=V2:MODL=C7010Z"),
            ("0x020000\n", managed),
        ] {
            let (_dir, card) = of(class, vpd);
            assert!(!leads_to_nvswitches(&card, "sys/f"), "{class}");
        }
    }
}
