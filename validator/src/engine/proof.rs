//! The scope of a run's verdict, and whether anything was proven about it: a machine whose GPUs no test could
//! use does not PASS, whatever its files contain. Pure.

use crate::config::Limit;
use crate::suite::{Group, Test, TestPlan, mandatory_gpu_tests};
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Reason, Severity, Subject};
use outcome::scope::Scope;
use outcome::{Outcome, Verdict};
use report::{Report, TestEntry};

/// The id of the entry about the scope; it is not the id of a test.
const ID: &str = "scope";

/// One sentence about the scope of the verdict of `report`.
pub(super) fn covers(report: &Report, limit: Option<&Limit>) -> String {
    let gpus = report.gpu_names();
    let text = match (&report.scope, report.gpus.len()) {
        (Scope::Only(ids), _) => {
            format!(
                "{} alone, with {gpus}; the verdict does not cover the rest of the machine",
                ids.join(", ")
            )
        }
        (Scope::Fabric, _) => format!("kernel, PCIe and driver, with {gpus}; nothing ran on a GPU"),
        (Scope::Machine | Scope::Gpus(_), 0) => {
            format!("a machine with {gpus}; the verdict does not cover GPUs")
        }
        (Scope::Machine | Scope::Gpus(_), 1) => {
            format!(
                "{gpus} alone; the verdict does not cover peer-to-peer and NCCL, which need two"
            )
        }
        (Scope::Machine | Scope::Gpus(_), _) => format!("{gpus} and the paths between them"),
    };
    let text = limit.map_or(text.clone(), |limit| {
        format!("{text}; left out: {}", limit.left_out())
    });
    if report.is_recorded() {
        format!("{text}; the machine in {}", report.root)
    } else {
        text
    }
}

/// The entry about tests within the scope that had nothing to run on. If the verdict is already bad, the entry exists
/// only if no test ran on a GPU.
pub(super) fn unproven_entry(report: &Report, plan: &TestPlan) -> Option<TestEntry> {
    let ended = |id: &str| report.tests.iter().find(|entry| entry.id == id);
    let idle =
        |test: &&&Test| ended(test.id()).is_some_and(|e| e.outcome == Outcome::NotApplicable);
    let of_gpus: Vec<_> = plan
        .run
        .iter()
        .filter(|test| test.group == Group::Gpu)
        .collect();
    let none_ran = !of_gpus.is_empty() && of_gpus.iter().all(&idle);
    let all_idle = || {
        report
            .tests
            .iter()
            .all(|entry| entry.outcome == Outcome::NotApplicable)
    };
    let lacking: Vec<&str> = match &plan.scope {
        _ if all_idle() => plan.run.iter().map(|test| test.id()).collect(),
        Scope::Machine | Scope::Gpus(_) => {
            let needed = |test: &&&Test| {
                mandatory_gpu_tests(report.gpus.len()).any(|needed| needed.id() == test.id())
            };
            plan.run
                .iter()
                .filter(needed)
                .filter(idle)
                .map(|test| test.id())
                .collect()
        }
        Scope::Only(_) if none_ran => of_gpus.iter().map(|test| test.id()).collect(),
        Scope::Fabric | Scope::Only(_) => Vec::new(),
    };
    let why = ended(lacking.first()?).map_or("", |entry| entry.summary.as_str());
    let good = matches!(report.verdict, Verdict::Pass | Verdict::Degraded) || all_idle();
    if !good && !none_ran {
        return None;
    }
    let severity = if good {
        Severity::Error
    } else {
        Severity::Warn
    };
    let (gpus, lacking) = (report.gpu_names(), lacking.join(", "));
    let message =
        format!("nothing is proven about {gpus}: {lacking} had nothing to run on ({why})");
    let finding = Code::ScopeUnproven.finding(severity, Subject::part(&report.scope), message);
    let finding = if all_of_guests(report) {
        finding.because(Reason::AllOfGuests)
    } else {
        finding
    };
    Some(TestEntry::for_run(
        ID,
        "Scope",
        "what the verdict covers was tested",
        report.level,
        &finding,
        &report.machine.platform,
    ))
}

/// Whether virtual machines have all GPUs of the scope.
fn all_of_guests(report: &Report) -> bool {
    let passed = |at: Bdf| {
        report
            .machine
            .platform
            .gpus
            .iter()
            .any(|gpu| gpu.bdf == at && gpu.passed_by.is_some())
    };
    !report.gpus.is_empty() && report.gpus.iter().all(|gpu| passed(gpu.bdf))
}

#[cfg(test)]
mod tests {
    use super::super::empty_report;
    use super::*;
    use crate::config::Config;
    use crate::suite::plan;
    use Outcome::{Fail, NotApplicable, Pass};
    use machine::root::Root;
    use outcome::platform::Host;
    use report::Gpu;

    fn gpu() -> Gpu {
        Gpu {
            bdf: "0000:01:00.0".parse().unwrap(),
            device: "0x2335".to_owned(),
            name: Some("NVIDIA H200".to_owned()),
            uuid: None,
            vbios: None,
            bar1_bytes: None,
            numa: None,
            driver: None,
            link: None,
        }
    }

    /// A run of `scope` on this number of GPUs, in which each test ends with the outcome of `ends`.
    fn said(
        scope: Scope,
        gpus: usize,
        ends: impl Fn(&Test) -> Outcome,
    ) -> (Report, Option<TestEntry>) {
        let mut config = Config::default();
        if let Scope::Only(ids) = &scope {
            config.validate.only.clone_from(ids);
        }
        config.validate.scope = scope;
        let plan = plan(&config, None);
        let mut report = empty_report(&Root::new("/rec"), &config, &plan);
        report.gpus = vec![gpu(); gpus];
        for test in &plan.run {
            let finding =
                Code::GpuXid.finding(Severity::Fail, Subject::Machine, "no device is here");
            let entry =
                TestEntry::for_run(test.id(), "", "", test.level, &finding, &Host::default());
            report.push(TestEntry {
                outcome: ends(test),
                findings: vec![],
                ..entry
            });
        }
        let entry = unproven_entry(&report, &plan);
        (report, entry)
    }

    fn only(ids: &[&str]) -> Scope {
        Scope::Only(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    /// The files are fine, but nothing runs on a GPU.
    const fn recorded(test: &Test) -> Outcome {
        if matches!(test.group, Group::Gpu) {
            NotApplicable
        } else {
            Pass
        }
    }

    #[test]
    fn a_recorded_machine_can_pass_for_its_fabric_only() {
        let (_, entry) = said(Scope::Machine, 2, recorded);
        let entry = entry.unwrap();
        assert_eq!(entry.outcome, Outcome::Error);
        assert_eq!(
            entry.summary,
            "nothing is proven about 2 x NVIDIA H200: cuda, p2p-capability, p2p-integrity, nccl had nothing to run on \
             (no device is here)"
        );
        let (report, entry) = said(Scope::Fabric, 2, recorded);
        assert!(entry.is_none() && report.verdict == Verdict::Pass);
        assert!(
            report.tests.iter().any(|t| t.id == "acs")
                && report.tests.iter().all(|t| t.id != "cuda")
        );
    }

    #[test]
    fn one_mandatory_test_that_had_nothing_to_run_on_is_enough() {
        for lacking in ["cuda", "p2p-capability", "p2p-integrity", "nccl"] {
            let ends = |test: &Test| {
                if test.id() == lacking {
                    NotApplicable
                } else {
                    Pass
                }
            };
            assert!(
                said(Scope::Machine, 2, ends)
                    .1
                    .unwrap()
                    .summary
                    .contains(lacking)
            );
        }
        assert_eq!(said(Scope::Machine, 2, |_| Pass).1, None);
    }

    #[test]
    fn one_gpu_alone_needs_no_test_of_pairs_but_cuda_and_says_so() {
        let alone = |test: &Test| {
            if test.id() == "cuda" {
                Pass
            } else {
                recorded(test)
            }
        };
        let (report, entry) = said(Scope::Machine, 1, alone);
        assert_eq!(entry, None);
        assert!(
            covers(&report, None)
                .starts_with("1 x NVIDIA H200 alone; the verdict does not cover peer-to-peer")
        );
        assert!(said(Scope::Machine, 1, recorded).1.is_some());
        assert_eq!(said(Scope::Machine, 0, recorded).1, None);
    }

    #[test]
    fn a_failure_stays_one_and_names_what_is_unknown() {
        let ends = |test: &Test| {
            if test.id() == "acs" {
                Fail
            } else {
                recorded(test)
            }
        };
        assert_eq!(
            said(Scope::Machine, 2, ends).1.unwrap().outcome,
            Outcome::Warn
        );
        // The GPUs were used, and the failure explains why no pair was.
        let ends = |test: &Test| match test.id() {
            "p2p-capability" => Fail,
            "cuda" => Pass,
            _ => recorded(test),
        };
        assert_eq!(said(Scope::Machine, 2, ends).1, None);
    }

    #[test]
    fn tests_requested_by_name_must_have_had_something_to_run_on() {
        assert_eq!(said(only(&["acs"]), 2, recorded).1, None);
        for ids in [
            &["p2p-integrity"][..],
            &["acs", "p2p-bandwidth"],
            &["cuda", "nccl-types"],
        ] {
            assert_eq!(
                said(only(ids), 2, recorded).1.unwrap().outcome,
                Outcome::Error,
                "{ids:?}"
            );
        }
        assert_eq!(
            said(only(&["acs"]), 2, |_| NotApplicable)
                .1
                .unwrap()
                .outcome,
            Outcome::Error
        );
        let (report, _) = said(only(&["acs", "iommu"]), 2, |_| Pass);
        assert!(
            covers(&report, None).starts_with("iommu, acs alone, with 2 x NVIDIA H200"),
            "{}",
            covers(&report, None)
        );
    }
}
