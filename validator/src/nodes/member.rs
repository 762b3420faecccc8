//! A node's side: executes the leading node's orders, with NCCL's processes on its own GPUs. The leading node is a member
//! too, through a connection to itself.

use super::order::{Ending, Failure, Numbered, Open, Order, Reply};
use super::rdma::{Rail, VerbsProcess};
use crate::nccl::ranks::{Arm, CommunicatorPart, Network, Ranks, Setup, Trouble, TroubleKind};
use crate::net::meeting::{Link, LinkError, LinkReceiver};
use machine::GpuId;
use machine::host::rdma::{RdmaCounters, read_counters};
use machine::root::Root;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The longest wait for the next order: other nodes may take that long. The kernel reports it earlier if the leading
/// node's machine or program is gone.
const ORDER_TIMEOUT: Duration = Duration::from_secs(1800);
/// The time limit for sending an answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the reason when a message could not be sent.
const REASON_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of NCCL's log that are sent.
const MAX_LOG_BYTES: usize = 1 << 20;

/// The resources of this node.
#[derive(Debug, Clone)]
pub struct NodeResources {
    /// CUDA's numbers of its GPUs.
    pub gpus: Vec<GpuId>,
    /// Whether NCCL may use NVLink SHARP.
    pub nvls: bool,
    /// Folders of the libraries.
    pub library_path: Vec<String>,
    /// The file of the NCCL library, if the configuration names one.
    pub nccl: Option<PathBuf>,
    /// The network interface for sockets, if the user has chosen one.
    pub interface: Option<String>,
    /// Its ACTIVE RDMA ports, in order: one for each rail.
    pub hcas: Vec<String>,
    /// The description of each port.
    pub rails: Vec<Rail>,
    /// The root of the system that has these RDMA ports.
    pub rdma_root: Root,
    /// NCCL_HOSTID, if it is set.
    pub host_id: Option<String>,
}

/// Finds the network interface of this node's address: the given one, or that of the connection to the leading node.
pub type FindInterface<'a> = &'a dyn Fn(Option<IpAddr>) -> Result<String, String>;

/// What this node knows when the tests have ended.
#[derive(Debug, Clone)]
pub struct MemberResult {
    /// The result from the leading node.
    pub ending: Ending,
    /// The network interface of NCCL's sockets.
    pub interface: Result<String, String>,
}

/// Executes orders until the end. `on_order` is called with each order before it is executed.
///
/// # Errors
/// The connection is lost.
pub fn serve(
    link: Link,
    local: &NodeResources,
    find: FindInterface<'_>,
    on_order: &mut dyn FnMut(&Order),
) -> Result<MemberResult, LinkError> {
    let Link { mut to, from } = link;
    let abandoned = Arc::new(AtomicBool::new(false));
    let orders = receive_orders(from, Arc::clone(&abandoned))?;
    let mut member = Member {
        local,
        find,
        address: None,
        ranks: None,
        verbs: VerbsProcess::default(),
        abandoned,
    };
    let mut work = || {
        loop {
            let Numbered { number, what } = orders.recv().map_err(|_| LinkError::Gone)??;
            on_order(&what);
            let reply = match what {
                Order::End(ending) => {
                    return Ok(MemberResult {
                        ending: *ending,
                        interface: member.interface(),
                    });
                }
                Order::TurnedAway(finding) => {
                    let (status, findings) = (contract::status::NOT_DONE, vec![*finding]);
                    let ending = Ending {
                        status,
                        findings,
                        network: None,
                    };
                    return Ok(MemberResult {
                        ending,
                        interface: member.interface(),
                    });
                }
                order => member.execute(order).unwrap_or_else(Reply::Failed),
            };
            if matches!(reply, Reply::Failed(_)) {
                member.ranks = None;
            }
            if let Err(error) = to.send(
                &Numbered {
                    number,
                    what: reply,
                },
                SEND_TIMEOUT,
            ) {
                return Err(first_error(&orders).unwrap_or(error));
            }
        }
    };
    let ended = work();
    to.close();
    ended
}

/// Receives orders. Sets `abandoned` once an order stops the current work, or the connection is lost.
fn receive_orders(
    mut from: LinkReceiver,
    abandoned: Arc<AtomicBool>,
) -> Result<Receiver<Result<Numbered<Order>, LinkError>>, LinkError> {
    let (sender, orders) = channel();
    let work = move || {
        loop {
            let order = from.receive::<Numbered<Order>>(ORDER_TIMEOUT);
            let continues = order.as_ref().is_ok_and(|order| !order.what.stops());
            if !continues {
                abandoned.store(true, Ordering::Release);
            }
            let ended = order.is_err();
            if sender.send(order).is_err() || ended {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("orders".to_owned())
        .spawn(work)?;
    Ok(orders)
}

/// Why the connection ended: once the kernel has closed it, only the first failing call returns the reason.
fn first_error(orders: &Receiver<Result<Numbered<Order>, LinkError>>) -> Option<LinkError> {
    std::iter::from_fn(|| orders.recv_timeout(REASON_TIMEOUT).ok()).find_map(Result::err)
}

struct Member<'a> {
    local: &'a NodeResources,
    find: FindInterface<'a>,
    /// The address at which the others have reached this node.
    address: Option<IpAddr>,
    /// NCCL's processes, and the time limit of their start.
    ranks: Option<(Ranks, Duration)>,
    /// The child process of the RDMA tests.
    verbs: VerbsProcess,
    /// Set when the leading node no longer needs the current work.
    abandoned: Arc<AtomicBool>,
}

impl Member<'_> {
    fn execute(&mut self, order: Order) -> Result<Reply, Failure> {
        match (order, &mut self.ranks) {
            (Order::Welcome(welcome), _) => {
                self.address = welcome.address;
                Ok(Reply::Done)
            }
            (Order::Open(open), _) => self.open(&open),
            (Order::Join(id), Some((ranks, within))) => ranks
                .join_part(&id, *within)
                .map(|()| Reply::Done)
                .map_err(failure),
            (Order::Row(ask, seeds, room), Some((ranks, _))) => {
                let done = ranks.row_part(&ask, seeds, room).map_err(failure)?;
                Ok(Reply::Row(Box::new(done)))
            }
            (Order::Log, Some((ranks, _))) => Ok(Reply::Log(connection_lines(&ranks.output()))),
            (Order::Rdma(ask), _) => {
                let NodeResources {
                    rails,
                    library_path,
                    ..
                } = self.local;
                Ok(Reply::Rdma(Box::new(self.verbs.answer(
                    *ask,
                    rails,
                    library_path,
                ))))
            }
            (Order::Count, _) => Ok(Reply::Counted(self.read_counters())),
            (Order::Close, ranks) => {
                drop(ranks.take());
                self.abandoned.store(false, Ordering::Release);
                Ok(Reply::Done)
            }
            _ => Err(broken_failure("NCCL was not started here".to_owned())),
        }
    }

    /// The network interface of NCCL's sockets: the user's choice, or the one over which the nodes have met.
    fn interface(&self) -> Result<String, String> {
        self.local
            .interface
            .clone()
            .map_or_else(|| (self.find)(self.address), Ok)
    }

    fn read_counters(&self) -> Result<Vec<RdmaCounters>, String> {
        let NodeResources {
            rdma_root, rails, ..
        } = self.local;
        let of = |rail: &Rail| {
            read_counters(
                rdma_root,
                &rail.device,
                rail.port.into(),
                rail.interface.as_deref(),
            )
        };
        rails.iter().map(of).collect()
    }

    fn open(&mut self, open: &Open) -> Result<Reply, Failure> {
        // The processes of the previous communicator must have exited.
        drop(self.ranks.take());
        let interface = self.interface().map_err(broken_failure)?;
        let within = Duration::from_secs(open.start_s);
        let mut started = Ranks::start(&setup(self.local, open, interface)).map_err(failure)?;
        started.set_abandoned(&self.abandoned);
        let opening = started.open_part(within).map_err(failure)?;
        self.ranks = Some((started, within));
        Ok(Reply::Opened(opening))
    }
}

fn broken_failure(text: String) -> Failure {
    Failure {
        kind: TroubleKind::Broken,
        text,
        lines: Vec::new(),
    }
}

fn failure(trouble: Trouble) -> Failure {
    Failure {
        kind: trouble.kind,
        text: trouble.text,
        lines: trouble.diagnosis,
    }
}

fn setup(local: &NodeResources, open: &Open, interface: String) -> Setup {
    let hcas = match open.rail {
        Some(rail) => local.hcas.get(rail).map(|hca| format!("={hca}")),
        None => (!local.hcas.is_empty()).then(|| format!("={}", local.hcas.join(","))),
    };
    let network = Network {
        kind: open.kind,
        interface,
        hcas: hcas.unwrap_or_default(),
        merge: open.merge,
        host_id: local.host_id.clone(),
    };
    Setup {
        arm: Arm::P2p,
        processes: true,
        gpus: local.gpus.clone(),
        nvls: local.nvls,
        channels: None,
        most_bytes: open.most_bytes,
        room: open.room,
        library_path: local.library_path.clone(),
        library: local.nccl.clone(),
        part: Some(CommunicatorPart {
            first: open.first,
            ranks: open.ranks,
            network,
        }),
    }
}

/// NCCL's lines about rings and connections, and its warnings.
fn connection_lines(output: &str) -> String {
    let wanted = |line: &&str| {
        line.contains(" Channel ") || line.contains("NCCL WARN") || line.contains("NCCL version")
    };
    let mut text = String::new();
    for line in output.lines().filter(wanted) {
        if text.len().saturating_add(line.len()) > MAX_LOG_BYTES {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
