//! Findings from what the GPUs count of their clocks and links: what rose while a test ran. Pure.
//!
//! Packets that an NVLink or a PCIe link sent again, links that were trained again and fatal errors are 0 on healthy machines
//! and count when they rise. CRC errors of NVLinks rise on each healthy link under load, and are corrected: a link is compared
//! with all others of the machine, by its errors for each GiB.

use crate::suite::MIN_CRC;
use gpu::{CounterValue, GpuStatus, Limit, LinkErrors, PcieCounter, Presence, Tallies};
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// Less than this is not worth mentioning, ns.
const MIN_LIMITED_NS: u64 = 10_000_000;
/// So many times the errors of the machine's other links for each GiB: healthy links differ by up to a factor of four.
const CRC_TIMES: f64 = 10.0;
/// So many links make a comparison.
const MIN_LINKS: usize = 4;
const KIB_PER_GIB: f64 = 1_048_576.0;

/// What the GPUs counted before.
#[derive(Debug, Default)]
pub(super) struct TallyHistory {
    last: BTreeMap<Bdf, Tallies>,
    /// The first known errors of each NVLink of a GPU, and its data then: few errors are made while one test runs.
    first: BTreeMap<Bdf, Tallies>,
    /// The links that were named for their CRC errors.
    named: BTreeSet<(Bdf, u32)>,
    has_told_unknown: bool,
}

impl TallyHistory {
    /// Adds a snapshot, and returns the findings about what rose since the last one.
    pub(super) fn add_snapshot(&mut self, now: &[GpuStatus]) -> Vec<Finding> {
        let before = |gpu: &GpuStatus| self.last.get(&gpu.gpu);
        let pairs: Vec<_> = now
            .iter()
            .filter_map(|gpu| Some((gpu, before(gpu)?)))
            .collect();
        let mut found = limited(&pairs);
        found.extend(
            pairs
                .iter()
                .filter_map(|(gpu, before)| nvlink_errors(gpu, before)),
        );
        found.extend(
            pairs
                .iter()
                .filter_map(|(gpu, before)| pcie_errors(gpu, before)),
        );
        found.extend(self.crc(now));
        found.extend(unknown(now).filter(|_| !std::mem::replace(&mut self.has_told_unknown, true)));
        for gpu in now.iter().filter(|gpu| gpu.presence == Presence::Here) {
            self.last.insert(gpu.gpu, gpu.tallies.clone());
            if !gpu.tallies.nvlinks.is_empty() {
                self.first
                    .entry(gpu.gpu)
                    .or_insert_with(|| gpu.tallies.clone());
            }
        }
        found
    }

    /// Links with far more CRC errors than the others since the first snapshot, each once.
    fn crc(&mut self, now: &[GpuStatus]) -> Vec<Finding> {
        let links: Vec<_> = now
            .iter()
            .filter_map(|gpu| Some(link_rates(gpu, self.first.get(&gpu.gpu)?)))
            .flatten()
            .collect();
        let bad = outliers(
            &links
                .iter()
                .map(|link| (link.errors, link.gib))
                .collect::<Vec<_>>(),
        );
        let new = |at: &(Bdf, u32)| !self.named.contains(at);
        let bad: Vec<_> = bad
            .into_iter()
            .filter_map(|(n, usual)| Some((links.get(n)?, usual)))
            .collect();
        let bad: Vec<_> = bad
            .into_iter()
            .filter(|(link, _)| new(&(link.gpu.gpu, link.link)))
            .collect();
        self.named
            .extend(bad.iter().map(|(link, _)| (link.gpu.gpu, link.link)));
        bad.into_iter()
            .map(|(link, usual)| crc_finding(link, usual))
            .collect()
    }
}

/// Whether a judgement that has `known` findings already says what `new` says.
pub(super) fn is_told(new: &Finding, known: &[Finding]) -> bool {
    let like = |f: &&Finding| f.code == new.code && f.severity >= new.severity;
    match new.code {
        Code::GpuThrottled => {
            let told: BTreeSet<GpuId> = known
                .iter()
                .filter(like)
                .flat_map(|f| f.subject.numbers())
                .collect();
            new.subject.numbers().iter().all(|gpu| told.contains(gpu))
        }
        Code::PcieAer => {
            let subject = new.subject.without_function();
            known
                .iter()
                .filter(like)
                .any(|f| f.subject.without_function() == subject)
        }
        _ => false,
    }
}

/// `GPU 1 (0000:41:00.0)`
fn name(gpu: &GpuStatus) -> String {
    format!("{} ({})", gpu.name(), gpu.gpu)
}

/// One finding for each limit that lowered clocks. Heat is a fault; a busy GPU may reach its power limit, and boost clocks reach
/// the limits of the board and of the voltage.
fn limited(pairs: &[(&GpuStatus, &Tallies)]) -> Vec<Finding> {
    let kinds = [
        (Limit::Thermal, Severity::Warn, "temperature"),
        (Limit::Power, Severity::Info, "power limit"),
        (Limit::Board, Severity::Info, "limit of the board"),
        (Limit::Reliability, Severity::Info, "limit of the voltage"),
        (Limit::SyncBoost, Severity::Info, "another GPU of its group"),
    ];
    let of = |(limit, severity, why): (Limit, Severity, &str)| {
        let since = |(gpu, before): &(&GpuStatus, &Tallies)| {
            gpu.tallies
                .limited
                .get(&limit)?
                .since(before.limited.get(&limit)?)
                .filter(|ns| *ns >= MIN_LIMITED_NS)
        };
        let held: Vec<_> = pairs
            .iter()
            .filter_map(|pair| Some((pair.0, since(pair)?)))
            .collect();
        let longest = held.iter().map(|(_, ns)| *ns).max()?;
        let names = held
            .iter()
            .map(|(gpu, _)| gpu.name())
            .collect::<Vec<_>>()
            .join(", ");
        let seconds = longest as f64 / 1e9;
        let message = format!(
            "{names}: clocks were lowered for up to {seconds:.2} s while the test ran: {why}"
        );
        let numbers = held
            .iter()
            .map(|(gpu, _)| gpu.ordinal.map(GpuId::new))
            .collect::<Option<Vec<_>>>();
        let subject = numbers.map_or(Subject::Machine, Subject::gpus);
        let line = |(gpu, ns): &(&GpuStatus, u64)| {
            format!(
                "NVML: violation time of {} {limit:?}: {ns} ns more",
                name(gpu)
            )
        };
        Some(
            Code::GpuThrottled
                .finding(severity, subject, message)
                .seen_all(held.iter().map(line).collect()),
        )
    };
    kinds.into_iter().filter_map(of).collect()
}

/// A count of one link's errors.
type Count = fn(&LinkErrors) -> &CounterValue;

/// The errors of a GPU's NVLinks that are 0 on healthy machines, with the links' numbers where they are known.
fn nvlink_errors(now: &GpuStatus, before: &Tallies) -> Option<Finding> {
    let kinds: [(Count, &str); 3] = [
        (|link| &link.replays, "packets sent again"),
        (|link| &link.recoveries, "trainings of a link"),
        (|link| &link.failed_recoveries, "trainings that failed"),
    ];
    let mut all = Vec::new();
    let mut seen = Vec::new();
    let mut total = 0;
    for (count, what) in kinds {
        let more = count(&now.tallies.nvlink_errors)
            .since(count(&before.nvlink_errors))
            .unwrap_or_default();
        if more == 0 {
            continue;
        }
        // If the sum was 0, so was each link's count.
        let none = LinkErrors {
            replays: ZERO,
            recoveries: ZERO,
            failed_recoveries: ZERO,
            data_crc: ZERO,
        };
        let none = Some(&none).filter(|_| count(&before.nvlink_errors) == &ZERO);
        let rise = |(link, errors): (&u32, &LinkErrors)| {
            let earlier = before.nvlinks.get(link).or(none)?;
            Some((
                *link,
                count(errors)
                    .since(count(earlier))
                    .filter(|more| *more > 0)?,
            ))
        };
        let rises: Vec<_> = now.tallies.nvlinks.iter().filter_map(rise).collect();
        let names = rises
            .iter()
            .map(|(link, _)| link.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        all.push(if names.is_empty() {
            format!("{more} {what}")
        } else {
            format!("{more} {what} (link {names})")
        });
        seen.push(format!("NVML: {what}: {more} more on all NVLinks"));
        seen.extend(
            rises
                .iter()
                .map(|(link, more)| format!("NVML: NVLink {link}: {what}: {more} more")),
        );
        total += more;
    }
    let message = format!(
        "{}: its NVLinks counted errors while the test ran: {}",
        name(now),
        all.join(", ")
    );
    let finding = || Code::NvlinkErrors.finding(Severity::Warn, now.subject(), message);
    (total > 0).then(|| finding().values(total, 0, Some("errors")).seen_all(seen))
}

const ZERO: CounterValue = CounterValue::At(0);

fn pcie_errors(now: &GpuStatus, before: &Tallies) -> Option<Finding> {
    let kinds = [
        (PcieCounter::Fatal, "fatal errors"),
        (PcieCounter::NonFatal, "uncorrected errors"),
        (
            PcieCounter::ReplayRollovers,
            "trainings of the link after packets were sent again in vain",
        ),
        (PcieCounter::Replays, "packets sent again"),
    ];
    let rise = |counter| {
        now.tallies
            .pcie
            .get(&counter)?
            .since(before.pcie.get(&counter)?)
            .filter(|more| *more > 0)
    };
    let rises: Vec<_> = kinds
        .into_iter()
        .filter_map(|(counter, what)| Some((rise(counter)?, what)))
        .collect();
    let (first, _) = rises.first()?;
    let all = rises
        .iter()
        .map(|(more, what)| format!("{more} {what}"))
        .collect::<Vec<_>>()
        .join(", ");
    let message = format!(
        "{}: its PCIe link counted errors while the test ran: {all}, expected 0",
        name(now)
    );
    // The data was checked, and the port's own report of an error counts more.
    let finding = Code::PcieAer
        .finding(Severity::Warn, now.gpu, message)
        .values(*first, 0, Some("errors"));
    Some(
        finding.seen_all(
            rises
                .iter()
                .map(|(more, what)| format!("NVML: {what}: {more} more"))
                .collect(),
        ),
    )
}

/// The errors and the data of one link since the first snapshot.
struct LinkRate<'a> {
    gpu: &'a GpuStatus,
    link: u32,
    errors: u64,
    gib: f64,
}

/// Empty where the data or the links' errors are unknown.
fn link_rates<'a>(now: &'a GpuStatus, first: &Tallies) -> Vec<LinkRate<'a>> {
    let links = &now.tallies.nvlinks;
    let sent = now.tallies.nvlink_sent.since(&first.nvlink_sent);
    let received = now.tallies.nvlink_received.since(&first.nvlink_received);
    let (Some(sent), Some(received)) = (sent, received) else {
        return Vec::new();
    };
    let gib = (sent + received) as f64 / KIB_PER_GIB / links.len().max(1) as f64;
    let rate = |(link, errors): (&u32, &LinkErrors)| {
        let earlier = first.nvlinks.get(link)?;
        Some(LinkRate {
            gpu: now,
            link: *link,
            errors: errors.data_crc.since(&earlier.data_crc)?,
            gib,
        })
    };
    links.iter().filter_map(rate).collect()
}

/// The links, of (errors, GiB), with far more errors for each GiB than most, each with the errors that are usual for its data.
fn outliers(links: &[(u64, f64)]) -> Vec<(usize, f64)> {
    let used: Vec<_> = links
        .iter()
        .enumerate()
        .filter(|(_, (_, gib))| *gib > 0.0)
        .collect();
    if used.len() < MIN_LINKS {
        return Vec::new();
    }
    let mut rates: Vec<f64> = used
        .iter()
        .map(|(_, (errors, gib))| *errors as f64 / gib)
        .collect();
    let median = median(&mut rates);
    let mut apart: Vec<f64> = rates.iter().map(|rate| (rate - median).abs()).collect();
    // The standard deviation of normally distributed values is 1.48 times the median of their distances.
    let spread = self::median(&mut apart) * 1.48;
    let most = (median * CRC_TIMES).max(median + CRC_TIMES * spread);
    let bad = |(n, (errors, gib)): &(usize, &(u64, f64))| {
        (*errors >= MIN_CRC && *errors as f64 / gib > most).then_some((*n, median * gib))
    };
    used.iter().filter_map(bad).collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn crc_finding(link: &LinkRate<'_>, usual: f64) -> Finding {
    let LinkRate {
        gpu,
        link,
        errors,
        gib,
    } = link;
    let message = format!(
        "{}: NVLink {link} counted {errors} CRC errors in {gib:.1} GiB, where the other links of this machine count {usual:.0}",
        name(gpu)
    );
    let finding = Code::NvlinkErrors.finding(Severity::Warn, gpu.subject(), message);
    finding.values(*errors, usual.round(), Some("errors"))
}

/// GPUs with NVLinks whose errors are not counted, in one finding.
fn unknown(now: &[GpuStatus]) -> Option<Finding> {
    let lacks = |gpu: &&GpuStatus| {
        let errors = &gpu.tallies.nvlink_errors;
        gpu.tallies.links.known().is_some_and(|links| links > 0)
            && [&errors.replays, &errors.recoveries]
                .iter()
                .all(|count| count.known().is_none())
    };
    let lacking: Vec<_> = now.iter().filter(lacks).collect();
    let unread = lacking
        .iter()
        .find_map(|gpu| match &gpu.tallies.nvlink_errors.replays {
            CounterValue::Unread(why) => Some(why.as_str()),
            _ => None,
        });
    let why = unread.unwrap_or("NVML does not count them");
    let names = lacking
        .iter()
        .map(|gpu| gpu.name())
        .collect::<Vec<_>>()
        .join(", ");
    let message = format!("errors of NVLinks are unknown: {names}: {why}");
    (!lacking.is_empty())
        .then(|| Code::NvlinkErrors.finding(Severity::Info, Subject::Machine, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(replays: u64, data_crc: u64) -> LinkErrors {
        LinkErrors {
            replays: CounterValue::At(replays),
            recoveries: CounterValue::At(0),
            failed_recoveries: CounterValue::Unsupported,
            data_crc: CounterValue::At(data_crc),
        }
    }

    /// A GPU with 18 links after `gib` GiB, of which link 3 has `crc` errors and the others about 5 for each 100 GiB.
    fn gpu(bus: u8, gib: u64, crc: Option<u64>) -> GpuStatus {
        let at = Bdf {
            domain: 0,
            bus,
            device: 0,
            function: 0,
        };
        let usual = |n: u32| 20 + gib * u64::from(3 + n % 5) / 100;
        let of_link = |n: u32| {
            if n == 3 {
                crc.unwrap_or(usual(n))
            } else {
                usual(n)
            }
        };
        let tallies = Tallies {
            links: CounterValue::At(18),
            nvlink_sent: CounterValue::At(gib << 20),
            nvlink_received: CounterValue::At(0),
            nvlink_errors: errors(0, (0..18).map(of_link).sum()),
            nvlinks: (0..18).map(|n| (n, errors(0, of_link(n)))).collect(),
            limited: BTreeMap::from([(Limit::Thermal, CounterValue::At(7))]),
            pcie: BTreeMap::from([(PcieCounter::Replays, CounterValue::At(4))]),
        };
        GpuStatus {
            ordinal: Some(usize::from(bus) - 1),
            tallies,
            ..GpuStatus::unknown(at, Presence::Here)
        }
    }

    fn after(first: &[GpuStatus; 2], now: &[GpuStatus; 2]) -> Vec<Finding> {
        let mut history = TallyHistory::default();
        assert_eq!(history.add_snapshot(first), []);
        history.add_snapshot(now)
    }

    #[test]
    fn crc_errors_that_rise_on_all_links_are_normal_and_one_link_with_many_more_is_named_once() {
        let first = || [gpu(1, 0, None), gpu(2, 0, None)];
        for gib in [1, 100, 3000] {
            assert_eq!(after(&first(), &[gpu(1, gib, None), gpu(2, gib, None)]), []);
        }
        // Four times as many as the others is what healthy links differ by, and a burst is no fault.
        assert_eq!(
            after(&first(), &[gpu(1, 40, Some(80)), gpu(2, 40, None)]),
            []
        );
        assert_eq!(
            after(&first(), &[gpu(1, 3000, Some(620)), gpu(2, 3000, None)]),
            []
        );
        let found = after(&first(), &[gpu(1, 100, Some(2020)), gpu(2, 100, None)]);
        assert!(
            found.len() == 1 && found[0].is(Code::NvlinkErrors),
            "{found:?}"
        );
        assert!(
            found[0]
                .message
                .contains("NVLink 3 counted 2000 CRC errors"),
            "{}",
            found[0].message
        );
        let mut history = TallyHistory::default();
        history.add_snapshot(&first());
        let bad = [gpu(1, 100, Some(2020)), gpu(2, 100, None)];
        assert_eq!(
            (
                history.add_snapshot(&bad).len(),
                history.add_snapshot(&bad).len()
            ),
            (1, 0)
        );
    }

    #[test]
    fn a_counter_that_is_not_supported_is_unknown_and_not_zero() {
        let without = |mut gpu: GpuStatus| {
            (gpu.tallies.nvlink_sent, gpu.tallies.nvlink_received) =
                (CounterValue::Unsupported, CounterValue::Unsupported);
            gpu
        };
        // The errors of links whose data is unknown are not compared.
        let first = [without(gpu(1, 0, None)), without(gpu(2, 0, None))];
        assert_eq!(
            after(
                &first,
                &[without(gpu(1, 100, Some(9000))), without(gpu(2, 100, None))]
            ),
            []
        );
        let mut uncounted = gpu(1, 0, None);
        uncounted.tallies.nvlink_errors = LinkErrors::default();
        let mut history = TallyHistory::default();
        let found = history.add_snapshot(&[uncounted.clone()]);
        assert!(
            found.len() == 1 && found[0].severity == Severity::Info,
            "{found:?}"
        );
        assert_eq!(history.add_snapshot(&[uncounted]), []);
    }

    #[test]
    fn replays_of_a_link_and_heat_warn_and_the_power_limit_is_information() {
        let with = |change: fn(&mut Tallies)| {
            let mut second = gpu(2, 0, None);
            change(&mut second.tallies);
            let found = after(
                &[gpu(1, 0, None), gpu(2, 0, None)],
                &[gpu(1, 0, None), second],
            );
            found
                .into_iter()
                .map(|f| (f.code, f.severity, f.message.to_string()))
                .collect::<Vec<_>>()
        };
        let found = with(|t| {
            t.nvlink_errors.replays = CounterValue::At(2);
            t.nvlinks.insert(5, errors(2, 20));
        });
        assert_eq!(
            (found[0].0, found[0].1),
            (Code::NvlinkErrors, Severity::Warn)
        );
        assert!(
            found[0].2.ends_with("2 packets sent again (link 5)"),
            "{found:?}"
        );
        // Which link it is may be unknown.
        let found = with(|t| {
            t.nvlink_errors.replays = CounterValue::At(2);
            t.nvlinks.clear();
        });
        assert!(found[0].2.ends_with("2 packets sent again"), "{found:?}");
        let found =
            with(|t| t.limited = BTreeMap::from([(Limit::Thermal, CounterValue::At(300_000_007))]));
        let text = "GPU 1: clocks were lowered for up to 0.30 s while the test ran: temperature";
        assert_eq!(
            found,
            [(Code::GpuThrottled, Severity::Warn, text.to_owned())]
        );
        assert_eq!(
            with(|t| t.limited = BTreeMap::from([(Limit::Thermal, CounterValue::At(9_000_000))])),
            []
        );
        let found =
            with(|t| t.pcie = BTreeMap::from([(PcieCounter::Replays, CounterValue::At(6))]));
        assert_eq!((found[0].0, found[0].1), (Code::PcieAer, Severity::Warn));
        // A counter that fell was reset by someone.
        assert_eq!(
            with(|t| t.pcie = BTreeMap::from([(PcieCounter::Replays, CounterValue::At(0))])),
            []
        );
    }

    #[test]
    fn the_link_is_named_where_only_sums_were_read_before_it_failed() {
        let mut before = gpu(1, 0, None);
        before.tallies.nvlinks.clear();
        let mut now = gpu(1, 0, None);
        now.tallies.nvlink_errors.replays = CounterValue::At(3);
        now.tallies.nvlinks.insert(7, errors(3, 20));
        assert!(now.tallies.has_link_errors(&before.tallies, MIN_CRC));
        assert!(!before.tallies.has_link_errors(&before.tallies, MIN_CRC));
        let mut history = TallyHistory::default();
        history.add_snapshot(&[before]);
        let found = history.add_snapshot(&[now]);
        assert!(
            found.len() == 1 && found[0].message.ends_with("3 packets sent again (link 7)"),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_test_has_already_said_is_not_said_again() {
        let heat = |severity| Code::GpuThrottled.finding(severity, GpuId::new(1), "heat");
        assert!(is_told(&heat(Severity::Warn), &[heat(Severity::Warn)]));
        assert!(!is_told(&heat(Severity::Warn), &[heat(Severity::Info)]));
        let both = Code::GpuThrottled.finding(
            Severity::Info,
            Subject::gpus([GpuId::new(0), GpuId::new(1)]),
            "power",
        );
        assert!(!is_told(&both, &[heat(Severity::Warn)]));
    }
}
