//! Whether a pair's data takes the path that the driver names: what NVLinks carry is counted by the GPUs at both ends, exactly
//! to the KiB (measured on four H200). A pair that is said to use NVLink and whose data does not appear there takes another way,
//! at whatever speed; and the reverse. GPUs that do not count are left out.

use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{Bench, CopyMethod, Flow, GpuPaths, RoundAccess, Side, wrong_data};
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::late_counters::{LATE, read_until};
use gpu::CounterValue;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::collections::BTreeMap;

/// Bytes of one copy, and the number of copies of a pair: more than other programs' traffic in that time.
const BYTES: u64 = 64 << 20;
const TIMES: u32 = 4;
/// Copies of a pair that was suspect.
const TIMES_AGAIN: u32 = 32;
/// How often counters are read for pairs of which most are right.
const SOON: usize = 3;
/// So many pairs are named; others are not looked for any more.
const MOST_NAMED: usize = 4;

/// What left a GPU and what reached it by NVLink, KiB.
type Data = [CounterValue; 2];

/// What one pair moved, and what its two ends counted, KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pair: Pair,
    moved: u64,
    /// By the sender and by the receiver; `None` where a GPU does not count.
    sent: Option<u64>,
    received: Option<u64>,
}

impl Seen {
    /// Whether most of the data appeared on the NVLinks of both ends; `None` if nothing is known.
    fn is_on_nvlink(&self) -> Option<bool> {
        let most = |kib: u64| kib >= self.moved / 2;
        match (self.sent, self.received) {
            (None, None) => None,
            (sent, received) => Some(sent.is_none_or(most) && received.is_none_or(most)),
        }
    }
}

/// The findings about all pairs, writes of copy engines and reads of kernels. First all of them together, with one look at the
/// counters; only where these do not fit, pair by pair.
pub(super) fn findings(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
) -> Result<Vec<Finding>, Box<Finding>> {
    let gpus = context.clique()?.addresses();
    let before = read(context, &gpus);
    if !before
        .values()
        .flatten()
        .any(|value| value.known().is_some())
    {
        return Ok(Vec::new());
    }
    let (mut found, mut all) = (Vec::new(), Vec::new());
    each_round(context, bench, paths, &mut |flows| {
        found.extend(run(context, bench, flows)?);
        all.extend(flows.iter().flatten().copied());
        Ok(true)
    })?;
    let is_nvlink = |pair| paths.is_nvlink(pair);
    if read_until(LATE, || {
        fits(&gpus, &all, (&before, &read(context, &gpus)), &is_nvlink)
    }) {
        return Ok(found);
    }
    let mut named: Vec<Pair> = Vec::new();
    each_round(context, bench, paths, &mut |flows| {
        let seen = moved(context, bench, &gpus, flows, SOON, &is_nvlink)?;
        let is_new = |seen: &&Seen| {
            !named.contains(&seen.pair) && judge(seen, is_nvlink(seen.pair)).is_some()
        };
        for suspect in seen.iter().filter(is_new).copied().collect::<Vec<_>>() {
            // A counter may have been late, or another program's traffic in the way.
            let again = flows
                .iter()
                .flatten()
                .filter(|flow| flow.pair == suspect.pair);
            let again: Vec<_> = again
                .map(|flow| {
                    vec![Flow {
                        times: TIMES_AGAIN,
                        ..*flow
                    }]
                })
                .collect();
            let again = moved(context, bench, &gpus, &again, LATE, &is_nvlink)?;
            let wrong = again
                .iter()
                .find_map(|seen| judge(seen, is_nvlink(seen.pair)));
            named.extend(wrong.as_ref().map(|_| suspect.pair));
            found.extend(wrong);
        }
        Ok(named.len() < MOST_NAMED)
    })?;
    Ok(found)
}

/// What is done with the transfers of a round; it returns whether to go on.
type Work<'a> = dyn FnMut(&[Vec<Flow>]) -> Result<bool, Box<Finding>> + 'a;

/// Calls `work` with the transfers of each round of pairs, in both directions, until it returns false.
fn each_round(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    work: &mut Work<'_>,
) -> Result<(), Box<Finding>> {
    for round in paths.rounds() {
        let access = RoundAccess::of(context, &round)?;
        for (method, by) in [
            (CopyMethod::Ce, Side::Source),
            (CopyMethod::Sm, Side::Target),
        ] {
            for pairs in [
                access.pairs.clone(),
                access.pairs.iter().map(|pair| pair.back()).collect(),
            ] {
                let of = |pair: &Pair| Flow {
                    by,
                    ..Flow::write(*pair, method, BYTES.min(bench.bytes), TIMES)
                };
                let flows: Vec<_> = pairs.iter().map(|pair| vec![of(pair)]).collect();
                if !flows.is_empty() && !work(&flows)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Runs transfers at once; returns the findings about wrong data.
fn run(
    context: &TestContext,
    bench: &Bench<'_>,
    flows: &[Vec<Flow>],
) -> Result<Vec<Finding>, Box<Finding>> {
    context.doing(format!(
        "comparing the NVLinks' counters with the data of {} pairs",
        flows.len()
    ));
    let timed = bench
        .run(flows)
        .map_err(|e| fault_finding(Subject::Machine, &e))?;
    let wrong = timed.into_iter().filter_map(|timed| timed.wrong);
    Ok(wrong
        .map(|(flow, checked)| wrong_data(&flow, &checked))
        .collect())
}

/// Moves the data of some pairs at once, and compares the counters before and after.
fn moved(
    context: &TestContext,
    bench: &Bench<'_>,
    gpus: &[Bdf],
    flows: &[Vec<Flow>],
    tries: usize,
    is_nvlink: &dyn Fn(Pair) -> bool,
) -> Result<Vec<Seen>, Box<Finding>> {
    let before = read(context, gpus);
    // Wrong data was reported when all pairs moved it.
    run(context, bench, flows)?;
    let mut seen = Vec::new();
    read_until(tries, || {
        seen = compare(gpus, flows, &before, &read(context, gpus));
        !seen
            .iter()
            .any(|seen| is_nvlink(seen.pair) && seen.is_on_nvlink() == Some(false))
    });
    Ok(seen)
}

/// Whether each GPU that counts has counted the data of all its pairs on NVLink, and of no others.
fn fits(
    gpus: &[Bdf],
    flows: &[Flow],
    (before, after): (&BTreeMap<Bdf, Data>, &BTreeMap<Bdf, Data>),
    is_nvlink: &dyn Fn(Pair) -> bool,
) -> bool {
    let slack = (flows.iter().map(Flow::total).min().unwrap_or_default() / 2) >> 10;
    let fits = |bdf: &Bdf, way: usize, own: &dyn Fn(&Flow) -> bool| {
        let value =
            |data: &BTreeMap<Bdf, Data>| data.get(bdf).and_then(|data| data.get(way).cloned());
        let rise = value(after)
            .zip(value(before))
            .and_then(|(after, before)| after.since(&before));
        let Some(rise) = rise else { return true };
        let mine = || flows.iter().filter(|flow| own(flow));
        let expected = mine()
            .filter(|flow| is_nvlink(flow.pair))
            .map(Flow::total)
            .sum::<u64>()
            >> 10;
        let all_on_nvlink = mine().all(|flow| is_nvlink(flow.pair));
        rise + slack >= expected && (all_on_nvlink || rise <= expected + slack)
    };
    GpuId::each(gpus).all(|(gpu, bdf)| {
        fits(bdf, 0, &|flow| flow.pair.from == gpu) && fits(bdf, 1, &|flow| flow.pair.to == gpu)
    })
}

fn read(context: &TestContext, gpus: &[Bdf]) -> BTreeMap<Bdf, Data> {
    let Ok(nvml) = context.nvml() else {
        return BTreeMap::new();
    };
    gpus.iter()
        .map(|gpu| (*gpu, nvml.nvlink_data(*gpu)))
        .collect()
}

fn compare(
    gpus: &[Bdf],
    flows: &[Vec<Flow>],
    before: &BTreeMap<Bdf, Data>,
    after: &BTreeMap<Bdf, Data>,
) -> Vec<Seen> {
    let rise = |gpu: GpuId, of: fn(&Data) -> &CounterValue| {
        let bdf = gpus.get(gpu.index())?;
        of(after.get(bdf)?).since(of(before.get(bdf)?))
    };
    let seen = |flow: &Flow| Seen {
        pair: flow.pair,
        moved: flow.total() >> 10,
        sent: rise(flow.pair.from, |data| &data[0]),
        received: rise(flow.pair.to, |data| &data[1]),
    };
    flows.iter().flatten().map(seen).collect()
}

/// `said`: whether NVLinks should carry the pair's data.
fn judge(seen: &Seen, said: bool) -> Option<Finding> {
    let on_nvlink = seen.is_on_nvlink()?;
    let Seen {
        pair,
        moved,
        sent,
        received,
    } = seen;
    let number =
        |kib: &Option<u64>| kib.map_or("an unknown number of".to_owned(), |kib| kib.to_string());
    let what = match (said, on_nvlink) {
        (true, false) => "NVLinks should carry its data, and they did not count it",
        (false, true) => "its data should go over PCIe, and NVLinks counted it",
        _ => return None,
    };
    let message = format!(
        "{pair}: {what}: of {moved} KiB GPU {} sent {} KiB by NVLink, and GPU {} received {} KiB",
        pair.from,
        number(sent),
        pair.to,
        number(received)
    );
    let expected = if said { *moved } else { 0 };
    let finding = Code::P2pDetour.finding(Severity::Warn, *pair, message);
    Some(finding.values(
        sent.or(*received).unwrap_or_default(),
        expected,
        Some("KiB"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sent: Option<u64>, received: Option<u64>) -> Seen {
        Seen {
            pair: Pair::of(0, 1),
            moved: 1000,
            sent,
            received,
        }
    }

    #[test]
    fn data_that_both_ends_counted_went_over_nvlink() {
        assert_eq!(judge(&seen(Some(1000), Some(1000)), true), None);
        assert_eq!(
            judge(&seen(Some(4000), Some(1001)), true),
            None,
            "others' traffic comes on top"
        );
        let found = judge(&seen(Some(0), Some(12)), true).unwrap();
        assert!(found.is(Code::P2pDetour) && found.severity == Severity::Warn);
        assert!(
            found
                .message
                .contains("of 1000 KiB GPU 0 sent 0 KiB by NVLink, and GPU 1 received 12 KiB"),
            "{found:?}"
        );
        assert!(
            judge(&seen(Some(1000), Some(0)), true).is_some(),
            "one end did not count it"
        );
    }

    #[test]
    fn data_of_a_pair_on_pcie_that_nvlinks_counted_is_named_too() {
        assert_eq!(judge(&seen(Some(0), Some(0)), false), None);
        assert!(
            judge(&seen(Some(1000), Some(1000)), false)
                .unwrap()
                .message
                .contains("should go over PCIe")
        );
    }

    #[test]
    fn the_data_of_all_pairs_together_fits_or_not() {
        let at = |bus| Bdf {
            domain: 0,
            bus,
            device: 0,
            function: 0,
        };
        let gpus = [at(1), at(2)];
        let flows = [Pair::of(0, 1), Pair::of(1, 0)]
            .map(|pair| Flow::write(pair, CopyMethod::Ce, 1 << 20, 4));
        let data = |each: [[u64; 2]; 2]| -> BTreeMap<Bdf, Data> {
            gpus.iter()
                .copied()
                .zip(each.map(|data| data.map(CounterValue::At)))
                .collect()
        };
        let before = data([[10, 20], [30, 40]]);
        let fits = |after, nvlink: bool| fits(&gpus, &flows, (&before, &data(after)), &|_| nvlink);
        let all = [[10 + 4096, 20 + 4096], [30 + 4096, 40 + 4096]];
        assert!(
            fits(all, true) && fits([[9000, 9000], [9000, 9000]], true),
            "others' traffic comes on top"
        );
        assert!(
            !fits([[10, 20 + 4096], [30 + 4096, 40]], true),
            "one direction is missing"
        );
        assert!(!fits(all, false) && fits([[10, 20], [30, 40]], false));
    }

    #[test]
    fn gpus_that_do_not_count_say_nothing() {
        for said in [true, false] {
            assert_eq!(judge(&seen(None, None), said), None);
        }
        assert_eq!(judge(&seen(Some(1000), None), true), None);
        assert!(judge(&seen(None, Some(0)), true).is_some());
        let at = Bdf {
            domain: 0,
            bus: 1,
            device: 0,
            function: 0,
        };
        let data = |kib| BTreeMap::from([(at, [CounterValue::At(kib), CounterValue::Unsupported])]);
        let flows = [vec![Flow::write(
            Pair::of(0, 0),
            CopyMethod::Ce,
            1 << 20,
            1,
        )]];
        let found = compare(&[at], &flows, &data(5), &data(7));
        assert_eq!(
            (found[0].sent, found[0].received, found[0].moved),
            (Some(2), None, 1024)
        );
    }
}
