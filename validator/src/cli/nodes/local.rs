//! What this node contributes to the meeting: its GPUs, ports, versions and name.

use super::settings::launched_process;
use crate::cli::CommandError;
use crate::cli::args::Meet;
use crate::cli::fabric::{gpu_block, no_gpu};
use crate::config::{Config, GpuName, Leaf, Limit};
use crate::nccl::advice::{ADVISED_INTERFACE, INTERFACE};
use crate::net::meeting::MAX_NAME;
use crate::nodes::card::{Card, Leaves, Versions};
use crate::nodes::member::NodeResources;
use crate::nodes::rdma::Rail;
use machine::GpuId;
use machine::host::identity;
use machine::host::nvidia::gpus;
use machine::host::rdma::{self, Hca, Port};
use machine::pcie::link::raw_gb_s;
use machine::pcie::model::Fabric;
use machine::pcie::path::{self, NicPaths};
use machine::pcie::vpd::leads_to_nvswitches;
use machine::root::Root;
use outcome::text::shown_text;
use std::io::ErrorKind;
use std::path::Path;

/// What this node contributes to the meeting.
#[derive(Debug, Clone)]
pub(super) struct LocalNode {
    pub(super) card: Card,
    pub(super) local: NodeResources,
    /// A line for each of the machine's GPUs.
    pub(super) gpus: String,
}

/// The variable with NCCL's name for a node, for a machine that represents several nodes.
const HOST_ID: &str = "NCCL_HOSTID";

/// Where the kernel lists RDMA devices.
const RDMA: &str = "sys/class/infiniband";
/// The library of RDMA cards.
const VERBS: &str = "libibverbs.so.1";

fn env_value(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.trim().is_empty())
}

/// Reads the node's facts.
pub(super) fn read(
    root: &Root,
    config: &Config,
    meet: &Meet,
    names: &[GpuName],
) -> Result<LocalNode, CommandError> {
    let fabric = fabric::read(root).map_err(|e| CommandError::undone(&e))?;
    if !root.is_live() && config.validate.library_path.is_empty() {
        let why = format!(
            "{}: this is a recorded machine, whose GPUs are not in this computer",
            fabric.root
        );
        return Err(CommandError::Undone(why));
    }
    let place = launched_process()?;
    let mut chosen = chosen(root, &fabric, names)?;
    // Several processes of a launcher on one machine share its GPUs: one each.
    if let Some((own, all)) = place
        .as_ref()
        .and_then(|p| Some((p.local_rank?, p.local_size?)))
        .filter(|(_, n)| *n > 1)
    {
        let gpu = chosen.get(own).copied().filter(|_| all <= chosen.len());
        let none = || {
            let there = chosen.len();
            CommandError::Undone(format!(
                "the launcher has started {all} processes on this machine, which has {there} GPUs"
            ))
        };
        chosen = vec![gpu.ok_or_else(none)?];
    }
    if chosen.is_empty() {
        return Err(CommandError::Undone(no_gpu()));
    }
    let about = identity::read(root);
    let host_id = env_value(HOST_ID);
    let host = about.host.as_deref().unwrap_or("unknown").trim().to_owned();
    let machine = host_id
        .as_ref()
        .map_or_else(|| host.clone(), |id| format!("{host}.{id}"));
    let sharing = place
        .as_ref()
        .filter(|place| place.local_size.is_some_and(|n| n > 1));
    let default = || match sharing.and_then(|place| place.local_rank) {
        Some(local) => format!("{machine}/{local}"),
        None => machine.clone(),
    };
    let name: String = shown_text(&meet.name.clone().unwrap_or_else(default))
        .chars()
        .take(MAX_NAME)
        .collect();
    let part = format!(
        "{chosen:?} {:?}",
        place.as_ref().and_then(|place| place.local_rank)
    );
    // The boot id is that of the running system: several systems may use the same recorded machine.
    let boot = Root::new("/")
        .text("proc/sys/kernel/random/boot_id")
        .unwrap_or_default();
    let machine = format!("{} {}", host_id.as_deref().unwrap_or(&host), boot.trim());
    let identity = format!("{machine} {part}");
    let cards = rdma_root(root, config);
    let rails = rails(&cards, &fabric)?;
    // A card that is near none of the participating GPUs uses the first of them.
    let rails: Vec<_> = rails
        .into_iter()
        .map(|rail| Rail {
            gpu: rail
                .gpu
                .filter(|gpu| chosen.contains(gpu))
                .or_else(|| chosen.first().copied()),
            ..rail
        })
        .collect();
    let hcas: Vec<_> = rails
        .iter()
        .map(|rail| format!("{}:{}", rail.device, rail.port))
        .collect();
    let of_launcher = place.as_ref().and_then(|place| place.leaf.clone());
    let leaves = leaves(
        &config.nodes.leaves,
        &[&name, &host],
        rails.len(),
        of_launcher,
    );
    let versions = Versions {
        firstlight: env!("CARGO_PKG_VERSION").to_owned(),
        image: about.appliance.image_id,
        driver: about.driver,
    };
    let card = Card {
        name,
        identity,
        host: machine,
        hosts: false,
        rank: place.map(|place| place.rank),
        versions,
        gpus: chosen.len(),
        hcas: hcas.clone(),
        gbit_s: rails.iter().map(|rail| rail.gbit_s).collect(),
        leaves,
    };
    let local = NodeResources {
        gpus: chosen,
        nvls: config.validate.nvls,
        library_path: config.validate.library_path.clone(),
        nccl: config.validate.nccl.clone(),
        interface: env_value(INTERFACE)
            // A value that was set on firstlight's own advice is not the user's choice.
            .filter(|value| env_value(ADVISED_INTERFACE).as_ref() != Some(value))
            .map(|name| name.trim_start_matches('=').to_owned()),
        hcas,
        rails,
        rdma_root: cards,
        host_id,
    };
    Ok(LocalNode {
        card,
        local,
        gpus: gpu_block(root, &fabric),
    })
}

/// The system whose RDMA ports take part. A recorded machine uses the ports that it has. If it has no ports and no
/// libibverbs beside its GPUs' libraries, the ports are those of the running system, which the system's own
/// libibverbs opens.
fn rdma_root(root: &Root, config: &Config) -> Root {
    let brought = |dir: &String| Path::new(dir).join(VERBS).exists();
    let shown = root.exists(RDMA).unwrap_or(true);
    let is_root = shown || root.is_live() || config.validate.library_path.iter().any(brought);
    if is_root {
        root.clone()
    } else {
        Root::new("/")
    }
}

/// The leaf switches of this node: from the configured map, under one of the node's names, or without a map from its
/// launcher.
fn leaves(map: &[Leaf], names: &[&str], rails: usize, of_launcher: Option<String>) -> Leaves {
    if map.is_empty() {
        return of_launcher.map_or(Leaves::Unknown, Leaves::OfNode);
    }
    let own: Vec<_> = map
        .iter()
        .filter(|leaf| leaf.nodes.iter().any(|n| names.contains(&n.as_str())))
        .collect();
    if let Some(whole) = own.iter().find(|leaf| leaf.rail.is_none()) {
        return Leaves::OfNode(whole.name.clone());
    }
    let of = |rail| {
        own.iter()
            .find(|leaf| leaf.rail == Some(rail))
            .map(|leaf| leaf.name.clone())
    };
    // Without RDMA ports NCCL's sockets are the only rail.
    Leaves::OfRails((0..rails.max(1)).map(of).collect())
}

/// CUDA ordinals of the participating GPUs.
fn chosen(root: &Root, fabric: &Fabric, names: &[GpuName]) -> Result<Vec<GpuId>, CommandError> {
    let all = || GpuId::all(fabric.gpus.len()).collect();
    if fabric.gpus.is_empty() {
        return Err(CommandError::Undone(no_gpu()));
    }
    if names.is_empty() {
        return Ok(all());
    }
    let held = gpus::read(root).map_err(|e| CommandError::undone(&e))?;
    let held: Vec<_> = held
        .keys()
        .filter_map(|address| address.parse().ok())
        .collect();
    let limit = Limit::of(names, &fabric.gpus, &held).map_err(CommandError::Usage)?;
    Ok(limit.map_or_else(all, |limit| limit.ordinals()))
}

/// The ACTIVE RDMA ports, sorted by name: NCCL pairs the ports of different nodes by their position in the list.
fn rails(root: &Root, fabric: &Fabric) -> Result<Vec<Rail>, CommandError> {
    let names = match root.names(RDMA) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CommandError::Undone(format!("/{RDMA}: {error}"))),
    };
    let mut names: Vec<_> = names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect();
    names.retain(|name| !leads_to_nvswitches(root, &format!("{RDMA}/{name}/device")));
    names.sort();
    let all = rdma::read(root, names.iter().map(String::as_str)).map_err(CommandError::Undone)?;
    let nic_paths = path::nic_paths(fabric);
    let ports = all
        .iter()
        .flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    let active = ports.filter(|(_, port)| port.is_active());
    Ok(active
        .map(|(hca, port)| rail(hca, port, fabric, &nic_paths))
        .collect())
}

fn rail(hca: &Hca, port: &Port, fabric: &Fabric, nic_paths: &[NicPaths]) -> Rail {
    let gid = port.roce_v2_ipv4().filter(|_| port.is_ethernet());
    // A software device has no slot, and the rate that it reports is fictitious.
    let slot = fabric.rdma.iter().find(|rdma| rdma.name == hca.name);
    let link = slot.and_then(|rdma| {
        fabric
            .devices
            .iter()
            .find(|d| d.bdf == rdma.bdf)?
            .link
            .as_ref()
    });
    let of_slot = link
        .filter(|link| link.gts > 0.0)
        .map(|link| raw_gb_s(link.gts, link.width) * 8.0);
    let near = |nic_paths: &NicPaths| {
        nic_paths
            .to
            .iter()
            .find(|(name, _)| *name == hca.name)
            .map(|(_, kind)| *kind)
    };
    let gpu = GpuId::each(nic_paths)
        .filter_map(|(gpu, nic_paths)| Some((near(nic_paths)?, gpu)))
        .min()
        .map(|(_, gpu)| gpu);
    Rail {
        device: hca.name.clone(),
        port: u8::try_from(port.number).unwrap_or_default(),
        ethernet: port.is_ethernet(),
        gid: gid.and_then(|gid| u8::try_from(gid.index).ok()),
        interface: port.netdev.as_ref().map(|netdev| netdev.name.clone()),
        gpu,
        gbit_s: of_slot.map(|of_slot| port.rate.gbit_s.min(of_slot)),
    }
}

impl LocalNode {
    /// Keeps only the first GPUs.
    pub(super) fn limit_gpus(&mut self, gpus: usize) -> Result<(), CommandError> {
        let there = self.local.gpus.len();
        if gpus > there {
            return Err(CommandError::Undone(format!(
                "-g {gpus}: {there} NVIDIA GPUs take part here"
            )));
        }
        self.local.gpus.truncate(gpus);
        self.card.gpus = gpus;
        Ok(())
    }
}
