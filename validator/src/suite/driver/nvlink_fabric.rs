//! Whether the GPUs have joined the NVLink fabric of their NVSwitches, and what it says about them. All links can be up while a
//! GPU is not a member, or has a route that does not work (NVSentinel, issue 883: a node that was broken for 20 days). A part of
//! the test `cuda`, because CUDA starts only after the registration.

use crate::suite::TestContext;
use gpu::{NvLinkFabric, Registration};
use machine::GpuId;
use machine::host::nvidia::imex;
use machine::host::nvidia::imex::Imex;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A registration takes seconds after the fabric manager has started.
const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// One GPU's answer.
type Answer = (GpuId, Result<Option<NvLinkFabric>, String>);

/// The findings about all GPUs; waits for registrations that are under way.
pub(super) fn findings(context: &TestContext) -> Vec<Finding> {
    let Ok(fabric) = context.fabric() else {
        return Vec::new();
    };
    if context.check_nvml().is_err() {
        return Vec::new();
    }
    // Without NVML the test `cuda` or `driver` has its own finding.
    let Ok(nvml) = context.nvml() else {
        return Vec::new();
    };
    let ask = || -> Vec<Answer> {
        GpuId::each(&fabric.gpus)
            .map(|(gpu, at)| (gpu, nvml.nvlink_fabric(*at)))
            .collect()
    };
    let until = Instant::now() + LIMIT;
    let mut all = ask();
    while all.iter().any(|(_, answer)| is_under_way(answer)) && Instant::now() < until {
        context.doing("waiting for the GPUs to join the NVLink fabric");
        sleep(PAUSE);
        all = ask();
    }
    let mut found = judge(&all);
    found.extend(other_machines(&all, &imex::read(&context.root)));
    found
}

/// NVLinks that lead to other machines, which no test of one machine uses: NCCL is started here without them.
fn other_machines(all: &[Answer], imex: &Imex) -> Option<Finding> {
    let members = all
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok()?.as_ref());
    let fabrics: BTreeSet<_> = members
        .filter(|fabric| fabric.cluster != [0; 16])
        .map(|fabric| (fabric.cluster, fabric.clique))
        .collect();
    if fabrics.is_empty() && !imex.is_there() {
        return None;
    }
    let named = |(cluster, clique): &([u8; 16], u32)| {
        let hex = cluster
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        format!("cluster {hex}, clique {clique}")
    };
    let fabrics = fabrics.iter().map(named).collect::<Vec<_>>().join(", ");
    let fabrics = if fabrics.is_empty() {
        "NVML names no cluster".to_owned()
    } else {
        fabrics
    };
    let state = imex.state();
    let message = format!("NVLink to other machines (MNNVL) was not tested: {fabrics}; {state}");
    Some(Code::NvlinkMultinode.finding(Severity::Info, Subject::Machine, message))
}

fn is_under_way(answer: &Result<Option<NvLinkFabric>, String>) -> bool {
    matches!(
        answer,
        Ok(Some(NvLinkFabric {
            registration: Registration::InProgress,
            ..
        }))
    )
}

/// Whether CUDA can start: a GPU that is not registered makes it fail with "system not ready".
pub(super) fn stops_cuda(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
}

fn judge(all: &[Answer]) -> Vec<Finding> {
    let mut found: Vec<_> = all
        .iter()
        .filter_map(|(gpu, answer)| of_gpu(*gpu, answer))
        .collect();
    let members: Vec<_> = all
        .iter()
        .filter_map(|(gpu, answer)| Some((*gpu, answer.as_ref().ok()?.as_ref()?)))
        .collect();
    let fabrics: BTreeSet<_> = members
        .iter()
        .map(|(_, fabric)| (fabric.cluster, fabric.clique))
        .collect();
    if fabrics.len() > 1 {
        let named: Vec<_> = members
            .iter()
            .map(|(gpu, fabric)| format!("GPU {gpu} is in clique {}", fabric.clique))
            .collect();
        let message = format!(
            "the GPUs are members of {} NVLink fabrics or cliques: {}",
            fabrics.len(),
            named.join(", ")
        );
        found.push(Code::NvlinkFabric.finding(Severity::Fail, Subject::Machine, message));
    }
    found
}

fn of_gpu(gpu: GpuId, answer: &Result<Option<NvLinkFabric>, String>) -> Option<Finding> {
    let (severity, what) = match answer {
        Ok(None) => return None,
        Err(why) => (
            Severity::Warn,
            format!("the state of its NVLink fabric is unknown: {why}"),
        ),
        Ok(Some(fabric)) => state(fabric)?,
    };
    Some(Code::NvlinkFabric.finding(severity, gpu, format!("GPU {gpu}: {what}")))
}

fn state(fabric: &NvLinkFabric) -> Option<(Severity, String)> {
    let health = fabric.health;
    match fabric.registration {
        Registration::NotStarted => {
            return Some((
                Severity::Error,
                "its registration with the NVLink fabric has not begun".to_owned(),
            ));
        }
        Registration::InProgress => {
            let seconds = LIMIT.as_secs();
            return Some((
                Severity::Error,
                format!("its registration with the NVLink fabric did not end within {seconds} s"),
            ));
        }
        Registration::Completed(0) => {}
        Registration::Completed(status) => {
            return Some((
                Severity::Fail,
                format!(
                    "its registration with the NVLink fabric ended with NVML's status {status}"
                ),
            ));
        }
    }
    let configuration = health.misconfigured.map(wrong_configuration);
    let bad = [
        (health.route_unhealthy, "a route does not work"),
        (configuration.is_some(), configuration.unwrap_or_default()),
        (health.unhealthy, "it is unhealthy"),
    ];
    let mild = [
        (health.degraded_bandwidth, "its bandwidth is degraded"),
        (health.route_recovery, "a route is being repaired"),
        (
            health.access_timeout,
            "it is being repaired after accesses that timed out",
        ),
        (health.limited, "its capacity is limited"),
    ];
    let list = |all: &[(bool, &'static str)]| {
        all.iter()
            .filter(|(is, _)| *is)
            .map(|(_, what)| *what)
            .collect::<Vec<_>>()
    };
    let (bad, mild) = (list(&bad), list(&mild));
    let severity = if bad.is_empty() {
        Severity::Warn
    } else {
        Severity::Fail
    };
    let all: Vec<_> = bad.into_iter().chain(mild).collect();
    (!all.is_empty()).then(|| {
        (
            severity,
            format!("the NVLink fabric says: {}", all.join(", ")),
        )
    })
}

/// `NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_*` of nvml.h, in words.
const fn wrong_configuration(number: u32) -> &'static str {
    match number {
        2 => "the system's GUID is wrong",
        3 => "the chassis' serial number is wrong",
        4 => "it is in no partition",
        5 => "it has too few NVLinks",
        _ => "its configuration is wrong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::FabricHealth;

    fn member(registration: Registration, health: FabricHealth) -> NvLinkFabric {
        NvLinkFabric {
            registration,
            cluster: [0; 16],
            clique: 0,
            health,
        }
    }

    fn judged(fabric: NvLinkFabric) -> Vec<(Severity, String)> {
        let found = judge(&[(GpuId::new(0), Ok(Some(fabric))), (GpuId::new(1), Ok(None))]);
        found
            .into_iter()
            .map(|finding| (finding.severity, finding.message.to_string()))
            .collect()
    }

    const DONE: Registration = Registration::Completed(0);

    #[test]
    fn members_in_good_health_and_gpus_without_such_a_fabric_are_not_mentioned() {
        assert_eq!(judged(member(DONE, FabricHealth::default())), []);
    }

    #[test]
    fn a_registration_that_did_not_succeed_is_named() {
        let healthy = FabricHealth::default();
        for (registration, severity) in [
            (Registration::NotStarted, Severity::Error),
            (Registration::InProgress, Severity::Error),
            (Registration::Completed(999), Severity::Fail),
        ] {
            let found = judged(member(registration, healthy));
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, severity, "{found:?}");
        }
    }

    #[test]
    fn what_the_fabric_says_about_health_is_quoted_and_a_broken_route_is_a_failure() {
        let slow = FabricHealth {
            degraded_bandwidth: true,
            limited: true,
            ..FabricHealth::default()
        };
        let text =
            "GPU 0: the NVLink fabric says: its bandwidth is degraded, its capacity is limited";
        assert_eq!(
            judged(member(DONE, slow)),
            [(Severity::Warn, text.to_owned())]
        );
        let broken = FabricHealth {
            route_unhealthy: true,
            misconfigured: Some(4),
            ..slow
        };
        let [(severity, text)] = &judged(member(DONE, broken))[..] else {
            panic!("one")
        };
        assert_eq!(*severity, Severity::Fail);
        assert!(
            text.contains(
                "a route does not work, it is in no partition, its bandwidth is degraded"
            ),
            "{text}"
        );
    }

    #[test]
    fn nvlink_to_other_machines_is_named_with_its_state_and_not_where_there_is_none() {
        let one = member(DONE, FabricHealth::default());
        let all = |fabric| {
            [
                (GpuId::new(0), Ok(Some(fabric))),
                (GpuId::new(1), Ok(Some(fabric))),
            ]
        };
        let none = Imex {
            channels: Ok(Vec::new()),
            daemon: false,
            nodes: Ok(None),
        };
        assert_eq!(other_machines(&all(one), &none), None);
        assert_eq!(other_machines(&[(GpuId::new(0), Ok(None))], &none), None);
        let finding = other_machines(
            &all(NvLinkFabric {
                cluster: [0xab; 16],
                clique: 3,
                ..one
            }),
            &none,
        )
        .unwrap();
        assert!(finding.is(Code::NvlinkMultinode) && finding.severity == Severity::Info);
        let text = "MNNVL) was not tested: cluster abababababababababababababababab, clique 3; no channel has a device node";
        assert!(finding.message.contains(text), "{}", finding.message);
        let imex = Imex {
            channels: Ok(vec![0]),
            daemon: true,
            nodes: Ok(Some(18)),
        };
        let finding = other_machines(&all(one), &imex).unwrap();
        let text = "NVML names no cluster; IMEX channels with a device node: 0; the IMEX daemon runs; 18 nodes";
        assert!(finding.message.contains(text), "{}", finding.message);
    }

    #[test]
    fn gpus_of_different_cliques_are_named() {
        let one = member(DONE, FabricHealth::default());
        let all = [
            (GpuId::new(0), Ok(Some(one))),
            (GpuId::new(1), Ok(Some(NvLinkFabric { clique: 1, ..one }))),
        ];
        let [finding] = &judge(&all)[..] else {
            panic!("one")
        };
        assert!(
            finding
                .message
                .contains("GPU 0 is in clique 0, GPU 1 is in clique 1"),
            "{finding:?}"
        );
    }

    #[test]
    fn an_error_of_nvml_is_said_and_proves_nothing() {
        let all = [(
            GpuId::new(0),
            Err("nvmlDeviceGetGpuFabricInfoV returned 999".to_owned()),
        )];
        assert_eq!(judge(&all)[0].severity, Severity::Warn);
    }
}
