//! Kernels that do many transfers at once: a tag into every page of a memory, and tables of copies. Each tag and each copy
//! is a separate transfer that may meet its own fault; those that meet none are not processed one by one.

use super::Engine;
use super::begin::Begun;
use super::finish::{From, Job, Move};
use super::reach::Reach;
use crate::check::batch::Copy;
use crate::content::WORD;
use crate::extents::Piece;
use crate::links::Route;
use crate::memory::{Span, TAG, Tags};
use crate::scenario::{Engine as Who, Fault, Kind, Way};
use crate::status::{Result, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Tags being written or checked: where the pages are, and the transfers of the tags that meet faults.
#[derive(Debug)]
pub(super) struct Tagged {
    pub by: usize,
    pub span: Span,
    pub tags: Tags,
    pub faulty: BTreeMap<u64, Move>,
}

/// The copies of a table that are checked.
#[derive(Debug)]
pub(super) struct Looked {
    pub by: usize,
    pub copies: Vec<(Copy, Reach)>,
    pub seed: u64,
    pub sentinel: u64,
    pub guard: u64,
    pub restore: bool,
}

impl Engine {
    /// Tags in the pages at `base`, which GPU `by` writes or reads, and the route there.
    pub(super) fn tagged(&mut self, by: usize, base: u64, tags: Tags, way: Way) -> Result<(Route, Tagged)> {
        let reach = self.reach(by, base, tags.pages << tags.shift, Who::Sm)?;
        let Reach::Gpu { spans, owner, .. } = &reach else { return Err(Status::ILLEGAL_ADDRESS) };
        let ([span], owner) = (spans.as_slice(), *owner) else { return Err(Status::ILLEGAL_ADDRESS) };
        let (from, to) = if way == Way::Write { (by, owner) } else { (owner, by) };
        let tags = Tags { at: span.offset, ..tags };
        let mut faulty = BTreeMap::new();
        if owner != by {
            let all = self.passage(by, (from, to), (Who::Sm, way), spans, TAG, [0, 0]);
            // A fault that only slows a route down changes no page.
            let spoils = |f: &Fault| !matches!(f.kind, Kind::Slow | Kind::Late);
            let meets = |all| self.scenario.fault.iter().any(|f| spoils(f) && f.concerns(&all));
            let concerned = all.is_some_and(meets);
            for page in tags.all().filter(|_| concerned) {
                let one = Span { offset: tags.place(page), bytes: TAG, ..span.clone() };
                let one = Span { physical: span.physical + (one.offset - span.offset), ..one };
                let passage =
                    self.passage(by, (from, to), (Who::Sm, way), std::slice::from_ref(&one), TAG, [0, 0]);
                let faults = passage.map_or(Vec::new(), |p| self.faults.of(&self.scenario, &p));
                if !faults.is_empty() {
                    faulty.insert(page, tag(by, one, owner, &tags, page, faults, way));
                }
            }
        }
        let route = if owner == by {
            self.scenario.local(by, Who::Sm, 1.0)
        } else {
            self.scenario.direct(from, to, Who::Sm, way)
        };
        Ok((route, Tagged { by, span: span.clone(), tags, faulty }))
    }

    /// Writes tags.
    pub(super) fn lay(&mut self, tagged: Tagged) -> Result<()> {
        let Tagged { span, tags, faulty, .. } = tagged;
        let except = faulty.keys().copied().collect();
        if let Some(store) = self.memory.stores.get_mut(&span.store) {
            store.lay(tags, except);
        }
        faulty.values().try_for_each(|one| self.arrive(one))
    }

    /// Counts the pages whose tag is missing.
    pub(super) fn count_tags(
        &mut self,
        tagged: &Tagged,
        sentinel: u64,
        restore: bool,
        out: u64,
    ) -> Result<()> {
        let Tagged { by, span, tags, faulty } = tagged;
        let Some(store) = self.memory.stores.get_mut(&span.store) else { return Ok(()) };
        // If the tags are still as they were written, only the exceptions have to be checked.
        let laid = store.laid.iter().position(|laid| laid.tags == *tags);
        let asked: BTreeSet<u64> = match laid {
            Some(n) => {
                let except = store.laid.get(n).map(|laid| laid.except.clone()).unwrap_or_default();
                if restore {
                    store.laid.remove(n);
                }
                except.into_iter().chain(faulty.keys().copied()).collect()
            }
            None => tags.all().collect(),
        };
        let [mut wrong, mut zero, mut ones, mut unchanged] = [0; 4];
        let (mut first, mut last) = (u64::MAX, 0);
        for page in asked {
            let one = faulty.get(&page);
            let at = Span { offset: tags.place(page), bytes: TAG, ..span.clone() };
            let found = match one {
                Some(one) => self.seen(one),
                None => self.memory.read(std::slice::from_ref(&at), *by),
            };
            let before = crate::check::batch::part(sentinel, (page << tags.shift) + tags.inside(page));
            let is =
                |content| crate::extents::bytes(&found) == crate::extents::bytes(&[(TAG, Some(content))]);
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
        self.tally(*by, out, [wrong, zero, unchanged, first, last, tags.pages, ones])
    }

    /// The copies of a table.
    pub(super) fn table(&mut self, by: usize, table: u64, count: u64) -> Result<Vec<Copy>> {
        let numbers = self.numbers(by, table, count * 5)?;
        let all = numbers.as_chunks::<5>().0.iter();
        Ok(all
            .map(|[to, from, bytes, first, place]| Copy {
                to: *to,
                from: *from,
                bytes: *bytes,
                first: *first,
                place: *place,
            })
            .collect())
    }

    pub(super) fn copy_batch(&mut self, by: usize, table: u64, count: u64) -> Result<Begun> {
        let mut moves = Vec::new();
        let mut taken = None;
        for copy in self.table(by, table, count)?.into_iter().filter(|copy| copy.bytes > 0) {
            let (route, one) = self.kernel_move(by, copy.to, copy.from, copy.bytes)?;
            taken.get_or_insert(route);
            moves.push(one);
        }
        let bytes = moves.iter().map(|one| one.bytes).sum();
        match taken {
            Some(route) => self.moving(route, bytes, Job::Batch(moves)),
            None => Ok(Begun::Done),
        }
    }

    pub(super) fn check_batch(
        &mut self,
        table: u64,
        count: u64,
        mut looked: Looked,
        out: u64,
    ) -> Result<Begun> {
        let by = looked.by;
        self.reach(by, out, 64, Who::Sm)?;
        let mut bytes = 0;
        for copy in self.table(by, table, count)? {
            let (begin, all) = copy.looked(looked.guard);
            bytes += all;
            looked.copies.push((copy, self.reach(by, begin, all, Who::Sm)?));
        }
        self.moving(self.scenario.local(by, Who::Sm, 1.0), bytes, Job::CheckBatch { looked, out })
    }

    /// Counts the words that differ from what a table's copies should leave.
    pub(super) fn count_batch(&mut self, looked: Looked, out: u64) -> Result<()> {
        let Looked { by, copies, seed, sentinel, guard, restore } = looked;
        let mut all = [0, 0, 0, u64::MAX, 0, 0, 0];
        for (n, (copy, reach)) in (0..).zip(&copies) {
            let found = self.memory.read(reach.spans(), by);
            let expected = copy.expected(guard, seed, sentinel);
            let (begin, bytes) = copy.looked(guard);
            let before = crate::check::batch::part(sentinel, copy.place - (copy.to - begin));
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
                let back: Piece = (copy.bytes, Some(crate::check::batch::part(sentinel, copy.place)));
                let to = self.reach(by, copy.to, copy.bytes, Who::Sm)?;
                self.memory.write(to.spans(), &[back]);
            }
        }
        self.tally(by, out, all)
    }
}

/// The transfer of one tag, written or read.
fn tag(by: usize, at: Span, owner: usize, tags: &Tags, page: u64, faults: Vec<Fault>, way: Way) -> Move {
    match way {
        Way::Write => {
            let to = Some(Reach::Gpu { spans: vec![at], owner, direct: true });
            Move { to, from: From::Content(tags.content(page)), bytes: TAG, by, faults, way }
        }
        Way::Read => Move { to: None, from: From::Spans(vec![at]), bytes: TAG, by, faults, way },
    }
}

#[cfg(test)]
mod tests {
    use crate::Host as _;
    use crate::engine::tests::{Bench, OUT, SIZE, bench};
    use crate::kernel::Kernel;
    use crate::memory::Tags;

    const TAGS: Tags = Tags { at: 0, pages: 32, first: 5, shift: 21, writer: 1, nonce: 3, seed: 4 };
    const SENTINEL: u64 = 7;
    /// Where the pattern of GPU 0's buffer begins, if page 0 were its first page.
    const FIRST: u64 = 5 << 19;

    /// Peer 1 writes tags into all pages of GPU 0, which checks them.
    fn tagged(faults: &str) -> (Bench, [u64; 5]) {
        let mut bench = bench("epyc-8x4090", faults);
        let base = bench.buffers[0];
        bench.launch(0, Kernel::Fill { dst: base, words: SIZE / 4, seed: SENTINEL, first: FIRST });
        bench.finish(0);
        bench.launch(1, Kernel::Tag { base, tags: TAGS });
        bench.finish(1);
        let found = counted(&mut bench, 0, true);
        (bench, found)
    }

    fn counted(bench: &mut Bench, by: usize, restore: bool) -> [u64; 5] {
        let base = bench.buffers[0];
        bench.preset();
        bench.launch(by, Kernel::CheckTags { base, tags: TAGS, sentinel: SENTINEL, restore, out: OUT });
        bench.finish(by);
        assert_eq!(bench.host.read(OUT + 40, 8), 32u64.to_le_bytes(), "every page is looked at");
        bench.out()
    }

    fn unchanged(bench: &mut Bench) -> u64 {
        let src = bench.buffers[0];
        bench.preset();
        let check =
            Kernel::Check { src, words: SIZE / 4, first: FIRST, expected: SENTINEL, sentinel: 1, out: OUT };
        bench.launch(0, check);
        bench.finish(0);
        bench.out()[0]
    }

    #[test]
    fn tags_of_every_page_are_found_and_what_was_there_comes_back() {
        let (mut bench, found) = tagged("");
        assert_eq!(found, [0, 0, 0, u64::MAX, 0]);
        assert_eq!(unchanged(&mut bench), 0);
        assert_eq!(counted(&mut bench, 0, false)[..3], [32, 0, 32], "they are gone now");
    }

    #[test]
    fn a_page_that_a_peer_does_not_reach_has_no_tag() {
        // The buffer is at the bottom of the memory.
        let hole =
            format!("[[fault]]\nkind = \"stale\"\npair = [1, 0]\nhole = [{}, {}]\n", 8 << 20, 12 << 20);
        let (mut bench, found) = tagged(&hole);
        assert_eq!(found, [2, 0, 2, 9, 10]);
        assert_eq!(unchanged(&mut bench), 0, "right ones were restored, and nothing came to the others");
        let (_, other) = tagged(&hole.replace("[1, 0]", "[2, 0]"));
        assert_eq!(other[0], 0, "another pair's hole");
    }

    #[test]
    fn reads_of_tags_meet_faults_of_reads() {
        let read = "[[fault]]\nkind = \"zeros\"\nway = \"read\"\npair = [0, 1]\nevery = 10\n";
        let mut bench = bench("epyc-8x4090", read);
        let base = bench.buffers[0];
        bench.launch(0, Kernel::Tag { base, tags: TAGS });
        bench.finish(0);
        assert_eq!(counted(&mut bench, 1, false)[..2], [3, 3]);
        assert_eq!(counted(&mut bench, 0, false)[0], 0);
    }

    #[test]
    fn a_stray_write_lands_at_its_address_whoever_has_it() {
        let at = SIZE / 2;
        let stray = format!("[[fault]]\nkind = \"stray\"\npair = [2, 1]\ngpu = 0\nat = {at}\n");
        let mut bench = bench("epyc-8x4090", &stray);
        bench.fill(0, 1);
        bench.fill(1, 2);
        bench.fill(2, 3);
        (0..3).for_each(|gpu| bench.finish(gpu));
        bench.copy(2, 2, 1, 4096);
        bench.finish(2);
        assert_eq!(bench.check(0, SIZE, 1, 3)[..4], [1, 0, 0, at / 4]);
        assert_eq!(bench.check(1, 4096, 3, 2)[0], 0);
    }

    /// Copies of a table from GPU 1 to GPU 0: target, source and size in the buffers.
    fn batch(faults: &str, copies: &[(u64, u64, u64)]) -> [u64; 5] {
        let mut bench = bench("epyc-8x4090", faults);
        bench.fill(0, SENTINEL);
        bench.fill(1, 8);
        (0..2).for_each(|gpu| bench.finish(gpu));
        let (to, from) = (bench.buffers[0], bench.buffers[1]);
        let table = OUT + 4096;
        let numbers = copies.iter().flat_map(|(t, f, n)| [to + t, from + f, *n, *f, *t]);
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bench.host.write(table, &bytes);
        let count = copies.len() as u64;
        bench.launch(1, Kernel::CopyBatch { table, count });
        bench.finish(1);
        bench.preset();
        let check = Kernel::CheckBatch {
            table,
            count,
            seed: 8,
            sentinel: SENTINEL,
            guard: 64,
            restore: true,
            out: OUT,
        };
        bench.launch(0, check);
        bench.finish(0);
        let found = bench.out();
        if found[0] == 0 {
            assert_eq!(bench.check(0, SIZE, SENTINEL, 1)[0], 0, "all is as it was");
        }
        found
    }

    const COPIES: &[(u64, u64, u64)] =
        &[(64, 1, 1), (1003, 4096, 777), (8192, 8193, 4096), (1 << 20, 5, 8 << 20)];

    #[test]
    fn copies_of_any_size_and_place_are_found_right() {
        assert_eq!(batch("", COPIES), [0, 0, 0, u64::MAX, 0]);
    }

    #[test]
    fn each_copy_of_a_table_meets_its_own_faults() {
        let fault =
            |more: &str| batch(&format!("[[fault]]\nkind = \"stale\"\npair = [1, 0]\n{more}"), COPIES);
        assert_eq!(fault("no_multiple = 4\nfrom_bytes = 2")[3] >> 40, 1);
        let [wrong, _, old, first, last] = fault("from_bytes = 4096\nto_bytes = 4096");
        assert_eq!((wrong, old, first >> 40, last >> 40), (1024, 1024, 2, 2));
        assert_eq!(fault("unaligned = 16\nfrom_bytes = 1000")[3] >> 40, 2);
        assert_eq!(fault("every = 4")[3] >> 40, 3);
        assert_eq!(fault("load = 1")[0], 0, "nothing else was under way");
        assert_eq!(fault("shared = true")[0], 0);
        let half = fault(&format!("hole = [{}, {}]", 4 << 20, 5 << 20));
        assert_eq!((half[0], half[3] & 0xff_ffff_ffff), ((1 << 20) / 4, ((3 << 20) + 64) / 4));
    }

    #[test]
    fn what_is_no_multiple_of_a_word_may_be_wrong_in_one_byte() {
        let flip = "[[fault]]\nkind = \"flip\"\npair = [1, 0]\nfrom_bytes = 700\nto_bytes = 800\n";
        let [wrong, zeros, old, first, last] = batch(flip, COPIES);
        assert_eq!((wrong, zeros, old, first, first >> 40), (1, 0, 0, last, 1));
    }

    #[test]
    fn an_error_that_is_not_sticky_comes_from_the_call_and_leaves_the_context() {
        let mut bench = bench("epyc-8x4090", "[[fault]]\nkind = \"error\"\npair = [0, 1]\ncode = 1\n");
        let [a, b] = [bench.buffers[0], bench.buffers[1]];
        assert_eq!(bench.engine.refusal(0, b, a, 64), Err(crate::Status(1)));
        assert_eq!(bench.engine.refusal(1, a, b, 64), Ok(()));
        bench.copy(0, 0, 1, 64);
        bench.finish(0);
        bench.copy(1, 1, 0, 64);
        bench.finish(1);
    }
}
