//! Findings about network cards: RDMA ports, and access of cards to GPU memory.

macro_rules! nic {
    ([$then:ident $($more:ident)*] $($before:tt)*) => { $then! { [$($more)*] $($before)*

    NicPort "NIC-PORT"
        means "a port of an RDMA device is not ACTIVE, so it cannot be used; harmless if the port is meant to be unused"
        cause "no cable, or the interface or the other end is down; with a link but no ACTIVE state, no subnet manager (InfiniBand)"
        remedy "connect the cable and run `ip link set dev NAME up`; on InfiniBand with a link, start `opensm` on one node of the network"
    NicNarrow "NIC-NARROW"
        means "an InfiniBand port runs on fewer than its four lanes"
        cause "a damaged cable or transceiver, or a switch port that is split in two"
        remedy "clean or replace the cable; if the switch port is split on purpose, there is nothing to do"
    NicSlot "NIC-SLOT"
        means "a port of a network card is faster than the PCIe link of the card"
        cause "the slot has fewer lanes or a lower speed than the card, or the link trained lower"
        remedy "move the card to a slot with more lanes; see also LINK-NARROW and LINK-SLOW"
    NicNoGid "NIC-NO-GID"
        means "an ACTIVE Ethernet port has no RoCE v2 address on IPv4, which NCCL looks for"
        cause "its network interface has no IPv4 address"
        remedy "run `ip addr add ADDRESS/PREFIX dev NAME` on every node; do not set NCCL_IB_GID_INDEX, because the index changes"
    GdrUnsupported "GDR-UNSUPPORTED"
        means "the driver does not support GPUDirect RDMA (network cards that access GPU memory directly) on this GPU"
        cause "NVIDIA supports it on workstation and data-center GPUs, not on GeForce or integrated GPUs"
        remedy "nothing to do: NCCL sends the data of such a GPU through host memory"
    GdrNoWay "GDR-NO-WAY"
        means "a GPU supports GPUDirect RDMA, but neither dma-buf nor the module nvidia_peermem is available for it"
        cause "NVIDIA's closed module does not support dma-buf, and nvidia_peermem is not loaded"
        remedy "install NVIDIA's open modules, or run `modprobe nvidia-peermem`, which needs the RDMA stack of DOCA or MLNX OFED"

    } };
}
