//! A node's side: executes the leading node's orders, with NCCL's processes on its own GPUs. The leading node is a member
//! too, through a connection to itself.

use super::order::{Ending, Failure, Numbered, Open, Order, Reply};
use super::rdma::{Rail, Verbs};
use crate::machine::GpuId;
use crate::machine::host::rdma::{Counted, counted};
use crate::machine::root::Root;
use crate::nccl::ranks::{Arm, Network, Part, Ranks, Setup, Trouble, TroubleKind};
use crate::net::meeting::{Cut, Link, Listener};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The longest wait for the next order: other nodes may take that long. The kernel reports it earlier if the leading
/// node's machine or program is gone.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The time limit for sending an answer.
const SENDING: Duration = Duration::from_secs(30);
/// How long to wait for the reason after a message could not be sent.
const MOMENT: Duration = Duration::from_secs(2);
/// The most bytes of NCCL's lines that are sent.
const LINES: usize = 1 << 20;

/// The resources of this node.
#[derive(Debug, Clone)]
pub struct Local {
    /// CUDA's numbers of its GPUs.
    pub gpus: Vec<GpuId>,
    /// Whether NCCL may use NVLink SHARP.
    pub nvls: bool,
    /// Folders of the libraries.
    pub library_path: Vec<String>,
    /// The network interface for sockets, if the user has chosen one.
    pub interface: Option<String>,
    /// Its ACTIVE RDMA ports, in order: one for each rail.
    pub hcas: Vec<String>,
    /// The description of each of them.
    pub rails: Vec<Rail>,
    /// The root of the system whose ports these are.
    pub cards: Root,
    /// NCCL_HOSTID, if it is set.
    pub host_id: Option<String>,
}

/// Finds the network interface: that of the given address of this node, or that of its connection.
pub type Find<'a> = &'a dyn Fn(Option<IpAddr>) -> Result<String, String>;

/// The end of the tests on this node.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The result.
    pub ending: Ending,
    /// The network interface of NCCL's sockets.
    pub interface: Result<String, String>,
}

/// Executes orders until the end. `heard` is called with each order before it is executed.
///
/// # Errors
/// The connection is lost.
pub fn serve(link: Link, local: &Local, find: Find<'_>, heard: &mut dyn FnMut(&Order)) -> Result<Ended, Cut> {
    let Link { mut to, from } = link;
    let abandoned = Arc::new(AtomicBool::new(false));
    let orders = listen(from, Arc::clone(&abandoned))?;
    let mut member = Member { local, find, address: None, ranks: None, verbs: Verbs::default(), abandoned };
    let mut work = || {
        loop {
            let Numbered { number, what } = orders.recv().map_err(|_| Cut::Gone)??;
            heard(&what);
            let reply = match what {
                Order::End(ending) => return Ok(Ended { ending: *ending, interface: member.interface() }),
                Order::TurnedAway(finding) => {
                    let (status, findings) = (contract::status::UNDONE, vec![*finding]);
                    let ending = Ending { status, findings, network: None };
                    return Ok(Ended { ending, interface: member.interface() });
                }
                order => member.obey(order).unwrap_or_else(Reply::Failed),
            };
            if matches!(reply, Reply::Failed(_)) {
                member.ranks = None;
            }
            if let Err(cut) = to.say(&Numbered { number, what: reply }, SENDING) {
                return Err(first_cut(&orders).unwrap_or(cut));
            }
        }
    };
    let ended = work();
    to.close();
    ended
}

/// Receives orders. Sets `abandoned` once an order stops the current work, or the connection is lost.
fn listen(
    mut from: Listener,
    abandoned: Arc<AtomicBool>,
) -> Result<Receiver<Result<Numbered<Order>, Cut>>, Cut> {
    let (sender, orders) = channel();
    let work = move || {
        loop {
            let heard = from.hear::<Numbered<Order>>(PATIENCE);
            let continues = heard.as_ref().is_ok_and(|order| !order.what.stops());
            if !continues {
                abandoned.store(true, Ordering::Release);
            }
            let ended = heard.is_err();
            if sender.send(heard).is_err() || ended {
                return;
            }
        }
    };
    thread::Builder::new().name("orders".to_owned()).spawn(work)?;
    Ok(orders)
}

/// Why the connection ended: once the kernel has closed it, only the first failing call returns the reason.
fn first_cut(orders: &Receiver<Result<Numbered<Order>, Cut>>) -> Option<Cut> {
    std::iter::from_fn(|| orders.recv_timeout(MOMENT).ok()).find_map(Result::err)
}

struct Member<'a> {
    local: &'a Local,
    find: Find<'a>,
    /// The address at which the others have reached this node.
    address: Option<IpAddr>,
    /// NCCL's processes, and the time limit of their start.
    ranks: Option<(Ranks, Duration)>,
    /// The child process of the RDMA tests.
    verbs: Verbs,
    /// Set when the leading node no longer needs the current work.
    abandoned: Arc<AtomicBool>,
}

impl Member<'_> {
    fn obey(&mut self, order: Order) -> Result<Reply, Failure> {
        match (order, &mut self.ranks) {
            (Order::Welcome(welcome), _) => {
                self.address = welcome.address;
                Ok(Reply::Done)
            }
            (Order::Open(open), _) => self.open(&open),
            (Order::Join(id), Some((ranks, within))) => {
                ranks.join_part(&id, *within).map(|()| Reply::Done).map_err(failure)
            }
            (Order::Row(ask, seeds, room), Some((ranks, _))) => {
                let done = ranks.row_part(&ask, seeds, room).map_err(failure)?;
                Ok(Reply::Row(Box::new(done)))
            }
            (Order::Log, Some((ranks, _))) => Ok(Reply::Log(connections(&ranks.said()))),
            (Order::Rdma(ask), _) => {
                let Local { rails, library_path, .. } = self.local;
                Ok(Reply::Rdma(Box::new(self.verbs.answer(*ask, rails, library_path))))
            }
            (Order::Count, _) => Ok(Reply::Counted(self.counted())),
            (Order::Close, ranks) => {
                drop(ranks.take());
                self.abandoned.store(false, Ordering::Release);
                Ok(Reply::Done)
            }
            _ => Err(broken("NCCL was not started here".to_owned())),
        }
    }

    /// The network interface of NCCL's sockets: the user's choice, or the one over which the nodes have met.
    fn interface(&self) -> Result<String, String> {
        self.local.interface.clone().map_or_else(|| (self.find)(self.address), Ok)
    }

    fn counted(&self) -> Result<Vec<Counted>, String> {
        let Local { cards, rails, .. } = self.local;
        let of = |rail: &Rail| counted(cards, &rail.device, rail.port.into(), rail.interface.as_deref());
        rails.iter().map(of).collect()
    }

    fn open(&mut self, open: &Open) -> Result<Reply, Failure> {
        // The processes of the previous arm must have exited.
        drop(self.ranks.take());
        let interface = self.interface().map_err(broken)?;
        let within = Duration::from_secs(open.start_s);
        let mut started = Ranks::start(&setup(self.local, open, interface)).map_err(failure)?;
        started.until(&self.abandoned);
        let opening = started.open_part(within).map_err(failure)?;
        self.ranks = Some((started, within));
        Ok(Reply::Opened(opening))
    }
}

fn broken(text: String) -> Failure {
    Failure { kind: TroubleKind::Broken, text, lines: Vec::new() }
}

fn failure(trouble: Trouble) -> Failure {
    Failure { kind: trouble.kind, text: trouble.text, lines: trouble.diagnosis }
}

fn setup(local: &Local, open: &Open, interface: String) -> Setup {
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
        part: Some(Part { first: open.first, ranks: open.ranks, network }),
    }
}

/// NCCL's lines about rings and connections, and its warnings.
fn connections(output: &str) -> String {
    let wanted = |line: &&str| {
        line.contains(" Channel ") || line.contains("NCCL WARN") || line.contains("NCCL version")
    };
    let mut text = String::new();
    for line in output.lines().filter(wanted) {
        if text.len().saturating_add(line.len()) > LINES {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
