//! The places of findings about GPUs, the data between them, NCCL, network cards, and tests without a result.

use super::machine::{ACS, BAR1, DRIVER, GONE, IOMMU, LOGGED};
use super::{Place, place};
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
pub(super) const AGAINST: &[Code] = &[
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
pub(super) const TOO_SLOW: &[Code] =
    &[P2pStaged, P2pSlow, P2pAsymmetric, P2pLatency, P2pCollapse, P2pBursts, GpuLinkLoad, NvLinkDown];

/// The second part of the table.
pub(super) const PLACES: &[Place] = &[
    // A single GPU.
    place(GpuMig, "the GPU is split into MIG instances", &[]),
    place(GpuComputeMode, "its compute mode admits too few processes", &[]),
    place(CudaMissing, "the driver's libraries could not be loaded", &[&[DriverMissing, DriverMismatch]]),
    place(GpuCountCuda, "CUDA does not see the same GPUs as the driver", &[GONE, DRIVER, &[GpuMig]]),
    place(KernelImage, "no GPU kernel of firstlight fits the GPU", &[&[DriverMissing]]),
    place(GpuRemap, "the GPU has bad memory", &[]),
    place(GpuEcc, "the GPU counted memory errors", &[&[GpuRemap]]),
    place(GpuInUse, "other programs use the GPU", &[]),
    place(
        CudaStart,
        "CUDA did not start",
        &[GONE, DRIVER, LOGGED, &[GpuMig, GpuComputeMode, CudaMissing, GpuCountCuda]],
    ),
    place(GpuThrottled, "the GPU lowered its clocks", &[&[GpuInUse]]),
    place(GpuMemory, "the GPU's own memory changed", &[&[GpuRemap, GpuEcc]]),
    place(GpuArithmetic, "the GPU calculates wrongly", &[&[GpuEcc, GpuMemory]]),
    place(GpuClock, "the GPU's clock disagrees with the host's", &[]),
    // Links.
    place(LinkNarrow, "its PCIe link uses too few lanes", &[&[PcieAer]]),
    place(LinkSlow, "its PCIe link is slow at rest", &[&[PcieAer]]),
    place(LinkDisagrees, "sysfs and registers disagree about a link", &[&[LinkNarrow, LinkSlow, PcieAer]]),
    place(
        GpuLinkLoad,
        "its PCIe link stays narrow or slow under load",
        &[&[LinkNarrow, LinkSlow, LinkDisagrees, PcieAer]],
    ),
    place(LinkContradicted, "NVML and the kernel disagree about its link", &[&[LinkDisagrees]]),
    place(NvLinkDown, "NVLinks are down", &[&[NvswitchNoManager, NvswitchSxid]]),
    place(NvLinkUnknown, "the state of the NVLinks is unknown", &[DRIVER, LOGGED]),
    // Peer access.
    place(P2pMixed, "boards of two generations give each other no access", &[]),
    place(P2pUnpredicted, "the driver reports access that it is not known to give", &[DRIVER]),
    place(P2pUnsupported, "the driver refuses it", &[BAR1, DRIVER, &[P2pMixed]]),
    place(PeersGrouped, "the driver allows it within groups only", &[DRIVER]),
    place(P2pRefused, "it cannot be enabled", &[BAR1, IOMMU, LOGGED, OTHERS, &[P2pUnsupported]]),
    place(
        P2pWitnesses,
        "CUDA, NVML and an attempt disagree about it",
        &[DRIVER, BAR1, &[P2pUnsupported, P2pRefused]],
    ),
    // Delivery.
    place(P2pChecker, "the check itself is wrong", &[WORN, LOGGED]),
    place(CudaSticky, "a CUDA error destroyed the context", &[GONE, IOMMU, LOGGED, WORN]),
    place(
        CudaError,
        "a CUDA call failed",
        &[GONE, DRIVER, LOGGED, WORN, OTHERS, &[CudaSticky, CudaStart, P2pRefused]],
    ),
    place(P2pStray, "data is written to a wrong place", &[IOMMU, BAR1, WORN]),
    place(
        P2pWrongData,
        "data arrives wrong",
        &[IOMMU, ACS, BAR1, WORN, LOGGED, &[PcieAer, P2pChecker, P2pStray, DisplayOnGpu]],
    ),
    place(P2pOrder, "flags arrive before their data", &[ACS, &[P2pStray, P2pWrongData]]),
    place(
        P2pHang,
        "operations do not finish",
        &[GONE, IOMMU, ACS, BAR1, LOGGED, &[PcieAer, CudaSticky, P2pStray, P2pWrongData, P2pOrder]],
    ),
    place(P2pAtomics, "atomic operations lose updates", &[&[P2pStray, P2pWrongData]]),
    place(HostWrongData, "data to and from host memory arrives wrong", &[IOMMU, WORN, LOGGED, &[PcieAer]]),
    // Speed.
    place(P2pStaged, "copies go through host memory", &[NO_ACCESS]),
    place(
        P2pSlow,
        "slower than its links allow",
        &[ACS, IOMMU, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged]],
    ),
    place(SpeedImpossible, "a speed is higher than the links can carry", &[CLOCK, &[NvLinkUnknown]]),
    place(P2pNoisy, "a speed could not be measured reliably", &[LINKS, OTHERS, &[GpuThrottled, GpuClock]]),
    place(
        P2pAsymmetric,
        "fast in one direction and slow in the other",
        &[ACS, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged, P2pSlow]],
    ),
    place(P2pBursts, "some samples are far slower than others", &[LINKS, OTHERS, &[GpuThrottled, P2pSlow]]),
    place(
        P2pLatency,
        "small copies take too long",
        &[ACS, IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock, P2pStaged, P2pSlow]],
    ),
    place(
        P2pCollapse,
        "all pairs together move far less data",
        &[ACS, LINKS, OTHERS, &[GpuThrottled, P2pStaged, P2pSlow]],
    ),
    place(
        HostSlow,
        "transfers with host memory are slow",
        &[IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock]],
    ),
    place(P2pNotRun, "a pattern of transfers was not run", &[NO_ACCESS]),
    // NCCL.
    place(NcclMissing, "NCCL could not be loaded", &[]),
    place(NcclSettings, "NCCL has settings of the site", &[]),
    place(NcclUnforbidden, "NCCL ignores its settings", &[&[NcclSettings]]),
    place(NcclNoTransport, "NCCL does not use peer-to-peer", &[BAR1, NO_ACCESS, &[NcclSettings]]),
    place(NcclTransport, "NCCL uses another transport", &[NO_ACCESS, &[NcclSettings, NcclNoTransport]]),
    place(NcclUnproven, "NCCL's log does not show its transport", &[&[NcclMissing, NcclUnforbidden]]),
    place(NcclStray, "NCCL changes memory beside its buffers", &[WORN, DELIVERY]),
    place(NcclWrongData, "collectives return wrong values", &[WORN, LOGGED, DELIVERY, &[NcclStray]]),
    place(NcclHang, "NCCL does not finish", &[GONE, LOGGED, DELIVERY, &[CudaSticky, GpuComputeMode]]),
    place(
        NcclError,
        "an NCCL call failed",
        &[GONE, LOGGED, CUDA, OTHERS, DELIVERY, NO_ACCESS, &[CudaSticky, CudaError, NcclMissing]],
    ),
    place(
        NcclSlow,
        "collectives are slow",
        &[ACS, IOMMU, LINKS, OTHERS, SLOW, &[GpuThrottled, NcclUnforbidden, NcclNoTransport, NcclTransport]],
    ),
    place(
        NcclP2pSlower,
        "collectives are faster without peer-to-peer",
        &[ACS, LINKS, OTHERS, SLOW, &[NcclSlow]],
    ),
    place(
        NcclUnjudged,
        "the speed of collectives was not judged",
        &[CLOCK, NO_ACCESS, SLOW, &[SpeedImpossible, P2pNoisy]],
    ),
    // Network cards.
    place(NicPort, "a port of a network card is not active", &[]),
    place(NicNarrow, "an InfiniBand port uses too few lanes", &[]),
    place(NicSlot, "a network card is faster than its slot", &[&[LinkNarrow, LinkSlow]]),
    place(NicNoGid, "a port has no RoCE v2 address", &[&[NicPort]]),
    place(GdrUnsupported, "the GPU does not support GPUDirect RDMA", &[]),
    place(GdrNoWay, "no module offers GPUDirect RDMA", &[&[DriverMissing]]),
    // Tests without a result.
    place(GpuUncounted, "memory errors are not counted", &[GONE, DRIVER, CUDA]),
    place(
        ExpectUnchecked,
        "something that is expected was not checked",
        &[DRIVER, CUDA, NO_ACCESS, &[FabricUnreadable]],
    ),
    place(TestCrashed, "the process of a test died", &[GONE, LOGGED, WORN, &[CudaSticky]]),
    place(TestTimeout, "a test did not finish", &[GONE, LOGGED, DELIVERY, &[GpuInit, NcclHang]]),
    place(TestNotRun, "a mandatory test was not run", &[]),
    place(ScopeUnproven, "nothing is proven", &[DRIVER, CUDA, &[FabricUnreadable, GpuNone]]),
    // Against a baseline.
    place(BaselineMissing, "a figure of the baseline is missing", &[GONE, DRIVER, CUDA, NO_ACCESS, LOGGED]),
    place(BaselineChanged, "the machine is not as in its baseline", &[]),
    place(
        BaselineDrift,
        "a figure is worse than in the baseline",
        &[ACS, IOMMU, LINKS, OTHERS, SLOW, NO_ACCESS, &[GpuThrottled, BaselineChanged]],
    ),
    // Between nodes; those findings are not in the report of a machine.
    place(NodesUnreached, "the leading node cannot be reached", &[]),
    place(NodesToken, "a node has another token", &[]),
    place(NodesTwice, "a node joined twice", &[]),
    place(NodesMany, "more nodes announce themselves than nodes.size", &[]),
    place(NodesAbsent, "not all nodes joined", &[&[NodesUnreached, NodesToken, NodesTwice]]),
    place(NodesDiffer, "two nodes differ in their software", &[]),
    place(NodesLost, "a node vanished", &[]),
    place(NodesBad, "a node, port, switch or rail is at fault", &[]),
    place(NodesPortErrors, "an RDMA port counts errors of its link or lost packets", &[]),
    place(NodesRail, "a rail carries nearly none of its share", &[&[NodesBad, NodesPortErrors]]),
    place(RdmaData, "RDMA delivers wrong bytes", &[]),
    place(RdmaError, "RDMA does not work between two nodes", &[&[NodesLost]]),
    place(NodesWrongData, "a collective over nodes returns wrong values", &[&[NodesBad, RdmaData]]),
    place(NodesPath, "NCCL uses another network than the one under test", &[&[NodesDiffer]]),
    place(RdmaSlow, "RDMA between nodes is slow", &[]),
    place(NodesGdrStaged, "GPUDirect RDMA goes through host memory", &[]),
    place(NodesUnclear, "a fault between nodes has several possible places", &[]),
];
