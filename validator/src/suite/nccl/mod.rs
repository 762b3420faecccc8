//! NCCL: every collective right, and proven to use the way it claims. Each test is a file; what they share
//! is here and beside: the arms (`arms`), running sizes (`sweep`), what went wrong in them (`trouble`), what
//! NCCL's own lines and dumps prove (`proof`, `dumps`), tables (`told`). How an arm's processes work is `ranks`' matter.

mod allreduce;
mod arms;
mod channels;
mod dumps;
mod others;
mod processes;
mod proof;
mod speed;
mod sweep;
mod told;
mod transport;
mod trouble;
mod types;

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
use crate::outcome::{Judgement, Outcome};

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
