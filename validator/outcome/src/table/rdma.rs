//! Tables about network cards and RDMA.

use super::row::{Cell, Cells, Column, Row, measured, names, plain, row};
use crate::platform::{Bdf, GpuId};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

row! {
    /// A line as the program `ibdev2netdev` prints it.
    Ibdev2netdevRow in "ibdev2netdev" {
        /// The line.
        line: String = plain("line");
    }
}

row! {
    /// A port of an RDMA card.
    PortRow in "rdma ports" {
        /// The card.
        device: String = plain("device");
        /// The port's number, from 1.
        port: u32 = plain("port");
        /// Its logical state.
        state: String = plain("state");
        /// Its physical state, in the kernel's word.
        physical: String = plain("physical state");
        /// `Ethernet` or `InfiniBand`.
        layer: String = plain("link layer");
        /// The rate of all its lanes together, Gb/s.
        rate: f64 = measured("rate", "Gb/s");
        /// Lanes in use.
        lanes: u32 = plain("lanes");
        /// Its network interface.
        interface: Option<String> = plain("interface");
        /// The state of that.
        interface_state: Option<String> = plain("interface state");
        /// The speed of that, Mb/s.
        interface_mbit_s: Option<u64> = measured("interface speed", "Mb/s");
        /// The index of its address for RoCE v2 over IPv4.
        gid_index: Option<u32> = plain("RoCE v2 IPv4 GID index");
        /// That address.
        address: Option<Ipv4Addr> = plain("RoCE v2 IPv4 address");
    }
}

/// The distances from GPUs to network cards, in letters: a column for each card.
#[derive(Debug, Clone, PartialEq)]
pub struct NicPaths {
    /// The cards' names.
    pub cards: Vec<String>,
    /// A row for each GPU.
    pub rows: Vec<NicPathRow>,
}

/// The distances from one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct NicPathRow {
    /// Its number and its address.
    pub gpu: GpuWithAddress,
    /// The distance to each card; `None` if it is unknown.
    pub to: Vec<Option<String>>,
    /// The nearest card.
    pub nearest: NearestCards,
}

row! {
    /// A GPU with its address.
    GpuWithAddress {
        /// Its number.
        gpu: GpuId = plain("GPU");
        /// Its address.
        address: Bdf = plain("address");
    }
}

row! {
    /// The cards that are nearest to a GPU; `None` if there is none.
    NearestCards {
        /// Their distance.
        distance: Option<String> = plain("nearest");
        /// Their names, with spaces between them.
        cards: Option<String> = plain("nearest cards");
    }
}

impl NicPaths {
    /// The name of the table.
    pub const TABLE: &'static str = "GPU to network card";

    /// The columns, as a report has them.
    pub(super) fn columns(&self) -> Vec<Value> {
        let cards = self
            .cards
            .iter()
            .map(|card| json!({ "heading": card, "unit": "" }));
        let columns = |all: Vec<Column>| all.into_iter().map(Column::json);
        columns(GpuWithAddress::columns())
            .chain(cards)
            .chain(columns(NearestCards::columns()))
            .collect()
    }

    /// The cells of a row.
    pub(super) fn cells(row: &NicPathRow) -> Vec<Value> {
        let to = row.to.iter().map(Cell::cell);
        row.gpu
            .cells()
            .into_iter()
            .chain(to)
            .chain(row.nearest.cells())
            .collect()
    }

    /// Reads the headings of all columns and the cells of all rows.
    pub(super) fn read(headings: &[&str], rows: &[Value]) -> Option<Self> {
        let [_, _, cards @ .., _, _] = headings else {
            return None;
        };
        let row = |row: &Value| {
            let mut cells = Cells::new(row.as_array()?);
            let gpu = GpuWithAddress::read(&mut cells)?;
            let to = cards.iter().map(|_| cells.take()).collect::<Option<_>>()?;
            Some(NicPathRow {
                gpu,
                to,
                nearest: NearestCards::read(&mut cells)?,
            })
        };
        let rows = rows.iter().map(row).collect::<Option<_>>()?;
        Some(Self {
            cards: cards.iter().map(|card| (*card).to_owned()).collect(),
            rows,
        })
    }
}

row! {
    /// Through what network cards reach the memory of one GPU.
    GdrRow in "GPUDirect RDMA" {
        /// The GPU.
        gpu: GpuId = plain("GPU");
        /// The mechanism.
        by: String = plain("by");
        /// Whether the driver offers dma-buf.
        dma_buf: bool = plain("dma-buf");
        /// Whether the driver offers the module nvidia_peermem.
        peer_memory: bool = plain("peer memory");
        /// Whether mapped memory can be reached too.
        mapped: bool = plain("mapped memory");
    }
}

row! {
    /// What a port carried while all rails of the nodes were busy.
    PortBytesRow in "bytes by the ports' counters" {
        /// The rail.
        rail: usize = plain("rail");
        /// The port, with its node.
        port: String = plain("port");
        /// What it sent, bytes.
        sent: u64 = measured("sent", "B");
        /// What it received, bytes.
        received: u64 = measured("received", "B");
    }
}

names! {
    /// The memory at both ends of RDMA transfers.
    RdmaMemory {
        /// The hosts'.
        Host = "RDMA, host memory",
        /// The GPUs'.
        Gpu = "RDMA, GPU memory",
    }
}

row! {
    /// The rate of RDMA transfers of one kind and size between two ports.
    RateRow {
        /// The rail.
        rail: usize = plain("rail");
        /// The verb.
        transfer: String = plain("transfer");
        /// The port that starts them.
        by: String = plain("by");
        /// The port whose memory they read or write.
        at: String = plain("at");
        /// The size, bytes.
        bytes: usize = measured("size", "B");
        /// The rate, Gb/s.
        rate: f64 = measured("rate", "Gb/s");
    }
}

/// How the name of a table of [`CountersRow`] ends; the memory's name is before it.
pub(super) const COUNTERS: &str = ": bytes by the ports' counters";

row! {
    /// What a port sent.
    CountersRow {
        /// The rail.
        rail: usize = plain("rail");
        /// The port, with its node.
        port: String = plain("port");
        /// What RDMA transfers sent from it, bytes.
        sent: u64 = measured("sent by RDMA", "B");
        /// What its counters say, bytes; `None` if it has none.
        counted: Option<u64> = measured("counted", "B");
    }
}
