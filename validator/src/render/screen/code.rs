//! A QR code of the verdict, for a telephone in front of a machine without a network.

use qrcode::{Color, EcLevel, QrCode};

/// Light modules around the code. The standard (ISO/IEC 18004) asks for four; readers accept two.
const QUIET: usize = 2;

/// The code as rows of modules that are light or dark, with light ones around it. `None` for a text that is too long for a
/// code.
#[must_use]
pub fn code(text: &str) -> Option<Vec<Vec<bool>>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, modules) = (code.width(), code.to_colors());
    let inside = |n: usize| n.checked_sub(QUIET).filter(|n| *n < width);
    let is_light = |x: usize, y: usize| match (inside(x), inside(y)) {
        (Some(x), Some(y)) => modules.get(y * width + x) == Some(&Color::Light),
        _ => true,
    };
    let all = width + 2 * QUIET;
    Some((0..all).map(|y| (0..all).map(|x| is_light(x, y)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_has_its_corner_and_light_modules_around_it() {
        let code = code(&format!("FIRSTLIGHT DEGRADED node7 {}", "0123456789abcdef".repeat(2))).unwrap();
        assert!(code.len() <= 37 && code.iter().all(|row| row.len() == code.len()), "{}", code.len());
        assert!(code.iter().take(2).flatten().all(|light| *light));
        // A corner: seven dark modules, below them a ring with five light ones in it.
        let row =
            |y: usize| code[y][2..9].iter().map(|light| if *light { '.' } else { '#' }).collect::<String>();
        assert_eq!((row(2), row(3), row(4)), ("#######".into(), "#.....#".into(), "#.###.#".into()));
        assert_eq!(super::code(&"x".repeat(4000)), None);
    }
}
