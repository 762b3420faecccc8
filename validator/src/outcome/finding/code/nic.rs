//! The table's part about network cards: RDMA ports, and how cards reach GPU memory.

macro_rules! nic {
    ([$then:ident $($more:ident)*] $($before:tt)*) => { $then! { [$($more)*] $($before)*

    NicPort "NIC-PORT"
        means "a port of an RDMA device is not ACTIVE, so nothing can use it; harmless where it has no cable"
        cause "no cable, a switched-off interface or other end; with a link, no subnet manager (InfiniBand)"
        remedy "plug in a port that is meant to be used and bring its interface up; with a link, start opensm on the network"
    NicNarrow "NIC-NARROW"
        means "an InfiniBand port runs on fewer lanes than the four that it has"
        cause "a damaged cable or transceiver, or a port of a switch that is split in two"
        remedy "clean or replace the cable; where the switch's port is split on purpose there is nothing to do"
    NicSlot "NIC-SLOT"
        means "a port of a network card is faster than the PCIe link of the card"
        cause "the slot has fewer lanes or a lower speed than the card, or the link trained lower"
        remedy "move the card to a slot with more lanes; see also LINK-NARROW and LINK-SLOW"
    NicNoGid "NIC-NO-GID"
        means "an ACTIVE Ethernet port has no RoCE v2 address on IPv4, which NCCL looks for"
        cause "its network interface has no IPv4 address"
        remedy "give the interface an address on every node; leave NCCL_IB_GID_INDEX unset, for the index moves"
    GdrUnsupported "GDR-UNSUPPORTED"
        means "the driver offers no way for network cards to reach a GPU's memory (GPUDirect RDMA)"
        cause "NVIDIA gives it to its workstation and data-center boards, not to GeForce nor to integrated GPUs"
        remedy "nothing to do: NCCL sends such a GPU's data by way of the host's memory"
    GdrNoWay "GDR-NO-WAY"
        means "a GPU can do GPUDirect RDMA and nothing carries it: neither dma-buf nor the module nvidia_peermem"
        cause "NVIDIA's closed module has no dma-buf, and nvidia_peermem is not loaded"
        remedy "use NVIDIA's open modules, or load nvidia-peermem, which needs the RDMA stack of DOCA or MLNX OFED"

    } };
}
