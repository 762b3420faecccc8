//! Kernels that do much at once: a tag into every page of a memory, and tables of copies. Each tag and each copy
//! is a transfer of its own, which may meet a fault of its own; those that meet none are not looked at one by one.

use super::Engine;
use super::begin::Begun;
use super::finish::{From, Job, Move};
use super::reach::Reach;
use crate::check_batch::Copy;
use crate::content::WORD;
use crate::extents::Piece;
use crate::links::Route;
use crate::memory::{Span, TAG, Tags};
use crate::scenario::{Engine as Who, Fault, Kind, Way};
use crate::status::{Result, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Tags on their way, or looked at: where the pages are, and the transfers of those that meet faults.
#[derive(Debug)]
pub(super) struct Tagged {
    pub by: usize,
    pub span: Span,
    pub tags: Tags,
    pub faulty: BTreeMap<u64, Move>,
}

/// A table's copies that are looked at.
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
    /// Tags in the pages at `base`, which GPU `by` writes or reads, and the way there.
    pub(super) fn tagged(&mut self, by: usize, base: u64, tags: Tags, way: Way) -> Result<(Route, Tagged)> {
        let reach = self.reach(by, base, tags.pages << tags.shift, Who::Sm)?;
        let Reach::Gpu { spans, owner, .. } = &reach else { return Err(Status::ILLEGAL_ADDRESS) };
        let ([span], owner) = (spans.as_slice(), *owner) else { return Err(Status::ILLEGAL_ADDRESS) };
        let (from, to) = if way == Way::Write { (by, owner) } else { (owner, by) };
        let tags = Tags { at: span.offset, ..tags };
        let mut faulty = BTreeMap::new();
        if owner != by {
            let all = self.passage(by, (from, to), (Who::Sm, way), spans, TAG, [0, 0]);
            // What only slows a way down changes no page.
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

    /// Lays tags.
    pub(super) fn lay(&mut self, tagged: Tagged) -> Result<()> {
        let Tagged { span, tags, faulty, .. } = tagged;
        let except = faulty.keys().copied().collect();
        if let Some(store) = self.memory.stores.get_mut(&span.store) {
            store.lay(tags, except);
        }
        faulty.values().try_for_each(|one| self.arrive(one))
    }

    /// Counts the pages whose tag is not there.
    pub(super) fn count_tags(
        &mut self,
        tagged: &Tagged,
        sentinel: u64,
        restore: bool,
        out: u64,
    ) -> Result<()> {
        let Tagged { by, span, tags, faulty } = tagged;
        let Some(store) = self.memory.stores.get_mut(&span.store) else { return Ok(()) };
        // As they were laid: only what did not go as it should is looked at.
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
            let before = crate::check_batch::part(sentinel, (page << tags.shift) + tags.inside(page));
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

    /// Counts what is not as a table's copies should leave it.
    pub(super) fn count_batch(&mut self, looked: Looked, out: u64) -> Result<()> {
        let Looked { by, copies, seed, sentinel, guard, restore } = looked;
        let mut all = [0, 0, 0, u64::MAX, 0, 0, 0];
        for (n, (copy, reach)) in (0..).zip(&copies) {
            let found = self.memory.read(reach.spans(), by);
            let expected = copy.expected(guard, seed, sentinel);
            let (begin, bytes) = copy.looked(guard);
            let before = crate::check_batch::part(sentinel, copy.place - (copy.to - begin));
            let counts = crate::check_batch::count(&found, &expected, &[(bytes, Some(before))]);
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
                let back: Piece = (copy.bytes, Some(crate::check_batch::part(sentinel, copy.place)));
                let to = self.reach(by, copy.to, copy.bytes, Who::Sm)?;
                self.memory.write(to.spans(), &[back]);
            }
        }
        self.tally(by, out, all)
    }
}

/// One tag on its way, or looked at.
fn tag(by: usize, at: Span, owner: usize, tags: &Tags, page: u64, faults: Vec<Fault>, way: Way) -> Move {
    match way {
        Way::Write => {
            let to = Some(Reach::Gpu { spans: vec![at], owner, direct: true });
            Move { to, from: From::Content(tags.content(page)), bytes: TAG, by, faults, way }
        }
        Way::Read => Move { to: None, from: From::Spans(vec![at]), bytes: TAG, by, faults, way },
    }
}
