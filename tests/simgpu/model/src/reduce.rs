//! Reduces the contents of several ranks as extents: without computing elements if all are values of `fl_nccl_fill`,
//! element by element if they are few, and otherwise as noise, which no check accepts as correct.

use crate::content::Content;
use crate::element::{Op, Type};
use crate::extents::{Piece, bytes};
use crate::values::Values;

/// Up to this many bytes, over all ranks, elements are reduced one by one.
const FEW: u64 = 8 << 10;

/// A stretch and its content; memory that was never written is zero.
pub type Whole = (u64, Content);

/// The same pieces, split so that each is a whole number of elements.
#[must_use]
pub fn whole(pieces: &[Piece], size: u64) -> Vec<Whole> {
    let mut found = Vec::new();
    let mut odd: Vec<Piece> = Vec::new();
    for (n, content) in pieces {
        let (mut n, mut content) = (*n, content.clone().unwrap_or(Content::ZEROS));
        let pending = odd.iter().map(|(n, _)| n).sum::<u64>();
        if pending > 0 {
            let take = (size - pending % size).min(n);
            odd.push((take, Some(content.clone())));
            (n, content) = (n - take, content.skip(take));
            if pending + take == size {
                found.push((size, Content::bytes(bytes(&odd))));
                odd.clear();
            }
        }
        let rest = n % size;
        if n > rest {
            found.push((n - rest, content.clone()));
        }
        if rest > 0 {
            odd.push((rest, Some(content.skip(n - rest))));
        }
    }
    found
}

/// The reduction of all ranks' pieces, which have the same total length.
#[must_use]
pub fn reduce(ranks: &[Vec<Piece>], r#type: Type, op: Op) -> Vec<Piece> {
    if let [own] = ranks {
        return own.iter().map(|(n, content)| (*n, content.as_ref().map(|c| alone(c, r#type, op)))).collect();
    }
    let mut open: Vec<_> = ranks.iter().map(|pieces| whole(pieces, r#type.bytes()).into_iter()).collect();
    let mut now: Vec<Option<Whole>> = open.iter_mut().map(Iterator::next).collect();
    let mut found: Vec<Piece> = Vec::new();
    while let Some(n) = now.iter().map(|w| w.as_ref().map(|(n, _)| *n)).min().flatten() {
        let contents: Vec<_> = now.iter().flatten().map(|(_, content)| content.clone()).collect();
        found.push((n, Some(together(&contents, n, r#type, op))));
        for (slot, next) in now.iter_mut().zip(&mut open) {
            *slot = match slot.take() {
                Some((left, content)) if left > n => Some((left - n, content.skip(n))),
                _ => next.next(),
            };
        }
    }
    found
}

/// The result for a single rank is its own content; values of `fl_nccl_fill` become reduced values.
fn alone(content: &Content, r#type: Type, op: Op) -> Content {
    match content {
        Content::Values(values, 0) if values.r#type == r#type => {
            Values::reduced(&[*values], op).map_or_else(|| content.clone(), |done| Content::Values(done, 0))
        }
        other => other.clone(),
    }
}

/// The reduction of one stretch of `n` bytes.
fn together(contents: &[Content], n: u64, r#type: Type, op: Op) -> Content {
    let own = |c: &Content| match c {
        Content::Values(values, 0) if values.r#type == r#type => Some(*values),
        _ => None,
    };
    let values: Option<Vec<_>> = contents.iter().map(own).collect();
    if let Some(reduced) = values.and_then(|all| Values::reduced(&all, op)) {
        return Content::Values(reduced, 0);
    }
    if contents.iter().all(|c| matches!(c, Content::Byte(0))) {
        return Content::ZEROS;
    }
    let noise = contents.iter().any(Content::is_noise);
    if noise || n.saturating_mul(contents.len() as u64) > FEW {
        return Content::NOISE;
    }
    one_by_one(contents, n, r#type, op)
}

fn one_by_one(contents: &[Content], n: u64, r#type: Type, op: Op) -> Content {
    let size = usize::try_from(r#type.bytes()).unwrap_or(1);
    let real: Vec<_> = contents.iter().map(|c| bytes(&[(n, Some(c.clone()))])).collect();
    let mut out = Vec::new();
    let mut elements: Vec<_> = real.iter().map(|b| b.chunks_exact(size)).collect();
    loop {
        let all: Vec<_> = elements.iter_mut().filter_map(Iterator::next).map(number).collect();
        if all.len() < contents.len() {
            return Content::bytes(out);
        }
        out.extend(op.reduce(r#type, &all).to_le_bytes().into_iter().take(size));
    }
}

/// The bits of an element.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Of;
    use crate::values::tests::values;

    const TYPES: [Type; 5] = [Type::Int32, Type::Half, Type::Float, Type::Double, Type::Bfloat16];
    const OPS: [Op; 4] = [Op::Sum, Op::Max, Op::Min, Op::Avg];

    /// The same bytes, as real bytes without their meaning.
    fn unknown(content: &Content, n: u64) -> Content {
        Content::bytes(bytes(&[(n, Some(content.clone()))]))
    }

    #[test]
    fn what_is_said_is_what_comes_of_doing_it() {
        for kind in TYPES {
            for op in OPS {
                for ranks in [2_u32, 3, 8] {
                    let n = 40 * kind.bytes();
                    let own =
                        |r| Content::Values(Values { of: Of::Rank(r), ..values(kind, Some(op), ranks) }, 0);
                    let known: Vec<_> = (0..ranks).map(own).collect();
                    let symbolic = together(&known, n, kind, op);
                    assert!(matches!(symbolic, Content::Values(..)), "{kind:?} {op:?} {ranks}");
                    let all: Vec<_> = known.iter().map(|c| unknown(c, n)).collect();
                    let done = one_by_one(&all, n, kind, op);
                    let [symbolic, done] = [symbolic, done].map(|c| bytes(&[(n, Some(c))]));
                    assert_eq!(symbolic, done, "{kind:?} {op:?} {ranks}");
                }
            }
        }
    }

    #[test]
    fn pieces_of_any_cut_come_to_the_same() {
        let (kind, op, n) = (Type::Float, Op::Sum, 400);
        let own = |r| Content::Values(Values { of: Of::Rank(r), ..values(kind, None, 3) }, 0);
        let plain: Vec<_> = (0..3).map(|r| vec![(n, Some(own(r)))]).collect();
        let cut = |r: u32, at: u64| vec![(at, Some(own(r))), (n - at, Some(own(r).skip(at)))];
        let odd = vec![cut(0, 7), cut(1, 200), vec![(n, Some(unknown(&own(2), n)))]];
        let [plain, odd] = [plain, odd].map(|ranks| reduce(&ranks, kind, op));
        assert_eq!(plain.len(), 1);
        assert_eq!(bytes(&plain), bytes(&odd));
    }

    #[test]
    fn one_rank_keeps_what_it_has_and_its_values_are_the_reduction_of_one() {
        for op in OPS {
            let own = Values { of: Of::Rank(0), ..values(Type::Float, Some(op), 1) };
            let known = vec![(1 << 20, Some(Content::Values(own, 0)))];
            let done = reduce(std::slice::from_ref(&known), Type::Float, op);
            let reduced = Values { of: Of::Reduced { op, ranks: 1 }, ..own };
            let [(n, Some(Content::Values(got, 0)))] = done.as_slice() else { panic!("{op:?}: {done:?}") };
            assert_eq!((*n, *got), (1 << 20, reduced), "{op:?}");
            let cut = |pieces: &[Piece]| bytes(&crate::extents::cut(pieces, 4096));
            assert_eq!(cut(&done), cut(&known), "{op:?}");
        }
        let odd = vec![(1 << 20, Some(Content::pattern(1, 0))), (8, None)];
        assert_eq!(bytes(&reduce(std::slice::from_ref(&odd), Type::Float, Op::Sum)), bytes(&odd));
    }

    #[test]
    fn much_that_nobody_knows_is_noise() {
        let ranks = [0, 1].map(|_| vec![(1 << 20, Some(Content::pattern(1, 0)))]);
        let found = reduce(&ranks, Type::Float, Op::Sum);
        assert!(matches!(found.as_slice(), [(n, Some(c))] if *n == 1 << 20 && c.is_noise()));
        let zeros = [0, 1].map(|_| vec![(1 << 20, None)]);
        assert!(matches!(reduce(&zeros, Type::Float, Op::Sum).as_slice(), [(_, Some(Content::Byte(0)))]));
    }
}
