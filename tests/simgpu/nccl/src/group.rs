//! Groups: calls between ncclGroupStart and ncclGroupEnd are made at the end, all at once. All sends and receives of a
//! communicator form one exchange, in which each of its ranks takes part.

use crate::comm::{Comm, StreamCall};
use crate::init::{Init, create_all};
use crate::log::{Code, Result, code};
use crate::split::{Split, split_all};
use simgpu_model::collective::Collective;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;

/// A call that is queued until the group ends.
#[derive(Debug)]
pub(crate) enum GroupCall {
    Collective(StreamCall),
    Send {
        stream: usize,
        peer: usize,
        address: u64,
        bytes: u64,
    },
    Receive {
        stream: usize,
        peer: usize,
        address: u64,
        bytes: u64,
    },
}

#[derive(Debug, Default)]
struct Group {
    depth: usize,
    inits: Vec<Init>,
    splits: Vec<Split>,
    calls: Vec<(*const Comm, GroupCall)>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::new(Group::default());
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> c_int {
    code(end())
}

fn end() -> Result<()> {
    let done = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.checked_sub(1).ok_or(Code::USAGE)?;
        Ok(if group.depth == 0 {
            Some(std::mem::take(group))
        } else {
            None
        })
    })?;
    let Some(Group {
        inits,
        splits,
        calls,
        ..
    }) = done
    else {
        return Ok(());
    };
    if !inits.is_empty() {
        create_all(inits)?;
    }
    if !splits.is_empty() {
        split_all(splits)?;
    }
    run(calls)
}

/// Creates a communicator now, or at the end of the group.
pub(crate) fn init(init: Init) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.inits.push(init));
    end()
}

/// Splits a communicator now, or at the end of the group.
pub(crate) fn split(split: Split) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.splits.push(split));
    end()
}

/// Makes a call now, or at the end of the group.
pub(crate) fn submit(comm: *const Comm, what: GroupCall) -> Result<()> {
    submit_all(comm, [what])
}

/// The same for several calls that belong together.
pub(crate) fn submit_all(
    comm: *const Comm,
    all: impl IntoIterator<Item = GroupCall>,
) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.calls.extend(all.into_iter().map(|what| (comm, what))));
    end()
}

fn run(calls: Vec<(*const Comm, GroupCall)>) -> Result<()> {
    let mut exchanges: HashMap<*const Comm, usize> = HashMap::new();
    let mut steps: Vec<(*const Comm, StreamCall)> = Vec::new();
    for (comm, what) in calls {
        let exchange = match what {
            GroupCall::Collective(step) => {
                steps.push((comm, step));
                continue;
            }
            GroupCall::Send {
                stream,
                peer,
                address,
                bytes,
            } => (stream, Some((peer, address, bytes)), None),
            GroupCall::Receive {
                stream,
                peer,
                address,
                bytes,
            } => (stream, None, Some((peer, address, bytes))),
        };
        let (stream, send, receive) = exchange;
        let place = *exchanges.entry(comm).or_insert(steps.len());
        if place == steps.len() {
            let (send, receive) = (Vec::new(), Vec::new());
            let (collective, in_place, grouped) = (Collective::Exchange, false, false);
            steps.push((
                comm,
                StreamCall {
                    stream,
                    collective,
                    send,
                    receive,
                    in_place,
                    grouped,
                },
            ));
        }
        if let Some((_, step)) = steps.get_mut(place) {
            step.send.extend(send);
            step.receive.extend(receive);
        }
    }
    // All ranks are prepared before an error is returned, so that each one logs what it lacks.
    let ready: Vec<_> = steps
        .iter()
        .map(|(comm, step)| with(*comm, |c| c.prepare(step)))
        .collect();
    ready.into_iter().collect::<Result<()>>()?;
    let own: Vec<_> = steps.iter().map(|(comm, _)| *comm).collect();
    for (comm, mut step) in steps {
        step.grouped = own.iter().filter(|other| **other == comm).count() > 1;
        if step.collective == Collective::Exchange {
            step.in_place = overlap(&step);
        }
        with(comm, |c| c.push(step))?;
    }
    Ok(())
}

/// Whether any byte is both sent and received.
fn overlap(step: &StreamCall) -> bool {
    let sent = step.send.iter().map(|(_, at, n)| (*at, at + n, 0));
    let received = step.receive.iter().map(|(_, at, n)| (*at, at + n, 1));
    let mut all: Vec<(u64, u64, usize)> = sent.chain(received).collect();
    all.sort_unstable();
    // The highest end so far of the sent and of the received ranges.
    let mut ends = [0, 0];
    all.into_iter().any(|(at, end, kind)| {
        let [own, other] = if kind == 0 { [0, 1] } else { [1, 0] };
        let hit = ends.get(other).is_some_and(|e| *e > at);
        ends.get_mut(own).into_iter().for_each(|e| *e = end.max(*e));
        hit
    })
}

fn with(comm: *const Comm, f: impl FnOnce(&Comm) -> Result<()>) -> Result<()> {
    // SAFETY: the caller's handle, which must not be destroyed while it has outstanding calls.
    unsafe { comm.as_ref() }.map_or(Err(Code::ARGUMENT), f)
}
