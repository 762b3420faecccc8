//! Whether NVML, CUDA and the kernel module speak about the same driver and the same GPUs: the version, the list of GPUs and
//! their UUIDs. A library of another driver, or one that is put in front of it, tells of GPUs that are not tested. A part of the
//! test `cuda`. What a container or WSL2 does not show is not compared. Pure, except for the reading.

use crate::suite::TestContext;
use gpu::{Clique, NvmlGpus};
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::collections::BTreeMap;

/// The UUID of each GPU as one source knows it.
type Known = BTreeMap<Bdf, Option<String>>;

/// The findings about this machine.
pub(super) fn findings(context: &TestContext, clique: &Clique) -> Vec<Finding> {
    // Without NVML the test `driver` has its own finding.
    let Ok(nvml) = context.nvml() else {
        return Vec::new();
    };
    let before = context.snapshot_before();
    let whole = |bdf: Bdf| !before.known().iter().any(|gpu| gpu.gpu == bdf && gpu.mig);
    let cuda: Known = clique
        .gpus
        .iter()
        .filter(|gpu| whole(gpu.bdf))
        .map(|gpu| (gpu.bdf, Some(gpu.uuid.clone())))
        .collect();
    let module = context
        .nvidia
        .gpus
        .as_ref()
        .ok()
        .filter(|gpus| !gpus.is_empty());
    let of_module = |gpus: &BTreeMap<String, machine::host::nvidia::gpus::Information>| -> Known {
        gpus.iter()
            .filter_map(|(at, gpu)| Some((at.parse().ok()?, gpu.uuid.clone())))
            .collect()
    };
    let version = context
        .nvidia
        .loaded
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .map(|loaded| loaded.own_version.as_str());
    judge(&nvml.gpus(), &cuda, module.map(of_module).as_ref(), version)
}

fn judge(
    nvml: &Result<NvmlGpus, String>,
    cuda: &Known,
    module: Option<&Known>,
    version: Option<&str>,
) -> Vec<Finding> {
    let nvml = match nvml {
        Ok(nvml) => nvml,
        Err(why) => {
            let message = format!(
                "NVML does not list its GPUs, so that CUDA's are not compared with them: {why}"
            );
            return vec![Code::GpuWitnesses.finding(Severity::Warn, Subject::Machine, message)];
        }
    };
    let mut found = Vec::new();
    if let Some(version) = version.filter(|version| *version != nvml.driver) {
        let message = format!(
            "NVML says that the driver is {}, the kernel module is {version}",
            nvml.driver
        );
        found.push(
            Code::GpuWitnesses
                .finding(Severity::Error, Subject::Machine, message)
                .values(nvml.driver.as_str(), version, None),
        );
    }
    let listed: Known = nvml
        .gpus
        .iter()
        .map(|(bdf, uuid)| (*bdf, Some(uuid.clone())))
        .collect();
    found.extend(different("CUDA", cuda, "NVML", &listed));
    found.extend(absent("CUDA", cuda, "NVML", &listed));
    if let Some(module) = module {
        found.extend(different("NVML", &listed, "the kernel module", module));
        found.extend(absent("NVML", &listed, "the kernel module", module));
        found.extend(absent("the kernel module", module, "NVML", &listed));
    }
    found
}

/// GPUs at one address with two UUIDs.
fn different(one: &str, ones: &Known, other: &str, others: &Known) -> Vec<Finding> {
    let of = |(bdf, uuid): (&Bdf, &Option<String>)| {
        let (a, b) = (uuid.as_ref()?, others.get(bdf)?.as_ref()?);
        let message =
            format!("{one} says that the GPU at {bdf} is {a}, {other} says that it is {b}");
        let finding = || {
            Code::GpuWitnesses
                .finding(Severity::Error, *bdf, message)
                .values(a.as_str(), b.as_str(), None)
        };
        (!a.eq_ignore_ascii_case(b)).then(finding)
    };
    ones.iter().filter_map(of).collect()
}

/// GPUs that one source has and the other has not.
fn absent(one: &str, ones: &Known, other: &str, others: &Known) -> Vec<Finding> {
    let missing = ones.keys().filter(|bdf| !others.contains_key(bdf));
    let finding = |bdf: &Bdf| {
        Code::GpuWitnesses.finding(
            Severity::Warn,
            *bdf,
            format!("{one} has a GPU at {bdf}, {other} has none there"),
        )
    };
    missing.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bus: u8) -> Bdf {
        Bdf {
            domain: 0,
            bus,
            device: 0,
            function: 0,
        }
    }

    fn known(gpus: &[(u8, &str)]) -> Known {
        gpus.iter()
            .map(|(bus, uuid)| (at(*bus), Some((*uuid).to_owned())))
            .collect()
    }

    fn said(
        nvml: &[(u8, &str)],
        cuda: &[(u8, &str)],
        module: &[(u8, &str)],
    ) -> Vec<(Severity, String)> {
        let gpus = nvml
            .iter()
            .map(|(bus, uuid)| (at(*bus), (*uuid).to_owned()))
            .collect();
        let nvml = Ok(NvmlGpus {
            driver: "580.95.05".to_owned(),
            gpus,
        });
        let found = judge(&nvml, &known(cuda), Some(&known(module)), Some("580.95.05"));
        assert!(found.iter().all(|finding| finding.is(Code::GpuWitnesses)));
        found
            .into_iter()
            .map(|finding| (finding.severity, finding.message.to_string()))
            .collect()
    }

    const BOTH: [(u8, &str); 2] = [(1, "GPU-a"), (2, "GPU-b")];

    #[test]
    fn sources_that_agree_and_gpus_hidden_from_cuda_alone_are_not_mentioned() {
        assert_eq!(said(&BOTH, &BOTH, &BOTH), []);
        assert_eq!(said(&BOTH, &BOTH[1..], &BOTH), []);
        let unknown = judge(
            &Ok(NvmlGpus {
                driver: "580.95.05".to_owned(),
                gpus: vec![(at(1), "GPU-a".to_owned())],
            }),
            &known(&BOTH[..1]),
            Some(&Known::from([(at(1), None)])),
            None,
        );
        assert_eq!(unknown, []);
    }

    #[test]
    fn a_disagreement_names_both() {
        let swapped = [(1, "GPU-b"), (2, "GPU-a")];
        let found = said(&BOTH, &BOTH, &swapped);
        assert_eq!((found.len(), found[0].0), (2, Severity::Error));
        assert!(
            found[0].1.contains(
                "NVML says that the GPU at 0000:01:00.0 is GPU-a, the kernel module says"
            ),
            "{found:?}"
        );
        let found = said(&BOTH[..1], &BOTH, &BOTH);
        let text = "CUDA has a GPU at 0000:02:00.0, NVML has none there".to_owned();
        assert_eq!((found.len(), &found[0]), (2, &(Severity::Warn, text)));
        let nvml = Ok(NvmlGpus {
            driver: "580.95.05".to_owned(),
            gpus: Vec::new(),
        });
        let found = judge(&nvml, &Known::new(), None, Some("555.58.02"));
        assert!(
            found[0]
                .message
                .contains("the driver is 580.95.05, the kernel module is 555.58.02"),
            "{found:?}"
        );
        assert_eq!(
            judge(&Err("lost".to_owned()), &Known::new(), None, None)[0].severity,
            Severity::Warn
        );
    }
}
