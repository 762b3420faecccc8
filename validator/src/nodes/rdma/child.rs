//! The process that calls libibverbs: a call that does not return must not take the node with it.

use super::content::{BOX, Piece, Plan, compare, content};
use super::messages::{Answer, Ask, Make};
use crate::gpu::Clique;
use crate::process::partner;
use crate::verbs::{Burst, Connection, Port, Region, Verb, VerbsError};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The name of the hidden command that runs this.
pub const COMMAND: &str = "verbs";
/// The time limit of one request's transfers.
const TRANSFERS: Duration = Duration::from_secs(20);
/// How long a burst takes.
const BURST: Duration = Duration::from_millis(80);
/// How many single transfers are timed, and for how long at most.
const TIMED: usize = 1000;
const TIMING: Duration = Duration::from_millis(80);
const TIMED_BYTES: usize = 8;

/// Serves the node until it has no more requests.
///
/// # Errors
/// The node sent something malformed.
pub fn serve() -> io::Result<()> {
    let mut open = None;
    partner::serve(|ask, _| answer(&mut open, ask).unwrap_or_else(|e| Answer::Failed(e.to_string())))
}

/// What is open. The order is that of dropping: the connection, and then the GPU whose memory it has.
struct Open {
    connection: Connection,
    _gpus: Option<Clique>,
}

fn answer(open: &mut Option<Open>, ask: Ask) -> Result<Answer, VerbsError> {
    let due = Instant::now() + TRANSFERS;
    match (ask, open) {
        (Ask::Make(wanted), open @ None) => make(open, &wanted),
        (Ask::Connect(other), Some(open)) => Ok(Answer::Connected(open.connection.connect(&other)?)),
        (Ask::Fill { source, sentinel }, Some(open)) => {
            let region = open.connection.region();
            region.put(0, &content(source))?;
            region.put(BOX, &content(sentinel))?;
            Ok(Answer::Done)
        }
        (Ask::Sizes(verb), Some(open)) => {
            // A write goes from the first box here to the second one there, a read the other way round.
            let places = |piece: Piece| match verb {
                Verb::Write => (piece.from, BOX + piece.to, piece.bytes),
                Verb::Read => (BOX + piece.to, piece.from, piece.bytes),
            };
            open.connection.all(verb, Plan::Sizes.pieces().into_iter().map(places), due)?;
            Ok(Answer::Done)
        }
        (Ask::Check { plan, source, sentinel }, Some(open)) => {
            let found = open.connection.region().get(BOX, BOX)?;
            let transfers = plan.pieces().len() as u64;
            Ok(Answer::Checked { transfers, wrong: compare(&found, plan, source, sentinel) })
        }
        (Ask::Burst { verb, bytes }, Some(open)) => {
            let (here, there) = if verb == Verb::Write { (0, BOX) } else { (BOX, 0) };
            let slots = BOX.checked_div(bytes).unwrap_or_default();
            let burst = Burst { verb, bytes, here, there, slots };
            let (count, took) = open.connection.burst(&burst, BURST, due)?;
            Ok(Answer::Rate { count, seconds: took.as_secs_f64() })
        }
        (Ask::Latency(verb), Some(open)) => latency(&open.connection, verb, due),
        (ask, _) => Ok(Answer::Failed(format!("{ask:?} was asked for at the wrong time"))),
    }
}

fn make(open: &mut Option<Open>, wanted: &Make) -> Result<Answer, VerbsError> {
    let mut gpus = None;
    if let Some(gpu) = wanted.gpu {
        let cuda = |e: crate::gpu::GpuError| VerbsError::Call { what: "CUDA".to_owned(), why: e.to_string() };
        let opened = Clique::open_only(&[gpu]).map_err(cuda)?;
        if let Some(device) = opened.gpus.first() {
            let offered = device.direct_rdma().map_err(cuda)?;
            if !offered.dma_buf && !offered.peer_memory {
                return Ok(Answer::Unsupported(format!("GPU {gpu} has no GPUDirect RDMA in this driver")));
            }
        }
        gpus = Some(opened);
    }
    let port = Rc::new(Port::open(&wanted.device, wanted.port, wanted.gid)?);
    let region = match gpus.as_ref().and_then(|gpus| gpus.gpus.first()) {
        Some(gpu) => Region::gpu(&port, gpu, 2 * BOX)?,
        None => Region::host(&port, 2 * BOX)?,
    };
    let how = region.registration();
    let packet = crate::gpu::pattern::Nonces::new().next();
    let connection = Connection::new(&port, region, u32::try_from(packet & 0xff_ffff).unwrap_or_default())?;
    let endpoint = connection.endpoint();
    *open = Some(Open { connection, _gpus: gpus });
    Ok(Answer::Made { endpoint, how })
}

fn latency(connection: &Connection, verb: Verb, due: Instant) -> Result<Answer, VerbsError> {
    let (here, there) = if verb == Verb::Write { (0, BOX) } else { (BOX, 0) };
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < TIMED && (begun.elapsed() < TIMING || times.len() < 10) {
        let took = connection.transfer(verb, here, there, TIMED_BYTES, due)?;
        times.push(took.as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(Answer::Times(times))
}
