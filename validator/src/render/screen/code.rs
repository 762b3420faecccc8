//! A QR code of the verdict, for a telephone in front of a machine without a network.

use super::letters::half;
use qrcode::{Color, EcLevel, QrCode};

/// Light dots around the code. The standard (ISO/IEC 18004) asks for four; readers accept two, and with them the code
/// fits 25 rows.
const QUIET: usize = 2;

/// The code as rows of half blocks, where a block is light; with light dots around it. `None` for a text that is too long
/// for a code.
#[must_use]
pub fn code(text: &str) -> Option<Vec<String>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, dots) = (code.width(), code.to_colors());
    let all = width + 2 * QUIET;
    let is_light = |x: usize, y: usize| {
        let inside = |n: usize| n.checked_sub(QUIET).filter(|n| *n < width);
        let (Some(x), Some(y)) = (inside(x), inside(y)) else { return y < all };
        dots.get(y * width + x) == Some(&Color::Light)
    };
    let row = |y: usize| (0..all).map(|x| half(is_light(x, 2 * y), is_light(x, 2 * y + 1))).collect();
    Some((0..all.div_ceil(2)).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_has_its_three_corners_and_fits_a_small_screen() {
        let text = format!("FIRSTLIGHT DEGRADED node7 {}", "0123456789abcdef".repeat(2));
        let rows = code(&text).unwrap();
        assert!(rows.len() <= 25, "{}", rows.len());
        let width = rows.first().unwrap().chars().count();
        assert!(rows.iter().all(|row| row.chars().count() == width));
        // Two light dots, then a corner: seven dark ones over a ring with five light ones in it.
        let second: String = rows.get(1).unwrap().chars().take(9).collect();
        assert_eq!(second, "██ ▄▄▄▄▄ ");
        assert_eq!(code(&"x".repeat(4000)), None);
    }
}
