//! A second witness for what the validator says about ACS: the raw configuration space that the
//! guest sent back, read here without any of the validator's code.

/// Saves every port's configuration space as /run/kept/config.BDF.
pub const KEEP: &str = "
for device in /sys/bus/pci/devices/*; do
\tcase $(cat $device/class) in
\t0x0604*) cat $device/config > /run/kept/config.${device##*/} ;;
\tesac
done";

/// ACS Control, where the space has the capability (id 0x000d, control at +6).
#[must_use]
pub fn acs_control(space: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_le_bytes([*space.get(at)?, *space.get(at + 1)?]));
    let mut at = 0x100;
    // There is room for no more than (4096 - 256) / 8 capabilities.
    for _ in 0..480 {
        let (id, next) = (word(at)?, word(at + 2)? >> 4);
        if id == 0x000d {
            return word(at + 6);
        }
        at = usize::from(next);
        if at < 0x100 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::acs_control;

    #[test]
    fn the_chain_is_followed_to_acs() {
        let mut space = vec![0; 4096];
        space[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x81, 0x14]);
        space[0x148..0x150].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00]);
        assert_eq!(acs_control(&space), Some(0x1d));
        assert_eq!(acs_control(&space[..256]), None);
    }
}
