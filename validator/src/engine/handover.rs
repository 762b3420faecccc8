//! Selects the settings that reach the workload: those of the tests, and those that need no test. A bad
//! verdict withdraws the settings that rely on peer-to-peer, and if peer-to-peer is the reason, the workload
//! receives a setting that disables it. Pure.

use crate::nccl::advice::{self, ADVISED_INTERFACE, HCA, INTERFACE};
use crate::nccl::nvls::Nvls;
use outcome::test::Traffic;
use outcome::{Advice, Outcome, Verdict};
use report::{Report, TestEntry};

/// NCCL's variable that disables peer-to-peer.
const DISABLE_P2P: &str = "NCCL_P2P_DISABLE";
/// Variables of NCCL that are valid whether or not GPUs have peer access.
const WITHOUT_P2P: &[&str] = &[INTERFACE, HCA, DISABLE_P2P];

/// Settings that are valid on a machine with GPUs whatever the result of its tests, and even if they did not
/// run: NVLS where it is forbidden or asked for, and the interfaces that are up; `None`: they could not be read.
pub(super) fn untested_settings(
    report: &Report,
    nvls: &Nvls,
    up: Option<&[String]>,
) -> Vec<Advice> {
    let all = up.map(advice::interfaces).into_iter().chain(nvls.advice());
    all.filter(|_| !report.gpus.is_empty()).collect()
}

/// The workload's variables: the result in `report`, and the part of `advice` that remains valid. Of two
/// settings for the same variable the later wins.
pub(super) fn workload_settings(report: &Report, advice: Vec<Advice>) -> Vec<Advice> {
    let good = matches!(report.verdict, Verdict::Pass | Verdict::Degraded);
    let mut all = report_settings(report);
    all.extend(advice.into_iter().filter(|a| good || valid_without_p2p(a)));
    all.extend(p2p_switch_off(report).filter(|_| !good));
    let reason =
        "the advised interfaces; `firstlight nodes` does not take them for a user's choice";
    let advised = all.iter().rev().find(|advice| advice.name == INTERFACE);
    let advised =
        advised.map(|advice| Advice::new(ADVISED_INTERFACE, advice.value.clone(), reason));
    all.extend(advised);
    all
}

/// Whether a variable describes the report itself.
pub(super) fn is_report_variable(name: &str) -> bool {
    name.starts_with("FIRSTLIGHT_")
}

/// Facts of the report, for a workload that does not parse JSON.
fn report_settings(report: &Report) -> Vec<Advice> {
    let mut all = vec![
        Advice::new(
            "FIRSTLIGHT_VERDICT",
            report.verdict.to_string(),
            "the verdict of all tests of the validator",
        ),
        Advice::new("FIRSTLIGHT_SCOPE", report.scope.to_string(), &report.covers),
        Advice::new(
            "FIRSTLIGHT_FINGERPRINT",
            report.machine.fingerprint.clone(),
            "the hash of the machine state that the verdict applies to",
        ),
    ];
    // GPUs that were not read are not the same as no GPUs.
    if report.fabric.is_some() {
        let count = report.gpus.len().to_string();
        all.push(Advice::new(
            "FIRSTLIGHT_GPUS",
            count,
            "NVIDIA GPUs on the bus",
        ));
    }
    all
}

/// Only settings that are known to be valid: any other NCCL variable may depend on peer-to-peer.
fn valid_without_p2p(advice: &Advice) -> bool {
    let switches_off = advice.name == "NCCL_NVLS_ENABLE" && advice.value == "0";
    !advice.name.starts_with("NCCL_") || switches_off || WITHOUT_P2P.contains(&advice.name.as_str())
}

/// Disables NCCL's peer-to-peer if a test of it failed or gave no answer. The test of the frameworks' own all-reduce
/// does not count here: `firstlight env --vllm` switches that off separately.
fn p2p_switch_off(report: &Report) -> Option<Advice> {
    let sends = |t: &TestEntry| t.properties().map(|test| test.traffic);
    let about_p2p = |t: &&TestEntry| matches!(sends(t), Some(Traffic::Peers | Traffic::Nccl));
    let bad = |wanted| {
        report
            .tests
            .iter()
            .filter(about_p2p)
            .find(move |t| t.outcome == wanted)
    };
    let (test, what) = bad(Outcome::Fail)
        .map(|t| (t, "failed"))
        .or(bad(Outcome::Error).map(|t| (t, "gave no answer")))?;
    let reason = format!(
        "peer-to-peer is not proven on this machine, {} {what}",
        test.id
    );
    Some(Advice::new(DISABLE_P2P, "1", &reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::root::Root;
    use report::Level;

    fn list(pairs: &[(&str, &str)]) -> Vec<Advice> {
        pairs
            .iter()
            .map(|(name, value)| Advice::new(name, *value, "a = b\nc"))
            .collect()
    }

    fn given() -> Vec<Advice> {
        list(&[
            ("NCCL_P2P_LEVEL", "SYS"),
            ("NCCL_MIN_NCHANNELS", "8"),
            ("NCCL_NET_GDR_LEVEL", "PHB"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("NCCL_IB_HCA", "mlx5_0:1"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("OTHER", "1"),
        ])
    }

    fn report(tests: &[(&str, Outcome)]) -> Report {
        let mut report = super::super::empty_report(
            &Root::new("/"),
            &crate::config::Config::default(),
            &super::super::TestPlan::default(),
        );
        for (id, outcome) in tests {
            report.push(TestEntry {
                id: (*id).to_owned(),
                title: String::new(),
                proves: String::new(),
                level: Level::Quick,
                outcome: *outcome,
                began: None,
                seconds: 0.0,
                summary: String::new(),
                findings: vec![],
                unchecked: vec![],
                matrices: vec![],
                tables: vec![],
                log_tail: vec![],
            });
        }
        report
    }

    fn gpu() -> report::Gpu {
        report::Gpu {
            bdf: "0000:01:00.0".parse().unwrap(),
            device: "0x2684".to_owned(),
            name: None,
            uuid: None,
            vbios: None,
            bar1_bytes: None,
            numa: None,
            driver: None,
            link: None,
        }
    }

    fn names(tests: &[(&str, Outcome)]) -> Vec<String> {
        let all = workload_settings(&report(tests), given())
            .into_iter()
            .map(|a| a.name);
        all.filter(|name| !is_report_variable(name)).collect()
    }

    #[test]
    fn a_good_verdict_passes_all_settings_on() {
        let all: Vec<_> = given().into_iter().map(|a| a.name).collect();
        assert_eq!(names(&[("nccl", Outcome::Pass)]), all);
        assert_eq!(names(&[("nccl", Outcome::Warn)]), all);
    }

    #[test]
    fn a_bad_verdict_withdraws_settings_that_need_peer_to_peer() {
        let left = [
            "NCCL_SOCKET_IFNAME",
            "NCCL_IB_HCA",
            "NCCL_NVLS_ENABLE",
            "OTHER",
        ];
        assert_eq!(
            names(&[("acs", Outcome::Fail), ("nccl", Outcome::Pass)]),
            left
        );
        assert_eq!(names(&[("acs", Outcome::Error)]), left);
    }

    #[test]
    fn settings_without_tests_are_passed_on_after_any_verdict_with_gpus() {
        let up = ["eth0".to_owned()];
        let mut report = report(&[("nccl", Outcome::Fail)]);
        assert_eq!(untested_settings(&report, &Nvls::Untested, Some(&up)), []);
        report.gpus.push(gpu());
        assert_eq!(untested_settings(&report, &Nvls::Untested, None), []);
        let off = Nvls::Forbidden("its owner".to_owned());
        let kept: Vec<_> = workload_settings(&report, untested_settings(&report, &off, Some(&up)))
            .into_iter()
            .filter(|a| a.name.starts_with("NCCL_") && !a.reason.is_empty())
            .map(|a| format!("{}={}", a.name, a.value))
            .collect();
        assert_eq!(
            kept,
            [
                "NCCL_SOCKET_IFNAME==eth0",
                "NCCL_NVLS_ENABLE=0",
                "NCCL_P2P_DISABLE=1"
            ]
        );
        // Asked for, and without proof: the test's own advice would come later.
        let on = workload_settings(
            &report,
            untested_settings(&report, &Nvls::Tested, Some(&up)),
        );
        assert!(
            on.iter()
                .any(|a| a.name == "NCCL_NVLS_ENABLE" && a.value == "0"),
            "{on:?}"
        );
    }

    #[test]
    fn the_advised_interfaces_can_be_distinguished_from_a_choice() {
        let all = workload_settings(&report(&[("nccl", Outcome::Pass)]), given());
        let value = |name| {
            all.iter()
                .find(|advice| advice.name == name)
                .map(|advice| advice.value.as_str())
        };
        assert_eq!(
            (value(INTERFACE), value(ADVISED_INTERFACE)),
            (Some("eth0"), Some("eth0"))
        );
        assert!(
            workload_settings(&report(&[]), Vec::new())
                .iter()
                .all(|advice| advice.name != ADVISED_INTERFACE)
        );
    }

    #[test]
    fn failed_or_unknown_peer_to_peer_is_disabled_with_a_reason() {
        for (id, outcome, what) in [
            ("p2p-integrity", Outcome::Fail, "p2p-integrity failed"),
            (
                "nccl-allreduce",
                Outcome::Error,
                "nccl-allreduce gave no answer",
            ),
        ] {
            let all = workload_settings(&report(&[("acs", Outcome::Pass), (id, outcome)]), given());
            let last = all
                .into_iter()
                .rfind(|advice| !is_report_variable(&advice.name))
                .unwrap();
            assert_eq!(
                (last.name.as_str(), last.value.as_str()),
                (DISABLE_P2P, "1")
            );
            assert!(last.reason.ends_with(what), "{}", last.reason);
        }
    }

    #[test]
    fn nccl_keeps_peer_to_peer_where_only_the_frameworks_own_all_reduce_fails() {
        let left = names(&[("p2p-allreduce", Outcome::Fail), ("nccl", Outcome::Pass)]);
        assert!(!left.contains(&DISABLE_P2P.to_owned()), "{left:?}");
        let left = names(&[
            ("p2p-allreduce", Outcome::Fail),
            ("p2p-order", Outcome::Fail),
        ]);
        assert_eq!(left.last().unwrap(), DISABLE_P2P);
    }

    #[test]
    fn a_reason_is_one_line_that_cannot_be_parsed_as_a_variable() {
        for advice in workload_settings(&report(&[("nccl", Outcome::Pass)]), given()) {
            assert!(
                !advice.reason.contains(['=', '\n']) && !advice.reason.is_empty(),
                "{advice:?}"
            );
        }
    }
}
