//! Whether another number of channels than NCCL's own choice is worth setting. A bounded search: an arm
//! for each number, two sizes; a number is recommended to the workload only if it gains more than 5 % at the large
//! size, loses nothing at the small one, and NCCL reports that it really used it. At level standard few numbers are
//! tried, and only where GPUs reach each other over PCIe: there NCCL often chooses too few.

use super::arms::{self, ArmKind};
use super::{ALLREDUCE, not_connected, sweep, trouble};
use crate::nccl::advice::{BestChannels, LEAST_GAIN};
use crate::nccl::log::NcclLog;
use crate::nccl::ranks::{Ranks, Setup, Trouble};
use crate::nccl::{Row, Sweep, advice};
use crate::suite::benchmark::{judged, left_to_full, rounded};
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use outcome::finding::Finding;
use outcome::table::{Channels, ChannelsRow, Table};
use outcome::test;
use outcome::{Judgement, Outcome};
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_CHANNELS,
    title: "Channels",
    proves: "NCCL's own number of channels is within 5 % of the best; otherwise the better number and its gain are reported",
    level: Level::Standard,
    deadline: Duration::from_secs(300),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The numbers tried; NCCL accepts 32 at most on one node. With eight RTX PRO 6000 behind two EPYC 9005, 8 channels moved
/// 37.6 GB/s where NCCL's own choice moved 22.2.
const fn tried(level: Level) -> &'static [u32] {
    match level {
        Level::Quick | Level::Standard => &[8, 16],
        Level::Full | Level::Acceptance => &[2, 4, 8, 16, 32],
    }
}
/// The size of the buffers of an arm that is measured beside others, bytes: they share the memory.
const SHARED_ROOM: u64 = 256 << 20;
/// The small size may not become slower than this factor.
const LEAST_SMALL: f64 = 0.97;
/// Speeds this close to the best count as equal: channels cost the workload multiprocessors, so the fewest
/// are chosen.
const EQUAL_SPEED: f64 = 1.01;
/// Small and large, bytes.
const SIZES: [u64; 2] = [1 << 20, 128 << 20];

/// The measurement with one number of channels.
#[derive(Debug, Clone)]
struct Trial {
    /// `None`: NCCL's own choice.
    channels: Option<u32>,
    /// By size, best of both placements, us.
    us: [f64; 2],
    /// The number that NCCL reports to use.
    used: Option<u32>,
    rows: Vec<Row>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    if let Some(none) = left_to_full(context, &TEST)? {
        return Ok(none);
    }
    if let Some(Outcome::Fail | Outcome::Error) = context.outcome(ALLREDUCE.id()) {
        let why = "all_reduce does not pass (see nccl-allreduce), so no number of channels is recommended";
        return Ok(Judgement::not_applicable(why));
    }
    let setup = ArmKind::P2p.setup(context)?;
    let level = context.config.validate.level;
    let (mut trials, again) = match level {
        Level::Quick | Level::Standard => beside_each_other(context, &setup, tried(level))?,
        Level::Full | Level::Acceptance => one_by_one(context, &setup, tried(level))?,
    };
    let own = match trials.first() {
        Some(first) => [first.us[0].min(again.us[0]), first.us[1].min(again.us[1])],
        None => again.us,
    };
    let usual = again.used;
    trials.push(again);
    let findings: Vec<_> = trials
        .iter()
        .flat_map(|t| sweep::wrong(ArmKind::P2p, &t.rows))
        .collect();
    let best = best(&trials, own, usual);
    let summary = format!("{}{}", summary(best.as_ref()), unfollowed(&trials));
    let judgement = judged(summary, findings).with_tables(vec![trial_table(&trials, own)]);
    Ok(judgement.advising(
        best.as_ref()
            .and_then(advice::channels)
            .into_iter()
            .collect(),
    ))
}

/// A fresh arm for each number and for NCCL's own choice, which is measured again at the end: drift must not look like a
/// gain.
fn one_by_one(
    context: &TestContext,
    setup: &Setup,
    tried: &[u32],
) -> Result<(Vec<Trial>, Trial), Box<Finding>> {
    let fresh =
        |channels| start(context, setup, channels).and_then(|arm| finish(context, channels, arm));
    let mut trials = vec![fresh(None)?];
    for channels in tried {
        trials.push(fresh(Some(*channels))?);
    }
    Ok((trials, fresh(None)?))
}

/// The same in less time: the arms start together, and NCCL's own choice is measured in the arm that other tests use too.
fn beside_each_other(
    context: &TestContext,
    setup: &Setup,
    tried: &[u32],
) -> Result<(Vec<Trial>, Trial), Box<Finding>> {
    let setup = Setup {
        room: setup.room.min(SHARED_ROOM),
        ..setup.clone()
    };
    let begin = |channels: &u32| Ok((Some(*channels), start(context, &setup, Some(*channels))?));
    let begun = tried
        .iter()
        .map(begin)
        .collect::<Result<Vec<_>, Box<Finding>>>()?;
    let own = || arms::with(context, ArmKind::P2p, |ranks| trial(context, None, ranks));
    let mut trials = vec![own()?];
    for (channels, arm) in begun {
        trials.push(finish(context, channels, arm)?);
    }
    Ok((trials, own()?))
}

fn name(channels: Option<u32>) -> String {
    channels.map_or("NCCL's own channels".to_owned(), |n| {
        format!("{n} channels")
    })
}

fn start(
    context: &TestContext,
    setup: &Setup,
    channels: Option<u32>,
) -> Result<Ranks, Box<Finding>> {
    let name = name(channels);
    context.doing(format!("starting NCCL with {name}"));
    Ranks::start(&Setup {
        channels,
        ..setup.clone()
    })
    .map_err(|t| trouble::finding(name, &t))
}

/// Measures an arm that was started, and ends it.
fn finish(
    context: &TestContext,
    channels: Option<u32>,
    mut ranks: Ranks,
) -> Result<Trial, Box<Finding>> {
    let within = arms::join_timeout(context.time_left(), ranks.age());
    let measured = ranks
        .join(within)
        .map(drop)
        .and_then(|()| trial(context, channels, &mut ranks));
    measured.map_err(|t| trouble::finding(name(channels), &t))
}

fn trial(
    context: &TestContext,
    channels: Option<u32>,
    ranks: &mut Ranks,
) -> Result<Trial, Trouble> {
    let rows = rows(context, ranks)?;
    let used = NcclLog::read(&ranks.output()).channels();
    let us = |bytes| {
        let placed = rows
            .iter()
            .filter(|r| r.bytes == bytes)
            .flat_map(|r| [r.out_of_place.us, r.in_place.us]);
        placed.fold(f64::INFINITY, f64::min)
    };
    let [small, large] = SIZES;
    Ok(Trial {
        channels,
        us: [us(small), us(large)],
        used,
        rows,
    })
}

fn rows(context: &TestContext, ranks: &mut Ranks) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for bytes in SIZES {
        let sweep = Sweep::standard(Collective::AllReduce).at(bytes);
        rows.extend(sweep::rows(context, ArmKind::P2p, ranks, &sweep)?);
    }
    Ok(rows)
}

/// The number worth setting: the fewest channels among the fastest.
fn best(trials: &[Trial], own: [f64; 2], usual: Option<u32>) -> Option<BestChannels> {
    let usual = usual?;
    let gain = |t: &Trial| Some((t.channels?, own[0] / t.us[0], own[1] / t.us[1]));
    let obeyed = trials
        .iter()
        .filter(|t| t.used == t.channels)
        .filter_map(gain);
    let gains = |(_, small, large): &(u32, f64, f64)| *small >= LEAST_SMALL && *large > LEAST_GAIN;
    let worth: Vec<_> = obeyed.filter(gains).collect();
    let most = worth.iter().map(|(_, _, large)| *large).fold(0.0, f64::max);
    let alike = worth
        .into_iter()
        .filter(|(_, _, large)| large * EQUAL_SPEED >= most);
    let best = alike.min_by_key(|(channels, _, _)| *channels);
    best.map(|(best, _, gain)| BestChannels { best, usual, gain })
}

/// `; asked for 32, NCCL uses 16`: requests that NCCL did not follow.
fn unfollowed(trials: &[Trial]) -> String {
    let one = |t: &Trial| {
        let asked = t.channels.filter(|_| t.used != t.channels)?;
        let used = t
            .used
            .map_or("an unknown number".to_owned(), |used| used.to_string());
        Some(format!("; asked for {asked}, NCCL uses {used}"))
    };
    trials.iter().filter_map(one).collect()
}

fn summary(best: Option<&BestChannels>) -> String {
    match best {
        Some(BestChannels { best, usual, gain }) => {
            let percent = (gain - 1.0) * 100.0;
            format!(
                "{best} channels are {percent:.0} % faster than the {usual} that NCCL chooses by itself"
            )
        }
        None => "NCCL's own number of channels is within 5 % of the best".to_owned(),
    }
}

fn trial_table(trials: &[Trial], own: [f64; 2]) -> Table {
    let row = |t: &Trial| ChannelsRow {
        channels: Channels(t.channels),
        used: t.used,
        small: rounded(t.us[0]),
        large: rounded(t.us[1]),
        gain: rounded(own[1] / t.us[1]),
    };
    Table::Channels(trials.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(channels: Option<u32>, us: [f64; 2]) -> Trial {
        Trial {
            channels,
            us,
            used: channels,
            rows: Vec::new(),
        }
    }

    #[test]
    fn only_a_gain_of_more_than_5_percent_is_worth_a_setting() {
        let own = [100.0, 1000.0];
        let few = [trial(None, own), trial(Some(4), [100.0, 960.0])];
        assert_eq!(best(&few, own, Some(2)), None);
        let more = [
            trial(Some(8), [101.0, 900.0]),
            trial(Some(16), [90.0, 800.0]),
        ];
        let found = best(&more, own, Some(2)).unwrap();
        assert_eq!(best(&more, own, None), None);
        assert_eq!(
            found,
            BestChannels {
                best: 16,
                usual: 2,
                gain: 1.25
            }
        );
        assert_eq!(
            summary(Some(&found)),
            "16 channels are 25 % faster than the 2 that NCCL chooses by itself"
        );
    }

    #[test]
    fn a_setting_that_slows_small_sizes_down_is_not_handed_on() {
        assert_eq!(
            best(&[trial(Some(32), [120.0, 800.0])], [100.0, 1000.0], Some(2)),
            None
        );
    }

    #[test]
    fn the_fewest_channels_among_equally_fast_are_chosen() {
        let all = [(4, 900.0), (8, 802.0), (16, 800.0), (32, 800.0)]
            .map(|(n, us)| trial(Some(n), [100.0, us]));
        assert_eq!(best(&all, [100.0, 1000.0], Some(2)).unwrap().best, 8);
    }

    #[test]
    fn a_number_that_nccl_did_not_accept_is_reported_and_not_handed_on() {
        let own = [100.0, 1000.0];
        let asked = |used| Trial {
            used,
            ..trial(Some(32), [100.0, 500.0])
        };
        for (used, expected) in [
            (Some(16), "; asked for 32, NCCL uses 16"),
            (None, "; asked for 32, NCCL uses an unknown number"),
        ] {
            assert_eq!(best(&[asked(used)], own, Some(2)), None);
            assert_eq!(unfollowed(&[trial(None, own), asked(used)]), expected);
        }
        assert!(
            best(&[asked(Some(32))], own, Some(2)).is_some()
                && unfollowed(&[asked(Some(32))]).is_empty()
        );
    }
}
