//! The workload's NCCL settings, each derived from a test's proof or from the machine, with the reason that
//! precedes it in nccl.conf. Levels are given by name (the numbers follow an older order), interfaces and
//! HCAs by exact name. The GID index of `RoCE` is never set: it differs from node to node and changes, and
//! NCCL finds it by itself. `engine` decides which settings reach the workload.

use super::Distance;
use outcome::Advice;

/// The result of a search for a better number of channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestChannels {
    /// The fastest number.
    pub best: u32,
    /// The number that NCCL chooses by itself.
    pub usual: u32,
    /// The speedup as a factor.
    pub gain: f64,
}

/// The smallest gain worth a setting: more than 5 %.
pub const LEAST_GAIN: f64 = 1.05;

/// The peer-to-peer level, where NCCL's own log lines prove peer-to-peer between all GPUs; `farthest` is the
/// distance of the farthest pair.
#[must_use]
pub fn level(farthest: Distance) -> Option<Advice> {
    use Distance as D;
    let value = match farthest {
        D::Nvl | D::Pix | D::Pxb | D::Phb | D::Sys => farthest,
        // NCCL ignores names that it does not know. All pairs are proven, so the widest level is safe.
        D::Nvb | D::C2c | D::P2c | D::Pxn | D::Node => D::Sys,
        D::Loc | D::Net | D::Dis => return None,
    };
    let reason =
        format!("NCCL's own log proves P2P between all GPUs, the farthest pair being {farthest}");
    Some(Advice::new("NCCL_P2P_LEVEL", value.name(), &reason))
}

/// A larger number is set as the minimum and a smaller one as the maximum: NCCL stays free in the other
/// direction.
#[must_use]
pub fn channels(found: &BestChannels) -> Option<Advice> {
    let BestChannels { best, usual, gain } = *found;
    let name = match best.cmp(&usual) {
        std::cmp::Ordering::Greater => "NCCL_MIN_NCHANNELS",
        std::cmp::Ordering::Less => "NCCL_MAX_NCHANNELS",
        std::cmp::Ordering::Equal => return None,
    };
    let percent = (gain - 1.0) * 100.0;
    let reason = format!(
        "{best} channels are {percent:.0} % faster than the {usual} that NCCL chooses by itself"
    );
    (gain.is_finite() && gain > LEAST_GAIN && best > 0)
        .then(|| Advice::new(name, best.to_string(), &reason))
}

/// The network interfaces that NCCL may use.
pub const INTERFACE: &str = "NCCL_SOCKET_IFNAME";
/// The value that firstlight advised for [`INTERFACE`]: if the environment has the same value, the user did not choose it.
pub const ADVISED_INTERFACE: &str = "FIRSTLIGHT_NCCL_SOCKET_IFNAME";

/// The RDMA ports that NCCL may use.
pub const HCA: &str = "NCCL_IB_HCA";
/// Whether NCCL makes one device of several ports.
pub const MERGE: &str = "NCCL_IB_MERGE_NICS";

/// The settings between nodes, derived from the tests that passed over all of them: the interface of the sockets, the
/// RDMA ports of the rails, in their order, and whether NCCL should merge them, with the gain as a factor.
#[must_use]
pub fn between_nodes(
    interface: Option<&str>,
    hcas: &[String],
    merge: Option<(bool, f64)>,
) -> Vec<Advice> {
    let mut all = Vec::new();
    if let Some(list) = interface.and_then(|name| exact(&[name.to_owned()])) {
        all.push(Advice::new(
            INTERFACE,
            list.clone(),
            "the interface over which NCCL passed between the nodes",
        ));
        let reason =
            "lets `firstlight nodes` distinguish the advised interface from the user's choice";
        all.push(Advice::new(ADVISED_INTERFACE, list, reason));
    }
    if let Some(list) = exact(hcas) {
        let reason = "the ACTIVE ports of the rails that passed between the nodes, in the same order on each node";
        all.push(Advice::new(HCA, list, reason));
        all.extend(merge.map(|(merge, gain)| {
            let what = if merge {
                "with merged rails NCCL is"
            } else {
                "without merged rails NCCL is"
            };
            let reason = format!(
                "{what} {:.0} % faster between the nodes",
                (gain - 1.0) * 100.0
            );
            Advice::new(MERGE, u8::from(merge).to_string(), &reason)
        }));
    }
    all
}

/// The interfaces that are up, except loopback. Exact names (`=`): otherwise `eth1` would match `eth10` too.
#[must_use]
pub fn interfaces(up: &[String]) -> Advice {
    match exact(up) {
        Some(list) => Advice::new(INTERFACE, list, "the network interfaces that are up"),
        None => Advice::new(
            INTERFACE,
            "=lo",
            "no interface is up; the ranks of one host use the loopback",
        ),
    }
}

/// `=a,b`; names that NCCL's list cannot contain are left out.
fn exact(names: &[String]) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    let good: Vec<_> = names
        .iter()
        .filter(|n| !n.is_empty() && n.chars().all(plain))
        .map(String::as_str)
        .collect();
    (!good.is_empty()).then(|| format!("={}", good.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_the_farthest_proven_pair_by_a_name_that_nccl_knows() {
        let value = |d| level(d).map(|a| a.value);
        for known in [
            Distance::Nvl,
            Distance::Pix,
            Distance::Pxb,
            Distance::Phb,
            Distance::Sys,
        ] {
            assert_eq!(value(known).as_deref(), Some(known.name()));
        }
        assert_eq!(value(Distance::Node).as_deref(), Some("SYS"));
        assert_eq!(value(Distance::Dis), None);
        let farthest = [Distance::Nvl, Distance::Phb, Distance::Pix]
            .into_iter()
            .max();
        assert_eq!(farthest, Some(Distance::Phb));
    }

    #[test]
    fn channels_are_set_where_they_gain_more_than_5_percent() {
        let with = |best, usual, gain| {
            channels(&BestChannels { best, usual, gain }).map(|a| (a.name, a.value))
        };
        assert_eq!(
            with(8, 2, 1.12),
            Some(("NCCL_MIN_NCHANNELS".to_owned(), "8".to_owned()))
        );
        assert_eq!(
            with(2, 8, 1.12),
            Some(("NCCL_MAX_NCHANNELS".to_owned(), "2".to_owned()))
        );
        for useless in [
            with(8, 2, 1.05),
            with(8, 2, f64::NAN),
            with(4, 4, 2.0),
            with(0, 4, 2.0),
        ] {
            assert_eq!(useless, None);
        }
    }

    #[test]
    fn interfaces_are_named_exactly() {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            interfaces(&names(&["enp1s0f0np0", "bad,name", "", "eth0.7"])).value,
            "=enp1s0f0np0,eth0.7"
        );
        assert_eq!(interfaces(&[]).value, "=lo");
    }

    #[test]
    fn between_nodes_ports_are_in_the_order_of_the_rails_and_no_gid_index_is_set() {
        let hcas = ["mlx5_2:1".to_owned(), "mlx5_0:1".to_owned()];
        let all = |interface, hcas: &[String], merge| -> Vec<String> {
            let all = between_nodes(interface, hcas, merge).into_iter();
            all.filter(|a| a.name.starts_with("NCCL_"))
                .map(|a| format!("{}={}", a.name, a.value))
                .collect()
        };
        let both = ["NCCL_SOCKET_IFNAME==eth1", "NCCL_IB_HCA==mlx5_2:1,mlx5_0:1"];
        assert_eq!(all(Some("eth1"), &hcas, None), both);
        assert_eq!(
            all(Some("eth1"), &hcas, Some((false, 1.2)))[2],
            "NCCL_IB_MERGE_NICS=0"
        );
        assert_eq!(
            all(None, &hcas, Some((true, 1.6)))[1],
            "NCCL_IB_MERGE_NICS=1"
        );
        assert_eq!(
            all(Some("eth1"), &[], Some((true, 1.6))),
            ["NCCL_SOCKET_IFNAME==eth1"]
        );
        let merged = between_nodes(None, &hcas, Some((true, 1.6)));
        assert_eq!(
            merged[1].reason,
            "with merged rails NCCL is 60 % faster between the nodes"
        );
    }
}
