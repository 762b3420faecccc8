//! Whether CUDA starts with the GPUs that are on the bus. A GPU that other processes use is reported with
//! their names: they distort measurements.

use super::{nvlink_fabric, witnesses};
use crate::suite::{Group, Test, TestContext};
use gpu::{Confidential, Gpu, GpuError, GpuSnapshot, GpuStatus, Process};
use machine::GpuId;
use machine::pcie::model::{Bdf, Fabric};
use outcome::Judgement;
use outcome::finding::{Code, ConfidentialCase, Finding, Reason, Severity, Subject};
use outcome::test;
use outcome::text::gib;
use report::Level;
use std::collections::BTreeMap;
use std::time::Duration;

/// Memory that contexts and the driver itself use on a GPU; more belongs to other processes.
const OWN_BYTES: u64 = 3 << 29;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::CUDA,
    title: "CUDA",
    proves: "CUDA starts, sees every GPU that the driver holds, and the GPUs are free",
    level: Level::Quick,
    deadline: Duration::from_secs(60),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// One GPU as CUDA and NVML see it.
struct CudaGpu {
    ordinal: usize,
    bdf: Bdf,
    name: String,
    used_bytes: u64,
    total_bytes: u64,
    /// The other processes that use it, or why they are unknown.
    users: Result<Vec<Process>, String>,
    /// How busy it was before the tests, percent, if that is significant.
    busy: Option<u32>,
}

fn status(before: &GpuSnapshot, gpu: Bdf) -> Option<&GpuStatus> {
    before.known().iter().find(|g| g.gpu == gpu)
}

/// The processes that used a GPU before the tests.
fn users(before: &GpuSnapshot, gpu: Bdf) -> Result<Vec<Process>, String> {
    before.gpus.as_ref().map_err(Clone::clone)?;
    let status = status(before, gpu).ok_or("NVML was not asked about it")?;
    status.users.as_ref().map_err(Clone::clone)?;
    Ok(status.others().cloned().collect())
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = context.no_gpus(false)? {
        return Ok(none);
    }
    let before = context.snapshot_before();
    let fabric_state = nvlink_fabric::findings(context);
    if nvlink_fabric::stops_cuda(&fabric_state) {
        return Ok(Judgement::summed_up(String::new, fabric_state));
    }
    let clique = context.clique()?;
    let look = |gpu: &Gpu| -> Result<CudaGpu, GpuError> {
        let (free, total_bytes) = gpu.memory()?;
        let used_bytes = total_bytes.saturating_sub(free);
        Ok(CudaGpu {
            ordinal: gpu.ordinal,
            bdf: gpu.bdf,
            name: gpu.name.clone(),
            used_bytes,
            total_bytes,
            users: users(before, gpu.bdf),
            busy: status(before, gpu.bdf)
                .filter(|g| g.is_busy())
                .and_then(|g| g.busy_percent),
        })
    };
    let seen = clique.gpus.iter().map(look).collect::<Result<Vec<_>, _>>();
    let seen =
        seen.map_err(|e| crate::suite::shared::gpu_fault::fault_finding(Subject::Machine, &e))?;
    let kind = clique
        .gpus
        .first()
        .map(|g| format!("compute capability {}.{}", g.capability.0, g.capability.1));
    let about = format!("CUDA {}, {}", clique.cuda, kind.unwrap_or_default());
    let mode = context
        .confidential()
        .map(|mode| in_mode(mode, context.confidential_state(mode)));
    Ok(judge(
        context.fabric()?,
        &seen,
        &about,
        mode.into_iter()
            .chain(fabric_state)
            .chain(witnesses::findings(context, clique)),
    ))
}

/// CUDA starts in a mode of confidential computing, about which firstlight claims nothing.
fn in_mode(mode: Confidential, state: String) -> Finding {
    let case = if mode.protected_pcie {
        ConfidentialCase::ProtectedPcie
    } else {
        ConfidentialCase::On
    };
    Code::CcUnsupported
        .finding(Severity::Warn, Subject::Machine, state)
        .because(Reason::Confidential(case))
}

fn judge(
    fabric: &Fabric,
    seen: &[CudaGpu],
    about: &str,
    known: impl IntoIterator<Item = Finding>,
) -> Judgement {
    let held = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf) && d.driver.as_deref() == Some("nvidia"));
    let held: Vec<Bdf> = held.map(|d| d.bdf).collect();
    let mut findings = Vec::from_iter(known);
    findings.extend(
        held.iter()
            .filter(|bdf| seen.iter().all(|s| s.bdf != **bdf))
            .map(missing),
    );
    findings.extend(seen.iter().filter(|s| !held.contains(&s.bdf)).map(unbound));
    findings.extend(seen.iter().filter_map(in_use));
    let summary = findings.iter().max_by_key(|f| f.severity).map_or_else(
        || {
            let least = seen.iter().map(|s| s.total_bytes).min().unwrap_or_default();
            format!("{}: {about}, {:.1} GiB", models(seen), gib(least))
        },
        |worst| worst.message.to_string(),
    );
    Judgement::of(summary, findings)
}

/// `8 x NVIDIA H200`; models that differ are all named.
fn models(seen: &[CudaGpu]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in seen {
        *counts.entry(&seen.name).or_default() += 1;
    }
    counts
        .iter()
        .map(|(name, n)| format!("{n} x {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn missing(bdf: &Bdf) -> Finding {
    let message = format!("{bdf} is on the bus and bound to the driver, but CUDA does not see it");
    Code::GpuCountCuda.finding(Severity::Fail, bdf, message)
}

fn unbound(seen: &CudaGpu) -> Finding {
    let message = format!(
        "CUDA sees a GPU at {}, where the bus shows none that is bound to the driver",
        seen.bdf
    );
    Code::GpuCountCuda.finding(Severity::Error, seen.bdf, message)
}

fn in_use(seen: &CudaGpu) -> Option<Finding> {
    let subject = Subject::from(GpuId::new(seen.ordinal));
    let name = subject.to_string();
    let users = match &seen.users {
        Ok(users) => users,
        Err(why) => {
            let message = format!("{name}: the processes that use it are unknown: {why}");
            return Some(Code::GpuInUse.finding(Severity::Warn, subject, message));
        }
    };
    if users.is_empty() && seen.used_bytes <= OWN_BYTES && seen.busy.is_none() {
        return None;
    }
    let busy = seen
        .busy
        .map_or(String::new(), |percent| format!("{percent} % busy, "));
    let taken = format!(
        "{busy}{:.1} of {:.1} GiB taken",
        gib(seen.used_bytes),
        gib(seen.total_bytes)
    );
    let who = if users.is_empty() {
        "processes that NVML does not name".to_owned()
    } else {
        process_names(users)
    };
    let finding = Code::GpuInUse.finding(
        Severity::Warn,
        subject,
        format!("{name} is in use: {taken} by {who}"),
    );
    let finding = finding.values(seen.used_bytes, OWN_BYTES, Some("bytes"));
    Some(finding.seen_all(users.iter().map(process_line).collect()))
}

fn process_names(users: &[Process]) -> String {
    let name = |p: &Process| {
        if p.name.is_empty() {
            format!("process {}", p.pid)
        } else {
            p.name.clone()
        }
    };
    users.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn process_line(process: &Process) -> String {
    let bytes = process
        .bytes
        .map_or("unknown".to_owned(), |b| b.to_string());
    format!("process {} {}: {bytes} bytes", process.pid, process.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::Outcome;

    fn machine() -> (Fabric, Vec<CudaGpu>) {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).driver = Some("nvidia".into());
        }
        let seen = fabric
            .gpus
            .iter()
            .enumerate()
            .map(|(ordinal, bdf)| CudaGpu {
                ordinal,
                bdf: *bdf,
                name: "NVIDIA A".into(),
                used_bytes: 500 << 20,
                total_bytes: 24 << 30,
                users: Ok(vec![]),
                busy: None,
            });
        let seen = seen.collect();
        (fabric, seen)
    }

    fn said(fabric: &Fabric, seen: &[CudaGpu]) -> Judgement {
        judge(fabric, seen, "CUDA 12.5, compute capability 8.9", None)
    }

    #[test]
    fn all_gpus_seen_and_free_pass() {
        let (fabric, seen) = machine();
        assert_eq!(
            said(&fabric, &seen).summary,
            "2 x NVIDIA A: CUDA 12.5, compute capability 8.9, 24.0 GiB"
        );
        let mut seen = seen;
        seen[1].name = "NVIDIA B".into();
        assert!(
            said(&fabric, &seen)
                .summary
                .starts_with("1 x NVIDIA A, 1 x NVIDIA B: ")
        );
    }

    #[test]
    fn a_mode_of_confidential_computing_warns_that_nothing_is_claimed() {
        let (fabric, seen) = machine();
        for (protected_pcie, case) in [
            (true, ConfidentialCase::ProtectedPcie),
            (false, ConfidentialCase::On),
        ] {
            let finding = in_mode(
                Confidential {
                    protected_pcie,
                    ready: Some(true),
                },
                "it is on".to_owned(),
            );
            assert_eq!(finding.reason, Some(Reason::Confidential(case)));
            let said = judge(&fabric, &seen, "CUDA 13.0", Some(finding));
            assert_eq!(
                (said.outcome(), said.summary.as_str()),
                (Outcome::Warn, "it is on")
            );
        }
    }

    #[test]
    fn a_gpu_missing_from_cuda_fails_and_one_missing_from_the_bus_is_an_error() {
        let (fabric, mut seen) = machine();
        seen.pop();
        let judgement = said(&fabric, &seen);
        assert!(
            judgement.outcome() == Outcome::Fail && judgement.findings[0].is(Code::GpuCountCuda)
        );
        let (mut fabric, seen) = machine();
        fabric.gpus.pop();
        assert_eq!(said(&fabric, &seen).outcome(), Outcome::Error);
    }

    #[test]
    fn a_gpu_in_use_warns_with_names() {
        let (fabric, mut seen) = machine();
        let name = "/usr/bin/train".into();
        let train = Process {
            pid: 7,
            name,
            bytes: Some(9 << 30),
            compute: true,
            ours: false,
        };
        seen[1].users = Ok(vec![train]);
        seen[1].used_bytes = 10 << 30;
        let judgement = said(&fabric, &seen);
        assert_eq!(judgement.outcome(), Outcome::Warn);
        assert_eq!(
            judgement.summary,
            "GPU 1 is in use: 10.0 of 24.0 GiB taken by /usr/bin/train"
        );
        seen[1].users = Ok(vec![]);
        assert!(
            said(&fabric, &seen)
                .summary
                .ends_with("by processes that NVML does not name")
        );
        (seen[1].used_bytes, seen[1].busy) = (1 << 20, Some(97));
        let judgement = said(&fabric, &seen);
        assert_eq!(judgement.outcome(), Outcome::Warn);
        assert!(
            judgement
                .summary
                .starts_with("GPU 1 is in use: 97 % busy, "),
            "{}",
            judgement.summary
        );
    }

    #[test]
    fn unknown_users_warn() {
        let (fabric, mut seen) = machine();
        seen[0].users = Err("libnvidia-ml.so.1: not found".into());
        assert_eq!(said(&fabric, &seen).outcome(), Outcome::Warn);
    }
}
