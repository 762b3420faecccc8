//! A closer look at a transfer that went wrong, to classify the fault; and the search of all memory for
//! unintended changes.

use super::bench::{Bench, Moved, Past, Seen};
use super::field::{Field, Station, counts};
use crate::gpu::pattern::{Counts, Elsewhere, Evidence, Source, classify, origin};
use crate::gpu::{GpuError, Span};
use crate::suite::shared::plot::Changed as Anywhere;
use crate::suite::shared::transfer::{Engine, Fault, Kind, SAMPLE, Traces, Way, What};

/// Words that are fetched around a fault.
const WINDOW: u64 = 64;

/// Memory that does not hold its sentinel.
struct Changed<'b, 'm> {
    station: &'b Station<'m>,
    span: Span<'b>,
    /// Number of the span's first word within its field.
    first: u64,
    sentinel: u64,
    counts: Counts,
}

impl<'m> Bench<'m> {
    /// Classifies the fault; one that is not about data stays as it is.
    pub(super) fn closer(&self, moved: &Moved<'_, 'm>, what: What, seen: &Seen) -> Result<What, GpuError> {
        let What::Data(_) = what else { return Ok(what) };
        let Moved { cell, seed, first, receiver, target, .. } = moved;
        let sentinel = moved.to.sentinel();
        let again = receiver.check(*target, *first, *seed, sentinel)?;
        let through_peer = match cell.kind {
            // Without peer access a GPU must not touch its peer's memory.
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

    /// Other places that hold the data.
    fn elsewhere(&self, moved: &Moved<'_, 'm>) -> Result<Option<Elsewhere>, GpuError> {
        let meant = moved.first..moved.first + moved.target.words();
        for changed in self.changed(&[(moved.from, moved.source), (moved.to, moved.target)])? {
            let place = changed.counts.first.unwrap_or_default();
            let found = changed.station.words(changed.span, place, WINDOW)?.words;
            let Some(begin) = origin(&found, moved.seed, &meant) else { continue };
            let n = changed.station.gpu.id();
            if n != moved.receiver.gpu.id() {
                return Ok(Some(Elsewhere::Gpu(n)));
            }
            let landed = changed.span.address + place * 4;
            let shift = landed.checked_signed_diff(moved.target.address + (begin - moved.first) * 4);
            return Ok(shift.map(Elsewhere::Shifted));
        }
        Ok(None)
    }

    /// Every field must hold its sentinels again. A change is attributed to the transfer whose data is there,
    /// else to the last one.
    pub(super) fn strays(&self, faults: &mut Vec<Fault>) -> Result<(), GpuError> {
        let since = self.since.take();
        let Some(last) = since.last() else { return Ok(()) };
        let (pair, kind) = (last.cell.pair, last.cell.kind);
        self.machine.doing(&format!("{pair}: checking all other memory after {kind}s"));
        let changed = self.changed(&[])?;
        for it in &changed {
            let place = it.counts.first.unwrap_or_default();
            let mut found = it.station.words(it.span, place, WINDOW)?.words;
            let whose = |past: &&Past| {
                let meant = past.first..past.first + past.cell.bytes / 4;
                origin(&found, past.seed, &meant).is_some()
            };
            let (cell, sure) = since.iter().find(whose).map_or((last.cell, false), |past| (past.cell, true));
            let what = What::Stray { gpu: it.station.gpu.id(), sure };
            found.truncate(SAMPLE);
            let (address, first) = (it.span.address, it.first);
            let counts = it.counts;
            let traces = Traces { counts, address, first, seed: it.sentinel, found, expected: None };
            faults.push(Fault { cell, what, traces, times: None, amid: false });
        }
        self.history.borrow_mut().extend(since);
        if changed.is_empty() { Ok(()) } else { self.rest() }
    }

    /// What changed in the fields outside `used`, for the caller to find the cause.
    pub(super) fn changed_beside(&self, used: &[(&Field, Span<'_>)]) -> Result<Vec<Anywhere>, GpuError> {
        let mut all = Vec::new();
        for it in self.changed(used)? {
            let found = it.station.words(it.span, it.counts.first.unwrap_or_default(), WINDOW)?.words;
            let Changed { station, span, first, sentinel: seed, counts } = it;
            all.push(Anywhere { gpu: station.gpu.id(), place: *span, first, seed, counts, found });
        }
        Ok(all)
    }

    /// All memory of all GPUs that does not hold its sentinel, except `used`.
    fn changed(&self, used: &[(&Field, Span<'_>)]) -> Result<Vec<Changed<'_, 'm>>, GpuError> {
        let mut changed = Vec::new();
        // All GPUs check at the same time, one field after the other.
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

/// The `n`th half of a station's fields: everything before the used part, or everything behind it.
fn part<'s>(
    station: &'s Station<'_>,
    n: usize,
    used: &[(&Field, Span<'_>)],
) -> Result<Option<(&'s Field, Span<'s>)>, GpuError> {
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
