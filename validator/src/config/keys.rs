//! The keys of the validator's sections: a key's name, type, default, allowed values and its sentence on the page of settings
//! are one entry here, and nowhere else. What the texts mean is in `value`.

use super::value::{
    OneOf, RENDEZVOUS, TestIds, absolute, groups, leaves, positive, rendezvous, text, words,
};
use super::{GpuName, IdentityPolicy, Leaf, Level, Limit};
use crate::net::meeting::Token;
use contract::config_format::value::{Custom, Flag, List, Perhaps, Seconds, Text, Whole, Words};
use contract::config_format::{NODES_TIMEOUT, VALIDATE_TIMEOUT};
use contract::{choice, section};
use fabric::acs::AcsPolicy;
use fabric::rebar::RebarChoice;
use machine::GpuId;
use outcome::scope::Scope;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

choice! {
/// The requested mode of the IOMMU.
#[derive(Serialize, Deserialize)]
pub enum IommuPolicy {
    /// No translation and no groups.
    Off = "off",
    /// Pass-through: groups exist, addresses are not translated.
    Pt = "pt",
    /// Any mode that firmware and kernel select.
    Firmware = "firmware",
}
}

section! {
    /// what the fabric pass may do
    [derive(Eq, Serialize, Deserialize)]
    pub struct Fabric = "fabric";

    /// default: off on firstlight's kernel (pt on arm64), elsewhere no translation for GPUs
    iommu: Option<IommuPolicy> = None, Perhaps(Words(IommuPolicy::WORDS)), example("\"off\"");
    /// path: only ports where GPU paths turn (see The PCIe fabric), off: leave ACS alone
    acs: AcsPolicy = AcsPolicy::Path, Words(AcsPolicy::WORDS);
    /// fix: BAR1 as large as the GPU offers and the bus has room for, check: change nothing
    rebar: RebarChoice = RebarChoice::Fix, OneOf::new();
}

section! {
    /// what is tested, and for how long
    [derive(Eq, Serialize, Deserialize)]
    pub struct Validate = "validate";

    /// each level includes the ones before it (see Tests)
    level: Level = Level::Standard, OneOf::new();
    /// for all tests together; at level acceptance at least acceptance_s + 300
    timeout_s: u64 = VALIDATE_TIMEOUT.default.as_secs(), VALIDATE_TIMEOUT.rule;
    /// for gpu-memory, gpu-products and gpu-power together, at level acceptance
    acceptance_s: u64 = 600, Seconds(4, 86_400);
    /// ids of tests, which run whatever their level; [] means all of the level
    only: Vec<String> = Vec::new(), TestIds;
    /// ids of tests that do not run
    skip: Vec<String> = Vec::new(), TestIds;
    /// the machine, or the folder of a recorded one
    root: PathBuf = PathBuf::from("/"), Text::new(absolute, "an absolute path"), example("\"/\"");
    /// folders before the loader's own for the driver's libraries
    library_path: Vec<String> = Vec::new(), List::new(words, "a list of texts").without_empty();
    /// file of the NCCL library that is tested, as a wheel's or a container's; default: the one that the loader finds
    nccl: Option<PathBuf> = None,
        Perhaps(Text::new(absolute, "an absolute path")),
        example("\"/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2\"");
    /// file of a baseline (see Reports) that the figures are compared with at the end; default: none
    baseline: Option<PathBuf> = None,
        Perhaps(Text::new(absolute, "an absolute path")),
        example("\"/var/lib/firstlight/baseline.json\"");
    /// file with more known problems (see there); default: none
    known_problems: Option<PathBuf> = None,
        Perhaps(Text::new(absolute, "an absolute path")),
        example("\"/etc/firstlight/known-problems.toml\"");
    /// whether reports have host name, machine id (or a hash of it), serial number
    identity: IdentityPolicy = IdentityPolicy::Hashed, OneOf::new();
    /// whether nccl-nvls and the commands nccl and nodes use NVLink SHARP (NVLS); an inherited NCCL_NVLS_ENABLE=0 wins (see Reports)
    nvls: bool = false, Flag;

    derived:
    /// The scope of the verdict, from the command line.
    scope: Scope = Scope::Machine;
    /// The participating GPUs, if not all take part, from the command line.
    limit: Option<Limit> = None;
    /// The command that is run, with the part's name as its last argument, before a part of the tests that can take the
    /// machine down, from process 1.
    before_part: Vec<String> = Vec::new();
    /// Ordered pairs of GPUs, by number, between which nothing is sent, from the command.
    avoid: Vec<(GpuId, GpuId)> = Vec::new();
    /// What forbids NVLS from outside, whatever the configuration says; then `nvls` is false. Set by the program.
    nvls_forbidden: Option<String> = None;
}

section! {
    /// what the machine should be
    [derive(Serialize, Deserialize)]
    pub struct Expect = "expect";

    /// NVIDIA GPUs; default: any number but 0 (GPU-NONE); 0: the machine has none
    gpus: Option<u64> = None, Perhaps(Whole(0, 64)), example("8");
    /// as the driver names the model; default: any
    gpu_name: Option<String> = None, Perhaps(text()), example("\"NVIDIA GeForce RTX 4090\"");
    /// the kernel driver's version; default: any
    driver: Option<String> = None, Perhaps(text()), example("\"580.95.05\"");
    /// the least that each pair must reach, in GB/s; default: what the link allows
    min_p2p_gb_s: Option<f64> = None, Perhaps(Custom(positive, "a number above 0")), example("20.0");
    /// groups of GPUs with peer access, by number or address; default: one group of all
    peers: Option<Vec<Vec<GpuName>>> = None,
        Perhaps(Custom(groups, "groups of GPUs by number or address, each GPU once, as [[0, 1], [2, 3]]")),
        example("[[0, 1], [2, 3]]");
    /// true: if the image is not as it was built, the verdict is FAIL, at every level
    golden: bool = false, Flag;
}

section! {
    /// several machines (see there)
    [derive(Eq, Serialize, Deserialize)]
    pub struct Nodes = "nodes";

    /// how many nodes; if it is set, a boot has the stage nodes, and needs a network; default: none
    size: Option<u64> = None, Perhaps(Whole(2, 1024)), example("2");
    /// the secret that they share, 16 to 256 characters; in a file, because every user can read kernel words; default: none
    [serde(skip)]
    token: Option<Token> = None,
        Perhaps(Text::new(|text| Token::new(text).ok(), "a text of 16 to 256 characters")),
        secret(true),
        example("\"what only these nodes know\"");
    /// HOST:PORT: the node that has this address leads and listens; or mdns: the nodes find each other; default: none
    rendezvous: Option<String> = None,
        Perhaps(Text::new(rendezvous, RENDEZVOUS)),
        example("\"mdns\"");
    /// the network interfaces for mdns, by name; [] means all but loopback
    interfaces: Vec<String> = Vec::new(), List::new(words, "a list of texts").without_empty();
    /// leaf switches with their nodes: ["leaf1: node1 node2"]; "leaf1/0: .." is for rail 0 only; [] means unknown
    leaves: Vec<Leaf> = Vec::new(),
        List::new(
            leaves,
            "leaf switches with their nodes, each node once, as ['leaf1: node1 node2', 'leaf2: node3 node4'], or for one rail as 'leaf1/0: node1 node2'",
        )
        .without_empty();
    /// for the meeting
    timeout_s: u64 = NODES_TIMEOUT.default.as_secs(), NODES_TIMEOUT.rule;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_settings_has_every_key_with_its_default_and_what_it_allows() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md"))
                .unwrap();
        let sections = [
            Fabric::page(),
            Validate::page(),
            Expect::page(),
            Nodes::page(),
        ];
        let wrong: Vec<_> = sections
            .iter()
            .filter_map(|section| section.compare(&page).err())
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_keys_that_init_reads_as_well_are_keys_of_the_validator() {
        let mut config = crate::config::Config::default();
        let sections = contract::config_format::layers::Sections::all(&mut config);
        let keys: Vec<_> = sections
            .iter()
            .flat_map(|section| section.keys())
            .map(|key| key.name())
            .collect();
        for key in [
            VALIDATE_TIMEOUT.key,
            NODES_TIMEOUT.key,
            contract::config_format::NODES_SIZE,
        ] {
            assert!(keys.iter().any(|known| known == key), "{key}");
        }
    }
}
