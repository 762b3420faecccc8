//! Whether the driver has mapped all of a GPU's memory into BAR1 permanently. Peers write to bus addresses
//! inside BAR1; with a temporary mapping, such an address would soon refer to other memory. There are two sources:
//! NVML counts how much of BAR1 is mapped, and some builds of the driver log the mapping when they start a GPU.
//! Release builds of NVIDIA's own modules do not log it.

use crate::suite::context::{TestContext, known};
use crate::suite::shared::bar1_mapping::{Bar1ByGpu, Bar1Mapping, mapping_of};
use crate::suite::shared::peer_mechanism;
use crate::suite::{Group, NVML_DEADLINE, Test};
use machine::host::kmsg;
use machine::host::kmsg::Line;
use machine::host::nvidia::account::Account;
use machine::host::nvidia::keys::{self, RegistryKeys};
use machine::host::nvidia::log;
use machine::host::nvidia::log::Bar1Peer;
use machine::host::nvidia::params;
use machine::pcie::model::{Bdf, Device};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::test;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::BAR1_STATIC,
    title: "Static BAR1",
    proves: "according to NVML or the kernel's log the driver has mapped the memory of every GPU that needs it into BAR1 permanently",
    level: Level::Quick,
    deadline: NVML_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

/// Whether the static map is expected, and whether the driver logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MapRequest {
    /// It is not expected.
    No,
    /// Our patches create it on Ada and log it.
    Logged,
    /// Our changes or the registry keys request it; it may be missing from the log.
    Silent,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = context.no_driver()? {
        return Ok(nothing);
    }
    let mut gpus = peer_mechanism::through_bar1(context.fabric()?, known(&context.nvidia.gpus)?);
    if gpus.is_empty() {
        return Ok(Judgement::not_applicable(
            "no GPU here is reached through BAR1",
        ));
    }
    let bar1_by_gpu = context.bar1_by_gpu();
    let patched = known(&context.nvidia.account)?
        .as_ref()
        .is_some_and(is_patched);
    let version = known(&context.nvidia.loaded)?
        .as_ref()
        .and_then(|l| keys::major(&l.version));
    let requested = match version {
        Some(version) if patched || context.check_nvml().is_ok() => {
            let all = params::read(&context.root);
            let all = known(&all)?;
            let keys = |gpu: &Device| {
                RegistryKeys::of(version, &params::registry_keys(all, &gpu.bdf.to_string()))
            };
            gpus.iter()
                .filter(|gpu| keys(gpu).ask_for_bar1())
                .map(|gpu| gpu.bdf)
                .collect()
        }
        _ => Vec::new(),
    };
    if patched {
        gpus.retain(|gpu| is_changed(gpu, &requested));
        if gpus.is_empty() {
            let why = "the driver of this image maps the memory of GeForce RTX 30 only where it is built for ampere-geforce";
            return Ok(Judgement::not_applicable(why));
        }
    }
    let by_keys = context.check_nvml().is_ok() && !requested.is_empty();
    let asked = match () {
        () if patched && version.is_none_or(|version| version < UNLOGGED_SINCE) => {
            MapRequest::Logged
        }
        () if patched || by_keys => MapRequest::Silent,
        () => MapRequest::No,
    };
    // NVML alone suffices where it answers about every GPU.
    let is_counted =
        |gpu: &&Device| !matches!(mapping_of(gpu, &bar1_by_gpu), Bar1Mapping::Unknown(_));
    let lines = match context.log() {
        Err(_) if gpus.iter().all(is_counted) => &[],
        lines => lines?,
    };
    Ok(judge(lines, &gpus, asked, &bar1_by_gpu))
}

/// Whether our module may map a GPU's memory. It does so for a GeForce RTX 30 only in an image that was built for the family
/// `ampere-geforce`; the keys of that family, which request the map, are then in force. `requested`: the GPUs with such keys.
fn is_changed(gpu: &Device, requested: &[Bdf]) -> bool {
    !peer_mechanism::is_geforce_ampere(gpu) || requested.contains(&gpu.bdf)
}

/// From this version on, NVIDIA's own modules create the map, and their release builds do not log it.
const UNLOGGED_SINCE: u32 = 570;

/// Whether the image's module carries the patch and init holds GPUs open, which means that they were started.
fn is_patched(account: &Account) -> bool {
    let level = account.module("nvidia").and_then(|m| m.patch.as_deref());
    level.is_some_and(|level| !level.is_empty()) && !account.held.is_empty()
}

fn judge(
    lines: &[Line],
    gpus: &[&Device],
    asked: MapRequest,
    bar1_by_gpu: &Result<Bar1ByGpu, String>,
) -> Judgement {
    let (maps, pairs) = (log::static_maps(lines).len(), log::peer_maps(lines));
    // Other drivers' lines do not name the GPU, so only their number can be compared.
    let all_logged = maps >= gpus.len();
    let seen: Vec<_> = gpus
        .iter()
        .map(|gpu| MapEvidence::of(gpu, lines, all_logged, bar1_by_gpu))
        .collect();
    let relevant =
        asked != MapRequest::No || maps + pairs > 0 || seen.iter().any(MapEvidence::is_mapped);
    let found: Vec<_> = seen
        .iter()
        .filter_map(|seen| seen.fault(lines, relevant))
        .collect();
    if let Some(first) = found.first() {
        return Judgement::of(first.message.to_string(), found);
    }
    let counted = seen
        .iter()
        .all(|s| !matches!(s.count, Bar1Mapping::Unknown(_)));
    let mapped = seen.iter().filter(|s| s.is_mapped()).count();
    let mapped = if counted {
        mapped
    } else {
        mapped.max(maps.min(gpus.len()))
    };
    let expected = match asked {
        _ if mapped + pairs > 0 => gpus.len(),
        MapRequest::Logged => gpus
            .iter()
            .filter(|gpu| peer_mechanism::is_ada(gpu))
            .count(),
        MapRequest::Silent => gpus.len(),
        MapRequest::No => 0,
    };
    let numbers = seen
        .first()
        .and_then(|s| s.count.words())
        .map(|words| format!("; {words}"));
    let numbers = numbers.unwrap_or_default();
    if expected == 0 {
        let why = "this driver is not known to map BAR1 permanently";
        return Judgement::not_applicable(format!("{why}{numbers}"));
    }
    if mapped >= expected {
        return Judgement::of(format!("{mapped} of {expected} GPUs{numbers}"), Vec::new());
    }
    let missing: Vec<_> = seen.iter().filter_map(MapEvidence::not_mapped).collect();
    match missing.first() {
        Some(first) if counted => Judgement::of(first.message.to_string(), missing),
        _ => {
            let silent = asked == MapRequest::Silent && mapped + pairs == 0;
            Judgement::by(unlogged(mapped, expected, silent, &seen, lines))
        }
    }
}

/// What both sources report about one GPU.
struct MapEvidence<'a> {
    gpu: &'a Device,
    /// The last line that our patches logged about it.
    line: Option<Bar1Peer<'a>>,
    /// Whether the log shows a map for every GPU.
    all_logged: bool,
    count: Bar1Mapping,
}

impl<'a> MapEvidence<'a> {
    fn of(
        gpu: &'a Device,
        lines: &'a [Line],
        all_logged: bool,
        bar1_by_gpu: &Result<Bar1ByGpu, String>,
    ) -> Self {
        let address = gpu.bdf.to_string();
        let line = log::bar1_peers(lines)
            .into_iter()
            .rev()
            .find(|line| line.gpu == address);
        Self {
            gpu,
            line,
            all_logged,
            count: mapping_of(gpu, bar1_by_gpu),
        }
    }

    fn is_logged(&self) -> bool {
        self.line
            .as_ref()
            .map_or(self.all_logged, |line| line.off.is_none())
    }

    fn is_mapped(&self) -> bool {
        match &self.count {
            Bar1Mapping::All(_) => true,
            Bar1Mapping::Little(_) | Bar1Mapping::Part(_) => false,
            Bar1Mapping::Unknown(_) => self.line.as_ref().is_some_and(|line| line.off.is_none()),
        }
    }

    /// A fault that does not depend on what the driver was asked for: it refuses, or the sources disagree.
    /// `relevant`: the map is expected, or another GPU has it.
    fn fault(&self, lines: &[Line], relevant: bool) -> Option<Finding> {
        let bdf = self.gpu.bdf;
        let off = self.line.as_ref().and_then(|line| line.off);
        let seen = kmsg::mentioning(
            lines,
            &[&format!("BAR1 peer-to-peer of {bdf}"), "tatic bar1"],
            8,
        );
        match (&self.count, off) {
            (Bar1Mapping::All(words), Some(why)) => {
                let message = format!(
                    "the kernel's log says that BAR1 of {bdf} is not mapped ({why}), but {words}"
                );
                Some(
                    Code::Bar1Witnesses
                        .finding(Severity::Warn, bdf, message)
                        .seen_all(seen),
                )
            }
            (_, Some(why)) => {
                let message = format!("the driver does not map {bdf} into BAR1: {why}");
                let finding = Code::Bar1NotStatic
                    .finding(Severity::Fail, bdf, message)
                    .because(Reason::NotMapped(why.into()));
                Some(
                    finding
                        .seen_all(seen)
                        .seen_all(self.count.words().into_iter().collect()),
                )
            }
            (Bar1Mapping::Little(words), None) if self.is_logged() => {
                let message =
                    format!("the kernel's log says that BAR1 of {bdf} is mapped, but {words}");
                Some(
                    Code::Bar1Witnesses
                        .finding(Severity::Fail, bdf, message)
                        .seen_all(seen),
                )
            }
            (Bar1Mapping::Part(words), None) if relevant => {
                let message = format!(
                    "it is unknown whether the memory of {bdf} is in BAR1 permanently: {words}"
                );
                let finding = Code::Bar1NotStatic.finding(Severity::Error, bdf, message);
                Some(finding.because(Reason::MappedByOthers))
            }
            _ => None,
        }
    }

    /// The finding that NVML counts too little.
    fn not_mapped(&self) -> Option<Finding> {
        let Bar1Mapping::Little(words) = &self.count else {
            return None;
        };
        let bdf = self.gpu.bdf;
        let message = format!("the memory of {bdf} is not in BAR1 permanently: {words}");
        Some(
            Code::Bar1NotStatic
                .finding(Severity::Fail, bdf, message)
                .seen(words.clone()),
        )
    }
}

/// The finding that the log lacks mappings and NVML does not answer.
fn unlogged(
    mapped: usize,
    expected: usize,
    silent: bool,
    seen: &[MapEvidence<'_>],
    lines: &[Line],
) -> Finding {
    let (severity, since) = match log::begins(lines) {
        // The missing beginning of the log may have contained the lines.
        Some(at) => (
            Severity::Error,
            format!("; lines before {} s are gone", at.as_secs()),
        ),
        None if silent => (Severity::Error, "; this driver need not log it".to_owned()),
        None => (Severity::Fail, String::new()),
    };
    let message =
        format!("{mapped} of {expected} GPUs have their memory in BAR1 permanently{since}");
    let logged = kmsg::mentioning(
        lines,
        &["tatic bar1", "BAR1 P2P mapping", "BAR1 peer-to-peer"],
        8,
    );
    let nvml = seen.iter().filter_map(|s| match &s.count {
        Bar1Mapping::Unknown(why) => Some(format!("NVML about {}: {why}", s.gpu.bdf)),
        _ => None,
    });
    let finding = Code::Bar1NotStatic.finding(severity, Subject::part("nvidia"), message);
    finding
        .values(mapped, expected, Some("GPUs"))
        .seen_all(logged)
        .seen_all(nvml.take(2).collect())
}

#[cfg(test)]
mod tests;
