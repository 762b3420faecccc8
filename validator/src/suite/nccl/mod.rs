//! NCCL: every collective right, and proven to use the way it claims. Each test is a file; what they share
//! is here and beside: the arms (`arms`), running sizes (`sweep`), what went wrong in them (`trouble`), what
//! NCCL's own lines and dumps prove (`proof`, `dumps`), tables (`told`). How an arm's processes work is `ranks`' matter.

mod again;
mod allreduce;
mod arms;
mod channels;
mod checked;
mod dumps;
mod limits;
mod others;
mod processes;
mod proof;
mod speed;
mod sweep;
mod told;
mod transport;
mod trouble;
mod types;
mod withheld;

pub(super) use allreduce::TEST as ALLREDUCE;
pub use arms::Arms;
pub(super) use channels::TEST as CHANNELS;
pub(super) use others::TEST as OTHERS;
pub(super) use processes::TEST as PROCESSES;
pub(super) use transport::TEST as TRANSPORT;
pub(super) use types::TEST as TYPES;

use super::Machine;
use super::gate::gate;
use crate::finding::Finding;
use crate::judge::Carrier;
use crate::outcome::{Judgement, Outcome};
use crate::schedule::Pair;
use limits::Limits;

/// What the earlier tests' figures say of the speeds to expect; `None` where they were not taken.
fn limits(machine: &Machine, carrier: &dyn Fn(Pair) -> Carrier) -> Option<Limits> {
    let (edges, latency) = (machine.matrix(EDGES.0, EDGES.1), machine.matrix(LATENCY.0, LATENCY.1));
    Limits::of(edges.as_ref(), latency.as_ref(), carrier)
}

/// The matrices of the speeds between the GPUs, and of a small copy's time.
const EDGES: (&str, &str) = ("p2p-bandwidth", "ce.write");
const LATENCY: (&str, &str) = ("p2p-latency", "sample.latency.on.gpu");

/// Whether a test of NCCL has something to build on.
fn open(machine: &Machine) -> Result<Option<Judgement>, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(Some(none));
    }
    let refused = machine.outcome("p2p-capability") == Some(Outcome::Fail);
    Ok(refused.then(|| Judgement::not_applicable("the driver refuses peer-to-peer (see p2p-capability)")))
}

/// The same for tests after the first: NCCL must have connected the GPUs.
fn connected(machine: &Machine) -> Result<Option<Judgement>, Box<Finding>> {
    if let Some(none) = open(machine)? {
        return Ok(Some(none));
    }
    let broken = matches!(machine.outcome(TRANSPORT.id), Some(Outcome::Fail | Outcome::Error));
    Ok(broken.then(|| Judgement::not_applicable("NCCL does not connect the GPUs (see nccl)")))
}
