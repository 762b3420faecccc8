//! What a passed test rules out: in words, and by the codes that it would have found. The words must be true if the test
//! found none of these codes, and are not said if it did not look for one of them in this run (`unchecked`), or found one
//! as information.

use crate::outcome::finding::Code::{self, *};

/// What one test rules out.
#[derive(Debug, Clone, Copy)]
pub struct RuledOut {
    /// The test's id.
    pub test: &'static str,
    /// What did not happen, in words.
    pub what: &'static str,
    /// The codes of the findings that are ruled out.
    pub codes: &'static [Code],
}

const fn out(test: &'static str, what: &'static str, codes: &'static [Code]) -> RuledOut {
    RuledOut { test, what, codes }
}

/// Every test, in the order of the suite.
pub const RULED_OUT: &[RuledOut] = &[
    out("fabric", "an unreadable or malformed PCI function", &[FabricUnreadable, PciUnreadable, PciMalformed, PciGone]),
    out("cmdline", "a missing kernel word", &[CmdlineMissing, CmdlineOverridden]),
    out("image", "a changed image", &[ImageChanged, ImageNone]),
    out("iommu", "an IOMMU that translates for GPUs", &[IommuTranslating]),
    out("cpus", "missing processors", &[CpusLost]),
    out("gpus", "a missing GPU", &[GpuNone, GpuCount]),
    out("drivers", "another driver on a GPU", &[DriverForeign]),
    out(
        "driver",
        "a driver of mixed versions",
        &[DriverMissing, DriverMismatch, DriverVermagic, DriverFailed, GspMissing, GpuInit],
    ),
    out("driver-params", "a parameter of the module", &[DriverParameters]),
    out("patch", "a missing driver patch", &[PatchMissing, PatchNotEffective]),
    out("nodes", "missing device nodes", &[NodesMissing]),
    out("bar1", "a small BAR1", &[Bar1Small]),
    out("bar1-static", "memory outside of BAR1", &[Bar1NotStatic]),
    out("xid", "Xid errors before the tests", &[GpuXid]),
    out("acs", "ACS redirection", &[AcsRedirect, AcsReverted, AcsStuck]),
    out("links", "a narrow PCIe link at rest", &[LinkNarrow]),
    out("nics", "a network port that is down", &[NicPort]),
    out("display", "a display on a GPU", &[DisplayOnGpu]),
    out("cuda", "a GPU that CUDA cannot use", &[CudaMissing, CudaStart, GpuCountCuda, GpuMig, GpuComputeMode]),
    out("gdr", "missing GPUDirect RDMA", &[GdrNoWay, GdrUnsupported]),
    out("gpu-memory", "bad GPU memory", &[GpuMemory, GpuEcc]),
    out("gpu-products", "wrong arithmetic of a GPU", &[GpuArithmetic]),
    out("gpu-power", "faults under full power", &[GpuThrottled]),
    out("p2p-capability", "a refusal by the driver", &[P2pUnsupported, PeersGrouped, P2pRefused]),
    out("p2p-integrity", "wrong data between GPUs", &[P2pWrongData, P2pStray]),
    out("p2p-processes", "wrong data between processes", &[P2pWrongData]),
    out("p2p-reach", "wrong data at high addresses", &[P2pWrongData, P2pStray]),
    out("p2p-order", "flags that overtake data", &[P2pOrder]),
    out("p2p-allreduce", "wrong all-reduces of frameworks", &[P2pWrongData]),
    out("p2p-bandwidth", "a slow pair of GPUs", &[P2pSlow, P2pAsymmetric, P2pStaged]),
    out("p2p-latency", "slow small copies", &[P2pLatency]),
    out("host-bandwidth", "slow host memory", &[HostSlow, HostWrongData]),
    out("p2p-together", "a collapse under traffic of all pairs", &[P2pCollapse]),
    out("p2p-soak", "faults that need minutes", &[P2pWrongData]),
    out("nccl", "NCCL without peer-to-peer", &[NcclNoTransport, NcclTransport, NcclMissing]),
    out("nccl-allreduce", "slow all-reduces", &[NcclSlow, NcclP2pSlower]),
    out("nccl-collective", "wrong collectives", &[NcclWrongData]),
    out("nccl-types", "wrong element types", &[NcclWrongData]),
    out("nccl-processes", "NCCL failing between processes", &[NcclWrongData]),
    out("nccl-channels", "too few NCCL channels", &[NcclSlow]),
];
