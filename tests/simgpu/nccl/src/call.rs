//! The collectives as C functions.

use crate::comm::{Comm, PeerBuffer, StreamCall};
use crate::group::{GroupCall, submit, submit_all};
use crate::log::{Code, Result, code};
use crate::not_simulated;
use simgpu_model::collective::Collective;
use simgpu_model::element::{DataType, ReduceOp};
use std::ffi::{c_int, c_uint, c_void};

/// Size of an element in bytes, by the number of `ncclDataType_t`.
const SIZES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

fn bytes(count: usize, r#type: c_uint) -> Result<u64> {
    let size = usize::try_from(r#type)
        .ok()
        .and_then(|n| SIZES.get(n))
        .ok_or(Code::ARGUMENT)?;
    (count as u64).checked_mul(*size).ok_or(Code::ARGUMENT)
}

/// Type and reduction from their numbers; not all of NCCL's are simulated.
fn reduction(r#type: c_uint, op: c_uint) -> Result<(DataType, ReduceOp)> {
    match (DataType::of(r#type), ReduceOp::of(op)) {
        (Some(t), Some(op)) => Ok((t, op)),
        _ if r#type < 12 && op < 5 => not_simulated(&format!("reduction {op} of type {type}")),
        _ => Err(Code::ARGUMENT),
    }
}

/// Rank and number of ranks of a communicator handle.
fn rank_and_count(comm: *const Comm) -> Result<(usize, u64)> {
    // SAFETY: the caller's handle.
    let comm = unsafe { comm.as_ref() }.ok_or(Code::ARGUMENT)?;
    Ok((comm.rank, comm.ranks.len() as u64))
}

fn peer(comm: *const Comm, rank: c_int) -> Result<usize> {
    let (_, ranks) = rank_and_count(comm)?;
    usize::try_from(rank)
        .ok()
        .filter(|r| (*r as u64) < ranks)
        .ok_or(Code::ARGUMENT)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommUserRank(comm: *const Comm, rank: *mut c_int) -> c_int {
    let call = || {
        let (own, _) = rank_and_count(comm)?;
        // SAFETY: the caller's pointer is valid.
        let to = unsafe { rank.as_mut() }.ok_or(Code::ARGUMENT)?;
        *to = c_int::try_from(own).map_err(|_| Code::INTERNAL)?;
        Ok(())
    };
    code(call())
}

fn submit_collective(
    comm: *const Comm,
    stream: usize,
    collective: Collective,
    send: Option<(u64, u64)>,
    receive: Option<(u64, u64)>,
    in_place: bool,
) -> Result<()> {
    let memory =
        |m: Option<(u64, u64)>| -> Vec<PeerBuffer> { m.iter().map(|(a, n)| (0, *a, *n)).collect() };
    let (send, receive) = (memory(send), memory(receive));
    // A call without data does nothing.
    if send.iter().chain(&receive).all(|(.., n)| *n == 0)
        && (!send.is_empty() || !receive.is_empty())
    {
        return Ok(());
    }
    submit(
        comm,
        GroupCall::Collective(StreamCall {
            stream,
            collective,
            send,
            receive,
            in_place,
            grouped: false,
        }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    op: c_uint,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        rank_and_count(comm)?;
        let (n, (t, op)) = (bytes(count, r#type)?, reduction(r#type, op)?);
        let (a, b) = (from.addr() as u64, to.addr() as u64);
        submit_collective(
            comm,
            stream,
            Collective::AllReduce(t, op),
            Some((a, n)),
            Some((b, n)),
            a == b,
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    op: c_uint,
    root: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, (t, op), root) = (
            bytes(count, r#type)?,
            reduction(r#type, op)?,
            peer(comm, root)?,
        );
        let (a, b) = (from.addr() as u64, to.addr() as u64);
        let receive = if rank_and_count(comm)?.0 == root {
            Some((b, n))
        } else {
            None
        };
        submit_collective(
            comm,
            stream,
            Collective::Reduce(t, op, root),
            Some((a, n)),
            receive,
            receive.is_some() && a == b,
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclBroadcast(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    root: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, root) = (bytes(count, r#type)?, peer(comm, root)?);
        let (a, b) = (from.addr() as u64, to.addr() as u64);
        let send = if rank_and_count(comm)?.0 == root {
            Some((a, n))
        } else {
            None
        };
        submit_collective(
            comm,
            stream,
            Collective::Broadcast(root),
            send,
            Some((b, n)),
            send.is_some() && a == b,
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, (rank, ranks)) = (bytes(count, r#type)?, rank_and_count(comm)?);
        let (a, b) = (from.addr() as u64, to.addr() as u64);
        let in_place = a == b + rank as u64 * n;
        submit_collective(
            comm,
            stream,
            Collective::AllGather,
            Some((a, n)),
            Some((b, n * ranks)),
            in_place,
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclReduceScatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    op: c_uint,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, (t, op), (rank, ranks)) = (
            bytes(count, r#type)?,
            reduction(r#type, op)?,
            rank_and_count(comm)?,
        );
        let (a, b) = (from.addr() as u64, to.addr() as u64);
        let in_place = b == a + rank as u64 * n;
        submit_collective(
            comm,
            stream,
            Collective::ReduceScatter(t, op),
            Some((a, n * ranks)),
            Some((b, n)),
            in_place,
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    r#type: c_uint,
    to: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (bytes, peer, address) = (bytes(count, r#type)?, peer(comm, to)?, from.addr() as u64);
        if bytes == 0 {
            Ok(())
        } else {
            submit(
                comm,
                GroupCall::Send {
                    stream,
                    peer,
                    address,
                    bytes,
                },
            )
        }
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    from: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (bytes, peer, address) = (bytes(count, r#type)?, peer(comm, from)?, to.addr() as u64);
        if bytes == 0 {
            Ok(())
        } else {
            submit(
                comm,
                GroupCall::Receive {
                    stream,
                    peer,
                    address,
                    bytes,
                },
            )
        }
    };
    code(call())
}

/// One send or receive of a rank; `None` if it has no data.
fn peer_call(
    send: bool,
    stream: usize,
    peer: usize,
    address: u64,
    bytes: u64,
) -> Option<GroupCall> {
    let what = if send {
        GroupCall::Send {
            stream,
            peer,
            address,
            bytes,
        }
    } else {
        GroupCall::Receive {
            stream,
            peer,
            address,
            bytes,
        }
    };
    (bytes > 0).then_some(what)
}

/// A send or receive for each rank, consecutive in memory.
fn peer_calls(
    send: bool,
    stream: usize,
    ranks: u64,
    address: u64,
    bytes: u64,
) -> impl Iterator<Item = GroupCall> {
    let peers = (0..ranks).filter_map(|n| usize::try_from(n).ok());
    peers.filter_map(move |n| peer_call(send, stream, n, address + n as u64 * bytes, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn ncclAlltoAll(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, (_, ranks)) = (bytes(count, r#type)?, rank_and_count(comm)?);
        let sends = peer_calls(true, stream, ranks, from.addr() as u64, n);
        submit_all(
            comm,
            sends.chain(peer_calls(false, stream, ranks, to.addr() as u64, n)),
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    root: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, root, (rank, ranks)) = (
            bytes(count, r#type)?,
            peer(comm, root)?,
            rank_and_count(comm)?,
        );
        let send = peer_call(true, stream, root, from.addr() as u64, n);
        let receivers = if rank == root { ranks } else { 0 };
        submit_all(
            comm,
            send.into_iter()
                .chain(peer_calls(false, stream, receivers, to.addr() as u64, n)),
        )
    };
    code(call())
}

#[unsafe(no_mangle)]
extern "C" fn ncclScatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: c_uint,
    root: c_int,
    comm: *const Comm,
    stream: usize,
) -> c_int {
    let call = || {
        let (n, root, (rank, ranks)) = (
            bytes(count, r#type)?,
            peer(comm, root)?,
            rank_and_count(comm)?,
        );
        let receive = peer_call(false, stream, root, to.addr() as u64, n);
        let receivers = if rank == root { ranks } else { 0 };
        submit_all(
            comm,
            peer_calls(true, stream, receivers, from.addr() as u64, n).chain(receive),
        )
    };
    code(call())
}
