//! NVLinks: which are up, where they lead, how many connect two GPUs, and what one carries.

use super::Nvml;
use super::raw::fields;
use super::status::CounterValue;
use machine::pcie::model::Bdf;
use machine::pcie::topo::NvLinks;
use nvml_wrapper::error::NvmlError;
use outcome::text::chain;

/// The most NVLinks of one GPU (`NVML_NVLINK_MAX_LINKS`).
const MOST_LINKS: u32 = 18;
/// `NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON` and, with the number of a link as scope, `NVML_FI_DEV_NVLINK_GET_SPEED`: MB/s of each
/// link, one direction.
const LINK_SPEEDS: [u32; 2] = [90, 164];

/// The other end of an NVLink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// A GPU, a switch or another device at this address.
    At(Bdf),
    /// NVML does not report it, as in virtual machines.
    Unknown,
}

/// One NVLink of a GPU that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvLink {
    /// Its number on the GPU.
    pub index: u32,
    /// Its other end.
    pub remote: Remote,
}

/// The NVLinks of one GPU; all empty on a GPU without NVLink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvLinkStates {
    /// Those that are up.
    pub up: Vec<NvLink>,
    /// The numbers of those that are down.
    pub down: Vec<u32>,
    /// Those whose state NVML does not report, with its error.
    pub silent: Vec<(u32, String)>,
}

impl NvLinkStates {
    /// Links that are up, and links for which NVML returns only an error: these must not lower the expected number.
    fn counted(&self) -> Vec<NvLink> {
        // If NVML reports no link's state, the GPU may have none.
        let some = !self.up.is_empty() || !self.down.is_empty();
        let silent = self.silent.iter().filter(|_| some);
        let silent = silent.map(|(index, _)| NvLink {
            index: *index,
            remote: Remote::Unknown,
        });
        self.up.iter().copied().chain(silent).collect()
    }
}

impl Nvml {
    /// The NVLinks of a GPU.
    ///
    /// # Errors
    /// NVML's error, if it does not know the GPU.
    pub fn nvlinks(&self, gpu: Bdf) -> Result<NvLinkStates, String> {
        let device = self.device(gpu)?;
        let mut states = NvLinkStates::default();
        for index in 0..MOST_LINKS {
            let link = device.link_wrapper_for(index);
            match link.is_active() {
                Ok(true) => {
                    let at = link
                        .remote_pci_info()
                        .ok()
                        .and_then(|info| info.bus_id.to_lowercase().parse().ok());
                    states.up.push(NvLink {
                        index,
                        remote: at.map_or(Remote::Unknown, Remote::At),
                    });
                }
                Ok(false) => states.down.push(index),
                // There are no more links, or the GPU has none.
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => break,
                Err(e) => states.silent.push((index, chain(&e))),
            }
        }
        Ok(states)
    }

    /// How many NVLinks connect each pair of these GPUs, directly or through switches; pairs without any are
    /// left out. Links whose other end is not a GPU of the list count as links to a switch that connects all GPUs.
    ///
    /// # Errors
    /// NVML's error.
    pub fn nvlink_pairs(&self, gpus: &[Bdf]) -> Result<NvLinks, String> {
        let states: Vec<_> = gpus
            .iter()
            .map(|g| self.nvlinks(*g))
            .collect::<Result<_, _>>()?;
        Ok(count_nvlinks(gpus, &states))
    }

    /// The signalling rate of one NVLink of a GPU in one direction, GB/s. Where NVML reports no speed, as an old driver in a
    /// virtual machine, it follows from the version of the links.
    ///
    /// # Errors
    /// NVML's error; an unknown version.
    pub fn nvlink_gb_s(&self, gpu: Bdf) -> Result<f64, String> {
        let device = self.device(gpu)?;
        let speeds = fields(gpu, &LINK_SPEEDS.map(|id| (id, 0)));
        let speed = speeds
            .iter()
            .filter_map(CounterValue::known)
            .find(|mb_s| *mb_s > 0);
        if let Some(mb_s) = speed.and_then(|mb_s| u32::try_from(mb_s).ok()) {
            return Ok(f64::from(mb_s) / 1000.0);
        }
        let version = device
            .link_wrapper_for(0)
            .version()
            .map_err(|e| chain(&e))?;
        by_version(version)
            .ok_or_else(|| format!("the speed of NVLinks of version {version} is unknown"))
    }
}

/// How many NVLinks connect each pair of `gpus`, whose links are in `states`; pairs without any are left out.
#[must_use]
pub fn count_nvlinks(gpus: &[Bdf], states: &[NvLinkStates]) -> NvLinks {
    let links: Vec<_> = states.iter().map(NvLinkStates::counted).collect();
    pairs(gpus, &links)
}

fn pairs(gpus: &[Bdf], links: &[Vec<NvLink>]) -> NvLinks {
    let direct =
        |from: &[NvLink], to: Bdf| count(from.iter().filter(|l| l.remote == Remote::At(to)));
    let switched = |from: &[NvLink]| {
        count(
            from.iter()
                .filter(|l| !matches!(l.remote, Remote::At(at) if gpus.contains(&at))),
        )
    };
    let mut all = NvLinks::new();
    for (n, (a, from)) in gpus.iter().zip(links).enumerate() {
        for (b, to) in gpus.iter().zip(links).skip(n + 1) {
            let joined = direct(from, *b) + switched(from).min(switched(to));
            if joined > 0 {
                all.insert((*a.min(b), *a.max(b)), joined);
            }
        }
    }
    all
}

fn count<'a>(links: impl Iterator<Item = &'a NvLink>) -> u32 {
    links.map(|_| 1).sum()
}

/// GB/s of one link in one direction by `NVML_NVLINK_VERSION_*`: two, four or eight lanes at the
/// signalling rate of each generation (NVIDIA's P100, V100, A100, H100 and B200 white papers).
const fn by_version(version: u32) -> Option<f64> {
    match version {
        1 => Some(20.0),
        2 | 3 => Some(25.781),
        4 | 5 => Some(25.0),
        6 => Some(26.562),
        7 => Some(53.125),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bdf(bus: u8) -> Bdf {
        Bdf {
            domain: 0,
            bus,
            device: 0,
            function: 0,
        }
    }

    fn links(to: &[Remote]) -> Vec<NvLink> {
        (0..)
            .zip(to)
            .map(|(index, remote)| NvLink {
                index,
                remote: *remote,
            })
            .collect()
    }

    #[test]
    fn bridged_gpus_count_the_links_between_them_and_switched_ones_all() {
        let (a, b, c) = (bdf(1), bdf(2), bdf(3));
        let bridged = [
            links(&[Remote::At(b); 4]),
            links(&[Remote::At(a); 4]),
            links(&[]),
        ];
        assert_eq!(pairs(&[a, b, c], &bridged), NvLinks::from([((a, b), 4)]));
        let switched = [
            links(&[Remote::Unknown; 18]),
            links(&[Remote::At(bdf(9)); 18]),
            links(&[]),
        ];
        assert_eq!(pairs(&[a, b, c], &switched), NvLinks::from([((a, b), 18)]));
        let states = |n: usize| NvLinkStates {
            up: links(&vec![Remote::Unknown; n]),
            silent: vec![(17, "unknown".to_owned())],
            ..NvLinkStates::default()
        };
        assert_eq!(
            count_nvlinks(&[a, b], &[states(17), states(16)]),
            NvLinks::from([((a, b), 17)])
        );
    }
}
