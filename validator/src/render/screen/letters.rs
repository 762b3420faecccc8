//! Letters that can be read across a room, and the QR code, made of colored cells, because the font of a kernel console may
//! lack block characters.

use font8x8::legacy::BASIC_LEGACY;
use qrcode::{Color, EcLevel, QrCode};

/// Dots of a letter in each direction.
const DOTS: usize = 8;

/// The word as rows of cells that are on or off, as large as `columns` and `rows` allow. A cell is twice as high as wide, so
/// a dot is two cells wide if that fits. `None` if not even the smallest letters fit.
pub(super) fn letters(word: &str, columns: u16, rows: u16) -> Option<Vec<Vec<bool>>> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let dots = word.chars().count().max(1) * DOTS;
    let square = (columns / (2 * dots)).min(rows / DOTS);
    let narrow = dots <= columns && DOTS <= rows;
    let (wide, high) = match square {
        0 if narrow => (1, 1),
        0 => return None,
        size => (2 * size, size),
    };
    let is_on = |x: usize, y: usize| {
        let letter = word
            .chars()
            .nth(x / DOTS)
            .and_then(|c| BASIC_LEGACY.get(c as usize));
        // The lowest bit is the leftmost dot.
        letter
            .and_then(|rows| rows.get(y))
            .is_some_and(|row| row >> (x % DOTS) & 1 == 1)
    };
    let row = |y: usize| {
        (0..dots * wide)
            .map(|x| is_on(x / wide, y / high))
            .collect()
    };
    Some((0..DOTS * high).map(row).collect())
}

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
    Some(
        (0..all)
            .map(|y| (0..all).map(|x| is_light(x, y)).collect())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(word: &str, columns: u16, rows: u16) -> Option<(usize, usize)> {
        letters(word, columns, rows).map(|cells| (cells[0].len(), cells.len()))
    }

    #[test]
    fn a_verdict_is_as_large_as_the_screen_allows() {
        assert_eq!(size("PASS", 80, 10), Some((64, 8)));
        assert_eq!(size("PASS", 240, 40), Some((192, 24)));
        assert_eq!(size("DEGRADED", 80, 10), Some((64, 8)));
        assert_eq!(
            (size("DEGRADED", 60, 20), size("PASS", 80, 7)),
            (None, None)
        );
        // The first row of P: six dots.
        let first: Vec<bool> = letters("PASS", 32, 8)
            .unwrap()
            .remove(0)
            .into_iter()
            .take(8)
            .collect();
        assert_eq!(first, [true, true, true, true, true, true, false, false]);
    }

    #[test]
    fn the_code_has_its_corner_and_light_modules_around_it() {
        let code = code(&format!(
            "FIRSTLIGHT DEGRADED node7 {}",
            "0123456789abcdef".repeat(2)
        ))
        .unwrap();
        assert!(
            code.len() <= 37 && code.iter().all(|row| row.len() == code.len()),
            "{}",
            code.len()
        );
        assert!(code.iter().take(2).flatten().all(|light| *light));
        // A corner: seven dark modules, below them a ring with five light ones in it.
        let row = |y: usize| {
            code[y][2..9]
                .iter()
                .map(|light| if *light { '.' } else { '#' })
                .collect::<String>()
        };
        assert_eq!(
            (row(2), row(3), row(4)),
            ("#######".into(), "#.....#".into(), "#.###.#".into())
        );
        assert_eq!(super::code(&"x".repeat(4000)), None);
    }
}
