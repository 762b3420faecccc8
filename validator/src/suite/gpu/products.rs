//! Matrix products on all GPUs: under steady load, and in steps from idle to full load, all GPUs at the same
//! moment, which is the hardest load for a power supply.

use super::SPARE;
use super::load::{Load, WrongSum};
use super::sample::{Sample, findings, heat_of, samples_table};
use super::{end_time, progress};
use crate::suite::TestContext;
use crate::suite::benchmark::{Watch, rounded};
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::{Group, Test};
use gpu::GpuError;
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{ProductsRow, Table};
use outcome::test;
use report::Level;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(in crate::suite) const TEST: Test = Test {
    about: &test::GPU_PRODUCTS,
    title: "GPU arithmetic",
    proves: "under steady load of all GPUs every matrix product is right, and clocks and links hold",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run: steady,
};

/// The duration of one launch.
const LAUNCH: Duration = Duration::from_millis(50);
/// Half of a step's period: fans and the power supply's control can follow half a second; the supply's capacitors
/// must absorb the shorter ones.
const HALVES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_millis(100),
    Duration::from_millis(20),
];
/// How long steps of one period are repeated.
const STRETCH: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);
/// After this many launches with wrong sums the test ends; more would add nothing new.
const ENOUGH: usize = 16;

/// The results of one run.
#[derive(Debug, Default)]
struct Results {
    samples: Vec<Sample>,
    wrong: Vec<WrongSum>,
    /// Products of two numbers that were right, by GPU.
    right: Vec<f64>,
    /// Steps from idle to full load; `None` under steady load.
    steps: Option<u64>,
    took: f64,
    /// Other findings.
    found: Vec<Finding>,
}

/// What is being done, since when, and until when.
struct Task<'m> {
    context: &'m TestContext,
    what: &'static str,
    began: Instant,
    until: Instant,
}

pub(super) fn steady(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let task = Task::new(context, "matrix products on all GPUs", 2);
    under_load(&task, None, |load, results| {
        let mut due = Instant::now();
        while task.continues(load) {
            load.keep_busy(LAUNCH)?;
            if Instant::now() >= due {
                task.take_sample(load, results);
                due = Instant::now() + SECOND;
            }
        }
        load.drain()
    })
}

pub(super) fn in_steps(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let task = Task::new(context, "steps of power of all GPUs", 1);
    under_load(&task, Some(0), |load, results| {
        for half in HALVES.iter().cycle() {
            if !task.continues(load) {
                break;
            }
            task.take_sample(load, results);
            let stretch = Instant::now() + STRETCH;
            while Instant::now() < stretch && task.continues(load) {
                load.keep_busy(*half / 2)?;
                load.drain()?;
                sleep(*half);
                results.steps = results.steps.map(|steps| steps + 1);
            }
        }
        Ok(())
    })
}

impl<'m> Task<'m> {
    /// A task that has `parts` quarters of the time.
    fn new(context: &'m TestContext, what: &'static str, parts: u64) -> Self {
        Self {
            context,
            what,
            began: Instant::now(),
            until: end_time(context, parts),
        }
    }

    fn continues(&self, load: &Load<'_>) -> bool {
        Instant::now() < self.until && load.wrong.len() < ENOUGH
    }

    /// Records the GPUs' states, changes the operands, and reports to the parent.
    fn take_sample(&self, load: &mut Load<'_>, results: &mut Results) {
        results.samples.push(Sample::now(self.context, self.began));
        load.next_seed();
        progress(self.context, self.what, self.until);
    }
}

/// Runs `work` on all GPUs, watched, and judges it.
fn under_load(
    task: &Task<'_>,
    steps: Option<u64>,
    work: impl FnOnce(&mut Load<'_>, &mut Results) -> Result<(), GpuError>,
) -> Result<Judgement, Box<Finding>> {
    let context = task.context;
    if let Some(none) = context.no_gpus(false)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    progress(context, task.what, task.until);
    let watch = Watch::begin(context, &clique.addresses());
    let mut load = Load::new(clique).map_err(|e| fault_finding(Subject::Machine, &e))?;
    let mut results = Results {
        steps,
        ..Results::default()
    };
    if let Err(error) = work(&mut load, &mut results) {
        results.found.push(*fault_finding(Subject::Machine, &error));
    }
    results.took = task.began.elapsed().as_secs_f64();
    (results.wrong, results.right) = (load.wrong, load.right);
    // The states of each second show the clocks in more detail than the state at the end.
    results.found.extend(
        watch
            .end(context)
            .0
            .into_iter()
            .filter(|f| !f.is(Code::GpuThrottled)),
    );
    Ok(judge(&results))
}

fn judge(results: &Results) -> Judgement {
    let mut all: Vec<Finding> = results.wrong.iter().take(ENOUGH).map(finding).collect();
    all.extend(results.found.iter().cloned());
    if results.right.iter().any(|products| *products <= 0.0) && all.is_empty() {
        let message = "a GPU computed no products, so nothing is known about its arithmetic";
        all.push(Code::P2pChecker.finding(Severity::Error, Subject::Machine, message));
    }
    all.extend(findings(&results.samples));
    Judgement::summed_up(|| passed(results), all)
        .with_tables(vec![rates(results), samples_table(&results.samples)])
}

/// `300 s: all of 1.2e17 products of each GPU are right; 41 to 71 C, at most 690 W`
fn passed(results: &Results) -> String {
    let least = results
        .right
        .iter()
        .copied()
        .reduce(f64::min)
        .unwrap_or_default();
    let steps = results
        .steps
        .map(|steps| format!(", {steps} steps from idle to full load"))
        .unwrap_or_default();
    let heat = heat_of(&results.samples);
    format!(
        "{:.0} s: all of {least:.1e} products of each GPU are right{steps}{heat}",
        results.took
    )
}

fn finding(wrong: &WrongSum) -> Finding {
    let WrongSum {
        gpu,
        arithmetic,
        blocks,
        of,
        multiprocessors,
    } = wrong;
    let message = format!(
        "GPU {gpu}: {blocks} of {of} blocks have a wrong sum of exact {arithmetic} products"
    );
    let listed: Vec<_> = multiprocessors
        .iter()
        .take(16)
        .map(ToString::to_string)
        .collect();
    let evidence = format!("GPU {gpu}: multiprocessors {}", listed.join(", "));
    let finding = Code::GpuArithmetic.finding(Severity::Fail, gpu, message);
    finding.values(*blocks, 0, Some("blocks")).seen(evidence)
}

fn rates(results: &Results) -> Table {
    let row = |(gpu, right): (GpuId, &f64)| ProductsRow {
        gpu,
        right: rounded(right / 1e12),
        rate: rounded(if results.took > 0.0 {
            right / 1e12 / results.took
        } else {
            0.0
        }),
        wrong_launches: results.wrong.iter().filter(|w| w.gpu == gpu).count(),
    };
    Table::Products(GpuId::each(&results.right).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::sample::of_widths;
    use super::*;
    use outcome::Outcome;

    fn results() -> Results {
        Results {
            samples: of_widths(&[16, 16]),
            right: vec![2.5e15, 2e15],
            took: 10.0,
            ..Results::default()
        }
    }

    #[test]
    fn right_sums_pass_with_the_number_of_products() {
        let said = judge(&results());
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "10 s: all of 2.0e15 products of each GPU are right"
        );
        let said = judge(&Results {
            steps: Some(40),
            ..results()
        });
        assert!(
            said.summary
                .ends_with("right, 40 steps from idle to full load"),
            "{}",
            said.summary
        );
    }

    #[test]
    fn one_wrong_block_fails_and_names_its_multiprocessor() {
        let wrong = WrongSum {
            gpu: 1.into(),
            arithmetic: "int8",
            blocks: 1,
            of: 264,
            multiprocessors: vec![77],
        };
        let said = judge(&Results {
            wrong: vec![wrong],
            ..results()
        });
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::GpuArithmetic));
        assert_eq!(
            said.summary,
            "GPU 1: 1 of 264 blocks have a wrong sum of exact int8 products"
        );
        assert_eq!(said.findings[0].evidence, ["GPU 1: multiprocessors 77"]);
    }

    #[test]
    fn a_gpu_that_did_nothing_is_an_error() {
        assert_eq!(
            judge(&Results {
                right: vec![1e15, 0.0],
                ..results()
            })
            .outcome(),
            Outcome::Error
        );
    }
}
