//! Splits a communicator of one process: the ranks with the same color become a communicator, in the order of their keys.

use crate::comm::{Comm, Rank};
use crate::init::{number, publish, put};
use crate::log::{Code, Result, code};
use crate::not_simulated;
use simgpu_model::scenario::How;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The color of a rank that joins no new communicator (`NCCL_SPLIT_NOCOLOR`).
const NO_COLOR: c_int = -1;

/// One rank's part of a split.
#[derive(Debug)]
pub(crate) struct Split {
    parent: *const Comm,
    color: c_int,
    key: c_int,
    to: *mut *mut Comm,
}

/// A rank of a new communicator: its key and its rank in the parent.
type Member = (c_int, usize, Split);

#[unsafe(no_mangle)]
extern "C" fn ncclCommSplit(
    parent: *const Comm,
    color: c_int,
    key: c_int,
    to: *mut *mut Comm,
    _config: *mut c_void,
) -> c_int {
    if parent.is_null() || color < NO_COLOR {
        return code(Err(Code::ARGUMENT));
    }
    code(crate::group::split(Split {
        parent,
        color,
        key,
        to,
    }))
}

/// Makes the new communicators, once all ranks have called.
pub(crate) fn split_all(splits: Vec<Split>) -> Result<()> {
    // SAFETY: the callers' handles, which are alive.
    let parent = |split: &Split| unsafe { split.parent.as_ref() }.ok_or(Code::ARGUMENT);
    let mut colors: BTreeMap<(u64, c_int), Vec<Member>> = BTreeMap::new();
    let called = splits.len();
    for split in splits {
        let comm = parent(&split)?;
        if comm.ranks.len() > called {
            not_simulated("ncclCommSplit of a communicator of several processes");
        }
        if split.color == NO_COLOR {
            // SAFETY: the caller's pointer is valid.
            unsafe { put(split.to, ptr::null_mut()) }?;
            continue;
        }
        colors
            .entry((comm.id, split.color))
            .or_default()
            .push((split.key, comm.rank, split));
    }
    for mut members in colors.into_values() {
        members.sort_by_key(|(key, rank, _)| (*key, *rank));
        let id = number();
        let of = |(_, rank, split): &Member| Ok(parent(split)?.ranks.get(*rank).copied());
        let ranks: Result<Vec<Option<Rank>>> = members.iter().map(of).collect();
        let ranks: Vec<Rank> = ranks?.into_iter().flatten().collect();
        for (rank, (_, _, split)) in members.iter().enumerate() {
            let old = parent(split)?;
            let how = old.how | How::Split.bit();
            let comm = Comm::new(id, rank, ranks.clone(), old.channels, how);
            // SAFETY: the caller's pointer is valid.
            unsafe { publish(split.to, comm) }?;
        }
    }
    Ok(())
}
