//! What the figures of a matrix are: how the data moved, in which direction, with or without peer access. A report has the
//! name as text; baselines and alerts of users depend on the names.

/// Who moves the data between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mover {
    /// Copy engines.
    CopyEngine,
    /// Kernels.
    Kernel,
}

/// What the row's GPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// It writes to the column's GPU.
    Write,
    /// It reads from the column's GPU.
    Read,
}

/// Whose clock measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// The GPU's.
    Gpu,
    /// The host's, which depends on its load.
    Host,
}

/// What else is under way during a copy between host and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beside {
    /// Nothing.
    Alone,
    /// The opposite direction of the same GPU.
    BothWays,
    /// The same copy of all other GPUs.
    AllGpus,
}

/// Transfers of many GPUs at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Each GPU writes to the next one.
    Ring,
    /// Each GPU writes to the one before.
    RingBack,
    /// Each GPU writes to all others.
    All,
    /// All GPUs write to one.
    ToOne,
    /// One GPU writes to all others.
    FromOne,
}

/// What the figures of a matrix are. They are ordered by their names, as reports have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Whether two GPUs have peer access, 1 or 0.
    Access,
    /// p2pBandwidthLatencyTest's copies between two GPUs, GB/s.
    Sample {
        /// Both directions at once.
        both_ways: bool,
        /// With peer access.
        access: bool,
    },
    /// nvbandwidth's copies between two GPUs, GB/s.
    Copy {
        /// Who moves the data.
        mover: Mover,
        /// What the row's GPU does.
        direction: Direction,
        /// Both directions at once.
        both_ways: bool,
    },
    /// p2pBandwidthLatencyTest's copy of 16 bytes, us.
    SmallCopy {
        /// With peer access.
        access: bool,
        /// Whose clock measures.
        clock: Clock,
    },
    /// One load from a peer's memory, ns.
    Load,
    /// The time between a write and its flag at the peer, ns.
    Hop,
    /// Copies between host memory and a GPU by copy engines, GB/s.
    Host {
        /// Towards the GPU.
        to_gpu: bool,
        /// What else is under way.
        beside: Beside,
    },
    /// Copies within one GPU's memory, GB/s.
    Local,
    /// Transfers of many GPUs at once, GB/s.
    Together(Pattern),
}

const fn copy(mover: Mover, direction: Direction, both_ways: bool) -> Metric {
    Metric::Copy {
        mover,
        direction,
        both_ways,
    }
}

const fn small_copy(access: bool, clock: Clock) -> Metric {
    Metric::SmallCopy { access, clock }
}

const fn host(to_gpu: bool, beside: Beside) -> Metric {
    Metric::Host { to_gpu, beside }
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $title:literal, $metric:expr;)*) => {
        impl Metric {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $constant: Self = $metric;
            )*
            /// Every metric: its name in reports, and what people read.
            const NAMES: &[(Self, &str, &str)] = &[$((Self::$constant, $name, $title)),*];
        }
    };
}

metrics! {
    ACCESS = "p2p.connectivity", "Peer access", Self::Access;
    SAMPLE_UNI_OFF = "sample.uni.off", "Copy, one direction, without peer access", Self::Sample { both_ways: false, access: false };
    SAMPLE_UNI_ON = "sample.uni.on", "Copy, one direction, with peer access", Self::Sample { both_ways: false, access: true };
    SAMPLE_BI_OFF = "sample.bi.off", "Copy, both directions, without peer access", Self::Sample { both_ways: true, access: false };
    SAMPLE_BI_ON = "sample.bi.on", "Copy, both directions, with peer access", Self::Sample { both_ways: true, access: true };
    CE_WRITE = "ce.write", "Copy engine, write", copy(Mover::CopyEngine, Direction::Write, false);
    CE_READ = "ce.read", "Copy engine, read", copy(Mover::CopyEngine, Direction::Read, false);
    SM_WRITE = "sm.write", "Kernel, write", copy(Mover::Kernel, Direction::Write, false);
    SM_READ = "sm.read", "Kernel, read", copy(Mover::Kernel, Direction::Read, false);
    CE_BI_WRITE = "ce.bi.write", "Copy engine, write, both directions at once", copy(Mover::CopyEngine, Direction::Write, true);
    CE_BI_READ = "ce.bi.read", "Copy engine, read, both directions at once", copy(Mover::CopyEngine, Direction::Read, true);
    SM_BI_WRITE = "sm.bi.write", "Kernel, write, both directions at once", copy(Mover::Kernel, Direction::Write, true);
    SM_BI_READ = "sm.bi.read", "Kernel, read, both directions at once", copy(Mover::Kernel, Direction::Read, true);
    LATENCY_OFF_GPU = "sample.latency.off.gpu", "Latency without peer access, GPU time", small_copy(false, Clock::Gpu);
    LATENCY_OFF_HOST = "sample.latency.off.cpu", "Latency without peer access, processor time", small_copy(false, Clock::Host);
    LATENCY_ON_GPU = "sample.latency.on.gpu", "Latency with peer access, GPU time", small_copy(true, Clock::Gpu);
    LATENCY_ON_HOST = "sample.latency.on.cpu", "Latency with peer access, processor time", small_copy(true, Clock::Host);
    LOAD = "chase", "One load from the peer's memory", Self::Load;
    HOP = "order.hop", "A flag from GPU to GPU", Self::Hop;
    HOST_TO = "host.to.ce", "From the processor's memory, copy engine", host(true, Beside::Alone);
    HOST_FROM = "host.from.ce", "To the processor's memory, copy engine", host(false, Beside::Alone);
    HOST_BI_TO = "host.bi.to.ce", "From the processor's memory, both directions at once", host(true, Beside::BothWays);
    HOST_BI_FROM = "host.bi.from.ce", "To the processor's memory, both directions at once", host(false, Beside::BothWays);
    HOST_ALL_TO = "host.to.all.ce", "From the processor's memory, all GPUs at once", host(true, Beside::AllGpus);
    HOST_ALL_FROM = "host.from.all.ce", "To the processor's memory, all GPUs at once", host(false, Beside::AllGpus);
    LOCAL = "local", "Copy inside the GPU", Self::Local;
    RING = "together.ring", "Ring, all at once", Self::Together(Pattern::Ring);
    RING_BACK = "together.ring.back", "Ring backwards, all at once", Self::Together(Pattern::RingBack);
    ALL_AT_ONCE = "together.all", "All pairs at once", Self::Together(Pattern::All);
    TO_ONE = "together.to-one", "All GPUs to one", Self::Together(Pattern::ToOne);
    FROM_ONE = "together.from-one", "One GPU to all", Self::Together(Pattern::FromOne);
}

impl Metric {
    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.iter().map(|(metric, ..)| *metric)
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every metric is in the table, which a test checks.
        Self::NAMES
            .iter()
            .find(|(metric, ..)| *metric == self)
            .map_or("", |(_, name, _)| name)
    }

    /// What people read: `Copy engine, write`.
    #[must_use]
    pub fn title(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(metric, ..)| *metric == self)
            .map_or("", |(.., title)| title)
    }

    /// The metric of that name; `None` for a name that this program does not use.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(metric, ..)| *metric)
    }

    /// The unit of its figures.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Access => "1",
            Self::SmallCopy { .. } => "us",
            Self::Load | Self::Hop => "ns",
            Self::Sample { .. }
            | Self::Copy { .. }
            | Self::Host { .. }
            | Self::Local
            | Self::Together(_) => "GB/s",
        }
    }

    /// The metric of one direction alone, for copies by nvbandwidth's method in both directions at once.
    #[must_use]
    pub const fn one_way(self) -> Option<Self> {
        match self {
            Self::Copy {
                mover,
                direction,
                both_ways: true,
            } => Some(copy(mover, direction, false)),
            _ => None,
        }
    }

    /// Whether its figures depend on the host's memory or on links that several GPUs share at that time, so that two runs
    /// of an unchanged machine differ more.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(
            self,
            Self::Sample { access: false, .. } | Self::Host { .. } | Self::Together(_)
        )
    }
}

impl Ord for Metric {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Metric {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_metric_has_one_name_and_each_name_one_metric() {
        let names: BTreeSet<_> = Metric::all().map(Metric::name).collect();
        assert_eq!(names.len(), Metric::NAMES.len());
        assert_eq!(
            Metric::all().collect::<BTreeSet<_>>().len(),
            Metric::NAMES.len()
        );
        assert!(Metric::all().all(|metric| Metric::named(metric.name()) == Some(metric)));
        assert_eq!(Metric::named("ce.sideways"), None);
    }

    #[test]
    fn a_metric_of_both_ways_has_one_of_one_way() {
        assert_eq!(Metric::CE_BI_READ.one_way(), Some(Metric::CE_READ));
        assert_eq!(
            (Metric::CE_READ.one_way(), Metric::SAMPLE_BI_ON.one_way()),
            (None, None)
        );
    }
}
