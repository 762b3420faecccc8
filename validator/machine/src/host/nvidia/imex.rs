//! What a machine shows of NVLink to other machines (MNNVL, as between the trays of a GB200 NVL72): the channels of IMEX, whose
//! device nodes let a process map memory of another machine, whether IMEX's daemon runs, and how many nodes its configuration has.
//! Nothing is started: only the daemon itself knows the state of its domain, and `nvidia-imex-ctl` asks it.

use crate::host::modules::absent_is_none;
use crate::root::Root;

/// The folder of the channels' device nodes.
const CHANNELS: &str = "dev/nvidia-caps-imex-channels";
/// Where the daemon's package has the addresses of all nodes, one in a line.
const NODES: &str = "etc/nvidia-imex/nodes_config.cfg";

/// What is known of IMEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imex {
    /// The numbers of the channels that have a device node, or why they are unknown.
    pub channels: Result<Vec<u32>, String>,
    /// Whether the daemon runs.
    pub daemon: bool,
    /// How many nodes are configured, or why that is unknown; `None` without a configuration.
    pub nodes: Result<Option<usize>, String>,
}

impl Imex {
    /// Whether anything of it is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.daemon
            || self
                .channels
                .as_ref()
                .is_ok_and(|channels| !channels.is_empty())
    }

    /// Its state in words.
    #[must_use]
    pub fn state(&self) -> String {
        let channels = match &self.channels {
            Ok(channels) if channels.is_empty() => {
                format!("no channel has a device node in /{CHANNELS}")
            }
            Ok(channels) => {
                let numbers = channels
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ");
                format!("IMEX channels with a device node: {numbers}")
            }
            Err(why) => format!("the IMEX channels are unknown: {why}"),
        };
        let daemon = if self.daemon {
            "the IMEX daemon runs"
        } else {
            "the IMEX daemon does not run"
        };
        let nodes = match &self.nodes {
            Ok(Some(nodes)) => format!("{nodes} nodes in /{NODES}"),
            Ok(None) => format!("there is no /{NODES}"),
            Err(why) => format!("the configured nodes are unknown: {why}"),
        };
        format!("{channels}; {daemon}; {nodes}")
    }
}

/// Reads it.
#[must_use]
pub fn read(root: &Root) -> Imex {
    let unknown = |file: &str, why: std::io::Error| format!("/{file}: {why}");
    let channels = absent_is_none(root.names(CHANNELS)).map_err(|why| unknown(CHANNELS, why));
    let number = |name: &std::ffi::OsString| name.to_str()?.strip_prefix("channel")?.parse().ok();
    let sorted = |names: Vec<std::ffi::OsString>| {
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    };
    let nodes = absent_is_none(root.text(NODES)).map_err(|why| unknown(NODES, why));
    Imex {
        channels: channels.map(|names| names.map(sorted).unwrap_or_default()),
        daemon: super::managers::runs(root, "nvidia-imex"),
        nodes: nodes.map(|text| text.as_deref().map(count)),
    }
}

fn count(text: &str) -> usize {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_daemon_and_nodes_are_read() {
        let (_dir, root) = Root::written(&[
            ("dev/nvidia-caps-imex-channels/channel0", ""),
            ("dev/nvidia-caps-imex-channels/channel12", ""),
            ("proc/77/comm", "nvidia-imex\n"),
            (
                "etc/nvidia-imex/nodes_config.cfg",
                "# all trays\n10.0.0.1\n\n10.0.0.2\n",
            ),
        ]);
        let imex = read(&root);
        assert_eq!(
            imex,
            Imex {
                channels: Ok(vec![0, 12]),
                daemon: true,
                nodes: Ok(Some(2))
            }
        );
        assert!(imex.is_there());
        let text = "IMEX channels with a device node: 0, 12; the IMEX daemon runs; 2 nodes in /etc/nvidia-imex/nodes_config.cfg";
        assert_eq!(imex.state(), text);
    }

    #[test]
    fn a_machine_without_it_says_so() {
        let (_dir, root) = Root::written(&[("proc/77/comm", "nvidia-persiste\n")]);
        let imex = read(&root);
        assert_eq!(
            imex,
            Imex {
                channels: Ok(Vec::new()),
                daemon: false,
                nodes: Ok(None)
            }
        );
        assert!(!imex.is_there() && imex.state().contains("the IMEX daemon does not run"));
    }
}
