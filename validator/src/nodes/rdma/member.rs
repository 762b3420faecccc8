//! A node's side: passes the leading node's requests on to a child process, with a time limit for each. This file also
//! has the child process, which calls libibverbs, so that a call that does not return cannot block the node.

use super::content::{BOX, Plan, Transfer, compare, content};
use super::messages::{Answer, Ask, Make};
use crate::process::partner::{self, Partner};
use gpu::Clique;
use gpu::verbs::{Burst, Connection, Port, Region, Verb, VerbsError};
use machine::GpuId;
use std::io;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The time limit of an answer; that of the transfers in the child process is shorter.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A port of a rail.
#[derive(Debug, Clone, PartialEq)]
pub struct Rail {
    /// `mlx5_0`
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// Whether it is RoCE: RDMA over Ethernet.
    pub ethernet: bool,
    /// The index of its RoCE v2 address, if it has one.
    pub gid: Option<u8>,
    /// Its network interface.
    pub interface: Option<String>,
    /// The GPU next to it; `None` without GPUs.
    pub gpu: Option<GpuId>,
    /// Its expected rate in one direction, Gb/s: that of its link or of its slot. `None` for a device without a slot.
    pub gbit_s: Option<f64>,
}

/// The child process that calls libibverbs, if it is running.
#[derive(Debug, Default)]
pub struct VerbsProcess(Option<Partner>);

impl VerbsProcess {
    /// Answers a request of the leading node.
    pub fn answer(&mut self, ask: Ask, rails: &[Rail], library_path: &[String]) -> Answer {
        let answered = match ask {
            Ask::Close => {
                self.0 = None;
                return Answer::Done;
            }
            Ask::Open { rail, gpu } => {
                self.0 = None;
                let request = rails
                    .get(rail)
                    .ok_or_else(|| format!("this node has no rail {rail}"))
                    .and_then(|rail| open_request(rail, gpu));
                match request {
                    Ok(request) => self
                        .start(library_path)
                        .map_err(|e| e.to_string())
                        .and_then(|()| self.forward(&Ask::Make(request))),
                    Err(why) => Err(why),
                }
            }
            ask => self.forward(&ask),
        };
        let answer = answered.unwrap_or_else(Answer::Failed);
        if matches!(answer, Answer::Failed(_) | Answer::Unsupported(_)) {
            self.0 = None;
        }
        answer
    }

    fn start(&mut self, library_path: &[String]) -> io::Result<()> {
        let mut command = partner::command(COMMAND)?;
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        if !library_path.is_empty() {
            command.env("LD_LIBRARY_PATH", library_path.join(":"));
        }
        self.0 = Some(Partner::spawn(command)?);
        Ok(())
    }

    fn forward(&mut self, ask: &Ask) -> Result<Answer, String> {
        let partner = self.0.as_mut().ok_or("no port is open")?;
        partner
            .ask(ask, None, ANSWER_TIMEOUT)
            .map_err(|lost| format!("libibverbs: {lost}"))
    }
}

fn open_request(rail: &Rail, gpu: bool) -> Result<Make, String> {
    if rail.ethernet && rail.gid.is_none() {
        return Err(format!(
            "{}:{} has no RoCE v2 address on IPv4",
            rail.device, rail.port
        ));
    }
    let gpu = match (gpu, rail.gpu) {
        (true, None) => return Err("there is no GPU next to the port".to_owned()),
        (wanted, gpu) => gpu.filter(|_| wanted),
    };
    Ok(Make {
        device: rail.device.clone(),
        port: rail.port,
        gid: rail.gid,
        gpu,
    })
}

/// The hidden command that runs the child process.
pub const COMMAND: &str = "verbs";
/// The time limit of one request's transfers.
const TRANSFERS_TIMEOUT: Duration = Duration::from_secs(20);
/// The duration of a burst.
const BURST_TIME: Duration = Duration::from_millis(80);
/// The most single transfers that are timed, and the time limit for all of them.
const MAX_TIMED: usize = 1000;
const MAX_TIMING: Duration = Duration::from_millis(80);
const TIMED_BYTES: usize = 8;

/// Serves the node until it has no more requests.
///
/// # Errors
/// The node sent something malformed.
pub fn serve() -> io::Result<()> {
    let mut open = None;
    partner::serve(|ask, _| {
        answer(&mut open, ask).unwrap_or_else(|e| Answer::Failed(e.to_string()))
    })
}

/// The open resources, in the order in which they must be dropped: the connection, then the GPU whose memory it uses.
struct Open {
    connection: Connection,
    _gpus: Option<Clique>,
}

fn answer(open: &mut Option<Open>, ask: Ask) -> Result<Answer, VerbsError> {
    let due = Instant::now() + TRANSFERS_TIMEOUT;
    match (ask, open) {
        (Ask::Make(wanted), open @ None) => make(open, &wanted),
        (Ask::Connect(other), Some(open)) => {
            Ok(Answer::Connected(open.connection.connect(&other)?))
        }
        (Ask::Fill { source, sentinel }, Some(open)) => {
            let region = open.connection.region();
            region.put(0, &content(source))?;
            region.put(BOX, &content(sentinel))?;
            Ok(Answer::Done)
        }
        (Ask::Sizes(verb), Some(open)) => {
            // A write moves data from the first box here to the second one there, a read in the other direction.
            let places = |piece: Transfer| match verb {
                Verb::Write => (piece.from, BOX + piece.to, piece.bytes),
                Verb::Read => (BOX + piece.to, piece.from, piece.bytes),
            };
            open.connection
                .all(verb, Plan::Sizes.transfers().into_iter().map(places), due)?;
            Ok(Answer::Done)
        }
        (
            Ask::Check {
                plan,
                source,
                sentinel,
            },
            Some(open),
        ) => {
            let found = open.connection.region().get(BOX, BOX)?;
            let transfers = plan.transfers().len() as u64;
            Ok(Answer::Checked {
                transfers,
                wrong: compare(&found, plan, source, sentinel),
            })
        }
        (Ask::Burst { verb, bytes }, Some(open)) => {
            let (here, there) = if verb == Verb::Write {
                (0, BOX)
            } else {
                (BOX, 0)
            };
            let slots = BOX.checked_div(bytes).unwrap_or_default();
            let burst = Burst {
                verb,
                bytes,
                here,
                there,
                slots,
            };
            let (count, took) = open.connection.burst(&burst, BURST_TIME, due)?;
            Ok(Answer::Rate {
                count,
                seconds: took.as_secs_f64(),
            })
        }
        (Ask::Latency(verb), Some(open)) => latency(&open.connection, verb, due),
        (ask, _) => Ok(Answer::Failed(format!(
            "{ask:?} was asked for at the wrong time"
        ))),
    }
}

fn make(open: &mut Option<Open>, wanted: &Make) -> Result<Answer, VerbsError> {
    let mut gpus = None;
    if let Some(gpu) = wanted.gpu {
        let cuda = |e: gpu::GpuError| VerbsError::Call {
            what: "CUDA".to_owned(),
            why: e.to_string(),
        };
        let opened = Clique::open_only(&[gpu]).map_err(cuda)?;
        if let Some(device) = opened.gpus.first() {
            let offered = device.direct_rdma().map_err(cuda)?;
            if !offered.dma_buf && !offered.peer_memory {
                return Ok(Answer::Unsupported(format!(
                    "GPU {gpu} has no GPUDirect RDMA in this driver"
                )));
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
    let packet = gpu::pattern::Nonces::new().next();
    let connection = Connection::new(
        &port,
        region,
        u32::try_from(packet & 0xff_ffff).unwrap_or_default(),
    )?;
    let endpoint = connection.endpoint();
    *open = Some(Open {
        connection,
        _gpus: gpus,
    });
    Ok(Answer::Made { endpoint, how })
}

fn latency(connection: &Connection, verb: Verb, due: Instant) -> Result<Answer, VerbsError> {
    let (here, there) = if verb == Verb::Write {
        (0, BOX)
    } else {
        (BOX, 0)
    };
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < MAX_TIMED && (begun.elapsed() < MAX_TIMING || times.len() < 10) {
        let took = connection.transfer(verb, here, there, TIMED_BYTES, due)?;
        times.push(took.as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(Answer::Times(times))
}
