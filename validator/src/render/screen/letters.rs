//! Letters that can be read across a room, made of half blocks, which every console's font has.

use font8x8::legacy::BASIC_LEGACY;

/// Dots of a letter in each direction.
const DOTS: usize = 8;

/// The word as rows of blocks, as large as `columns` and `rows` allow. A column is one dot wide and a row two dots high,
/// so that dots are square. The word itself where not even the smallest letters fit.
pub(super) fn letters(word: &str, columns: u16, rows: u16) -> Vec<String> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let count = word.chars().count().max(1);
    // The last column of each letter is empty.
    let size = (columns / (count * DOTS)).min(rows * 2 / DOTS);
    if size == 0 {
        return vec![word.to_owned()];
    }
    let dot = |x: usize, y: usize| {
        let (x, y) = (x / size, y / size);
        let letter = word.chars().nth(x / DOTS).and_then(|c| BASIC_LEGACY.get(c as usize));
        // The lowest bit is the leftmost dot.
        letter.and_then(|rows| rows.get(y)).is_some_and(|row| row >> (x % DOTS) & 1 == 1)
    };
    let row = |y: usize| (0..count * DOTS * size).map(|x| half(dot(x, 2 * y), dot(x, 2 * y + 1))).collect();
    (0..(DOTS * size).div_ceil(2)).map(row).collect()
}

/// The character for two dots, one above the other.
pub(super) const fn half(upper: bool, lower: bool) -> char {
    match (upper, lower) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_as_large_as_the_screen_allows() {
        let small = letters("PASS", 80, 4);
        assert_eq!((small.len(), small.iter().all(|row| row.chars().count() == 32)), (4, true));
        // The first row of P: five dots over two.
        assert!(small.first().is_some_and(|row| row.starts_with("▀██▀▀█▄ ")), "{small:?}");
        let large = letters("PASS", 240, 40);
        assert_eq!((large.len(), large.first().map(|row| row.chars().count())), (28, Some(224)));
        assert_eq!(letters("DEGRADED", 80, 20).len(), 4);
        assert_eq!(letters("DEGRADED", 60, 20), ["DEGRADED"]);
        assert_eq!(letters("PASS", 80, 0), ["PASS"]);
    }
}
