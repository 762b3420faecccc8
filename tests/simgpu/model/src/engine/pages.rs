//! Kernels that do many transfers at once: a tag into every page of a memory, and tables of copies. Each tag and each copy
//! is a separate transfer that may meet its own fault; those that meet none are not processed one by one.

use super::Engine;
use super::begin::StartOutcome;
use super::finish::{Effect, Source, Transfer};
use super::resolve::MemoryRange;
use crate::check::batch::TableCopy;
use crate::content::WORD;
use crate::extents::Piece;
use crate::links::Route;
use crate::memory::{Span, TAG, Tags};
use crate::scenario::{Engine as EngineKind, Fault, Kind, Way};
use crate::status::{Result, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Tags being written or checked: where the pages are, and the transfers of the tags that meet faults.
#[derive(Debug)]
pub(super) struct TagTransfer {
    pub by: usize,
    pub span: Span,
    pub tags: Tags,
    pub faulty: BTreeMap<u64, Transfer>,
}

/// The copies of a table that are checked.
#[derive(Debug)]
pub(super) struct BatchCheck {
    pub by: usize,
    pub copies: Vec<(TableCopy, MemoryRange)>,
    pub seed: u64,
    pub sentinel: u64,
    pub guard: u64,
    pub restore: bool,
}

impl Engine {
    /// Tags in the pages at `base`, which GPU `by` writes or reads, and the route there.
    pub(super) fn tag_transfer(
        &mut self,
        by: usize,
        base: u64,
        tags: Tags,
        way: Way,
    ) -> Result<(Route, TagTransfer)> {
        let range = self.resolve(by, base, tags.pages << tags.shift, EngineKind::Sm)?;
        let MemoryRange::Gpu { spans, owner, .. } = &range else {
            return Err(Status::ILLEGAL_ADDRESS);
        };
        let ([span], owner) = (spans.as_slice(), *owner) else {
            return Err(Status::ILLEGAL_ADDRESS);
        };
        let (from, to) = if way == Way::Write {
            (by, owner)
        } else {
            (owner, by)
        };
        let tags = Tags {
            at: span.offset,
            ..tags
        };
        let mut faulty = BTreeMap::new();
        if owner != by {
            let all = self.peer_transfer(by, (from, to), (EngineKind::Sm, way), spans, TAG, [0, 0]);
            // A fault that leaves the data as it is changes no page.
            let meets = |all| {
                self.scenario
                    .fault
                    .iter()
                    .any(|f| !leaves_data(f) && f.concerns(&all))
            };
            let concerned = all.is_some_and(meets);
            for page in tags.all().filter(|_| concerned) {
                let one = Span {
                    offset: tags.place(page),
                    bytes: TAG,
                    ..span.clone()
                };
                let one = Span {
                    physical: span.physical + (one.offset - span.offset),
                    ..one
                };
                let transfer = self.peer_transfer(
                    by,
                    (from, to),
                    (EngineKind::Sm, way),
                    std::slice::from_ref(&one),
                    TAG,
                    [0, 0],
                );
                let faults =
                    transfer.map_or(Vec::new(), |p| self.faults.met_by(&self.scenario, &p));
                if !faults.is_empty() {
                    faulty.insert(page, tag(by, one, owner, &tags, page, faults, way));
                }
            }
        }
        let route = if owner == by {
            self.scenario.local(by, EngineKind::Sm, 1.0)
        } else {
            self.scenario.direct(from, to, EngineKind::Sm, way)
        };
        Ok((
            route,
            TagTransfer {
                by,
                span: span.clone(),
                tags,
                faulty,
            },
        ))
    }

    /// Writes tags.
    pub(super) fn write_tags(&mut self, tagged: TagTransfer) -> Result<()> {
        let TagTransfer {
            span, tags, faulty, ..
        } = tagged;
        let except = faulty.keys().copied().collect();
        if let Some(store) = self.memory.stores.get_mut(&span.store) {
            store.write_tags(tags, except);
        }
        faulty.values().try_for_each(|one| self.arrive(one))
    }

    /// Counts the pages whose tag is missing.
    pub(super) fn count_tags(
        &mut self,
        tagged: &TagTransfer,
        sentinel: u64,
        restore: bool,
        out: u64,
    ) -> Result<()> {
        let TagTransfer {
            by,
            span,
            tags,
            faulty,
        } = tagged;
        let Some(store) = self.memory.stores.get_mut(&span.store) else {
            return Ok(());
        };
        // If the tags are still as they were written, only the exceptions have to be checked.
        let position = store.tag_sets.iter().position(|set| set.tags == *tags);
        let pages: BTreeSet<u64> = match position {
            Some(n) => {
                let except = store
                    .tag_sets
                    .get(n)
                    .map(|set| set.except.clone())
                    .unwrap_or_default();
                if restore {
                    store.tag_sets.remove(n);
                }
                except.into_iter().chain(faulty.keys().copied()).collect()
            }
            None => tags.all().collect(),
        };
        let [mut wrong, mut zero, mut ones, mut unchanged] = [0; 4];
        let (mut first, mut last) = (u64::MAX, 0);
        for page in pages {
            let one = faulty.get(&page);
            let at = Span {
                offset: tags.place(page),
                bytes: TAG,
                ..span.clone()
            };
            let found = match one {
                Some(one) => self.seen(one),
                None => self.memory.read(std::slice::from_ref(&at), *by),
            };
            let before = crate::check::batch::pattern_from(
                sentinel,
                (page << tags.shift) + tags.inside(page),
            );
            let is = |content| {
                crate::extents::bytes(&found) == crate::extents::bytes(&[(TAG, Some(content))])
            };
            if is(tags.content(page)) {
                if restore {
                    self.memory.write(&[at], &[(TAG, Some(before))]);
                }
                continue;
            }
            wrong += 1;
            zero += u64::from(is(crate::content::Content::ZEROS));
            ones += u64::from(is(crate::content::Content::ONES));
            unchanged += u64::from(is(before));
            (first, last) = (first.min(page), last.max(page));
        }
        self.tally(
            *by,
            out,
            [wrong, zero, unchanged, first, last, tags.pages, ones],
        )
    }

    /// The copies of a table.
    pub(super) fn table(&mut self, by: usize, table: u64, count: u64) -> Result<Vec<TableCopy>> {
        let numbers = self.numbers(by, table, count * 5)?;
        let all = numbers.as_chunks::<5>().0.iter();
        Ok(all
            .map(|[to, from, bytes, first, place]| TableCopy {
                to: *to,
                from: *from,
                bytes: *bytes,
                first: *first,
                place: *place,
            })
            .collect())
    }

    pub(super) fn copy_batch(&mut self, by: usize, table: u64, count: u64) -> Result<StartOutcome> {
        let mut moves = Vec::new();
        let mut taken = None;
        for copy in self
            .table(by, table, count)?
            .into_iter()
            .filter(|copy| copy.bytes > 0)
        {
            let (route, one) = self.kernel_transfer(by, copy.to, copy.from, copy.bytes)?;
            taken.get_or_insert(route);
            moves.push(one);
        }
        let bytes = moves.iter().map(|one| one.bytes).sum();
        match taken {
            Some(route) => self.moving(route, bytes, Effect::Batch(moves)),
            None => Ok(StartOutcome::Done),
        }
    }

    pub(super) fn check_batch(
        &mut self,
        table: u64,
        count: u64,
        mut check: BatchCheck,
        out: u64,
    ) -> Result<StartOutcome> {
        let by = check.by;
        self.resolve(by, out, 64, EngineKind::Sm)?;
        let mut bytes = 0;
        for copy in self.table(by, table, count)? {
            let (begin, all) = copy.checked_range(check.guard);
            bytes += all;
            check
                .copies
                .push((copy, self.resolve(by, begin, all, EngineKind::Sm)?));
        }
        self.moving(
            self.scenario.local(by, EngineKind::Sm, 1.0),
            bytes,
            Effect::CheckBatch { check, out },
        )
    }

    /// Counts the words that differ from what a table's copies should leave.
    pub(super) fn count_batch(&mut self, check: BatchCheck, out: u64) -> Result<()> {
        let BatchCheck {
            by,
            copies,
            seed,
            sentinel,
            guard,
            restore,
        } = check;
        let mut all = [0, 0, 0, u64::MAX, 0, 0, 0];
        for (n, (copy, range)) in (0..).zip(&copies) {
            let found = self.memory.read(range.spans(), by);
            let expected = copy.expected(guard, seed, sentinel);
            let (begin, bytes) = copy.checked_range(guard);
            let before =
                crate::check::batch::pattern_from(sentinel, copy.place - (copy.to - begin));
            let counts = crate::check::batch::count(&found, &expected, &[(bytes, Some(before))]);
            let [wrong, zero, unchanged, first, last, words, ones] = &mut all;
            *words += bytes / WORD;
            if counts.bad > 0 {
                *wrong += counts.bad;
                *zero += counts.zeros;
                *ones += counts.ones;
                *unchanged += counts.sentinels;
                *first = (*first).min(n << 40 | counts.first);
                *last = (*last).max(n << 40 | counts.last);
            } else if restore {
                let back: Piece = (
                    copy.bytes,
                    Some(crate::check::batch::pattern_from(sentinel, copy.place)),
                );
                let to = self.resolve(by, copy.to, copy.bytes, EngineKind::Sm)?;
                self.memory.write(to.spans(), &[back]);
            }
        }
        self.tally(by, out, all)
    }
}

/// Whether all data arrives unchanged, only later or by another path.
fn leaves_data(fault: &Fault) -> bool {
    use Kind::{Collapse, Detour, Late, Narrow, Slow, SwitchCollapse};
    matches!(
        fault.kind,
        Slow | Late | Narrow | Collapse | SwitchCollapse | Detour
    )
}

/// The transfer of one tag, written or read.
fn tag(
    by: usize,
    at: Span,
    owner: usize,
    tags: &Tags,
    page: u64,
    faults: Vec<Fault>,
    way: Way,
) -> Transfer {
    match way {
        Way::Write => {
            let to = Some(MemoryRange::Gpu {
                spans: vec![at],
                owner,
                direct: true,
            });
            Transfer {
                to,
                from: Source::Content(tags.content(page)),
                bytes: TAG,
                by,
                faults,
                way,
            }
        }
        Way::Read => Transfer {
            to: None,
            from: Source::Spans(vec![at]),
            bytes: TAG,
            by,
            faults,
            way,
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::Host as _;
    use crate::engine::tests::{EngineFixture, OUT, SIZE, fixture};
    use crate::kernel::Kernel;
    use crate::memory::Tags;

    const TAGS: Tags = Tags {
        at: 0,
        pages: 32,
        first: 5,
        shift: 21,
        writer: 1,
        nonce: 3,
        seed: 4,
    };
    const SENTINEL: u64 = 7;
    /// Where the pattern of GPU 0's buffer begins, if page 0 were its first page.
    const FIRST: u64 = 5 << 19;

    /// Peer 1 writes tags into all pages of GPU 0, which checks them.
    fn tagged(faults: &str) -> (EngineFixture, [u64; 5]) {
        let mut fixture = fixture("epyc-8x4090", faults);
        let base = fixture.buffers[0];
        fixture.launch(
            0,
            Kernel::Fill {
                dst: base,
                words: SIZE / 4,
                seed: SENTINEL,
                first: FIRST,
            },
        );
        fixture.finish(0);
        fixture.launch(1, Kernel::Tag { base, tags: TAGS });
        fixture.finish(1);
        let found = counted(&mut fixture, 0, true);
        (fixture, found)
    }

    fn counted(fixture: &mut EngineFixture, by: usize, restore: bool) -> [u64; 5] {
        let base = fixture.buffers[0];
        fixture.preset();
        fixture.launch(
            by,
            Kernel::CheckTags {
                base,
                tags: TAGS,
                sentinel: SENTINEL,
                restore,
                out: OUT,
            },
        );
        fixture.finish(by);
        assert_eq!(
            fixture.host.read(OUT + 40, 8),
            32u64.to_le_bytes(),
            "every page is looked at"
        );
        fixture.out()
    }

    fn unchanged(fixture: &mut EngineFixture) -> u64 {
        let src = fixture.buffers[0];
        fixture.preset();
        let check = Kernel::Check {
            src,
            words: SIZE / 4,
            first: FIRST,
            expected: SENTINEL,
            sentinel: 1,
            out: OUT,
        };
        fixture.launch(0, check);
        fixture.finish(0);
        fixture.out()[0]
    }

    #[test]
    fn every_pages_tag_is_found_and_the_old_content_restored() {
        let (mut fixture, found) = tagged("");
        assert_eq!(found, [0, 0, 0, u64::MAX, 0]);
        assert_eq!(unchanged(&mut fixture), 0);
        assert_eq!(
            counted(&mut fixture, 0, false)[..3],
            [32, 0, 32],
            "they are gone now"
        );
    }

    #[test]
    fn pages_in_a_hole_get_no_tag() {
        // The buffer is at the bottom of the memory.
        let hole = format!(
            "[[fault]]\nkind = \"stale\"\npair = [1, 0]\nhole = [{}, {}]\n",
            8 << 20,
            12 << 20
        );
        let (mut fixture, found) = tagged(&hole);
        assert_eq!(found, [2, 0, 2, 9, 10]);
        assert_eq!(
            unchanged(&mut fixture),
            0,
            "right ones were restored, and nothing came to the others"
        );
        let (_, other) = tagged(&hole.replace("[1, 0]", "[2, 0]"));
        assert_eq!(other[0], 0, "another pair's hole");
    }

    #[test]
    fn reading_tags_meets_read_faults() {
        let read = "[[fault]]\nkind = \"zeros\"\nway = \"read\"\npair = [0, 1]\nevery = 10\n";
        let mut fixture = fixture("epyc-8x4090", read);
        let base = fixture.buffers[0];
        fixture.launch(0, Kernel::Tag { base, tags: TAGS });
        fixture.finish(0);
        assert_eq!(counted(&mut fixture, 1, false)[..2], [3, 3]);
        assert_eq!(counted(&mut fixture, 0, false)[0], 0);
    }

    #[test]
    fn a_stray_write_lands_at_its_physical_address() {
        let at = SIZE / 2;
        let stray = format!("[[fault]]\nkind = \"stray\"\npair = [2, 1]\ngpu = 0\nat = {at}\n");
        let mut fixture = fixture("epyc-8x4090", &stray);
        fixture.fill(0, 1);
        fixture.fill(1, 2);
        fixture.fill(2, 3);
        (0..3).for_each(|gpu| fixture.finish(gpu));
        fixture.copy(2, 2, 1, 4096);
        fixture.finish(2);
        assert_eq!(fixture.check(0, SIZE, 1, 3)[..4], [1, 0, 0, at / 4]);
        assert_eq!(fixture.check(1, 4096, 3, 2)[0], 0);
    }

    /// Copies of a table from GPU 1 to GPU 0: target, source and size in the buffers.
    fn batch(faults: &str, copies: &[(u64, u64, u64)]) -> [u64; 5] {
        let mut fixture = fixture("epyc-8x4090", faults);
        fixture.fill(0, SENTINEL);
        fixture.fill(1, 8);
        (0..2).for_each(|gpu| fixture.finish(gpu));
        let (to, from) = (fixture.buffers[0], fixture.buffers[1]);
        let table = OUT + 4096;
        let numbers = copies
            .iter()
            .flat_map(|(t, f, n)| [to + t, from + f, *n, *f, *t]);
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        fixture.host.write(table, &bytes);
        let count = copies.len() as u64;
        fixture.launch(1, Kernel::CopyBatch { table, count });
        fixture.finish(1);
        fixture.preset();
        let check = Kernel::CheckBatch {
            table,
            count,
            seed: 8,
            sentinel: SENTINEL,
            guard: 64,
            restore: true,
            out: OUT,
        };
        fixture.launch(0, check);
        fixture.finish(0);
        let found = fixture.out();
        if found[0] == 0 {
            assert_eq!(
                fixture.check(0, SIZE, SENTINEL, 1)[0],
                0,
                "all is as it was"
            );
        }
        found
    }

    const COPIES: &[(u64, u64, u64)] = &[
        (64, 1, 1),
        (1003, 4096, 777),
        (8192, 8193, 4096),
        (1 << 20, 5, 8 << 20),
    ];

    #[test]
    fn batch_copies_of_any_size_and_alignment_are_correct() {
        assert_eq!(batch("", COPIES), [0, 0, 0, u64::MAX, 0]);
    }

    #[test]
    fn each_copy_of_a_table_meets_its_own_faults() {
        let fault = |more: &str| {
            batch(
                &format!("[[fault]]\nkind = \"stale\"\npair = [1, 0]\n{more}"),
                COPIES,
            )
        };
        assert_eq!(fault("no_multiple = 4\nfrom_bytes = 2")[3] >> 40, 1);
        let [wrong, _, old, first, last] = fault("from_bytes = 4096\nto_bytes = 4096");
        assert_eq!((wrong, old, first >> 40, last >> 40), (1024, 1024, 2, 2));
        assert_eq!(fault("unaligned = 16\nfrom_bytes = 1000")[3] >> 40, 2);
        assert_eq!(fault("every = 4")[3] >> 40, 3);
        assert_eq!(fault("load = 1")[0], 0, "nothing else was under way");
        assert_eq!(fault("shared = true")[0], 0);
        let half = fault(&format!("hole = [{}, {}]", 4 << 20, 5 << 20));
        assert_eq!(
            (half[0], half[3] & 0xff_ffff_ffff),
            ((1 << 20) / 4, ((3 << 20) + 64) / 4)
        );
    }

    #[test]
    fn an_unaligned_copy_can_have_a_single_wrong_byte() {
        let flip = "[[fault]]\nkind = \"flip\"\npair = [1, 0]\nfrom_bytes = 700\nto_bytes = 800\n";
        let [wrong, zeros, old, first, last] = batch(flip, COPIES);
        assert_eq!((wrong, zeros, old, first, first >> 40), (1, 0, 0, last, 1));
    }

    #[test]
    fn a_non_sticky_error_is_returned_by_the_call_and_keeps_the_context() {
        let mut fixture = fixture(
            "epyc-8x4090",
            "[[fault]]\nkind = \"error\"\npair = [0, 1]\ncode = 1\n",
        );
        let [a, b] = [fixture.buffers[0], fixture.buffers[1]];
        assert_eq!(fixture.engine.refusal(0, b, a, 64), Err(crate::Status(1)));
        assert_eq!(fixture.engine.refusal(1, a, b, 64), Ok(()));
        fixture.copy(0, 0, 1, 64);
        fixture.finish(0);
        fixture.copy(1, 1, 0, 64);
        fixture.finish(1);
    }
}
