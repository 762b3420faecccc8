//! The way between two processes: each one that has a queue pair serves its registered memory to the other one, at a Unix
//! socket whose abstract name has its process id, which is also the number of its queue pair.

use crate::memory;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

/// A request: what, the key, the address, how many bytes.
const HEAD: usize = 1 + 4 + 8 + 8;

static OTHER: Mutex<Option<(u32, UnixStream)>> = Mutex::new(None);

fn name(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("simgpu-verbs-{pid}"))
}

/// Serves this process's memory, from now on.
pub(crate) fn serve() -> io::Result<()> {
    static STARTED: Once = Once::new();
    let mut result = Ok(());
    STARTED.call_once(|| {
        result = name(std::process::id()).and_then(|name| UnixListener::bind_addr(&name)).map(|listener| {
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || while answer(&stream).is_ok() {});
                }
            });
        });
    });
    result
}

fn answer(mut stream: &UnixStream) -> io::Result<()> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let (what, rest) = head.split_at(1);
    let (key, rest) = rest.split_at(4);
    let (address, bytes) = rest.split_at(8);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let (key, address, bytes) = (number(key), number(address), number(bytes));
    let mut data = vec![0; usize::try_from(bytes).unwrap_or_default()];
    let region = u32::try_from(key).ok().and_then(|key| memory::by_rkey(key, address, bytes));
    if what == [1] {
        stream.read_exact(&mut data)?;
        let done = region.is_some_and(|region| memory::access(&region, address, &mut data, true));
        stream.write_all(&[u8::from(done)])
    } else {
        let done = region.is_some_and(|region| memory::access(&region, address, &mut data, false));
        stream.write_all(&[u8::from(done)])?;
        stream.write_all(&data)
    }
}

/// Writes to the memory of another process, or reads it: whether that was allowed there.
///
/// # Errors
/// That process is gone.
pub(crate) fn access(pid: u32, rkey: u32, address: u64, data: &mut [u8], write: bool) -> io::Result<bool> {
    let mut other = OTHER.lock().unwrap_or_else(PoisonError::into_inner);
    if other.as_ref().is_none_or(|(of, _)| *of != pid) {
        *other = Some((pid, UnixStream::connect_addr(&name(pid)?)?));
    }
    let Some((_, stream)) = other.as_mut() else { return Ok(false) };
    let mut head = vec![u8::from(write)];
    head.extend(rkey.to_le_bytes());
    head.extend(address.to_le_bytes());
    head.extend((data.len() as u64).to_le_bytes());
    if write {
        head.extend(&*data);
    }
    stream.write_all(&head)?;
    let mut done = [0];
    stream.read_exact(&mut done)?;
    if !write {
        stream.read_exact(data)?;
    }
    Ok(done == [1])
}
