//! Groups: calls between ncclGroupStart and ncclGroupEnd are made at the end, all at once. All sends and receives of a
//! communicator form one exchange, in which each of its ranks takes part.

use crate::comm::{Comm, Step};
use crate::init::{Init, finish};
use crate::log::{Code, Result, code};
use simgpu_model::collective::Ask;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;

/// A requested operation.
#[derive(Debug)]
pub(crate) enum What {
    Collective(Step),
    Send { stream: usize, peer: usize, address: u64, bytes: u64 },
    Receive { stream: usize, peer: usize, address: u64, bytes: u64 },
}

#[derive(Debug, Default)]
struct Group {
    depth: usize,
    inits: Vec<Init>,
    calls: Vec<(*const Comm, What)>,
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
        Ok(if group.depth == 0 { Some(std::mem::take(group)) } else { None })
    })?;
    let Some(Group { inits, calls, .. }) = done else { return Ok(()) };
    if !inits.is_empty() {
        finish(inits)?;
    }
    run(calls)
}

/// Creates a communicator now, or at the end of the group.
pub(crate) fn init(init: Init) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.inits.push(init));
    end()
}

/// Makes a call now, or at the end of the group.
pub(crate) fn ask(comm: *const Comm, what: What) -> Result<()> {
    ask_all(comm, [what])
}

/// The same for several calls that belong together.
pub(crate) fn ask_all(comm: *const Comm, all: impl IntoIterator<Item = What>) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.calls.extend(all.into_iter().map(|what| (comm, what))));
    end()
}

fn run(calls: Vec<(*const Comm, What)>) -> Result<()> {
    let mut exchanges: HashMap<*const Comm, usize> = HashMap::new();
    let mut steps: Vec<(*const Comm, Step)> = Vec::new();
    for (comm, what) in calls {
        let exchange = match what {
            What::Collective(step) => {
                steps.push((comm, step));
                continue;
            }
            What::Send { stream, peer, address, bytes } => (stream, Some((peer, address, bytes)), None),
            What::Receive { stream, peer, address, bytes } => (stream, None, Some((peer, address, bytes))),
        };
        let (stream, send, receive) = exchange;
        let place = *exchanges.entry(comm).or_insert(steps.len());
        if place == steps.len() {
            let (send, receive) = (Vec::new(), Vec::new());
            steps.push((comm, Step { stream, ask: Ask::Exchange, send, receive, in_place: false }));
        }
        if let Some((_, step)) = steps.get_mut(place) {
            step.send.extend(send);
            step.receive.extend(receive);
        }
    }
    // All ranks are prepared before an error is returned, so that each one logs what it lacks.
    let ready: Vec<_> = steps.iter().map(|(comm, step)| with(*comm, |c| c.prepare(step))).collect();
    ready.into_iter().collect::<Result<()>>()?;
    for (comm, mut step) in steps {
        if step.ask == Ask::Exchange {
            step.in_place = overlap(&step);
        }
        with(comm, |c| c.push(step))?;
    }
    Ok(())
}

/// Whether any byte is both sent and received.
fn overlap(step: &Step) -> bool {
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
