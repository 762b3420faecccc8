//! A rendezvous across machines: the process that created it listens on the interface of NCCL's sockets. A process of
//! another machine connects and has a copy: what its ranks write is sent to the original, and what all other ranks
//! write is sent back.
//!
//! A message consists of the rank, the area number, the mark and the length as 8-byte numbers, followed by the bytes. A
//! copy is as good as the original, since a rank overwrites an area only after all other ranks have read it.

use crate::environment::environment;
use crate::rendezvous::{MAX_RANKS, SharedMapping};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

/// Number of areas of a rank.
const AREAS: usize = 3;
/// Maximum length of the bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Makes a rendezvous reachable from other machines, if NCCL's sockets use a network, and returns the address.
pub(crate) fn listen(descriptor: i32) -> io::Result<Option<SocketAddrV4>> {
    let interface = environment()
        .interface
        .as_deref()
        .map(|name| name.trim_start_matches('='));
    let Some(interface) = interface.filter(|name| *name != "lo") else {
        return Ok(None);
    };
    let listener = TcpListener::bind((own_address(interface)?, 0))?;
    let std::net::SocketAddr::V4(at) = listener.local_addr()? else {
        return Ok(None);
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(mapping) = SharedMapping::of(std::process::id(), descriptor) else {
                return;
            };
            thread::spawn(move || serve(stream, &Arc::new(mapping)));
        }
    });
    Ok(Some(at))
}

/// The first IPv4 address of an interface.
fn own_address(interface: &str) -> io::Result<Ipv4Addr> {
    let own = |of: if_addrs::Interface| match of.ip() {
        std::net::IpAddr::V4(own) if of.name == interface => Some(own),
        _ => None,
    };
    let none = || io::Error::other(format!("{interface} has no address"));
    if_addrs::get_if_addrs()?
        .into_iter()
        .find_map(own)
        .ok_or_else(none)
}

/// Connects a copy to its original rendezvous.
pub(crate) fn join(at: SocketAddrV4, copy: &Arc<SharedMapping>) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at)?;
    stream.set_nodelay(true)?;
    let (mut from, copy) = (stream.try_clone()?, Arc::clone(copy));
    thread::spawn(move || while receive(&mut from, &copy, |_| ()).is_ok() {});
    Ok(stream)
}

/// Serves one copy until it disconnects.
fn serve(mut to: TcpStream, mapping: &Arc<SharedMapping>) {
    let (Ok(()), Ok(mut from)) = (to.set_nodelay(true), to.try_clone()) else {
        return;
    };
    // The ranks that write in the copy.
    let remote_ranks = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
    let (rendezvous, known) = (Arc::clone(mapping), Arc::clone(&remote_ranks));
    thread::spawn(move || {
        let note = |rank: usize| {
            known.0.fetch_or(1 << rank, Ordering::AcqRel);
        };
        while receive(&mut from, &rendezvous, note).is_ok() {}
        known.1.store(true, Ordering::Release);
    });
    let mut sent = [[0; AREAS]; MAX_RANKS];
    let seen = AtomicU32::new(0);
    while !remote_ranks.1.load(Ordering::Acquire) {
        let is_not_remote =
            |(rank, _): &(usize, _)| remote_ranks.0.load(Ordering::Acquire) & (1 << rank) == 0;
        for (rank, marks) in sent.iter_mut().enumerate().filter(is_not_remote) {
            for (area_index, mark) in marks.iter_mut().enumerate() {
                let Some((now, bytes)) = mapping.read_if(rank, area_index, |there| there != *mark)
                else {
                    continue;
                };
                *mark = now;
                if send(&mut to, rank, area_index, now, &bytes).is_err() {
                    return;
                }
            }
        }
        mapping.wait_for_message(&seen);
    }
}

pub(crate) fn send(
    to: &mut TcpStream,
    rank: usize,
    area_index: usize,
    mark: u64,
    bytes: &[u8],
) -> io::Result<()> {
    let numbers = [rank as u64, area_index as u64, mark, bytes.len() as u64];
    let mut message: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    message.extend(bytes);
    to.write_all(&message)
}

/// Receives one message; calls `from_rank` with its rank before the data can be read on the rendezvous.
fn receive(
    from: &mut TcpStream,
    mapping: &SharedMapping,
    from_rank: impl Fn(usize),
) -> io::Result<()> {
    let mut head = [0; 32];
    from.read_exact(&mut head)?;
    let mut numbers = head
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes));
    let mut next = || numbers.next().unwrap_or_default();
    let wrong = || io::Error::other("no message of a board");
    let place = |number: u64, below: usize| {
        usize::try_from(number)
            .ok()
            .filter(|n| *n < below)
            .ok_or_else(wrong)
    };
    let (rank, area_index, mark, length) = (
        place(next(), MAX_RANKS)?,
        place(next(), AREAS)?,
        next(),
        next(),
    );
    if length > MAX_BYTES {
        return Err(wrong());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| wrong())?];
    from.read_exact(&mut bytes)?;
    from_rank(rank);
    mapping.write(rank, area_index, mark, &bytes);
    Ok(())
}
