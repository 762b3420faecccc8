//! Creates and destroys communicators: unique ids, ranks of one process and of several, and the lines that NCCL logs
//! meanwhile.

use crate::comm::{Comm, Rank, bus_id};
use crate::driver::{Driver, driver};
use crate::dump;
use crate::environment::environment;
use crate::group;
use crate::log::{BOOTSTRAP, ENV, GRAPH, INIT, NET, info, version};
use crate::log::{Code, Result, code};
use crate::relay;
use crate::rendezvous::{MAX_RANKS, Rendezvous, create};
use simgpu_model::library_folder;
use simgpu_model::scenario::{How, Kind};
use std::collections::hash_map::RandomState;
use std::ffi::c_int;
use std::hash::BuildHasher;
use std::net::SocketAddrV4;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The magic at the start of an id.
const MAGIC: [u8; 8] = *b"simnccl1";

/// A unique id: magic, the process that created it, the descriptor of its rendezvous there, a number for the
/// communicator, its machine, and the address at which that machine listens (port 0 if it does not); the rest is
/// zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct UniqueId {
    magic: [u8; 8],
    pub(crate) process: u32,
    pub(crate) descriptor: c_int,
    number: u64,
    machine: u64,
    address: [u8; 4],
    port: u16,
    rest: [u8; 90],
}

impl UniqueId {
    /// Where the id's machine listens, if it is another machine; an error if it does not listen.
    pub(crate) fn remote_address(&self) -> Result<Option<SocketAddrV4>> {
        match (self.machine == machine(), self.port) {
            (true, _) => Ok(None),
            (false, 0) => Err(Code::SYSTEM),
            (false, port) => Ok(Some(SocketAddrV4::new(self.address.into(), port))),
        }
    }
}

/// A communicator to be created.
#[derive(Debug)]
pub(crate) struct Init {
    to: *mut *mut Comm,
    rank: usize,
    gpu: usize,
    method: InitMethod,
}

#[derive(Debug)]
enum InitMethod {
    /// With an id and this number of ranks.
    Id(UniqueId, usize),
    /// With these GPUs of this process, under this number.
    All(u64, Vec<usize>),
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetVersion(to: *mut c_int) -> c_int {
    let version = || {
        // Without a scenario, as in a program that only queries the version, the usual version is returned.
        let version = library_folder::scenario().map_or(22_907, |scenario| scenario.nccl.version);
        let version = c_int::try_from(version).map_err(|_| Code::INTERNAL)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, version) }
    };
    code(version())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(to: *mut UniqueId) -> c_int {
    let id = || {
        log_process_start(driver()?);
        let (magic, process, descriptor, number) = (MAGIC, std::process::id(), create()?, number());
        let at = relay::listen(descriptor).map_err(|_| Code::SYSTEM)?;
        let (address, port) = at.map_or(([0; 4], 0), |at| (at.ip().octets(), at.port()));
        let id = UniqueId {
            magic,
            process,
            descriptor,
            number,
            machine: machine(),
            address,
            port,
            rest: [0; 90],
        };
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, id) }
    };
    code(id())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRank(
    to: *mut *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> c_int {
    let init = || {
        let (ranks, rank) = (usize::try_from(ranks), usize::try_from(rank));
        let (Ok(ranks), Ok(rank)) = (ranks, rank) else {
            return Err(Code::ARGUMENT);
        };
        if id.magic != MAGIC || rank >= ranks || ranks > MAX_RANKS || to.is_null() {
            return Err(Code::ARGUMENT);
        }
        group::init(Init {
            to,
            rank,
            gpu: driver()?.gpu(None)?,
            method: InitMethod::Id(id, ranks),
        })
    };
    code(init())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitAll(
    to: *mut *mut Comm,
    count: c_int,
    devices: *const c_int,
) -> c_int {
    let init = || {
        let count = usize::try_from(count).map_err(|_| Code::ARGUMENT)?;
        if to.is_null() || count == 0 || count > MAX_RANKS {
            return Err(Code::ARGUMENT);
        }
        let driver = driver()?;
        let ordinal = |n: usize| {
            // SAFETY: null, or `count` numbers.
            let given = (!devices.is_null()).then(|| unsafe { devices.add(n).read() });
            given.map_or_else(|| c_int::try_from(n).map_err(|_| Code::ARGUMENT), Ok)
        };
        let gpus: Result<Vec<_>> = (0..count).map(|n| driver.gpu(Some(ordinal(n)?))).collect();
        let gpus = gpus.map_err(|_| Code::ARGUMENT)?;
        if (1..count).any(|n| {
            gpus.get(n)
                .is_some_and(|g| gpus.iter().take(n).any(|o| o == g))
        }) {
            return Err(Code::USAGE);
        }
        let number = number();
        let one = |(rank, gpu): (usize, &usize)| {
            // SAFETY: the caller has room for `count` handles.
            let to = unsafe { to.add(rank) };
            Init {
                to,
                rank,
                gpu: *gpu,
                method: InitMethod::All(number, gpus.clone()),
            }
        };
        create_all(gpus.iter().enumerate().map(one).collect())
    };
    code(init())
}

/// A number that no other communicator has.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Creates communicators, all at once, since ranks wait for each other.
pub(crate) fn create_all(inits: Vec<Init>) -> Result<()> {
    let driver = driver()?;
    log_process_start(driver);
    if driver
        .scenario
        .fault
        .iter()
        .any(|f| f.kind == Kind::NcclHangInit)
    {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let slow = driver
        .scenario
        .fault
        .iter()
        .filter(|f| f.kind == Kind::NcclSlowStart);
    std::thread::sleep(Duration::from_secs_f64(slow.map(|f| f.seconds).sum()));
    let mut rendezvous_of_ranks = Vec::new();
    for init in &inits {
        rendezvous_of_ranks.push(publish_identity(driver, init)?);
    }
    let mut comms = Vec::new();
    for (init, rendezvous) in inits.into_iter().zip(rendezvous_of_ranks) {
        comms.push((init.to, join(driver, &init, rendezvous)?));
    }
    comms
        .iter()
        .for_each(|(_, comm)| log_init_start(driver, comm));
    if !environment().lazy_connect {
        let ready: Vec<_> = comms.iter().map(|(_, comm)| comm.connect_ring()).collect();
        ready.into_iter().collect::<Result<()>>()?;
    }
    if let Some((_, comm)) = comms.iter().find(|(_, comm)| comm.rank == 0) {
        diagnose(driver, comm);
    }
    for (to, comm) in comms {
        log_init_complete(driver, &comm);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, Box::into_raw(comm)) }?;
    }
    Ok(())
}

/// The first version with diagnostics of its own, and the first that asks for attention.
const DIAGNOSES: u32 = 23_100;
const ATTENDS: u32 = 23_200;

/// NCCL's own test of each pair, as rank 0 reports it.
fn diagnose(driver: &Driver, comm: &Comm) {
    let nccl = &driver.scenario.nccl;
    if let Some(text) = nccl.attention.as_ref().filter(|_| nccl.version >= ATTENDS) {
        crate::log::attention(comm.own().ordinal, "init.cc:700", text);
    }
    if !environment().diagnostics || nccl.version < DIAGNOSES {
        return;
    }
    crate::log::diagnosis("=== NCCL Diagnostics ===");
    let pairs = comm.ranks.len() * comm.ranks.len().saturating_sub(1);
    for [from, to] in &nccl.diagnosed {
        crate::log::diagnosis(&format!(
            "[INFO] p2p: write mismatch srcRank={from} srcCudaDev={from} srcNvmlDev={from} dstRank={to} dstCudaDev={to} dstNvmlDev={to} path=PIX handle=direct expected=0x1 got=0x0 verify=0x0; see the path"
        ));
    }
    let bad = nccl.diagnosed.len();
    crate::log::diagnosis(&if bad == 0 {
        format!(
            "[OK]   p2p: verified P2P access in both directions between every GPU pair ({pairs} peer accesses)"
        )
    } else {
        format!(
            "[INFO] p2p: only {}/{pairs} GPU-to-GPU peer accesses passed verification",
            pairs.saturating_sub(bad)
        )
    });
}

fn publish_identity(driver: &Driver, init: &Init) -> Result<Option<Rendezvous>> {
    let InitMethod::Id(id, ranks) = &init.method else {
        return Ok(None);
    };
    let rendezvous = Rendezvous::open(id, *ranks).inspect_err(|_| {
        crate::log::warn(
            driver.ordinal(init.gpu),
            "bootstrap.cc:120",
            "the process that made the unique id is gone, or on a machine that cannot be reached",
        );
    })?;
    let own = [
        u64::from(std::process::id()),
        init.gpu as u64,
        driver.ordinal(init.gpu) as u64,
        host(),
    ];
    rendezvous.publish_identity(
        init.rank,
        &own.into_iter()
            .flat_map(u64::to_le_bytes)
            .collect::<Vec<_>>(),
    );
    Ok(Some(rendezvous))
}

fn join(driver: &Driver, init: &Init, rendezvous: Option<Rendezvous>) -> Result<Box<Comm>> {
    let own = std::process::id();
    let here = |gpu: &usize| Rank {
        process: own,
        gpu: *gpu,
        ordinal: driver.ordinal(*gpu),
        host: host(),
    };
    let (number, ranks) = match &init.method {
        InitMethod::All(number, gpus) => (*number, gpus.iter().map(here).collect()),
        InitMethod::Id(id, _) => (
            id.number,
            rendezvous
                .as_ref()
                .map(Rendezvous::wait_for_identities)
                .unwrap_or_default()
                .iter()
                .map(|h| decode_rank(h))
                .collect::<Vec<_>>(),
        ),
    };
    if (1..ranks.len()).any(|n| {
        ranks.get(n).is_some_and(|r| {
            ranks
                .iter()
                .take(n)
                .any(|o: &Rank| o.gpu == r.gpu && o.host == r.host)
        })
    }) {
        crate::log::warn(init.rank, "init.cc:1050", "Duplicate GPU detected");
        return Err(Code::USAGE);
    }
    let others = rendezvous
        .filter(|_| ranks.iter().any(|r| r.process != own))
        .map(Rendezvous::functions);
    driver.join(number, ranks.len(), init.rank, others.as_ref())?;
    let env = environment();
    let nccl = &driver.scenario.nccl;
    let apart = nccl.apart.filter(|_| env.hcas.len() > 1 && !env.merge);
    let channels = env.channels(apart.unwrap_or(nccl.channels));
    let several = ranks.iter().any(|rank| rank.process != own);
    let bit = |on: bool, how: How| if on { how.bit() } else { 0 };
    let how = bit(several, How::Processes)
        | bit(ABORTED.load(Ordering::Relaxed), How::Renewed)
        | bit(env.nvls && nccl.nvls.is_some(), How::Nvls);
    Ok(Box::new(Comm::new(number, init.rank, ranks, channels, how)))
}

/// This host's name as a number, which is the same in all its processes.
fn host() -> u64 {
    match environment().host.as_str() {
        "" => machine(),
        name => hash(name),
    }
}

/// This boot of this machine as a number.
fn machine() -> u64 {
    hash(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

fn hash(text: &str) -> u64 {
    std::hash::BuildHasherDefault::<std::collections::hash_map::DefaultHasher>::default()
        .hash_one(text)
}

fn decode_rank(identity: &[u8]) -> Rank {
    let mut numbers = identity
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_le_bytes(*b));
    let mut next = || numbers.next().unwrap_or_default();
    let process = u32::try_from(next()).unwrap_or_default();
    let mut place = || usize::try_from(next()).unwrap_or_default();
    let (gpu, ordinal) = (place(), place());
    Rank {
        process,
        gpu,
        ordinal,
        host: numbers.next().unwrap_or_default(),
    }
}

/// Logs the lines that appear once per process.
fn log_process_start(driver: &Driver) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let env = environment();
        info(INIT, 0, "ENV/Plugin: Could not find: libnccl-env.so");
        if let Some(interface) = &env.interface {
            info(
                ENV,
                0,
                &format!("NCCL_SOCKET_IFNAME set by environment to {interface}"),
            );
        }
        info(
            INIT | BOOTSTRAP,
            0,
            &format!("Bootstrap: Using {}", address()),
        );
        info(
            INIT,
            0,
            &format!("cudaDriverVersion {}", driver.scenario.machine.cuda),
        );
        let number = driver.scenario.nccl.version;
        version(&format!(
            "NCCL version {}.{}.{}+cuda12.4",
            number / 10_000,
            number / 100 % 100,
            number % 100
        ));
    });
}

/// The network interface as NCCL writes it.
fn address() -> String {
    match environment()
        .interface
        .as_deref()
        .map(|i| i.trim_start_matches(['=', '^']))
    {
        None | Some("lo") => "lo:127.0.0.1<0>".to_owned(),
        Some(other) => format!("{other}:192.0.2.2<0>"),
    }
}

/// Logs a rank's lines before its transports are chosen.
fn log_init_start(driver: &Driver, comm: &Comm) {
    let (own, n, env) = (comm.own(), comm.ranks.len(), environment());
    let (rank, device) = (comm.rank, own.ordinal);
    let log = |subsystem, text: &str| info(subsystem, device, text);
    log(INIT | NET, &format!("NET/Socket : Using [0]{}", address()));
    log(INIT | NET, "Initialized NET plugin Socket");
    log(INIT, "Assigned NET plugin Socket to comm");
    log(INIT, "Using network Socket");
    log(INIT, &format!("{} - Init START", init_label(driver, comm)));
    env.lines
        .iter()
        .filter(|l| !l.starts_with("NCCL_SOCKET_IFNAME"))
        .for_each(|line| log(ENV, line));
    log(
        INIT,
        &format!(
            "comm {comm:p} rank {rank} nRanks {n} nNodes 1 localRanks {n} localRank {rank} MNNVL 0"
        ),
    );
    let direct = comm.all_peers().unwrap_or_default();
    if rank == 0 {
        log(GRAPH, &dump::system(driver));
        dump::pattern(driver, comm, direct)
            .iter()
            .for_each(|line| log(GRAPH, line));
        dump::write(driver, comm, direct);
        let ring: Vec<_> = (0..n).map(|r| r.to_string()).collect();
        for c in 0..comm.channels {
            log(
                INIT | GRAPH,
                &format!("Channel {c:02}/{:02} : {}", comm.channels, ring.join(" ")),
            );
        }
    }
    let up = if rank > 0 {
        (rank - 1).to_string()
    } else {
        "-1".to_owned()
    };
    let down = if rank + 1 < n {
        (rank + 1).to_string()
    } else {
        "-1".to_owned()
    };
    let trees = (0..comm.channels).map(|c| format!("[{c}] {down}/-1/-1->{rank}->{up}"));
    log(
        INIT | GRAPH,
        &format!("Trees {}", trees.collect::<Vec<_>>().join(" ")),
    );
    log(
        INIT,
        &format!(
            "P2P Chunksize set to {}",
            if driver.scenario.machine.nvlink.is_some() {
                524_288
            } else {
                131_072
            }
        ),
    );
    let all = u8::from(direct);
    log(
        INIT,
        &format!(
            "Check P2P Type isAllDirectP2p {all} directMode {} isAllCudaP2p {all}",
            u8::from(shares_process(comm))
        ),
    );
}

fn shares_process(comm: &Comm) -> bool {
    comm.ranks
        .iter()
        .filter(|r| r.process == comm.own().process)
        .count()
        > 1
}

/// Logs a rank's lines when its initialisation is complete.
fn log_init_complete(driver: &Driver, comm: &Comm) {
    let (device, n) = (comm.own().ordinal, comm.channels);
    let peer = comm.channels_per_peer();
    let nvls = if comm.how & How::Nvls.bit() != 0 {
        n
    } else {
        0
    };
    let channels =
        format!("{n} coll channels, {n} collnet channels, {nvls} nvls channels, {n} p2p channels");
    info(
        INIT,
        device,
        "threadThresholds 8/8/64 | 32/8/64 | 512 | 512",
    );
    info(
        INIT,
        device,
        &format!("{channels}, {peer} p2p channels per peer"),
    );
    info(
        INIT,
        device,
        &format!("{} - Init COMPLETE", init_label(driver, comm)),
    );
}

fn init_label(driver: &Driver, comm: &Comm) -> String {
    let (own, rank, n) = (comm.own(), comm.rank, comm.ranks.len());
    let (device, bus, id) = (own.ordinal, bus_id(driver, own.gpu), comm.id);
    format!(
        "ncclCommInitRankConfig comm {comm:p} rank {rank} nranks {n} cudaDev {device} nvmlDev {device} busId {bus:x} commId 0x{id:x}"
    )
}

/// Hands a rank of a new communicator of this process to the caller.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn publish(to: *mut *mut Comm, comm: Comm) -> Result<()> {
    let driver = driver()?;
    driver.join(comm.id, comm.ranks.len(), comm.rank, None)?;
    let comm = Box::new(comm);
    log_init_start(driver, &comm);
    log_init_complete(driver, &comm);
    // SAFETY: the caller's promise.
    unsafe { put(to, Box::into_raw(comm)) }
}

/// Whether this process has aborted a communicator.
static ABORTED: AtomicBool = AtomicBool::new(false);

/// Destroys a communicator; the caller does not use it again.
fn finalize(comm: *mut Comm, how: &str) -> Result<()> {
    let driver = driver()?;
    if comm.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's handle, made by `create_all`.
    let comm = unsafe { Box::from_raw(comm) };
    driver.leave(comm.id, comm.rank);
    let (own, rank, n) = (comm.own(), comm.rank, comm.ranks.len());
    let bus = bus_id(driver, own.gpu);
    let text = format!(
        "comm {comm:p} rank {rank} nranks {n} cudaDev {} busId {bus:x} - {how} COMPLETE",
        own.ordinal
    );
    info(INIT, own.ordinal, &text);
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDestroy(comm: *mut Comm) -> c_int {
    code(finalize(comm, "Destroy"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommAbort(comm: *mut Comm) -> c_int {
    let stuck =
        || driver().is_ok_and(|d| d.scenario.fault.iter().any(|f| f.kind == Kind::NcclAbort));
    while stuck() {
        std::thread::sleep(Duration::from_secs(1));
    }
    ABORTED.store(true, Ordering::Relaxed);
    code(finalize(comm, "Abort"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommGetAsyncError(comm: *const Comm, to: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer is valid.
    code(if comm.is_null() {
        Err(Code::ARGUMENT)
    } else {
        unsafe { put(to, 0) }
    })
}

/// Writes a value to the caller's pointer.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Code::ARGUMENT);
    }
    // SAFETY: it is not null, and the caller guarantees the rest.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

const _: () = assert!(size_of::<UniqueId>() == 128);
