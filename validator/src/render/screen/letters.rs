//! Letters that can be read across a room, made of colored cells: a console of the kernel may have no block characters.

use font8x8::legacy::BASIC_LEGACY;

/// Dots of a letter in each direction.
const DOTS: usize = 8;

/// The word as rows of cells that are on or off, as large as `columns` and `rows` allow. A cell is twice as high as wide, so
/// a dot is two cells wide where that fits. `None` where not even the smallest letters fit.
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
        let letter = word.chars().nth(x / DOTS).and_then(|c| BASIC_LEGACY.get(c as usize));
        // The lowest bit is the leftmost dot.
        letter.and_then(|rows| rows.get(y)).is_some_and(|row| row >> (x % DOTS) & 1 == 1)
    };
    let row = |y: usize| (0..dots * wide).map(|x| is_on(x / wide, y / high)).collect();
    Some((0..DOTS * high).map(row).collect())
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
        assert_eq!((size("DEGRADED", 60, 20), size("PASS", 80, 7)), (None, None));
        // The first row of P: six dots.
        let first: Vec<bool> = letters("PASS", 32, 8).unwrap().remove(0).into_iter().take(8).collect();
        assert_eq!(first, [true, true, true, true, true, true, false, false]);
    }
}
