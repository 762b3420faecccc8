//! Sizes in bytes as text with a unit.

/// A size in the largest binary unit of which it is a multiple: `256 MiB`, `1025 B`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes;
    let mut units = units.iter();
    let mut unit = units.next();
    while value >= 1024 && value.is_multiple_of(1024) {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024, Some(next));
    }
    format!("{value} {}", unit.unwrap_or(&"B"))
}

/// Bytes in GiB, to show with some decimals.
#[expect(clippy::cast_precision_loss, reason = "shown with a few decimals")]
pub(crate) fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_unit_of_which_it_is_a_multiple() {
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!([size(1 << 30), size(32 << 30)], ["1 GiB", "32 GiB"]);
        assert_eq!(size(1 << 63), "8 EiB");
        let whole = [size(0), size(512), size(1000), size(1025)];
        assert_eq!(whole, ["0 B", "512 B", "1000 B", "1025 B"]);
    }
}
