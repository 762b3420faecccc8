//! Groups: what is asked for between ncclGroupStart and ncclGroupEnd is done at the end, at once. All sends
//! and receives of a communicator are one exchange, in which each of its ranks takes part.

use crate::comm::{Comm, Step};
use crate::error::{Code, Result, code};
use crate::init::{Init, finish};
use simgpu_model::collective::Ask;
use std::cell::RefCell;
use std::ffi::c_int;

/// What is asked for.
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

/// Makes a communicator now, or at the end of the group.
pub(crate) fn init(init: Init) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.inits.push(init));
    end()
}

/// Does what is asked for now, or at the end of the group.
pub(crate) fn ask(comm: *const Comm, what: What) -> Result<()> {
    ask_all(comm, [what])
}

/// The same of several things, which belong together.
pub(crate) fn ask_all(comm: *const Comm, all: impl IntoIterator<Item = What>) -> Result<()> {
    ncclGroupStart();
    GROUP.with_borrow_mut(|group| group.calls.extend(all.into_iter().map(|what| (comm, what))));
    end()
}

fn run(calls: Vec<(*const Comm, What)>) -> Result<()> {
    let mut comms: Vec<*const Comm> = Vec::new();
    let mut steps: Vec<(*const Comm, Step)> = Vec::new();
    for (comm, what) in calls {
        if !comms.contains(&comm) {
            comms.push(comm);
        }
        let exchange = match what {
            What::Collective(step) => {
                steps.push((comm, step));
                continue;
            }
            What::Send { stream, peer, address, bytes } => (stream, Some((peer, address, bytes)), None),
            What::Receive { stream, peer, address, bytes } => (stream, None, Some((peer, address, bytes))),
        };
        let (stream, send, receive) = exchange;
        let known = steps.iter().position(|(c, s)| *c == comm && s.ask == Ask::Exchange);
        let place = known.unwrap_or(steps.len());
        if known.is_none() {
            let (send, receive) = (Vec::new(), Vec::new());
            steps.push((comm, Step { stream, ask: Ask::Exchange, send, receive, in_place: false }));
        }
        if let Some((_, step)) = steps.get_mut(place) {
            step.send.extend(send);
            step.receive.extend(receive);
        }
    }
    // Each rank says what it misses, not the first alone.
    let ready: Vec<_> = steps.iter().map(|(comm, step)| with(*comm, |c| c.prepare(step))).collect();
    ready.into_iter().collect::<Result<()>>()?;
    for (comm, mut step) in steps {
        if step.ask == Ask::Exchange {
            let inside =
                |(_, a, n): &(usize, u64, u64), (_, b, m): &(usize, u64, u64)| *a < b + m && *b < a + n;
            step.in_place = step.send.iter().any(|s| step.receive.iter().any(|r| inside(s, r)));
        }
        with(comm, |c| c.push(step))?;
    }
    Ok(())
}

fn with(comm: *const Comm, f: impl FnOnce(&Comm) -> Result<()>) -> Result<()> {
    // SAFETY: the caller's handle, which it has not destroyed while calls on it are to come.
    unsafe { comm.as_ref() }.map_or(Err(Code::ARGUMENT), f)
}
