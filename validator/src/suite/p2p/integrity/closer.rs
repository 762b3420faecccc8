//! A closer look at a transfer that went wrong, to say in which way; and the search of all memory for
//! what changed without being meant.

use super::bench::{Bench, Moved, Past, Seen};
use super::field::{Field, Station, counts};
use crate::gpu::pattern::{Counts, Elsewhere, Evidence, Source, classify, origin};
use crate::gpu::{GpuError, Span};
use crate::suite::shared::plot::Changed as Anywhere;
use crate::suite::shared::transfer::{Engine, Fault, Kind, SAMPLE, Traces, Way, What};

/// Words that are fetched where something is wrong.
const WINDOW: u64 = 64;

/// Memory that holds something else than its sentinel.
struct Changed<'b, 'm> {
    station: &'b Station<'m>,
    span: Span,
    /// Number in its field of the span's first word.
    first: u64,
    sentinel: u64,
    counts: Counts,
}

impl<'m> Bench<'m> {
    /// In which way it went wrong; what is no matter of data stays what it is.
    pub(super) fn closer(&self, moved: &Moved<'_, 'm>, what: What, seen: &Seen) -> Result<What, GpuError> {
        let What::Data(_) = what else { return Ok(what) };
        let Moved { cell, seed, first, receiver, target, .. } = moved;
        let sentinel = moved.to.sentinel();
        let again = receiver.check(*target, *first, *seed, sentinel)?;
        let through_peer = match cell.kind {
            // Without peer access it must not touch what is not its own.
            Kind { way: Way::Read, .. } | Kind { engine: Engine::Staged, .. } => None,
            Kind { way: Way::Write, .. } => {
                self.machine.doing(&format!("{}: reading back what was written", cell.pair));
                Some(self.station(cell.pair.from)?.check(*target, *first, *seed, sentinel)?)
            }
        };
        let source = (cell.kind.way == Way::Read).then(|| Source {
            seed: moved.from.sentinel(),
            first: (moved.source.address - moved.from.whole().address) / 4,
        });
        let mut pieces = Vec::new();
        for place in [seen.data.first, seen.data.last].into_iter().flatten() {
            pieces.push(receiver.words(*target, place.saturating_sub(WINDOW / 4), WINDOW)?);
        }
        let older = self.older.borrow();
        Ok(What::Data(classify(&Evidence {
            counts: seen.data,
            first: *first,
            expected: *seed,
            older: &older,
            pieces: &pieces,
            again: Some(again),
            through_peer,
            source,
            elsewhere: self.elsewhere(moved)?,
        })))
    }

    /// Where else the data is.
    fn elsewhere(&self, moved: &Moved<'_, 'm>) -> Result<Option<Elsewhere>, GpuError> {
        let meant = moved.first..moved.first + moved.target.words();
        for changed in self.changed(&[(moved.from, moved.source), (moved.to, moved.target)])? {
            let place = changed.counts.first.unwrap_or_default();
            let found = changed.station.words(changed.span, place, WINDOW)?.words;
            let Some(begin) = origin(&found, moved.seed, &meant) else { continue };
            let n = changed.station.gpu.ordinal;
            if n != moved.receiver.gpu.ordinal {
                return Ok(Some(Elsewhere::Gpu(n)));
            }
            let landed = changed.span.address + place * 4;
            let shift = landed.checked_signed_diff(moved.target.address + (begin - moved.first) * 4);
            return Ok(shift.map(Elsewhere::Shifted));
        }
        Ok(None)
    }

    /// Every field must hold its sentinels again. What does not is told by the transfer whose data is
    /// there, else by the last one.
    pub(super) fn strays(&self, faults: &mut Vec<Fault>) -> Result<(), GpuError> {
        let since = self.since.take();
        let Some(last) = since.last() else { return Ok(()) };
        let (pair, kind) = (last.cell.pair, last.cell.kind);
        self.machine.doing(&format!("{pair}: looking at all other memory after {kind}s"));
        let changed = self.changed(&[])?;
        for it in &changed {
            let place = it.counts.first.unwrap_or_default();
            let mut found = it.station.words(it.span, place, WINDOW)?.words;
            let whose = |past: &&Past| {
                let meant = past.first..past.first + past.cell.bytes / 4;
                origin(&found, past.seed, &meant).is_some()
            };
            let (cell, sure) = since.iter().find(whose).map_or((last.cell, false), |past| (past.cell, true));
            let what = What::Stray { gpu: it.station.gpu.ordinal, sure };
            found.truncate(SAMPLE);
            let (address, first) = (it.span.address, it.first);
            let counts = it.counts;
            let traces = Traces { counts, address, first, seed: it.sentinel, found, expected: None };
            faults.push(Fault { cell, what, traces, times: None, amid: false });
        }
        self.history.borrow_mut().extend(since);
        if changed.is_empty() { Ok(()) } else { self.rest() }
    }

    /// What changed in the fields beside `used`, for who finds out by whom.
    pub(super) fn changed_beside(&self, used: &[(&Field, Span)]) -> Result<Vec<Anywhere>, GpuError> {
        let mut all = Vec::new();
        for it in self.changed(used)? {
            let found = it.station.words(it.span, it.counts.first.unwrap_or_default(), WINDOW)?.words;
            let Changed { station, span, first, sentinel: seed, counts } = it;
            all.push(Anywhere { gpu: station.gpu.ordinal, span, first, seed, counts, found });
        }
        Ok(all)
    }

    /// All memory of all GPUs that does not hold its sentinel, but for what is in `used`.
    fn changed(&self, used: &[(&Field, Span)]) -> Result<Vec<Changed<'_, 'm>>, GpuError> {
        let mut changed = Vec::new();
        // All GPUs look at the same time, at one field after the other.
        for way in 0..4 {
            let mut asked = Vec::new();
            for station in &self.stations {
                let Some((field, span)) = part(station, way, used)? else { continue };
                let first = (span.address - field.whole().address) / 4;
                let sentinel = field.sentinel();
                station.stream.check(span, first, sentinel, !sentinel, &station.tallies.data)?;
                asked.push((station, span, first, sentinel));
            }
            for (station, span, first, sentinel) in asked {
                station.wait()?;
                let counts = counts(&station.tallies.data);
                if !counts.all_right(span.words()) {
                    changed.push(Changed { station, span, first, sentinel, counts });
                }
            }
        }
        Ok(changed)
    }
}

/// Of a station's fields the n-th half: all before what is used, or all behind it.
fn part<'s>(
    station: &'s Station<'_>,
    n: usize,
    used: &[(&Field, Span)],
) -> Result<Option<(&'s Field, Span)>, GpuError> {
    let Some(field) = station.fields().nth(n / 2) else { return Ok(None) };
    let whole = field.whole();
    let used = used.iter().find(|(of, _)| of.whole() == whole).map(|(_, span)| *span);
    let span = match (used, n % 2) {
        (None, 0) => whole,
        (None, _) => return Ok(None),
        (Some(used), 0) => whole.part(0, used.address - whole.address)?,
        (Some(used), _) => {
            let end = used.address - whole.address + used.bytes;
            whole.part(end, whole.bytes - end)?
        }
    };
    Ok(Some((field, span)))
}
