//! NVLinks that are down or do not answer: otherwise a missing link would only lower what is expected.

use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Reason, Severity};

/// One GPU and what NVML reports of its NVLinks.
#[derive(Debug, Clone, PartialEq)]
pub struct NvLinkGpu {
    /// CUDA's number.
    pub gpu: GpuId,
    /// Its address.
    pub bdf: Bdf,
    /// Its model, as the driver names it.
    pub name: String,
    /// NVML's report, or why there is none.
    pub links: Result<NvLinkCounts, String>,
}

/// The state of its NVLinks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvLinkCounts {
    /// How many are up.
    pub up: u32,
    /// The numbers of those that are down.
    pub down: Vec<u32>,
    /// Those for which NVML returned an error.
    pub silent: Vec<(u32, String)>,
}

/// The number of links of a bridge between two cards.
const BRIDGE: u32 = 4;

impl NvLinkCounts {
    fn all(&self) -> u32 {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.up
            .saturating_add(count(self.down.len()))
            .saturating_add(count(self.silent.len()))
    }
}

impl NvLinkGpu {
    fn all(&self) -> u32 {
        self.links.as_ref().map_or(0, NvLinkCounts::all)
    }

    /// NVLinks of cards lead to a bridge, which is optional: NVIDIA calls such boards PCIe or NVL, and those
    /// for workstations have one bridge's links. On all others every link is wired.
    fn by_bridge(&self, links: u32) -> bool {
        let name = self.name.to_ascii_uppercase();
        links <= BRIDGE || name.contains("PCIE") || name.contains("NVL")
    }
}

/// Findings about the NVLinks of `boards`, each compared with those of the same model.
#[must_use]
pub fn nvlinks(boards: &[NvLinkGpu]) -> Vec<Finding> {
    boards.iter().flat_map(|board| one(board, boards)).collect()
}

fn one(board: &NvLinkGpu, boards: &[NvLinkGpu]) -> Vec<Finding> {
    let links = match &board.links {
        Ok(links) => links,
        Err(why) => return vec![unreadable(board, why)],
    };
    let silent = links.silent.first().map(|(link, why)| {
        let all = links.silent.len();
        unreadable(
            board,
            &format!("{all} of its NVLinks do not report their state, the first is {link}: {why}"),
        )
    });
    let alike = boards.iter().filter(|other| other.name == board.name);
    let most = alike.map(NvLinkGpu::all).max().unwrap_or(0);
    silent.into_iter().chain(down(board, links, most)).collect()
}

/// `most`: how many links a GPU of this model has here.
fn down(board: &NvLinkGpu, links: &NvLinkCounts, most: u32) -> Option<Finding> {
    let (up, silent) = (
        links.up,
        u32::try_from(links.silent.len()).unwrap_or(u32::MAX),
    );
    let missing = most
        .checked_sub(up)?
        .checked_sub(silent)
        .filter(|n| *n > 0)?;
    let whole = up.is_multiple_of(BRIDGE) && links.all() == most;
    let severity = match () {
        () if board.by_bridge(most) && whole => Severity::Info,
        () if missing >= most.div_ceil(2) => Severity::Fail,
        () => Severity::Warn,
    };
    let NvLinkGpu { gpu, bdf, .. } = board;
    let message = format!("GPU {gpu} ({bdf}): {up} of {most} NVLinks are up, expected {most}");
    let mut seen = Vec::new();
    if !links.down.is_empty() {
        let numbers: Vec<_> = links.down.iter().map(ToString::to_string).collect();
        seen.push(format!(
            "NVML reports that these are not active: {}",
            numbers.join(", ")
        ));
    }
    if links.all() < most {
        seen.push(format!(
            "NVML lists {} of them on this GPU, and {most} on others of its model",
            links.all()
        ));
    }
    let finding = Code::NvLinkDown.finding(severity, gpu, message);
    let finding = finding.values(up, most, Some("links")).seen_all(seen);
    Some(if severity == Severity::Info {
        finding.because(Reason::NoBridge)
    } else {
        finding
    })
}

fn unreadable(board: &NvLinkGpu, why: &str) -> Finding {
    let NvLinkGpu { gpu, bdf, .. } = board;
    let message =
        format!("GPU {gpu} ({bdf}): it is unknown whether NVLinks connect it to others: {why}");
    Code::NvLinkUnknown.finding(Severity::Error, gpu, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boards(name: &str, all: &[(u32, u32)]) -> Vec<NvLinkGpu> {
        let board = |(gpu, (up, down)): (GpuId, &(u32, u32))| NvLinkGpu {
            gpu,
            bdf: Bdf {
                domain: 0,
                bus: 1,
                device: 0,
                function: 0,
            },
            name: name.to_owned(),
            links: Ok(NvLinkCounts {
                up: *up,
                down: (*up..up + down).collect(),
                silent: Vec::new(),
            }),
        };
        GpuId::each(all).map(board).collect()
    }

    fn judged(name: &str, all: &[(u32, u32)]) -> Vec<(String, Severity)> {
        nvlinks(&boards(name, all))
            .into_iter()
            .map(|f| (f.subject.to_string(), f.severity))
            .collect()
    }

    #[test]
    fn all_links_up_or_no_links_pass() {
        assert_eq!(judged("NVIDIA H200", &[(18, 0); 4]), []);
        assert_eq!(judged("NVIDIA GeForce RTX 4090", &[(0, 0); 8]), []);
    }

    #[test]
    fn a_link_that_is_down_warns_and_half_of_them_fail() {
        let gpu = |n: usize, severity| (format!("GPU {n}"), severity);
        assert_eq!(
            judged("NVIDIA H200", &[(18, 0), (17, 1)]),
            [gpu(1, Severity::Warn)]
        );
        assert_eq!(
            judged("NVIDIA H200", &[(9, 9), (18, 0)]),
            [gpu(0, Severity::Fail)]
        );
        // It does not matter whether one or all are down.
        assert_eq!(
            judged("NVIDIA H200", &[(0, 18); 2]),
            [gpu(0, Severity::Fail), gpu(1, Severity::Fail)]
        );
        let all = nvlinks(&boards("NVIDIA H200", &[(17, 1), (18, 0)]));
        assert!(
            all[0]
                .message
                .ends_with("17 of 18 NVLinks are up, expected 18"),
            "{all:?}"
        );
        assert_eq!(
            all[0].evidence,
            ["NVML reports that these are not active: 17"]
        );
    }

    #[test]
    fn gpus_of_one_model_are_compared() {
        let found = nvlinks(&boards("NVIDIA H200", &[(18, 0), (0, 0)]));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Fail));
        assert!(
            found[0].evidence[0].contains("lists 0 of them on this GPU, and 18 on others"),
            "{found:?}"
        );
        let mut mixed = boards("NVIDIA H200", &[(18, 0), (0, 0)]);
        mixed[1].name = "NVIDIA L40S".to_owned();
        assert_eq!(nvlinks(&mixed), []);
    }

    #[test]
    fn bridges_may_be_missing_but_not_half_fitted() {
        for (name, up, down) in [
            ("NVIDIA GeForce RTX 3090", 0, 4),
            ("NVIDIA H100 PCIe", 0, 12),
            ("NVIDIA A100-PCIE-40GB", 4, 8),
        ] {
            assert!(
                judged(name, &[(up, down); 2])
                    .iter()
                    .all(|f| f.1 == Severity::Info),
                "{name}"
            );
        }
        assert_eq!(
            judged("NVIDIA GeForce RTX 3090", &[(3, 1), (4, 0)])[0].1,
            Severity::Warn
        );
        assert_eq!(
            judged("NVIDIA H200 NVL", &[(11, 7), (18, 0)])[0].1,
            Severity::Warn
        );
    }

    #[test]
    fn an_nvml_error_is_not_the_absence_of_nvlink() {
        let mut all = boards("NVIDIA H200", &[(18, 0); 2]);
        all[0].links = Err("GPU is lost".to_owned());
        all[1].links = Ok(NvLinkCounts {
            up: 17,
            down: Vec::new(),
            silent: vec![(4, "unknown".to_owned())],
        });
        let found = nvlinks(&all);
        assert!(
            found
                .iter()
                .all(|f| f.is(Code::NvLinkUnknown) && f.severity == Severity::Error),
            "{found:?}"
        );
        assert!(
            found[1]
                .message
                .contains("1 of its NVLinks do not report their state, the first is 4")
        );
    }
}
