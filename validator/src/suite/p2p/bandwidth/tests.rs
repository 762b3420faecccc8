use super::Basis;
use super::cells::{MATRICES, MatrixCell, Sizes, between, devices, policy, within};
use super::judge::judge;
use super::*;
use crate::floors::Carrier;
use crate::schedule::Pair;
use crate::suite::benchmark::{CopyMethod, JobFigure, Side};
use machine::pcie::model::PathKind;
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;
use report::stats::Measured;
use std::collections::BTreeSet;

const SIZES: Sizes = Sizes {
    bytes: 512 << 20,
    rounds: (536_346_624, 530_000_000),
    times: 4,
};
const H200: Carrier = Carrier::NvLink {
    links: 18,
    gb_s: 26.5625,
};
const GEN4: Carrier = Carrier::Pcie {
    kind: PathKind::Phb,
    raw_gb_s: 31.5,
};

fn figure(median: f64) -> Measured {
    Measured {
        samples: vec![median; 3],
        median,
        spread: 0.0,
        repeats: 0,
        noisy: false,
    }
}

/// Two GPUs with these figures in both directions.
fn results(figures: &[(Metric, f64)]) -> Results {
    let mut results = Results::default();
    for pair in [Pair::of(0, 1), Pair::of(1, 0)] {
        for (name, gb_s) in figures {
            let grid = if *name == LATENCY_CELL {
                &mut results.latency
            } else {
                &mut results.grid
            };
            grid.put(*name, pair, figure(*gb_s));
        }
    }
    results
}

fn said(results: Results, carrier: Carrier, least: Option<f64>) -> Judgement {
    let states = ["GPU 0: SM 1980 MHz".to_owned()];
    with(carrier, least, |basis| judge(results, basis, &states))
}

fn with<T>(carrier: Carrier, least: Option<f64>, f: impl FnOnce(&Basis<'_>) -> T) -> T {
    let raw = carrier.raw();
    f(&Basis {
        gpus: 2,
        level: Level::Standard,
        least,
        carrier: &move |_| carrier,
        ceiling: &move |_| raw,
        own: &move |_| raw,
        path_group: &|_| "NV18".to_owned(),
        distance: &|_| None,
    })
}

/// Figures recorded on two H200.
const HEALTHY: &[(Metric, f64)] = &[
    (Metric::SAMPLE_UNI_OFF, 37.8),
    (Metric::SAMPLE_UNI_ON, 392.5),
    (Metric::SAMPLE_BI_ON, 772.5),
    (Metric::CE_WRITE, 396.1),
    (Metric::CE_READ, 393.7),
    (Metric::SM_WRITE, 369.9),
    (Metric::SM_READ, 376.2),
    (Metric::CE_BI_WRITE, 783.6),
    (LATENCY_CELL, 2.23),
];

#[test]
fn two_healthy_gpus_pass_with_all_matrices() {
    let judgement = said(results(HEALTHY), H200, None);
    assert_eq!(
        judgement.outcome(),
        Outcome::Pass,
        "{:?}",
        judgement.findings
    );
    assert_eq!(
        judgement.summary,
        "2 ordered pairs: 396.1 to 396.1 GB/s, both directions 783.6 to 783.6; without peer access 37.8 to \
         37.8"
    );
    let names: Vec<_> = judgement.matrices.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(
        names,
        MATRICES
            .iter()
            .map(|(metric, _)| metric.name())
            .collect::<Vec<_>>()
    );
    assert_eq!(
        judgement.matrices[4].values,
        [vec![None, Some(396.1)], vec![Some(396.1), None]]
    );
}

#[test]
fn a_slow_pair_fails_with_the_expected_speed_and_the_gpus_states() {
    let judgement = said(
        results(&[
            (Metric::CE_WRITE, 6.5),
            (Metric::SAMPLE_UNI_OFF, 5.0),
            (LATENCY_CELL, 1.4),
        ]),
        GEN4,
        None,
    );
    assert_eq!(judgement.outcome(), Outcome::Fail);
    let finding = &judgement.findings[0];
    assert!(
        finding.is(Code::P2pSlow) && finding.message.contains("expected at least 23.6"),
        "{finding:?}"
    );
    assert!(finding.evidence.contains(&"GPU 0: SM 1980 MHz".to_owned()));
}

#[test]
fn copies_through_host_memory_are_reported_as_staged() {
    let figures = [
        (Metric::CE_WRITE, 19.5),
        (Metric::SAMPLE_UNI_OFF, 19.4),
        (Metric::CE_BI_WRITE, 21.0),
        (LATENCY_CELL, 15.0),
    ];
    let judgement = said(results(&figures), GEN4, None);
    assert!(
        judgement.findings.iter().all(|f| f.is(Code::P2pStaged)),
        "{:?}",
        judgement.findings
    );
    assert_eq!(judgement.outcome(), Outcome::Fail);
}

#[test]
fn each_engine_and_direction_is_compared_with_its_own_floor() {
    for (name, gb_s, outcome) in [
        (Metric::CE_READ, 310.0, Outcome::Warn),
        (Metric::SM_READ, 100.0, Outcome::Fail),
        (Metric::SM_WRITE, 180.0, Outcome::Fail),
    ] {
        let mut figures = results(HEALTHY);
        figures.grid.put(name, Pair::of(0, 1), figure(gb_s));
        let judgement = said(figures, H200, None);
        assert_eq!(
            judgement.outcome(),
            outcome,
            "{name}: {:?}",
            judgement.findings
        );
        assert!(
            judgement.summary.contains(&format!(
                "GPU 0 -> 1: {}: {gb_s:.2} GB/s, ",
                name_in_sentence(name.name())
            )),
            "{}",
            judgement.summary
        );
    }
    let mut figures = results(&[(Metric::CE_WRITE, 26.0), (Metric::SAMPLE_UNI_OFF, 5.0)]);
    figures
        .grid
        .put(Metric::CE_WRITE, Pair::of(1, 0), figure(20.5));
    let judgement = said(
        figures,
        Carrier::Pcie {
            kind: PathKind::Sys,
            raw_gb_s: 31.5,
        },
        None,
    );
    assert!(
        judgement.findings[0].is(Code::P2pAsymmetric),
        "{:?}",
        judgement.findings
    );
}

/// GPU 1 -> 0 is slow, which also slows both directions at once.
#[test]
fn a_direction_is_not_blamed_for_its_partner() {
    let (healthy, slow) = (Pair::of(0, 1), Pair::of(1, 0));
    for (both_slow, latency) in [(27.0, 1.4), (27.0, 5.0), (13.0, 1.4), (13.0, 5.0)] {
        let figures = [
            (Metric::CE_WRITE, 26.0),
            (Metric::SM_WRITE, 25.0),
            (Metric::SM_BI_WRITE, both_slow),
            (Metric::SAMPLE_UNI_OFF, 5.0),
            (Metric::CE_BI_WRITE, both_slow),
            (LATENCY_CELL, latency),
        ];
        let mut one_slow = results(&figures);
        one_slow.grid.put(Metric::CE_WRITE, slow, figure(6.6));
        one_slow.grid.put(Metric::SM_WRITE, slow, figure(6.5));
        let judgement = said(one_slow, GEN4, None);
        let blamed: Vec<_> = judgement
            .findings
            .iter()
            .map(|f| f.subject.named_pairs().to_vec())
            .collect();
        assert!(
            !blamed.is_empty() && blamed.iter().all(|of| *of == [slow]),
            "{:?}",
            judgement.findings
        );
    }
    // Only both directions at once are slow: the pair, both ways.
    let figures = [
        (Metric::CE_WRITE, 26.0),
        (Metric::SAMPLE_UNI_OFF, 5.0),
        (Metric::CE_BI_WRITE, 36.0),
        (LATENCY_CELL, 1.4),
    ];
    let judgement = said(results(&figures), GEN4, None);
    let blamed: Vec<_> = judgement
        .findings
        .iter()
        .flat_map(|f| f.subject.named_pairs().to_vec())
        .collect();
    assert_eq!(blamed, [healthy, slow]);
    assert!(
        judgement
            .findings
            .iter()
            .all(|f| f.message.contains("in both directions at once"))
    );
}

/// Four GPUs, of whose 12 directions one is slow.
#[test]
fn a_figure_of_both_directions_is_no_outlier_because_of_its_partner() {
    let slow = Pair::of(3, 0);
    let mut results = Results::default();
    for pair in Pair::all(4).filter(|pair| pair.from != pair.to) {
        let of_slow = pair == slow || pair == slow.back();
        results.grid.put(Metric::SAMPLE_UNI_OFF, pair, figure(5.0));
        results.grid.put(
            Metric::CE_WRITE,
            pair,
            figure(if pair == slow { 6.6 } else { 26.0 }),
        );
        results.grid.put(
            Metric::CE_BI_WRITE,
            pair,
            figure(if of_slow { 13.0 } else { 50.0 }),
        );
    }
    let blamed = with(GEN4, None, |basis| {
        let basis = Basis { gpus: 4, ..*basis };
        super::suspects::suspects(&results, &basis)
            .into_iter()
            .map(|s| s.finding.subject.to_string())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(blamed, BTreeSet::from([slow.to_string()]));
}

#[test]
fn low_figures_are_measured_again_and_reported_with_both_values() {
    let slow = || {
        results(&[
            (Metric::CE_WRITE, 6.5),
            (Metric::SAMPLE_UNI_OFF, 5.0),
            (LATENCY_CELL, 1.4),
        ])
    };
    let pair = Pair::of(0, 1);
    let suspect_cells = with(GEN4, None, |basis| {
        super::judge::suspect_cells(&slow(), basis)
    });
    assert!(
        suspect_cells.contains(&(Metric::CE_WRITE, pair))
            && suspect_cells.contains(&(LATENCY_CELL, pair)),
        "{suspect_cells:?}"
    );
    assert_eq!(
        with(H200, None, |basis| super::judge::suspect_cells(
            &results(HEALTHY),
            basis
        )),
        []
    );
    let mut stays = slow();
    stays.grid.put_again(Metric::CE_WRITE, pair, figure(6.6));
    let judgement = said(stays, GEN4, None);
    assert_eq!(judgement.outcome(), Outcome::Fail);
    let both = "; GPU 0 -> 1: copy engine, write: 6.50 GB/s, and 6.60 GB/s when measured again";
    assert!(
        judgement.findings[0].message.ends_with(both),
        "{:?}",
        judgement.findings
    );
    let mut moment = slow();
    for pair in [pair, pair.back()] {
        moment.grid.put_again(Metric::CE_WRITE, pair, figure(25.9));
    }
    assert_eq!(said(moment, GEN4, None).outcome(), Outcome::Pass);
}

#[test]
fn a_speed_above_what_the_links_carry_is_an_error() {
    let judgement = said(
        results(&[(Metric::CE_WRITE, 26_000.0), (Metric::SAMPLE_UNI_OFF, 5.0)]),
        GEN4,
        None,
    );
    assert_eq!(judgement.outcome(), Outcome::Error);
    assert!(
        judgement
            .findings
            .iter()
            .any(|f| f.is(Code::SpeedImpossible)),
        "{:?}",
        judgement.findings
    );
}

#[test]
fn links_that_report_less_than_they_carry_lower_no_floor() {
    let reported = Carrier::Pcie {
        kind: PathKind::Phb,
        raw_gb_s: 0.25,
    };
    let judged = |gb_s: f64| {
        let basis = Basis {
            gpus: 2,
            level: Level::Standard,
            least: None,
            carrier: &move |_| reported,
            ceiling: &|_| Some(31.5),
            own: &|_| Some(0.25),
            path_group: &|_| "PHB".to_owned(),
            distance: &|_| None,
        };
        judge(
            results(&[(Metric::CE_WRITE, gb_s), (Metric::SAMPLE_UNI_OFF, 5.0)]),
            &basis,
            &[],
        )
    };
    assert_eq!(judged(25.8).outcome(), Outcome::Warn);
    assert!(judged(25.8).findings[0].is(Code::LinkContradicted));
    let asked_for_more = Carrier::Pcie {
        kind: PathKind::Phb,
        raw_gb_s: 31.5,
    };
    assert_eq!(
        said(
            results(&[(Metric::CE_WRITE, 6.0), (Metric::SAMPLE_UNI_OFF, 5.0)]),
            asked_for_more,
            None
        )
        .outcome(),
        Outcome::Fail
    );
}

#[test]
fn the_configured_floor_decides() {
    assert_eq!(
        said(results(HEALTHY), H200, Some(390.0)).outcome(),
        Outcome::Pass
    );
    assert_eq!(
        said(results(HEALTHY), H200, Some(397.0)).outcome(),
        Outcome::Fail
    );
    let unknown = Carrier::Pcie {
        kind: PathKind::Phb,
        raw_gb_s: 0.0,
    };
    assert_eq!(
        said(results(HEALTHY), unknown, None).outcome(),
        Outcome::Error
    );
    assert_eq!(
        said(results(HEALTHY), unknown, Some(390.0)).outcome(),
        Outcome::Pass
    );
}

#[test]
fn a_floor_that_cannot_be_measured_is_an_error() {
    let none = || Judgement::not_applicable("no NVIDIA driver is loaded");
    assert_eq!(unmeasured(none(), None), none());
    let judgement = unmeasured(none(), Some(20.0));
    assert!(
        judgement.outcome() == Outcome::Error && judgement.findings[0].is(Code::ExpectUnchecked)
    );
    let mut apart = results(&[(Metric::SAMPLE_UNI_OFF, 19.0)]);
    apart.without_access = vec![(Pair::of(0, 1), "no".to_owned())];
    assert_eq!(said(apart, GEN4, Some(20.0)).outcome(), Outcome::Error);
}

#[test]
fn pairs_without_peer_access_have_no_figure_with_it_on() {
    let mut apart = results(&[(Metric::SAMPLE_UNI_OFF, 19.0)]);
    apart.without_access = vec![(Pair::of(0, 1), "no".to_owned())];
    let judgement = said(apart, GEN4, None);
    assert_eq!(judgement.outcome(), Outcome::Pass, "p2p-capability fails");
    assert_eq!(
        judgement.summary,
        "no pair has peer access; through host memory 19.0 to 19.0 GB/s"
    );
    assert_eq!(judgement.matrices[1].values, [[None; 2], [None; 2]]);
}

#[test]
fn data_that_is_wrong_fails_however_fast() {
    let mut wrong = results(HEALTHY);
    wrong
        .findings
        .push(Code::P2pWrongData.finding(Severity::Fail, Pair::of(0, 1), "wrong"));
    assert_eq!(said(wrong, H200, None).outcome(), Outcome::Fail);
}

fn names(cells: &[MatrixCell]) -> BTreeSet<Metric> {
    cells.iter().map(|cell| cell.metric).collect()
}

#[test]
fn standard_fills_every_matrix_and_quick_one_direction() {
    let pair = Pair::of(0, 1);
    let all = |level| {
        let sample = [false, true].map(|on| between(pair, on, SIZES, level));
        [sample.concat(), devices(pair, SIZES, level)].concat()
    };
    assert_eq!(
        names(&all(Level::Standard)),
        MATRICES.iter().map(|(name, _)| *name).collect()
    );
    assert_eq!(
        names(&all(Level::Quick)),
        BTreeSet::from([
            Metric::SAMPLE_UNI_OFF,
            Metric::SAMPLE_UNI_ON,
            Metric::CE_WRITE
        ])
    );
    for (name, _) in MATRICES {
        let all = all(Level::Standard);
        let cells: BTreeSet<_> = all
            .iter()
            .filter(|c| c.metric == *name)
            .flat_map(|c| &c.pairs)
            .collect();
        assert_eq!(cells, BTreeSet::from([&pair, &pair.back()]), "{name}");
    }
}

#[test]
fn copies_are_those_of_the_reference_programs() {
    let pair = Pair::of(0, 1);
    let sample = &between(pair, true, SIZES, Level::Standard)[2];
    assert_eq!(
        (sample.metric, sample.job.metric),
        (Metric::SAMPLE_BI_ON, JobFigure::Total)
    );
    let flow = sample.job.flows[1];
    assert_eq!(
        (flow.pair, flow.method, flow.bytes, flow.times),
        (pair.back(), CopyMethod::Peer, 160_000_000, 5)
    );
    let cells = devices(pair, SIZES, Level::Standard);
    let sm_read = cells
        .iter()
        .find(|c| c.metric == Metric::SM_READ && c.pairs == [pair.back()])
        .unwrap();
    let flow = sm_read.job.flows[0];
    assert_eq!(
        (flow.pair, flow.actor(), flow.by),
        (pair, 1.into(), Side::Target)
    );
    assert_eq!((flow.bytes, flow.times), (530_000_000, 4));
    let both = within(3.into(), false, SIZES, Level::Standard)
        .pop()
        .unwrap();
    assert_eq!(
        (both.job.metric, both.job.flows[1].from),
        (JobFigure::TotalWithin, 256 << 20)
    );
}

#[test]
fn staged_copies_are_sampled_less_and_level_full_samples_more() {
    assert_eq!(policy(Metric::SAMPLE_BI_OFF, Level::Standard).samples, 2);
    assert_eq!(policy(Metric::SAMPLE_BI_ON, Level::Standard).samples, 3);
    assert_eq!(policy(Metric::CE_WRITE, Level::Full).samples, 5);
}
