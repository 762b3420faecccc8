//! NCCL: every collective right, and proven to use the way it claims. Each test is a file; what they share
//! is here and beside: the arms (`arms`), running sizes (`sweep`), what went wrong in them (`trouble`), what
//! NCCL's own lines and dumps prove (`proof`, `dumps`), tables (`told`). How an arm's processes work is `ranks`' matter.

mod again;
mod allreduce;
mod arms;
mod channels;
mod checked;
mod dumps;
mod groups;
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
pub(super) use arms::settle_all;
pub(super) use channels::TEST as CHANNELS;
pub(super) use others::TEST as OTHERS;
pub(super) use processes::TEST as PROCESSES;
pub(super) use transport::{TEST as TRANSPORT, ahead};
pub(super) use types::TEST as TYPES;

use super::Machine;
use crate::floors::Carrier;
use crate::nccl::Row;
use crate::outcome::finding::{Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::speed::{Links, Ways};
use limits::Limits;

/// What the earlier tests' figures say of the speeds to expect between these GPUs; `None` where they were not taken.
fn limits(machine: &Machine, gpus: &[usize], carrier: &dyn Fn(Pair) -> Carrier) -> Option<Limits> {
    let part = |(test, name)| machine.matrix(test, name).map(|matrix| groups::part(&matrix, gpus));
    let gpu = |n: usize| gpus.get(n).copied().unwrap_or(n);
    let carrier = |pair: Pair| carrier(Pair::new(gpu(pair.from), gpu(pair.to)));
    Limits::of(part(EDGES).as_ref(), part(LATENCY).as_ref(), &carrier)
}

/// The same between all GPUs. Where access is in groups, data between them goes through the host: nothing is
/// expected of that, and that nothing is judged is no fault of the machine.
fn limits_of_all(machine: &Machine, rows: &[Row]) -> Result<Result<Limits, Finding>, Box<Finding>> {
    let (clique, groups) = (machine.clique()?, groups::of(machine)?);
    let carrier = Ways::new(machine, clique).carriers(machine.fabric()?, &Links::default());
    let all: Vec<usize> = (0..clique.len()).collect();
    let known = limits(machine, &all, &carrier).filter(|_| groups.len() == 1);
    let unjudged = || {
        let found = speed::unjudged(rows);
        if groups.len() == 1 { found } else { Finding { severity: Severity::Info, ..found } }
    };
    Ok(known.ok_or_else(unjudged))
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
