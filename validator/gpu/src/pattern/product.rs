//! The sums that the matrix products of `kernels/stress.cu` must give, calculated on the host. All operands are
//! small integers, so every sound GPU gives the same numbers, whatever its model and the type it calculates in.

use super::word;

/// Rows of A and columns of B.
const SIDE: usize = 128;
/// Columns of A and rows of B.
const DEPTH: usize = 64;
/// Rows that are moved together.
const TILE: usize = 16;
/// How often the rows of A are moved by one tile in a batch.
const TURNS: usize = 16;

/// Products of two numbers in one batch.
pub const PRODUCTS: u64 = (SIDE * SIDE * DEPTH * TURNS) as u64;

/// The sum of `batches` batches whose seeds are `seed`, `seed + 1`, and so on.
#[must_use]
pub fn product_sum(seed: u64, batches: u32) -> u64 {
    let seeds = (0..u64::from(batches)).map(|n| seed.wrapping_add(n));
    seeds.map(batch).fold(0, u64::wrapping_add)
}

/// During the turns of a batch every tile of A's rows contributes to every tile of C's rows, `TURNS / (SIDE / TILE)`
/// times. So all tiles of C are equal: that many times the product of the sum of A's tiles with B.
fn batch(seed: u64) -> u64 {
    let words = SIDE * DEPTH / 4;
    let operands = |from: usize| (from..from + words).flat_map(|n| four(word(seed, n as u64)));
    let mut rows = [[0_i32; DEPTH]; TILE];
    for (n, a) in operands(0).enumerate() {
        if let Some(sum) = rows
            .get_mut(n / DEPTH % TILE)
            .and_then(|row| row.get_mut(n % DEPTH))
        {
            *sum += a;
        }
    }
    let b: Vec<i32> = operands(words).collect();
    let times = i32::try_from(TURNS * TILE / SIDE).unwrap_or_default();
    let mut sum = 0_u64;
    for column in b.chunks_exact(DEPTH) {
        for row in &rows {
            let c: i32 = row.iter().zip(column).map(|(a, b)| a * b).sum();
            sum = sum.wrapping_add(u64::from(mixed(c * times)));
        }
    }
    sum.wrapping_mul((SIDE / TILE) as u64)
}

/// The four numbers of a word, -127 to 127.
fn four(word: u32) -> [i32; 4] {
    word.to_le_bytes().map(|byte| match byte.cast_signed() {
        i8::MIN => 0,
        number => i32::from(number),
    })
}

/// What one element adds to the sum.
const fn mixed(value: i32) -> u32 {
    let h = value.cast_unsigned().wrapping_mul(super::STEP);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same turn by turn and element by element, as the kernel's comment describes it.
    fn slowly(seed: u64) -> u64 {
        let words = 2 * SIDE * DEPTH / 4;
        let operands: Vec<_> = (0..words)
            .flat_map(|n| four(word(seed, n as u64)))
            .collect();
        let at = |matrix: usize, line: usize, k: usize| {
            operands[matrix * SIDE * DEPTH + line * DEPTH + k]
        };
        let mut sum = 0_u64;
        for i in 0..SIDE {
            for j in 0..SIDE {
                let turned = |turn: usize| (i + turn * TILE) % SIDE;
                let c: i32 = (0..TURNS)
                    .flat_map(|turn| (0..DEPTH).map(move |k| (turn, k)))
                    .map(|(turn, k)| at(0, turned(turn), k) * at(1, j, k))
                    .sum();
                assert!(c.abs() < 1 << 24, "a float holds it exactly");
                sum += u64::from(mixed(c));
            }
        }
        sum
    }

    #[test]
    fn the_short_way_gives_what_all_turns_give() {
        let first = slowly(7);
        assert_eq!(product_sum(7, 1), first);
        assert_eq!(product_sum(7, 2), first.wrapping_add(slowly(8)));
        assert_eq!(product_sum(9, 0), 0);
    }

    #[test]
    fn one_wrong_element_always_shows() {
        assert_ne!(mixed(5), mixed(6));
        assert_eq!((mixed(0), four(0x80ff_7f01)), (0, [1, 127, -1, 0]));
    }
}
