//! The entries for findings about GPUs, the data between them, NCCL, network cards, and tests without a result.

use super::machine::{ACS, BAR1, DRIVER, GONE, IOMMU, LOGGED};
use super::{CauseEntry, entry};
use crate::outcome::finding::Code::{self, *};

/// CUDA cannot be used, or not on every GPU.
const CUDA: &[Code] = &[GpuMig, GpuComputeMode, CudaMissing, GpuCountCuda, KernelImage, CudaStart];
/// A GPU stores or computes wrongly on its own.
const WORN: &[Code] = &[GpuRemap, GpuEcc, GpuMemory, GpuArithmetic];
/// Other programs use the GPU.
const OTHERS: &[Code] = &[GpuInUse];
/// A link carries less than it should.
const LINKS: &[Code] = &[LinkNarrow, LinkSlow, PcieAer, GpuLinkLoad, NvLinkDown, NvLinkUnknown];
/// Figures cannot be trusted.
const CLOCK: &[Code] = &[GpuClock, LinkContradicted];
/// Peer access is not available.
const NO_ACCESS: &[Code] = &[P2pUnsupported, PeersGrouped, P2pRefused, P2pWitnesses];
/// Data does not arrive, or does not arrive as it was sent.
const DELIVERY: &[Code] = &[P2pStray, P2pWrongData, P2pOrder, P2pHang, HostWrongData];
/// Data between GPUs is slow.
const SLOW: &[Code] = &[P2pStaged, P2pSlow, P2pAsymmetric, P2pCollapse, P2pBursts, HostSlow];

/// Peer-to-peer does not work on this machine.
pub(super) const P2P_BROKEN: &[Code] = &[
    P2pUnsupported,
    P2pRefused,
    P2pWitnesses,
    P2pStray,
    P2pWrongData,
    P2pOrder,
    P2pHang,
    P2pAtomics,
    CudaSticky,
    CudaStart,
    GpuGone,
];
/// Peer-to-peer works, but is slower than it could be.
pub(super) const P2P_SLOW: &[Code] =
    &[P2pStaged, P2pSlow, P2pAsymmetric, P2pLatency, P2pCollapse, P2pBursts, GpuLinkLoad, NvLinkDown];

/// The second part of the table.
pub(super) const ENTRIES: &[CauseEntry] = &[
    // A single GPU.
    entry(GpuMig, "the GPU is split into MIG instances", &[]),
    entry(GpuComputeMode, "its compute mode admits too few processes", &[]),
    entry(CudaMissing, "the driver's libraries could not be loaded", &[&[DriverMissing, DriverMismatch]]),
    entry(GpuCountCuda, "CUDA does not see the same GPUs as the driver", &[GONE, DRIVER, &[GpuMig]]),
    entry(KernelImage, "no GPU kernel of firstlight fits the GPU", &[&[DriverMissing]]),
    entry(GpuRemap, "the GPU has bad memory", &[]),
    entry(GpuEcc, "the GPU counted memory errors", &[&[GpuRemap]]),
    entry(GpuInUse, "other programs use the GPU", &[]),
    entry(
        CudaStart,
        "CUDA did not start",
        &[GONE, DRIVER, LOGGED, &[GpuMig, GpuComputeMode, CudaMissing, GpuCountCuda]],
    ),
    entry(GpuThrottled, "the GPU lowered its clocks", &[&[GpuInUse]]),
    entry(GpuMemory, "the GPU's own memory changed", &[&[GpuRemap, GpuEcc]]),
    entry(GpuArithmetic, "the GPU calculates wrongly", &[&[GpuEcc, GpuMemory]]),
    entry(GpuClock, "the GPU's clock disagrees with the host's", &[]),
    // Links.
    entry(LinkNarrow, "its PCIe link uses too few lanes", &[&[PcieAer]]),
    entry(LinkSlow, "its PCIe link is slow at rest", &[&[PcieAer]]),
    entry(LinkDisagrees, "sysfs and registers disagree about a link", &[&[LinkNarrow, LinkSlow, PcieAer]]),
    entry(
        GpuLinkLoad,
        "its PCIe link stays narrow or slow under load",
        &[&[LinkNarrow, LinkSlow, LinkDisagrees, PcieAer]],
    ),
    entry(LinkContradicted, "NVML and the kernel disagree about its link", &[&[LinkDisagrees]]),
    entry(NvLinkDown, "NVLinks are down", &[&[NvswitchNoManager, NvswitchSxid]]),
    entry(NvLinkUnknown, "the state of the NVLinks is unknown", &[DRIVER, LOGGED]),
    // Peer access.
    entry(P2pMixed, "boards of two generations give each other no access", &[]),
    entry(P2pUnpredicted, "the driver reports access that it is not known to give", &[DRIVER]),
    entry(P2pUnsupported, "the driver refuses it", &[BAR1, DRIVER, &[P2pMixed]]),
    entry(PeersGrouped, "the driver allows it within groups only", &[DRIVER]),
    entry(P2pRefused, "it cannot be enabled", &[BAR1, IOMMU, LOGGED, OTHERS, &[P2pUnsupported]]),
    entry(P2pWitnesses, "CUDA, NVML and an attempt disagree about it", &[DRIVER, BAR1, &[P2pUnsupported, P2pRefused]]),
    // Delivery.
    entry(P2pChecker, "the check itself is wrong", &[WORN, LOGGED]),
    entry(CudaSticky, "a CUDA error destroyed the context", &[GONE, IOMMU, LOGGED, WORN]),
    entry(CudaError, "a CUDA call failed", &[GONE, DRIVER, LOGGED, WORN, OTHERS, &[CudaSticky, CudaStart, P2pRefused]]),
    entry(P2pStray, "data is written to a wrong place", &[IOMMU, BAR1, WORN]),
    entry(
        P2pWrongData,
        "data arrives wrong",
        &[IOMMU, ACS, BAR1, WORN, LOGGED, &[PcieAer, P2pChecker, P2pStray, DisplayOnGpu]],
    ),
    entry(P2pOrder, "flags arrive before their data", &[ACS, &[P2pStray, P2pWrongData]]),
    entry(
        P2pHang,
        "operations do not finish",
        &[GONE, IOMMU, ACS, BAR1, LOGGED, &[PcieAer, CudaSticky, P2pStray, P2pWrongData, P2pOrder]],
    ),
    entry(P2pAtomics, "atomic operations lose updates", &[&[P2pStray, P2pWrongData]]),
    entry(HostWrongData, "data to and from host memory arrives wrong", &[IOMMU, WORN, LOGGED, &[PcieAer]]),
    // Speed.
    entry(P2pStaged, "copies go through host memory", &[NO_ACCESS]),
    entry(
        P2pSlow,
        "slower than its links allow",
        &[ACS, IOMMU, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged]],
    ),
    entry(SpeedImpossible, "a speed is higher than the links can carry", &[CLOCK, &[NvLinkUnknown]]),
    entry(P2pNoisy, "a speed could not be measured reliably", &[LINKS, OTHERS, &[GpuThrottled, GpuClock]]),
    entry(
        P2pAsymmetric,
        "fast in one direction and slow in the other",
        &[ACS, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged, P2pSlow]],
    ),
    entry(P2pBursts, "some samples are far slower than others", &[LINKS, OTHERS, &[GpuThrottled, P2pSlow]]),
    entry(
        P2pLatency,
        "small copies take too long",
        &[ACS, IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock, P2pStaged, P2pSlow]],
    ),
    entry(
        P2pCollapse,
        "all pairs together move far less data",
        &[ACS, LINKS, OTHERS, &[GpuThrottled, P2pStaged, P2pSlow]],
    ),
    entry(HostSlow, "transfers with host memory are slow", &[IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock]]),
    entry(P2pNotRun, "a pattern of transfers was not run", &[NO_ACCESS]),
    // NCCL.
    entry(NcclMissing, "NCCL could not be loaded", &[]),
    entry(NcclSettings, "NCCL has settings of the site", &[]),
    entry(NcclUnforbidden, "NCCL ignores its settings", &[&[NcclSettings]]),
    entry(NcclNoTransport, "NCCL does not use peer-to-peer", &[BAR1, NO_ACCESS, &[NcclSettings]]),
    entry(NcclTransport, "NCCL uses another transport", &[NO_ACCESS, &[NcclSettings, NcclNoTransport]]),
    entry(NcclUnproven, "NCCL's log does not show its transport", &[&[NcclMissing, NcclUnforbidden]]),
    entry(NcclStray, "NCCL changes memory beside its buffers", &[WORN, DELIVERY]),
    entry(NcclWrongData, "collectives return wrong values", &[WORN, LOGGED, DELIVERY, &[NcclStray]]),
    entry(NcclHang, "NCCL does not finish", &[GONE, LOGGED, DELIVERY, &[CudaSticky, GpuComputeMode]]),
    entry(
        NcclError,
        "an NCCL call failed",
        &[GONE, LOGGED, CUDA, OTHERS, DELIVERY, NO_ACCESS, &[CudaSticky, CudaError, NcclMissing]],
    ),
    entry(
        NcclSlow,
        "collectives are slow",
        &[ACS, IOMMU, LINKS, OTHERS, SLOW, &[GpuThrottled, NcclUnforbidden, NcclNoTransport, NcclTransport]],
    ),
    entry(NcclP2pSlower, "collectives are faster without peer-to-peer", &[ACS, LINKS, OTHERS, SLOW, &[NcclSlow]]),
    entry(
        NcclUnjudged,
        "the speed of collectives was not judged",
        &[CLOCK, NO_ACCESS, SLOW, &[SpeedImpossible, P2pNoisy]],
    ),
    // Network cards.
    entry(NicPort, "a port of a network card is not active", &[]),
    entry(NicNarrow, "an InfiniBand port uses too few lanes", &[]),
    entry(NicSlot, "a network card is faster than its slot", &[&[LinkNarrow, LinkSlow]]),
    entry(NicNoGid, "a port has no RoCE v2 address", &[&[NicPort]]),
    entry(GdrUnsupported, "the GPU does not support GPUDirect RDMA", &[]),
    entry(GdrNoWay, "no module offers GPUDirect RDMA", &[&[DriverMissing]]),
    // Tests without a result.
    entry(GpuUncounted, "memory errors are not counted", &[GONE, DRIVER, CUDA]),
    entry(
        ExpectUnchecked,
        "something that is expected was not checked",
        &[DRIVER, CUDA, NO_ACCESS, &[FabricUnreadable]],
    ),
    entry(TestCrashed, "the process of a test died", &[GONE, LOGGED, WORN, &[CudaSticky]]),
    entry(TestTimeout, "a test did not finish", &[GONE, LOGGED, DELIVERY, &[GpuInit, NcclHang]]),
    entry(TestNotRun, "a mandatory test was not run", &[]),
    entry(ScopeUnproven, "nothing is proven", &[DRIVER, CUDA, &[FabricUnreadable, GpuNone]]),
    // Against a baseline.
    entry(BaselineMissing, "a figure of the baseline is missing", &[GONE, DRIVER, CUDA, NO_ACCESS, LOGGED]),
    entry(BaselineChanged, "the machine is not as in its baseline", &[]),
    entry(
        BaselineDrift,
        "a figure is worse than in the baseline",
        &[ACS, IOMMU, LINKS, OTHERS, SLOW, NO_ACCESS, &[GpuThrottled, BaselineChanged]],
    ),
    // Between nodes; those findings are not in the report of a machine.
    entry(NodesUnreached, "the leading node cannot be reached", &[]),
    entry(NodesToken, "a node has another token", &[]),
    entry(NodesTwice, "a node joined twice", &[]),
    entry(NodesMany, "more nodes announce themselves than nodes.size", &[]),
    entry(NodesAbsent, "not all nodes joined", &[&[NodesUnreached, NodesToken, NodesTwice]]),
    entry(NodesDiffer, "two nodes differ in their software", &[]),
    entry(NodesLost, "a node vanished", &[]),
    entry(NodesBad, "a node, port, switch or rail is at fault", &[]),
    entry(NodesPortErrors, "an RDMA port counts errors of its link or lost packets", &[]),
    entry(NodesRail, "a rail carries nearly none of its share", &[&[NodesBad, NodesPortErrors]]),
    entry(RdmaData, "RDMA delivers wrong bytes", &[]),
    entry(RdmaError, "RDMA does not work between two nodes", &[&[NodesLost]]),
    entry(NodesWrongData, "a collective over nodes returns wrong values", &[&[NodesBad, RdmaData]]),
    entry(NodesPath, "NCCL uses another network than the one under test", &[&[NodesDiffer]]),
    entry(RdmaSlow, "RDMA between nodes is slow", &[]),
    entry(NodesGdrStaged, "GPUDirect RDMA goes through host memory", &[]),
    entry(NodesUnclear, "a fault between nodes has several possible places", &[]),
];
