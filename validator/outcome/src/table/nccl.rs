//! Tables about NCCL.

use super::row::{Cell, Column, YesNo, measured, names, plain, row};
use crate::platform::Rank;
use serde_json::Value;

names! {
    /// The ways in which NCCL is started.
    Arm {
        /// With peer-to-peer only.
        Strict = "strict",
        /// With peer-to-peer.
        P2p = "p2p",
        /// Without peer-to-peer.
        Off = "off",
        /// A process for each GPU.
        Processes = "processes",
        /// With NVLink SHARP.
        Nvls = "nvls",
        /// With every transport forbidden.
        Withheld = "withheld",
    }
}

names! {
    /// The tables of calls of collectives, each by its whole name.
    CallTable {
        /// all_reduce with peer-to-peer.
        AllReduce = "nccl.all_reduce",
        /// all_reduce without peer-to-peer.
        AllReduceOff = "nccl.all_reduce.off",
        /// all_reduce of other counts, and what was measured again.
        AllReduceOdd = "nccl.all_reduce.odd",
        /// All collectives.
        Collectives = "nccl.collectives",
        /// All collectives, with other counts, and what was measured again.
        CollectivesOdd = "nccl.collectives.odd",
        /// Other types and reductions.
        Types = "nccl.types",
        /// Other forms of calls.
        Calls = "nccl.calls",
        /// A process for each GPU.
        Processes = "nccl.processes",
        /// With NVLink SHARP.
        Nvls = "nccl.nvls",
    }
}

row! {
    /// Calls of one collective with one size, as nccl-tests show them. `wrong` is `None` where nothing was checked.
    CallRow {
        /// The collective.
        collective: String = plain("collective");
        /// The larger buffer, bytes.
        bytes: u64 = measured("size", "bytes");
        /// The call's count, elements.
        count: u64 = plain("count");
        /// The type of the elements.
        data: String = plain("type");
        /// The reduction, or `none`.
        redop: String = plain("redop");
        /// The time of one call out of place, microseconds.
        out_of_place_us: f64 = Self::OUT_OF_PLACE_TIME;
        /// The algorithm bandwidth out of place, GB/s.
        out_of_place_algbw: f64 = measured("out-of-place algbw", "GB/s");
        /// The bus bandwidth out of place, GB/s.
        out_of_place_busbw: f64 = Self::OUT_OF_PLACE_BUSBW;
        /// Wrong elements out of place.
        out_of_place_wrong: Option<u64> = plain("out-of-place wrong");
        /// The time of one call in place, microseconds.
        in_place_us: f64 = Self::IN_PLACE_TIME;
        /// The algorithm bandwidth in place, GB/s.
        in_place_algbw: f64 = measured("in-place algbw", "GB/s");
        /// The bus bandwidth in place, GB/s.
        in_place_busbw: f64 = Self::IN_PLACE_BUSBW;
        /// Wrong elements in place.
        in_place_wrong: Option<u64> = plain("in-place wrong");
    }
}

impl CallRow {
    /// The column of the times out of place.
    pub const OUT_OF_PLACE_TIME: Column = measured("out-of-place time", "us");
    /// The column of the bus bandwidths out of place.
    pub const OUT_OF_PLACE_BUSBW: Column = measured("out-of-place busbw", "GB/s");
    /// The column of the times in place.
    pub const IN_PLACE_TIME: Column = measured("in-place time", "us");
    /// The column of the bus bandwidths in place.
    pub const IN_PLACE_BUSBW: Column = measured("in-place busbw", "GB/s");
}

row! {
    /// The gain by peer-to-peer at one size.
    GainRow in "nccl.gain" {
        /// The larger buffer, bytes.
        bytes: u64 = measured("size", "bytes");
        /// The time of one call without peer-to-peer, microseconds.
        off_us: f64 = measured("off time", "us");
        /// The time of one call with it, microseconds.
        on_us: f64 = measured("on time", "us");
        /// The bus bandwidth without peer-to-peer, GB/s.
        off_gb_s: f64 = measured("off busbw", "GB/s");
        /// The bus bandwidth with it, GB/s.
        on_gb_s: f64 = measured("on busbw", "GB/s");
        /// The gain as a factor.
        speedup: f64 = plain("speedup");
        /// How far the times of an arm's communicators differ, microseconds. Earlier reports lack it.
        spread_us: Option<f64> = measured("spread", "us");
    }
}

/// How the name of a table of transports begins; the arm's word follows.
pub(super) const TRANSPORT: &str = "nccl.transport.";

row! {
    /// The transport from one rank to another.
    TransportRow {
        /// The sender.
        from: Rank = measured("from", "rank");
        /// The receiver.
        to: Rank = measured("to", "rank");
        /// The transports that NCCL logs.
        via: String = plain("via");
    }
}

/// How the name of a table of graphs begins; the arm's word follows.
pub(super) const GRAPH: &str = "nccl.graph.";

row! {
    /// A graph that NCCL searched for.
    GraphRow {
        /// Its pattern.
        graph: String = plain("graph");
        /// How many channels it has.
        channels: usize = plain("channels");
        /// The speed that NCCL computes, GB/s.
        speed: f64 = measured("speed", "GB/s");
        /// The longest path, in NCCL's letters.
        way: String = plain("way");
    }
}

row! {
    /// A library of NCCL on this machine; `None`: unknown.
    LibraryRow in "nccl.libraries" {
        /// Its file.
        library: Option<String> = plain("library");
        /// Its version.
        version: Option<String> = plain("version");
        /// Whether it was tested.
        tested: YesNo = plain("tested");
    }
}

row! {
    /// A number of channels that was tried.
    ChannelsRow in "nccl.channels" {
        /// The number.
        channels: Channels = plain("channels");
        /// The number that NCCL reports to use.
        used: Option<u32> = plain("used");
        /// The time of a call of 1 MiB, microseconds.
        small: f64 = measured("1 MiB", "us");
        /// The time of a call of 128 MiB, microseconds.
        large: f64 = measured("128 MiB", "us");
        /// How much faster a call of 128 MiB is than with NCCL's own choice, as a factor.
        gain: f64 = plain("gain");
    }
}

/// A number of channels; `None`: NCCL's own choice, written as `own`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels(pub Option<u32>);

impl Cell for Channels {
    fn cell(&self) -> Value {
        self.0.map_or("own".into(), Value::from)
    }

    fn read(cell: &Value) -> Option<Self> {
        if cell == "own" {
            Some(Self(None))
        } else {
            u32::read(cell).map(|number| Self(Some(number)))
        }
    }
}
