//! Whether NVLink SHARP (NVLS) is right, and faster than without it. It runs only where `validate.nvls = true` and nothing forbids
//! NVLS: multicast that goes wrong can take GPUs out of service. All other tests run without NVLS, so their proof holds for a
//! workload without it; this test decides whether the workload may use it.

use super::arms::{self, ArmKind};
use super::{checked, not_connected, sweep, tables};
use crate::nccl::log::NcclLog;
use crate::nccl::nvls::VARIABLE;
use crate::nccl::ranks::{Ranks, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::benchmark::{GpuPaths, judged};
use crate::suite::{Group, Test, TestContext};
use gpu::{Clique, Collective};
use outcome::finding::Finding;
use outcome::table::CallTable;
use outcome::test;
use outcome::{Advice, Judgement, Outcome};
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_NVLS,
    title: "NVLink SHARP",
    proves: "where validate.nvls = true: all_reduce, all_gather and reduce_scatter by NVLink SHARP are right, and faster than without it; otherwise the workload gets NCCL_NVLS_ENABLE=0",
    level: Level::Quick,
    deadline: Duration::from_secs(150),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The compute capability of the first GPUs with NVLS: Hopper (NCCL's documentation of NCCL_NVLS_ENABLE).
const WITH_NVLS: (u32, u32) = (9, 0);
/// The collectives that NVSwitches make (NCCL's documentation of NVLS).
const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];
/// Small, middle and large, bytes. The speed of the last counts.
const SIZES: [u64; 3] = [64 << 10, 1 << 20, 32 << 20];

/// Whether NVLS can be used by all of these GPUs.
pub(super) fn is_possible(paths: &GpuPaths, clique: &Clique) -> bool {
    paths.has_nvswitches() && clique.gpus.iter().all(|gpu| gpu.capability >= WITH_NVLS)
}

/// The rows of one arm.
struct Measured {
    rows: Vec<Row>,
    /// NCCL's channels for NVLS; `None`: its log does not tell.
    channels: Option<u32>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let asked = &context.config.validate;
    if let Some(by) = &asked.nvls_forbidden {
        return Ok(Judgement::not_applicable(format!(
            "NVLink SHARP is forbidden by {by}"
        )));
    }
    if !asked.nvls {
        return Ok(Judgement::not_applicable(
            "NVLink SHARP is tested where validate.nvls = true",
        ));
    }
    let clique = context.clique()?;
    if !is_possible(&GpuPaths::new(context, clique), clique) {
        return Ok(Judgement::not_applicable(
            "NVLink SHARP needs NVSwitches and GPUs from Hopper on",
        ));
    }
    let plain = arms::with(context, ArmKind::P2p, |ranks| {
        measure(context, ArmKind::P2p, ranks)
    })?;
    let nvls = arms::with(context, ArmKind::Nvls, |ranks| {
        measure(context, ArmKind::Nvls, ranks)
    })?;
    arms::release(context, ArmKind::Nvls);
    Ok(judge(&plain.rows, &nvls))
}

fn measure(context: &TestContext, which: ArmKind, ranks: &mut Ranks) -> Result<Measured, Trouble> {
    let mut rows = Vec::new();
    for collective in COLLECTIVES {
        for bytes in SIZES {
            let sweep = Sweep::standard(collective).at(bytes);
            sweep::warm_up(context, which, ranks, &sweep)?;
            rows.extend(sweep::rows(context, which, ranks, &sweep)?);
        }
    }
    Ok(Measured {
        rows,
        channels: NcclLog::read(&ranks.output()).nvls_channels,
    })
}

fn judge(plain: &[Row], nvls: &Measured) -> Judgement {
    let findings = sweep::wrong(ArmKind::Nvls, &nvls.rows);
    if findings.is_empty() && nvls.channels.is_none_or(|channels| channels == 0) {
        let why = "NCCL made no channels for NVLink SHARP, so nothing was tested, and the workload does not get it";
        return Judgement::not_applicable(why);
    }
    let times = COLLECTIVES.map(|collective| (collective, gain(collective, plain, &nvls.rows)));
    let [(_, all_reduce), ..] = times;
    let shown: Vec<_> = times
        .iter()
        .map(|(collective, times)| format!("{collective} {times:.2}"))
        .collect();
    let faster = all_reduce > 1.0;
    let chosen = if faster {
        "the workload gets it"
    } else {
        "not faster, so the workload does not get it"
    };
    let summary = format!(
        "right, and {} times as fast as without it at {} MiB; {chosen}; {}",
        shown.join(", "),
        LARGE >> 20,
        checked::evidence(&nvls.rows)
    );
    let judgement =
        judged(summary, findings).with_tables(vec![tables::rows(CallTable::Nvls, &nvls.rows)]);
    let good = matches!(judgement.outcome(), Outcome::Pass | Outcome::Warn);
    let reason = format!(
        "NVLink SHARP is right, and all_reduce has {all_reduce:.2} times the speed that it has without it"
    );
    let advice = Advice::new(VARIABLE, if faster { "1" } else { "0" }, &reason);
    judgement.advising(good.then_some(advice).into_iter().collect())
}

/// The size whose speed counts, bytes.
const LARGE: u64 = SIZES[2];

/// How many times as fast a collective of the large size is in `nvls` as in `plain`, best of both placements.
fn gain(collective: Collective, plain: &[Row], nvls: &[Row]) -> f64 {
    let us = |rows: &[Row]| {
        let rows = rows
            .iter()
            .filter(|row| row.collective == collective && row.bytes == LARGE);
        rows.flat_map(|row| [row.out_of_place.us, row.in_place.us])
            .fold(f64::INFINITY, f64::min)
    };
    us(plain) / us(nvls)
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;
    use outcome::finding::Code;

    fn measured(us: f64, wrong: u64, channels: Option<u32>) -> Measured {
        let of = |collective| Row {
            collective,
            ..row(LARGE, us, wrong)
        };
        Measured {
            rows: COLLECTIVES.map(of).to_vec(),
            channels,
        }
    }

    fn judged(us: f64, wrong: u64, channels: Option<u32>) -> Judgement {
        judge(
            &measured(130.0, 0, None).rows,
            &measured(us, wrong, channels),
        )
    }

    #[test]
    fn the_faster_proven_way_is_advised() {
        let value =
            |judgement: &Judgement| judgement.advice.first().map(|advice| advice.value.clone());
        let fast = judged(100.0, 0, Some(16));
        assert!(
            fast.outcome() == Outcome::Pass && fast.summary.contains("all_reduce 1.30,"),
            "{fast:?}"
        );
        assert_eq!(value(&fast).as_deref(), Some("1"));
        assert_eq!(value(&judged(140.0, 0, Some(16))).as_deref(), Some("0"));
    }

    #[test]
    fn wrong_values_fail_and_unused_channels_prove_nothing() {
        let wrong = judged(100.0, 3, Some(16));
        assert!(
            wrong.outcome() == Outcome::Fail
                && wrong.findings[0].is(Code::NcclWrongData)
                && wrong.advice.is_empty()
        );
        for channels in [None, Some(0)] {
            let unused = judged(100.0, 0, channels);
            assert!(
                unused.outcome() == Outcome::NotApplicable && unused.advice.is_empty(),
                "{unused:?}"
            );
        }
    }
}
