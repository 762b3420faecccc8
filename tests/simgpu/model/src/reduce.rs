//! Reduces the contents of several ranks as extents: without computing elements if all are values of `fl_nccl_fill`,
//! element by element if they are few, and otherwise as noise, which no check accepts as correct.

use crate::content::Content;
use crate::element::{DataType, ReduceOp};
use crate::extents::{Piece, bytes};
use crate::values::Values;

/// Up to this many bytes, over all ranks, elements are reduced one by one.
const MAX_REAL_BYTES: u64 = 8 << 10;

/// A stretch and its content; memory that was never written is zero.
pub type WholeElements = (u64, Content);

/// The same pieces, split so that each is a whole number of elements.
#[must_use]
pub fn whole_elements(pieces: &[Piece], size: u64) -> Vec<WholeElements> {
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
pub fn reduce(ranks: &[Vec<Piece>], r#type: DataType, op: ReduceOp) -> Vec<Piece> {
    if let [own] = ranks {
        return own
            .iter()
            .map(|(n, content)| (*n, content.as_ref().map(|c| reduce_one(c, r#type, op))))
            .collect();
    }
    let mut open: Vec<_> = ranks
        .iter()
        .map(|pieces| whole_elements(pieces, r#type.bytes()).into_iter())
        .collect();
    let mut now: Vec<Option<WholeElements>> = open.iter_mut().map(Iterator::next).collect();
    let mut found: Vec<Piece> = Vec::new();
    while let Some(n) = now
        .iter()
        .map(|w| w.as_ref().map(|(n, _)| *n))
        .min()
        .flatten()
    {
        let contents: Vec<_> = now
            .iter()
            .flatten()
            .map(|(_, content)| content.clone())
            .collect();
        found.push((n, Some(reduce_stretch(&contents, n, r#type, op))));
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
fn reduce_one(content: &Content, r#type: DataType, op: ReduceOp) -> Content {
    match content {
        Content::Values(values, 0) if values.r#type == r#type => Values::reduced(&[*values], op)
            .map_or_else(|| content.clone(), |done| Content::Values(done, 0)),
        other => other.clone(),
    }
}

/// The reduction of one stretch of `n` bytes.
fn reduce_stretch(contents: &[Content], n: u64, r#type: DataType, op: ReduceOp) -> Content {
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
    if noise || n.saturating_mul(contents.len() as u64) > MAX_REAL_BYTES {
        return Content::NOISE;
    }
    by_element(contents, n, r#type, op)
}

fn by_element(contents: &[Content], n: u64, r#type: DataType, op: ReduceOp) -> Content {
    let size = usize::try_from(r#type.bytes()).unwrap_or(1);
    let real: Vec<_> = contents
        .iter()
        .map(|c| bytes(&[(n, Some(c.clone()))]))
        .collect();
    let mut out = Vec::new();
    let mut elements: Vec<_> = real.iter().map(|b| b.chunks_exact(size)).collect();
    loop {
        let all: Vec<_> = elements
            .iter_mut()
            .filter_map(Iterator::next)
            .map(element_bits)
            .collect();
        if all.len() < contents.len() {
            return Content::bytes(out);
        }
        out.extend(op.reduce(r#type, &all).to_le_bytes().into_iter().take(size));
    }
}

/// The bits of an element.
pub(crate) fn element_bits(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, b| all << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ValueOrigin;
    use crate::values::tests::values;

    const TYPES: [DataType; 5] = [
        DataType::Int32,
        DataType::Half,
        DataType::Float,
        DataType::Double,
        DataType::Bfloat16,
    ];
    const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg];

    /// The same bytes, as real bytes without their meaning.
    fn as_bytes(content: &Content, n: u64) -> Content {
        Content::bytes(bytes(&[(n, Some(content.clone()))]))
    }

    #[test]
    fn symbolic_reductions_equal_computed_ones() {
        for kind in TYPES {
            for op in OPS {
                for ranks in [2_u32, 3, 8] {
                    let n = 40 * kind.bytes();
                    let own = |r| {
                        Content::Values(
                            Values {
                                origin: ValueOrigin::Rank(r),
                                ..values(kind, Some(op), ranks)
                            },
                            0,
                        )
                    };
                    let known: Vec<_> = (0..ranks).map(own).collect();
                    let symbolic = reduce_stretch(&known, n, kind, op);
                    assert!(
                        matches!(symbolic, Content::Values(..)),
                        "{kind:?} {op:?} {ranks}"
                    );
                    let all: Vec<_> = known.iter().map(|c| as_bytes(c, n)).collect();
                    let done = by_element(&all, n, kind, op);
                    let [symbolic, done] = [symbolic, done].map(|c| bytes(&[(n, Some(c))]));
                    assert_eq!(symbolic, done, "{kind:?} {op:?} {ranks}");
                }
            }
        }
    }

    #[test]
    fn the_result_does_not_depend_on_how_pieces_are_cut() {
        let (kind, op, n) = (DataType::Float, ReduceOp::Sum, 400);
        let own = |r| {
            Content::Values(
                Values {
                    origin: ValueOrigin::Rank(r),
                    ..values(kind, None, 3)
                },
                0,
            )
        };
        let plain: Vec<_> = (0..3).map(|r| vec![(n, Some(own(r)))]).collect();
        let cut = |r: u32, at: u64| vec![(at, Some(own(r))), (n - at, Some(own(r).skip(at)))];
        let odd = vec![
            cut(0, 7),
            cut(1, 200),
            vec![(n, Some(as_bytes(&own(2), n)))],
        ];
        let [plain, odd] = [plain, odd].map(|ranks| reduce(&ranks, kind, op));
        assert_eq!(plain.len(), 1);
        assert_eq!(bytes(&plain), bytes(&odd));
    }

    #[test]
    fn a_single_rank_keeps_its_content_as_the_reduction_of_one() {
        for op in OPS {
            let own = Values {
                origin: ValueOrigin::Rank(0),
                ..values(DataType::Float, Some(op), 1)
            };
            let known = vec![(1 << 20, Some(Content::Values(own, 0)))];
            let done = reduce(std::slice::from_ref(&known), DataType::Float, op);
            let reduced = Values {
                origin: ValueOrigin::Reduced { op, ranks: 1 },
                ..own
            };
            let [(n, Some(Content::Values(got, 0)))] = done.as_slice() else {
                panic!("{op:?}: {done:?}")
            };
            assert_eq!((*n, *got), (1 << 20, reduced), "{op:?}");
            let cut = |pieces: &[Piece]| bytes(&crate::extents::cut(pieces, 4096));
            assert_eq!(cut(&done), cut(&known), "{op:?}");
        }
        let odd = vec![(1 << 20, Some(Content::pattern(1, 0))), (8, None)];
        assert_eq!(
            bytes(&reduce(
                std::slice::from_ref(&odd),
                DataType::Float,
                ReduceOp::Sum
            )),
            bytes(&odd)
        );
    }

    #[test]
    fn large_unknown_contents_reduce_to_noise() {
        let ranks = [0, 1].map(|_| vec![(1 << 20, Some(Content::pattern(1, 0)))]);
        let found = reduce(&ranks, DataType::Float, ReduceOp::Sum);
        assert!(matches!(found.as_slice(), [(n, Some(c))] if *n == 1 << 20 && c.is_noise()));
        let zeros = [0, 1].map(|_| vec![(1 << 20, None)]);
        assert!(matches!(
            reduce(&zeros, DataType::Float, ReduceOp::Sum).as_slice(),
            [(_, Some(Content::Byte(0)))]
        ));
    }
}
