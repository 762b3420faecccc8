//! Whether another number of channels than NCCL's own choice is worth setting. A bounded search: a fresh arm
//! for each number, two sizes; a number is recommended to the workload only if it gains more than 5 % at the large
//! size, loses nothing at the small one, and NCCL reports that it really used it.

use super::arms::{self, Which};
use super::{connected, sweep, trouble};
use crate::config::Level;
use crate::gpu::Collective;
use crate::nccl::advice::{Channels, WORTH};
use crate::nccl::log::Said;
use crate::nccl::ranks::{Ranks, Setup, Trouble};
use crate::nccl::{Row, Sweep, advice};
use crate::outcome::Judgement;
use crate::outcome::finding::Finding;
use crate::suite::shared::speed::{judged, rounded, table};
use crate::suite::{Group, Machine, Test};
use serde_json::Value;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "nccl-channels",
    title: "Channels",
    proves: "NCCL's own number of channels is within 5 % of the best; otherwise the better number and its gain are reported",
    level: Level::Full,
    deadline: Duration::from_secs(300),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The numbers tried; NCCL accepts 32 at most on one node.
const TRIED: [u32; 5] = [2, 4, 8, 16, 32];
/// The small size may not become slower than this factor.
const LOSS: f64 = 0.97;
/// Speeds this close to the best count as equal: channels cost the workload multiprocessors, so the fewest
/// are chosen.
const ALIKE: f64 = 1.01;
/// Small and large, bytes.
const SIZES: [u64; 2] = [1 << 20, 128 << 20];

/// One number of channels; `None`: NCCL's own choice.
#[derive(Debug, Clone)]
struct Tried {
    channels: Option<u32>,
    /// By size, best of both placements, us.
    us: [f64; 2],
    /// The number that NCCL reports to use.
    used: Option<u32>,
    rows: Vec<Row>,
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = connected(machine)? {
        return Ok(none);
    }
    let standard = Which::P2p.setup(machine)?;
    let mut tried = vec![one(machine, &standard, None)?];
    for channels in TRIED {
        tried.push(one(machine, &standard, Some(channels))?);
    }
    // Measured again at the end: drift must not look like a gain.
    let again = one(machine, &standard, None)?;
    let own = match tried.first() {
        Some(first) => [first.us[0].min(again.us[0]), first.us[1].min(again.us[1])],
        None => again.us,
    };
    let usual = again.used;
    tried.push(again);
    let findings: Vec<_> = tried.iter().flat_map(|t| sweep::wrong(Which::P2p, &t.rows)).collect();
    let best = best(&tried, own, usual);
    let summary = format!("{}{}", summary(best.as_ref()), refused(&tried));
    let judgement = judged(summary, findings).with_tables(vec![shown(&tried, own)]);
    Ok(judgement.advising(best.as_ref().and_then(advice::channels).into_iter().collect()))
}

fn one(machine: &Machine, standard: &Setup, channels: Option<u32>) -> Result<Tried, Box<Finding>> {
    let name = channels.map_or("NCCL's own channels".to_owned(), |n| format!("{n} channels"));
    machine.doing(&format!("starting NCCL with {name}"));
    let setup = Setup { channels, ..standard.clone() };
    let taken = Ranks::start(&setup).and_then(|mut ranks| {
        ranks.join(arms::patience(machine.left(), ranks.age()))?;
        let rows = rows(machine, &mut ranks)?;
        Ok((rows, Said::read(&ranks.said()).channels()))
    });
    let (rows, used) = taken.map_err(|t| trouble::finding(&name, &t))?;
    let us = |bytes| {
        let placed =
            rows.iter().filter(|r| r.bytes == bytes).flat_map(|r| [r.out_of_place.us, r.in_place.us]);
        placed.fold(f64::INFINITY, f64::min)
    };
    let [small, large] = SIZES;
    Ok(Tried { channels, us: [us(small), us(large)], used, rows })
}

fn rows(machine: &Machine, ranks: &mut Ranks) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for bytes in SIZES {
        let sweep = Sweep::standard(Collective::AllReduce).at(bytes);
        rows.extend(sweep::rows(machine, Which::P2p, ranks, &sweep)?);
    }
    Ok(rows)
}

/// The number worth setting: the fewest channels among the fastest.
fn best(tried: &[Tried], own: [f64; 2], usual: Option<u32>) -> Option<Channels> {
    let usual = usual?;
    let gain = |t: &Tried| Some((t.channels?, own[0] / t.us[0], own[1] / t.us[1]));
    let taken = tried.iter().filter(|t| t.used == t.channels).filter_map(gain);
    let worth: Vec<_> = taken.filter(|(_, small, large)| *small >= LOSS && *large > WORTH).collect();
    let most = worth.iter().map(|(_, _, large)| *large).fold(0.0, f64::max);
    let alike = worth.into_iter().filter(|(_, _, large)| large * ALIKE >= most);
    let best = alike.min_by_key(|(channels, _, _)| *channels);
    best.map(|(best, _, gain)| Channels { best, usual, gain })
}

/// `; asked for 32, NCCL uses 16`: requests that NCCL did not follow.
fn refused(tried: &[Tried]) -> String {
    let one = |t: &Tried| {
        let asked = t.channels.filter(|_| t.used != t.channels)?;
        let used = t.used.map_or("an unknown number".to_owned(), |used| used.to_string());
        Some(format!("; asked for {asked}, NCCL uses {used}"))
    };
    tried.iter().filter_map(one).collect()
}

fn summary(best: Option<&Channels>) -> String {
    match best {
        Some(Channels { best, usual, gain }) => {
            let percent = (gain - 1.0) * 100.0;
            format!("{best} channels are {percent:.0} % faster than the {usual} that NCCL chooses by itself")
        }
        None => "NCCL's own number of channels is within 5 % of the best".to_owned(),
    }
}

fn shown(tried: &[Tried], own: [f64; 2]) -> Value {
    let columns = [("channels", ""), ("used", ""), ("1 MiB", "us"), ("128 MiB", "us"), ("gain", "")];
    let line = |t: &Tried| {
        vec![
            t.channels.map_or("own".into(), Value::from),
            t.used.into(),
            rounded(t.us[0]).into(),
            rounded(t.us[1]).into(),
            rounded(own[1] / t.us[1]).into(),
        ]
    };
    table("nccl.channels", &columns, &tried.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(channels: Option<u32>, us: [f64; 2]) -> Tried {
        Tried { channels, us, used: channels, rows: Vec::new() }
    }

    #[test]
    fn only_a_gain_of_more_than_5_percent_is_worth_a_setting() {
        let own = [100.0, 1000.0];
        let few = [tried(None, own), tried(Some(4), [100.0, 960.0])];
        assert_eq!(best(&few, own, Some(2)), None);
        let more = [tried(Some(8), [101.0, 900.0]), tried(Some(16), [90.0, 800.0])];
        let found = best(&more, own, Some(2)).unwrap();
        assert_eq!(best(&more, own, None), None);
        assert_eq!(found, Channels { best: 16, usual: 2, gain: 1.25 });
        assert_eq!(
            summary(Some(&found)),
            "16 channels are 25 % faster than the 2 that NCCL chooses by itself"
        );
    }

    #[test]
    fn a_setting_that_slows_small_sizes_down_is_not_handed_on() {
        assert_eq!(best(&[tried(Some(32), [120.0, 800.0])], [100.0, 1000.0], Some(2)), None);
    }

    #[test]
    fn the_fewest_channels_among_equally_fast_are_chosen() {
        let all =
            [(4, 900.0), (8, 802.0), (16, 800.0), (32, 800.0)].map(|(n, us)| tried(Some(n), [100.0, us]));
        assert_eq!(best(&all, [100.0, 1000.0], Some(2)).unwrap().best, 8);
    }

    #[test]
    fn a_number_that_nccl_did_not_accept_is_reported_and_not_handed_on() {
        let own = [100.0, 1000.0];
        let asked = |used| Tried { used, ..tried(Some(32), [100.0, 500.0]) };
        for (used, expected) in [
            (Some(16), "; asked for 32, NCCL uses 16"),
            (None, "; asked for 32, NCCL uses an unknown number"),
        ] {
            assert_eq!(best(&[asked(used)], own, Some(2)), None);
            assert_eq!(refused(&[tried(None, own), asked(used)]), expected);
        }
        assert!(best(&[asked(Some(32))], own, Some(2)).is_some() && refused(&[asked(Some(32))]).is_empty());
    }
}
