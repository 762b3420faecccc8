//! The kernels by name: their arguments, and what a launch does.

use crate::element::{DataType, ReduceOp};
use crate::memory::Tags;
use crate::values::{ValueOrigin, Values};

/// A launch with its kernel's arguments decoded. Sizes are in the kernel's own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the kernels' own arguments")]
pub enum Kernel {
    /// `fl_fill`: writes the pattern into `words` words.
    Fill {
        dst: u64,
        words: u64,
        seed: u64,
        first: u64,
    },
    /// `fl_check`: counts the words that differ from the pattern.
    Check {
        src: u64,
        words: u64,
        first: u64,
        expected: u64,
        sentinel: u64,
        out: u64,
    },
    /// `fl_copy16`, `fl_copy_words`, `fl_copy_vec`: a copy.
    Copy { dst: u64, src: u64, bytes: u64 },
    /// `fl_spin`: waits for a flag of the host.
    Spin { flag: u64, cycles: u64 },
    /// `fl_chase_init`: a ring of addresses.
    ChaseInit { ring: u64, count: u64, stride: u64 },
    /// `fl_chase`: dependent loads.
    Chase { start: u64, steps: u64, out: u64 },
    /// `fl_pingpong` and `fl_pingpong_wide`: data followed by a flag, back and forth.
    PingPong(PingPong),
    /// `fl_reduce`: one rank's part in an all-reduce.
    Reduce(Reduce),
    /// `fl_reduce_fill`: a rank's input for a round of a graph.
    ReduceFill {
        input: u64,
        words: u64,
        seed: u64,
        rank: u32,
        n: u64,
        books: u64,
    },
    /// `fl_reduce_check`: counts the words that differ from the sum of all inputs.
    ReduceCheck {
        src: u64,
        words: u64,
        seed: u64,
        ranks: u32,
        n: u64,
        books: u64,
        out: u64,
    },
    /// `fl_reduce_next`: records that `rounds` more rounds are complete.
    ReduceNext { books: u64, rounds: u64 },
    /// `fl_atomic_add`, `fl_atomic_cas`: every thread increments the counter.
    Count { counter: u64, times: u64 },
    /// `fl_tag`: writes a tag into each page.
    Tag { base: u64, tags: Tags },
    /// `fl_tag_check`: counts the pages whose tag is missing.
    CheckTags {
        base: u64,
        tags: Tags,
        sentinel: u64,
        restore: bool,
        out: u64,
    },
    /// `fl_batch_copy`: the copies of a table.
    CopyBatch { table: u64, count: u64 },
    /// `fl_batch_check`: counts the words that differ from what the table's copies should leave.
    CheckBatch {
        table: u64,
        count: u64,
        seed: u64,
        sentinel: u64,
        guard: u64,
        restore: bool,
        out: u64,
    },
    /// `fl_nccl_fill`: a rank's values.
    FillValues {
        dst: u64,
        count: u64,
        values: Values,
        calls: Calls,
    },
    /// `fl_nccl_check`: counts the elements that differ from `expected`; each call has `parts` runs, one per rank in order.
    CheckValues {
        src: u64,
        count: u64,
        expected: Values,
        parts: u64,
        calls: Calls,
        out: u64,
    },
    /// `fl_march`: counts the words that differ from the pattern with some bits inverted, and inverts others.
    March {
        memory: u64,
        vectors: u64,
        first: u64,
        seed: u64,
        before: u32,
        after: u32,
        out: u64,
    },
    /// `fl_products_int8`, `fl_products_float`: sums matrix products.
    Products {
        seed: u64,
        batches: u64,
        times: u64,
        out: u64,
    },
}

/// How the runs of several calls are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// Number of calls.
    pub count: u64,
    /// Distance from one call's runs to the next one's, in elements.
    pub stride: u64,
    /// How much higher the element numbers of the next call begin.
    pub step: u64,
}

/// The arguments of `fl_reduce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduce {
    /// Address of the table of all ranks' areas.
    pub areas: u64,
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// How long it waits for a flag, in cycles.
    pub cycles: u64,
    /// Address of the rank's books.
    pub books: u64,
    /// Address of the result.
    pub out: u64,
    /// Its size, in units of 16 bytes.
    pub vectors: u64,
    /// Its number in a graph.
    pub n: u64,
    /// Whether the algorithm is two-shot.
    pub two_shot: bool,
}

/// The arguments of `fl_pingpong`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingPong {
    /// Words of the data ahead of each flag.
    pub words: u64,
    /// The mailbox that is read.
    pub mine: u64,
    /// The mailbox that is written.
    pub theirs: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// The seed of the data that arrives.
    pub seed_mine: u64,
    /// The seed of the data that is sent.
    pub seed_theirs: u64,
    /// Whether this side sends first.
    pub first: bool,
    /// How long it waits, in cycles since its start.
    pub cycles: u64,
    /// Address of its five results.
    pub out: u64,
}

/// Every kernel and the sizes of its arguments in bytes.
pub const ALL: &[(&str, &[u8])] = &[
    ("fl_fill", &[8, 8, 8, 8]),
    ("fl_check", &[8, 8, 8, 8, 8, 8]),
    ("fl_copy16", &[8, 8, 8]),
    ("fl_copy_words", &[8, 8, 8]),
    ("fl_copy_vec", &[8, 8, 8]),
    ("fl_spin", &[8, 8]),
    ("fl_chase_init", &[8, 8, 8]),
    ("fl_chase", &[8, 8, 8]),
    ("fl_pingpong", &[8, 8, 8, 8, 8, 4, 8, 8]),
    ("fl_pingpong_wide", &[8, 8, 8, 8, 8, 4, 8, 8]),
    ("fl_reduce", &[8, 4, 4, 8, 8, 8, 8, 4, 4]),
    ("fl_reduce_fill", &[8, 8, 8, 4, 4, 8]),
    ("fl_reduce_check", &[8, 8, 8, 4, 4, 8, 8]),
    ("fl_reduce_next", &[8, 4]),
    ("fl_atomic_add", &[8, 8]),
    ("fl_atomic_cas", &[8, 8]),
    ("fl_march", &[8, 8, 8, 8, 4, 4, 8]),
    ("fl_products_int8", &[8, 4, 4, 8]),
    ("fl_products_float", &[8, 4, 4, 8]),
    ("fl_tag", &[8, 8, 8, 4, 4, 8, 8]),
    ("fl_tag_check", &[8, 8, 8, 4, 4, 8, 8, 8, 4, 8]),
    ("fl_batch_copy", &[8, 8, 4]),
    ("fl_batch_check", &[8, 8, 4, 8, 8, 8, 4, 8]),
    ("fl_nccl_fill", &[8, 8, 4, 4, 8, 8, 4, 4, 4, 8, 8, 8]),
    (
        "fl_nccl_check",
        &[8, 8, 4, 4, 4, 4, 8, 8, 4, 4, 4, 8, 8, 8, 8, 8],
    ),
];

/// The value for the reduction that `fl_nccl_check` receives if there is none.
const COPY: u64 = 0xffff_ffff;

/// The index in [`ALL`] of the kernel with this name.
#[must_use]
pub fn find(name: &str) -> Option<usize> {
    ALL.iter().position(|(known, _)| *known == name)
}

/// The sizes of a kernel's arguments in bytes.
#[must_use]
pub fn sizes(kernel: usize) -> &'static [u8] {
    ALL.get(kernel).map(|(_, sizes)| *sizes).unwrap_or_default()
}

impl Kernel {
    /// A launch of kernel number `kernel` in [`ALL`]; `None` if the arguments do not fit it.
    #[must_use]
    pub fn of(kernel: usize, arguments: &[u64]) -> Option<Self> {
        let (name, _) = ALL.get(kernel)?;
        Some(match (*name, arguments) {
            ("fl_fill", &[dst, words, seed, first]) => Self::Fill {
                dst,
                words,
                seed,
                first,
            },
            ("fl_check", &[src, words, first, expected, sentinel, out]) => Self::Check {
                src,
                words,
                first,
                expected,
                sentinel,
                out,
            },
            ("fl_copy16" | "fl_copy_vec", &[dst, src, n]) => Self::Copy {
                dst,
                src,
                bytes: n.checked_mul(16)?,
            },
            ("fl_copy_words", &[dst, src, n]) => Self::Copy {
                dst,
                src,
                bytes: n.checked_mul(4)?,
            },
            ("fl_spin", &[flag, cycles]) => Self::Spin { flag, cycles },
            ("fl_chase_init", &[ring, count, stride]) => Self::ChaseInit {
                ring,
                count,
                stride,
            },
            ("fl_chase", &[start, steps, out]) => Self::Chase { start, steps, out },
            ("fl_atomic_add" | "fl_atomic_cas", &[counter, times]) => {
                Self::Count { counter, times }
            }
            (
                "fl_pingpong" | "fl_pingpong_wide",
                &[
                    mine,
                    theirs,
                    rounds,
                    seed_mine,
                    seed_theirs,
                    first,
                    cycles,
                    out,
                ],
            ) => {
                let (words, first) = (if *name == "fl_pingpong" { 32 } else { 2048 }, first != 0);
                Self::PingPong(PingPong {
                    words,
                    mine,
                    theirs,
                    rounds,
                    seed_mine,
                    seed_theirs,
                    first,
                    cycles,
                    out,
                })
            }
            ("fl_reduce", &[areas, rank, ranks, cycles, books, out, vectors, n, two_shot]) => {
                let (rank, ranks, two_shot) = (low(rank), low(ranks), two_shot != 0);
                Self::Reduce(Reduce {
                    areas,
                    rank,
                    ranks,
                    cycles,
                    books,
                    out,
                    vectors,
                    n,
                    two_shot,
                })
            }
            ("fl_reduce_fill", &[input, words, seed, rank, n, books]) => Self::ReduceFill {
                input,
                words,
                seed,
                rank: low(rank),
                n,
                books,
            },
            ("fl_reduce_check", &[src, words, seed, ranks, n, books, out]) => Self::ReduceCheck {
                src,
                words,
                seed,
                ranks: low(ranks),
                n,
                books,
                out,
            },
            ("fl_reduce_next", &[books, rounds]) => Self::ReduceNext { books, rounds },
            ("fl_march", &[memory, vectors, first, seed, before, after, out]) => Self::March {
                memory,
                vectors,
                first,
                seed,
                before: low(before),
                after: low(after),
                out,
            },
            ("fl_products_int8" | "fl_products_float", &[seed, batches, times, out]) => {
                Self::Products {
                    seed,
                    batches,
                    times,
                    out,
                }
            }
            ("fl_tag", &[base, ref of @ ..]) => Self::Tag {
                base,
                tags: tags(of.try_into().ok()?)?,
            },
            ("fl_tag_check", &[base, ref of @ .., sentinel, restore, out]) => {
                let tags = tags(of.try_into().ok()?)?;
                Self::CheckTags {
                    base,
                    tags,
                    sentinel,
                    restore: restore != 0,
                    out,
                }
            }
            ("fl_batch_copy", &[table, count, _]) => Self::CopyBatch { table, count },
            ("fl_batch_check", &[table, count, _, seed, sentinel, guard, restore, out]) => {
                Self::CheckBatch {
                    table,
                    count,
                    seed,
                    sentinel,
                    guard,
                    restore: restore != 0,
                    out,
                }
            }
            (
                "fl_nccl_fill",
                &[
                    dst,
                    count,
                    r#type,
                    rank,
                    seed,
                    first,
                    range,
                    scale,
                    powers,
                    calls,
                    stride,
                    step,
                ],
            ) => {
                let values = values(
                    r#type,
                    [seed, first, range, scale, powers],
                    ValueOrigin::Rank(low(rank)),
                )?;
                Self::FillValues {
                    dst,
                    count,
                    values,
                    calls: Calls {
                        count: calls,
                        stride,
                        step,
                    },
                }
            }
            ("fl_nccl_check", &[src, count, ref how @ .., parts, calls, stride, step, out]) => {
                let &[r#type, op, rank, ranks, ref made @ ..] = how else {
                    return None;
                };
                let origin = match op {
                    COPY => ValueOrigin::Rank(low(rank)),
                    _ => ValueOrigin::Reduced {
                        op: ReduceOp::of(low(op))?,
                        ranks: low(ranks),
                    },
                };
                let expected = values(r#type, made.try_into().ok()?, origin)?;
                let calls = Calls {
                    count: calls,
                    stride,
                    step,
                };
                Self::CheckValues {
                    src,
                    count,
                    expected,
                    parts,
                    calls,
                    out,
                }
            }
            _ => return None,
        })
    }
}

/// Tags from a kernel's arguments.
fn tags([pages, first, shift, writer, nonce, seed]: [u64; 6]) -> Option<Tags> {
    let (shift, writer) = (low(shift), low(writer));
    (shift < 32).then_some(Tags {
        at: 0,
        pages,
        first,
        shift,
        writer,
        nonce,
        seed,
    })
}

/// Values from a kernel's arguments: seed, first, range, scale, powers.
fn values(
    r#type: u64,
    [seed, first, range, scale, powers]: [u64; 5],
    origin: ValueOrigin,
) -> Option<Values> {
    let (range, scale, powers) = (low(range), low(scale), powers != 0);
    Some(Values {
        seed,
        first,
        r#type: DataType::of(low(r#type))?,
        range,
        scale,
        powers,
        origin,
    })
}

/// A 32-bit argument.
fn low(argument: u64) -> u32 {
    u32::try_from(argument & 0xffff_ffff).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_takes_its_listed_number_of_arguments() {
        for (n, (name, sizes)) in ALL.iter().enumerate() {
            assert_eq!(find(name), Some(n));
            assert!(Kernel::of(n, &vec![2; sizes.len()]).is_some(), "{name}");
            assert!(Kernel::of(n, &vec![1; sizes.len() + 1]).is_none(), "{name}");
        }
        assert_eq!(find("fl_nothing"), None);
    }
}
