//! Whether NCCL uses peer-to-peer. With shared memory and the network forbidden it can only start where every
//! connection is peer-to-peer; then every pair communicates, every value is checked, and NCCL's own log lines
//! name the transport. A second proof is that it fails to connect where peer-to-peer is forbidden too, a
//! third is its speed. It runs before the other NCCL tests, and the workload's peer-to-peer level depends on
//! it.

use super::arms::{self, ArmKind};
use super::counted::Counted;
use super::libraries::{self, LoadedLibrary, NcclLibraries};
use super::{checked, groups, limits, not_testable, nvls, proof, remeasure, sweep, withheld};
use crate::config::Validate;
use crate::floors::Carrier;
use crate::nccl::conf::ConfLine;
use crate::nccl::log::Pairs;
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Distance, Row, Sweep, advice, conf};
use crate::schedule::Pair;
use crate::suite::benchmark::{GpuPaths, LinkStates, judged};
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use machine::host::modules::absent_is_none;
use machine::{GpuId, Rank};
use outcome::Advice;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::Table;
use outcome::test;
use outcome::{Judgement, Outcome};
use report::{Driver, Level};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL,
    title: "NCCL transport between GPUs",
    proves: "NCCL connects every pair of GPUs by peer-to-peer: it works with all other transports forbidden, fails with peer-to-peer forbidden too, and its log names peer-to-peer",
    level: Level::Quick,
    deadline: Duration::from_secs(150),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// Timed calls of each size and placement.
const CALLS: u32 = 5;
/// What the timed all_reduces of the largest size, in both placements, bring to a GPU at least, KiB: each as many bytes as it has.
/// A call of the strict arm before them may move what is left of it past the links.
const LEAST_KIB: u64 = 2 * CALLS as u64 * (32 << 10);
/// Sizes that use the protocols for small, middle and large data.
const SIZES: [u64; 3] = [8, 1 << 20, 32 << 20];

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_testable(context)? {
        return Ok(none);
    }
    let later = match context.config.validate.level {
        Level::Quick => vec![],
        Level::Standard | Level::Full | Level::Acceptance => {
            vec![ArmKind::P2p, ArmKind::Off, ArmKind::Processes]
        }
    };
    // The arms of later tests start meanwhile; those tests report their errors.
    let groups = groups::of(context)?;
    let strict = strict_arms(&groups);
    arms::start(context, &first_arms(&strict))?;
    let ahead = arms::start(context, &later);
    let clique = context.clique()?;
    let paths = GpuPaths::new(context, clique);
    let carrier = paths.carriers(context.fabric()?, &LinkStates::default());
    let mut results = ArmResults::default();
    for (which, gpus) in &strict {
        results.add(run_arm(context, *which, gpus, &carrier)?);
    }
    // No later test needs them, and they take most of a second to release their GPUs.
    for (which, _) in &strict {
        arms::release(context, *which);
    }
    let withheld = withheld::check(context);
    let forbidden = if withheld.is_none() {
        "; with peer-to-peer forbidden too it cannot connect"
    } else {
        ""
    };
    let compared = if results.compared {
        ""
    } else {
        "; not compared with the links, which were not measured"
    };
    let withheld = withheld.filter(|_| !names_other_transport(&results.findings));
    let ArmResults {
        rows,
        mut findings,
        summaries,
        mut tables,
        loaded,
        ..
    } = results;
    // All arms load the same one.
    let libraries = loaded.map(|tested| NcclLibraries::of(context, tested));
    tables.extend(libraries.as_ref().map(NcclLibraries::table));
    let libraries = libraries.map_or(String::new(), |libraries| libraries.summary());
    findings.extend(withheld);
    findings.extend(ahead.err().map(|finding| *finding));
    let nvls = untested_nvls(nvls::is_possible(&paths, clique), &context.config.validate);
    let without_nvls = if nvls.is_some() {
        "; NVLink SHARP not tested"
    } else {
        ""
    };
    findings.extend(nvls);
    findings.extend(settings_file(context));
    let calls = checked::evidence(&rows);
    let summary = format!(
        "{}{forbidden}{compared}; {calls}{without_nvls}{libraries}",
        summaries.join("; ")
    );
    let judgement = judged(summary, findings).with_tables(tables);
    let level = level(judgement.outcome(), &groups, carrier);
    Ok(judgement.advising(level.into_iter().collect()))
}

/// NVLS that the workload may use although no test used it.
fn untested_nvls(capable: bool, asked: &Validate) -> Option<Finding> {
    if !capable || asked.nvls || asked.nvls_forbidden.is_some() {
        return None;
    }
    let message = "NCCL was tested without NVLink SHARP, which the workload's NCCL uses here unless it is forbidden";
    Some(Code::NvlsUntested.finding(Severity::Info, Subject::Machine, message))
}

/// The file that NCCL reads for every program.
const CONF: &str = "etc/nccl.conf";

/// The lines of the file that do not do what they seem to. What its other lines do is in NCCL's log.
fn settings_file(context: &TestContext) -> Option<Finding> {
    let bytes = match absent_is_none(context.root.read(CONF)) {
        Ok(bytes) => bytes?,
        Err(why) => return Some(noted(format!("/{CONF} could not be read: {why}"))),
    };
    let version = Driver::of(&context.nvidia).nccl;
    misread(&conf::read(
        &String::from_utf8_lossy(&bytes),
        version.as_deref(),
    ))
}

fn misread(lines: &[ConfLine]) -> Option<Finding> {
    let evidence = lines.iter().map(|line| {
        let what = line
            .trouble
            .as_deref()
            .unwrap_or("in effect where the environment does not set it");
        format!("/{CONF} line {}: {}: {what}", line.number, line.text)
    });
    let bad = lines.iter().filter(|line| line.trouble.is_some()).count();
    let message = format!(
        "/{CONF}: NCCL reads {bad} of {} lines otherwise than they seem meant",
        lines.len()
    );
    (bad > 0).then(|| noted(message).seen_all(evidence.collect()))
}

fn noted(message: String) -> Finding {
    Code::NcclSettings.finding(Severity::Info, Subject::Machine, message)
}

/// Starts what this test needs first, if this process runs it: CUDA and a communicator take seconds, during which other
/// tests run. This test reports any error.
pub(in crate::suite) fn start_ahead(context: &TestContext) {
    if !context.runs(&TEST) {
        return;
    }
    let start = |groups: Vec<Vec<GpuId>>| arms::start(context, &first_arms(&strict_arms(&groups)));
    let begun = groups::of(context).and_then(start);
    if let Err(finding) = begun {
        log::debug!("NCCL is not started ahead: {}", finding.message);
    }
}

fn first_arms(strict: &[(ArmKind, Vec<GpuId>)]) -> Vec<ArmKind> {
    strict
        .iter()
        .map(|(which, _)| *which)
        .chain([ArmKind::Withheld])
        .collect()
}

/// Whether the log names another transport; if so, it is known that NCCL ignores the settings that forbid it.
fn names_other_transport(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|f| f.severity == Severity::Fail && f.is(Code::NcclTransport))
}

/// The arms of the proof: one of all GPUs, or one of each group with at least one pair.
fn strict_arms(groups: &[Vec<GpuId>]) -> Vec<(ArmKind, Vec<GpuId>)> {
    if let [all] = groups {
        return vec![(ArmKind::Strict, all.clone())];
    }
    let pairs = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.len() > 1);
    pairs
        .map(|(n, group)| (ArmKind::Group(n), group.clone()))
        .collect()
}

/// The results of one or several arms.
#[derive(Default)]
struct ArmResults {
    rows: Vec<Row>,
    findings: Vec<Finding>,
    summaries: Vec<String>,
    tables: Vec<Table>,
    /// Whether all of them were compared with the links.
    compared: bool,
    loaded: Option<LoadedLibrary>,
}

impl ArmResults {
    fn add(&mut self, other: Self) {
        self.loaded = self.loaded.take().or(other.loaded);
        self.compared = other.compared && (self.compared || self.rows.is_empty());
        self.rows.extend(other.rows);
        self.findings.extend(other.findings);
        self.summaries.extend(other.summaries);
        self.tables.extend(other.tables);
    }
}

/// Runs one arm. Data through host memory is slower than the links, whatever the log says.
fn run_arm(
    context: &TestContext,
    which: ArmKind,
    gpus: &[GpuId],
    carrier: &dyn Fn(Pair) -> Carrier,
) -> Result<ArmResults, Box<Finding>> {
    let others = |a: GpuId| {
        gpus.iter()
            .filter(move |b| a != **b)
            .map(move |b| Pair::new(a, *b))
    };
    let over_nvlink = gpus
        .iter()
        .flat_map(|a| others(*a))
        .all(|pair| carrier(pair).is_nvlink());
    let counted = over_nvlink.then(|| Counted::begin(context, gpus));
    let measure = |ranks: &mut Ranks| {
        let measured = measure(context, which, ranks)?;
        Ok((measured, libraries::loaded(ranks)))
    };
    let measured = arms::with(context, which, measure);
    let ((mut rows, proof), loaded) =
        measured.map_err(|finding| libraries::with_candidates(context, finding))?;
    let counted = counted.and_then(|counted| counted.end(context, LEAST_KIB));
    let limits = limits(context, gpus, carrier);
    let again = limits
        .as_ref()
        .map(|limits| remeasure::judge(context, which, &mut rows, limits))
        .transpose()?;
    let (slow, again) = again.map_or_else(Default::default, |again| (again.findings, again.rows));
    rows.extend(again);
    let mut findings = sweep::wrong(which, &rows);
    findings.extend(proof.findings);
    findings.extend(counted);
    findings.extend(slow);
    let compared = limits.is_some();
    let loaded = Some(loaded);
    Ok(ArmResults {
        rows,
        findings,
        summaries: vec![proof.summary],
        tables: proof.tables,
        compared,
        loaded,
    })
}

/// The peer-to-peer level for the workload, once it is proven between all pairs that reach each other.
fn level(
    outcome: Outcome,
    groups: &[Vec<GpuId>],
    carrier: impl Fn(Pair) -> Carrier,
) -> Option<Advice> {
    if !matches!(outcome, Outcome::Pass | Outcome::Warn) {
        return None;
    }
    let all = |group: &Vec<GpuId>| {
        let pairs = group
            .iter()
            .flat_map(|a| group.iter().map(move |b| Pair::new(*a, *b)));
        pairs
            .filter(|pair| pair.from != pair.to)
            .collect::<Vec<_>>()
    };
    let pairs = groups.iter().flat_map(all);
    let distance = |pair| match carrier(pair) {
        Carrier::NvLink { .. } => Distance::Nvl,
        Carrier::Pcie { kind, .. } => kind.into(),
    };
    pairs.map(distance).max().and_then(advice::level)
}

/// All reduce for rings and trees, all to all for every pair.
fn measure(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
) -> Result<(Vec<Row>, proof::TransportProof), Trouble> {
    let mut rows = Vec::new();
    for collective in [Collective::AllReduce, Collective::Alltoall] {
        for bytes in SIZES {
            let sweep = Sweep {
                iterations: CALLS,
                ..Sweep::standard(collective).at(bytes)
            };
            sweep::warm_up(context, which, ranks, &sweep)?;
            rows.extend(sweep::rows(context, which, ranks, &sweep)?);
        }
    }
    rows.extend(checked::many(context, which, ranks)?);
    let whole = [Rank::all(ranks.ranks()).collect()];
    let proof = proof::of(which, ranks, Pairs::All, &whole);
    Ok((rows, proof))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::model::PathKind;

    #[test]
    fn lines_of_the_file_that_nccl_misreads_are_noted_with_their_numbers() {
        let found = |text| misread(&conf::read(text, Some("2.28.9")));
        let finding =
            found("NCCL_DEBUG=WARN\nNCCL_P2P_DISABLE = 1\n").expect("a line has no effect");
        assert!(finding.is(Code::NcclSettings) && finding.severity == Severity::Info);
        assert_eq!(
            finding.message,
            "/etc/nccl.conf: NCCL reads 1 of 2 lines otherwise than they seem meant"
        );
        assert_eq!(
            finding.evidence,
            [
                "/etc/nccl.conf line 1: NCCL_DEBUG=WARN: in effect where the environment does not set it",
                "/etc/nccl.conf line 2: NCCL_P2P_DISABLE = 1: no effect: it sets `NCCL_P2P_DISABLE `, a name with a blank in it"
            ]
        );
        assert_eq!(found("NCCL_DEBUG=WARN\n"), None);
    }

    #[test]
    fn nvls_is_called_untested_only_where_it_could_be_used_and_nobody_forbade_it() {
        let asked = crate::config::Config::default().validate;
        assert!(untested_nvls(true, &asked).is_some());
        assert!(untested_nvls(false, &asked).is_none());
        assert!(
            untested_nvls(
                true,
                &Validate {
                    nvls: true,
                    ..asked.clone()
                }
            )
            .is_none()
        );
        assert!(
            untested_nvls(
                true,
                &Validate {
                    nvls_forbidden: Some("x".to_owned()),
                    ..asked
                }
            )
            .is_none()
        );
    }

    #[test]
    fn every_group_with_a_pair_has_an_arm_of_its_own() {
        assert_eq!(
            strict_arms(&[GpuId::list([0, 1, 2])]),
            [(ArmKind::Strict, GpuId::list([0, 1, 2]))]
        );
        let [a, b, c] = [GpuId::list([0, 3]), GpuId::list([1]), GpuId::list([2, 4])];
        assert_eq!(
            strict_arms(&[a.clone(), b, c.clone()]),
            [(ArmKind::Group(0), a), (ArmKind::Group(2), c)]
        );
    }

    #[test]
    fn the_level_is_that_of_the_farthest_pair_and_requires_a_proof() {
        let carrier = |pair: Pair| Carrier::Pcie {
            kind: if pair == Pair::of(2, 0) {
                PathKind::Sys
            } else {
                PathKind::Pix
            },
            raw_gb_s: 31.5,
        };
        let of = |outcome, gpus: usize| {
            level(outcome, &[GpuId::all(gpus).collect()], carrier).map(|a| (a.name, a.value))
        };
        let is = |value: &str| Some(("NCCL_P2P_LEVEL".to_owned(), value.to_owned()));
        assert_eq!(
            (of(Outcome::Pass, 2), of(Outcome::Warn, 3)),
            (is("PIX"), is("SYS"))
        );
        let bridged = level(
            Outcome::Warn,
            &[GpuId::list([0, 1]), GpuId::list([2])],
            carrier,
        );
        assert_eq!(bridged.map(|a| a.value), Some("PIX".to_owned()));
        for unproven in [Outcome::Fail, Outcome::Error, Outcome::NotApplicable] {
            assert_eq!(of(unproven, 3), None);
        }
    }
}
