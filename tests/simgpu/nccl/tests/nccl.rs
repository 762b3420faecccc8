//! The library as programs use it: loaded from its file next to the simulated libcuda, in one process with all GPUs and in
//! one process per GPU. The results and times of collectives are tested in the model.
#![expect(unsafe_code, reason = "the interface is one of C")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use harness::simgpu::Libraries;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use std::{env, fs, ptr};

const EPYC: &str = include_str!("../../machines/epyc-8x4090.toml");
const H200: &str = include_str!("../../machines/h200-nvlink.toml");
/// An image that the simulated driver accepts, with the kernels that are needed.
static KERNELS: &[u8] = b".version 7.8 fl_nccl_fill fl_nccl_check\0";
/// The environment variable with the libraries' folder, for child processes.
const LIBRARY: &str = "SIMGPU_TEST_LIBRARY";

/// A folder with the libraries and a scenario file.
fn library_folder(machine: &str, more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let libraries = Libraries::built().unwrap();
    fs::copy(&libraries.cuda, dir.path().join("libcuda.so.1")).unwrap();
    fs::copy(&libraries.nccl, dir.path().join("libnccl.so.2")).unwrap();
    fs::write(dir.path().join("simgpu.toml"), format!("{machine}\n{more}")).unwrap();
    dir
}

/// This program again, running only one test, with its own environment.
fn child(test: &str, dir: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env_clear()
        .env(LIBRARY, dir);
    command
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
fn run(test: &str, dir: &Path, environment: &[(&str, &str)]) -> String {
    log_of(child(test, dir, environment).spawn().unwrap())
}

#[track_caller]
fn log_of(child: Child) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let log = String::from_utf8(stdout).unwrap();
    assert!(
        status.success(),
        "{status}\n{log}\n{}",
        String::from_utf8_lossy(&stderr)
    );
    log
}

macro_rules! call {
    ($library:expr, $name:literal, $($type:ty: $value:expr),* $(,)?) => {{
        // SAFETY: the types are those of the header, and the pointers are valid.
        unsafe {
            let f: Symbol<'_, unsafe extern "C" fn($($type),*) -> c_int> = $library.get($name).unwrap();
            f($($value),*)
        }
    }};
}

macro_rules! succeeds {
    ($($call:tt)*) => { assert_eq!(call!($($call)*), 0) };
}

/// One GPU of this process.
struct Gpu {
    context: usize,
    stream: usize,
    module: usize,
    comm: usize,
    events: [usize; 2],
    send: u64,
    receive: u64,
    out: u64,
}

struct Sim {
    cuda: Library,
    nccl: Library,
    gpus: Vec<Gpu>,
}

const FLOAT: u32 = 7;
const SUM: u32 = 0;
const SEED: u64 = 0xabcd_ef01_2345;

impl Sim {
    /// The libraries of a child, and these GPUs with send and receive buffers of `bytes` bytes each.
    fn new(ordinals: &[c_int], bytes: usize) -> Self {
        let dir = PathBuf::from(env::var_os(LIBRARY).unwrap());
        // SAFETY: libraries of this workspace; their only initialisers are the compiler's.
        let [cuda, nccl] =
            ["libcuda.so.1", "libnccl.so.2"].map(|n| unsafe { Library::new(dir.join(n)) }.unwrap());
        succeeds!(cuda, "cuInit", u32: 0);
        let mut sim = Self {
            cuda,
            nccl,
            gpus: Vec::new(),
        };
        for ordinal in ordinals {
            let gpu = sim.gpu(*ordinal, bytes);
            sim.gpus.push(gpu);
        }
        sim
    }

    fn gpu(&self, ordinal: c_int, bytes: usize) -> Gpu {
        let mut gpu = Gpu {
            context: 0,
            stream: 0,
            module: 0,
            comm: 0,
            events: [0; 2],
            send: 0,
            receive: 0,
            out: 0,
        };
        let cuda = &self.cuda;
        succeeds!(cuda, "cuDevicePrimaryCtxRetain", *mut usize: &raw mut gpu.context, c_int: ordinal);
        succeeds!(cuda, "cuCtxSetCurrent", usize: gpu.context);
        succeeds!(cuda, "cuStreamCreate", *mut usize: &raw mut gpu.stream, u32: 1);
        for (to, bytes) in [
            (&raw mut gpu.send, bytes),
            (&raw mut gpu.receive, bytes),
            (&raw mut gpu.out, 64),
        ] {
            succeeds!(cuda, "cuMemAlloc_v2", *mut u64: to, usize: bytes);
        }
        let [first, second] = &mut gpu.events;
        for event in [first, second] {
            succeeds!(cuda, "cuEventCreate", *mut usize: &raw mut *event, u32: 0);
        }
        let image: *const c_void = KERNELS.as_ptr().cast();
        succeeds!(cuda, "cuModuleLoadData", *mut usize: &raw mut gpu.module, *const c_void: image);
        gpu
    }

    fn init_all(&mut self) -> c_int {
        let mut comms = vec![0usize; self.gpus.len()];
        let count = c_int::try_from(comms.len()).unwrap();
        let devices: Vec<_> = (0..count).collect();
        let code = call!(self.nccl, "ncclCommInitAll", *mut usize: comms.as_mut_ptr(), c_int: count, *const c_int: devices.as_ptr());
        for (gpu, comm) in self.gpus.iter_mut().zip(comms) {
            gpu.comm = comm;
        }
        code
    }

    fn launch(&self, gpu: &Gpu, name: &CStr, arguments: &mut [u64]) {
        let mut function = 0usize;
        succeeds!(self.cuda, "cuCtxSetCurrent", usize: gpu.context);
        succeeds!(self.cuda, "cuModuleGetFunction", *mut usize: &raw mut function, usize: gpu.module, *const c_char: name.as_ptr());
        // A 4-byte argument occupies the low half of its 8 bytes on this little-endian processor.
        let mut list: Vec<_> = arguments
            .iter_mut()
            .map(|a| ptr::from_mut(a).cast::<c_void>())
            .collect();
        succeeds!(self.cuda, "cuLaunchKernel", usize: function, u32: 128, u32: 1, u32: 1, u32: 256, u32: 1, u32: 1,
            u32: 0, usize: gpu.stream, *mut *mut c_void: list.as_mut_ptr(), *mut *mut c_void: ptr::null_mut());
    }

    /// Fills the send buffer with the values of a rank.
    fn fill(&self, gpu: &Gpu, rank: usize, count: u64) {
        let mut arguments = [
            gpu.send,
            count,
            u64::from(FLOAT),
            rank as u64,
            SEED,
            0,
            1000,
            1,
            0,
            1,
            0,
            0,
        ];
        self.launch(gpu, c"fl_nccl_fill", &mut arguments);
    }

    /// The number of wrong elements in the sum of `ranks` ranks, the first of them, and how many were checked.
    fn wrong(&self, gpu: &Gpu, at: u64, count: u64, ranks: usize) -> [u64; 3] {
        self.check(gpu, at, count, SUM, 0, ranks, 0)
    }

    /// The number of elements that differ from the values of a rank, starting at its element `first`.
    fn wrong_copy(&self, gpu: &Gpu, at: u64, count: u64, rank: usize, first: u64) -> u64 {
        let [wrong, _, looked] = self.check(gpu, at, count, u32::MAX, rank, 0, first);
        assert_eq!(looked, count);
        wrong
    }

    #[expect(clippy::too_many_arguments, reason = "they are the kernel's")]
    fn check(
        &self,
        gpu: &Gpu,
        at: u64,
        count: u64,
        op: u32,
        rank: usize,
        ranks: usize,
        first: u64,
    ) -> [u64; 3] {
        let preset = [0, 0, 0, u64::MAX, 0, 0];
        succeeds!(self.cuda, "cuCtxSetCurrent", usize: gpu.context);
        succeeds!(self.cuda, "cuMemcpyHtoDAsync_v2", u64: gpu.out, *const c_void: preset.as_ptr().cast(), usize: 48, usize: gpu.stream);
        let (t, op, rank, ranks) = (u64::from(FLOAT), u64::from(op), rank as u64, ranks as u64);
        let mut arguments = [
            at, count, t, op, rank, ranks, SEED, first, 1000, 1, 0, 1, 1, 0, 0, gpu.out,
        ];
        self.launch(gpu, c"fl_nccl_check", &mut arguments);
        let mut found = [0u64; 6];
        succeeds!(self.cuda, "cuMemcpyDtoHAsync_v2", *mut c_void: found.as_mut_ptr().cast(), u64: gpu.out, usize: 48, usize: gpu.stream);
        [found[0], found[3], found[5]]
    }

    /// One call for each GPU of this process, in one group.
    fn group(&self, each: impl Fn(usize, &Gpu) -> c_int) {
        succeeds!(self.nccl, "ncclGroupStart",);
        for (rank, gpu) in self.gpus.iter().enumerate() {
            assert_eq!(each(rank, gpu), 0);
        }
        succeeds!(self.nccl, "ncclGroupEnd",);
    }

    fn send(&self, gpu: &Gpu, part: usize, count: usize, to: usize) {
        let (from, to) = (
            gpu.send + part as u64 * count as u64 * 4,
            c_int::try_from(to).unwrap(),
        );
        succeeds!(self.nccl, "ncclSend", u64: from, usize: count, u32: FLOAT, c_int: to, usize: gpu.comm, usize: gpu.stream);
    }

    fn receive(&self, gpu: &Gpu, part: usize, count: usize, from: usize) {
        let (to, from) = (
            gpu.receive + part as u64 * count as u64 * 4,
            c_int::try_from(from).unwrap(),
        );
        succeeds!(self.nccl, "ncclRecv", u64: to, usize: count, u32: FLOAT, c_int: from, usize: gpu.comm, usize: gpu.stream);
    }

    /// An all-reduce of all GPUs of this process, in one group.
    fn all_reduce(&self, count: usize, in_place: bool) -> c_int {
        succeeds!(self.nccl, "ncclGroupStart",);
        for gpu in &self.gpus {
            let to = if in_place { gpu.send } else { gpu.receive };
            succeeds!(self.nccl, "ncclAllReduce", u64: gpu.send, u64: to, usize: count, u32: FLOAT, u32: SUM, usize: gpu.comm, usize: gpu.stream);
        }
        call!(self.nccl, "ncclGroupEnd",)
    }

    /// Records the first or the second of two events on each stream.
    fn record(&self, second: bool) {
        for gpu in &self.gpus {
            let [start, end] = gpu.events;
            succeeds!(self.cuda, "cuCtxSetCurrent", usize: gpu.context);
            succeeds!(self.cuda, "cuEventRecord", usize: if second { end } else { start }, usize: gpu.stream);
        }
    }

    fn finish(&self) {
        for gpu in &self.gpus {
            succeeds!(self.cuda, "cuCtxSetCurrent", usize: gpu.context);
            while call!(self.cuda, "cuStreamQuery", usize: gpu.stream) != 0 {
                std::thread::yield_now();
            }
        }
    }

    /// The duration of one of 20 calls, in us, as nccl-tests measures it.
    fn time(&self, count: usize, in_place: bool) -> f64 {
        assert_eq!(self.all_reduce(count, in_place), 0);
        self.record(false);
        (0..20).for_each(|_| assert_eq!(self.all_reduce(count, in_place), 0));
        self.record(true);
        self.finish();
        let took = self.gpus.iter().map(|gpu| {
            let mut milliseconds = 0f32;
            succeeds!(self.cuda, "cuCtxSetCurrent", usize: gpu.context);
            succeeds!(self.cuda, "cuEventElapsedTime", *mut f32: &raw mut milliseconds, usize: gpu.events[0], usize: gpu.events[1]);
            f64::from(milliseconds) * 1e3 / 20.0
        });
        took.fold(0.0, f64::max)
    }

    fn destroy(&self) {
        for gpu in &self.gpus {
            succeeds!(self.nccl, "ncclCommDestroy", usize: gpu.comm);
        }
    }
}

fn is_child() -> bool {
    env::var_os(LIBRARY).is_some()
}

#[test]
fn one_process_reduces_exactly_and_takes_the_tables_times() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1, 2, 3, 4, 5, 6, 7], 128 << 20);
        assert_eq!(sim.init_all(), 0);
        for bytes in [8, 1 << 20, 128 << 20] {
            let count = bytes / 4;
            let began = Instant::now();
            sim.gpus
                .iter()
                .enumerate()
                .for_each(|(rank, gpu)| sim.fill(gpu, rank, count as u64));
            let out = sim.time(count, false);
            for gpu in &sim.gpus {
                assert_eq!(
                    sim.wrong(gpu, gpu.receive, count as u64, 8),
                    [0, u64::MAX, count as u64]
                );
                let of_seven = sim.wrong(gpu, gpu.receive, count as u64, 7);
                assert!(of_seven[0] > count as u64 / 2, "{of_seven:?}");
            }
            println!("TIME {bytes} {out:.2} {:.2}", sim.time(count, true));
            eprintln!("{bytes} took {:?}", began.elapsed());
        }
        sim.destroy();
        return;
    }
    let own = "one_process_reduces_exactly_and_takes_the_tables_times";
    let dir = library_folder(EPYC, "");
    let level = [("NCCL_P2P_LEVEL", "SYS"), ("NCCL_DEBUG", "INFO")];
    let log = run(own, dir.path(), &level);
    for line in [
        "TIME 8 38.82 38.16",
        "TIME 1048576 216.10 217.20",
        "TIME 134217728 11382.00 11380.00",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    for line in [
        "NCCL INFO NCCL version 2.29.7+cuda12.4",
        "NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n",
        "[3] NCCL INFO Channel 01/0 : 3[3] -> 4[4] via P2P/direct pointer\n",
        "[7] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n",
        "Destroy COMPLETE",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    // Without a level setting, GPUs on different sockets use shared memory, as without peer access.
    for environment in [
        vec![],
        vec![("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "5")],
    ] {
        let all: Vec<_> = environment
            .into_iter()
            .chain([("NCCL_DEBUG", "INFO")])
            .collect();
        let log = run(own, dir.path(), &all);
        assert!(log.contains("TIME 8 38.83 40.43"), "{log}");
        assert!(
            log.contains("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"),
            "{log}"
        );
    }
}

/// The id as text, for children.
fn text(id: [u64; 16]) -> String {
    id.map(|n| n.to_string()).join(" ")
}

#[test]
fn one_process_for_each_gpu_reduces_exactly_and_takes_as_long() {
    let id_name = "SIMGPU_TEST_ID";
    if let Ok(rank) = env::var("SIMGPU_TEST_RANK") {
        let rank: c_int = rank.parse().unwrap();
        let mut sim = Sim::new(&[rank], 32 << 20);
        let numbers: Vec<u64> = env::var(id_name)
            .unwrap()
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        let id: [u64; 16] = numbers.try_into().unwrap();
        let mut comm = 0usize;
        succeeds!(sim.nccl, "ncclCommInitRank", *mut usize: &raw mut comm, c_int: 4, [u64; 16]: id, c_int: rank);
        sim.gpus[0].comm = comm;
        for bytes in [64, 32 << 20] {
            let count = bytes / 4;
            sim.fill(&sim.gpus[0], usize::try_from(rank).unwrap(), count as u64);
            let time = sim.time(count, false);
            assert_eq!(
                sim.wrong(&sim.gpus[0], sim.gpus[0].receive, count as u64, 4),
                [0, u64::MAX, count as u64]
            );
            println!("TIME {bytes} {time:.2} {:.2}", sim.time(count, true));
        }
        sim.destroy();
        return;
    }
    if is_child() {
        let sim = Sim::new(&[], 0);
        let mut id = [0u64; 16];
        succeeds!(sim.nccl, "ncclGetUniqueId", *mut [u64; 16]: &raw mut id);
        let (own, dir) = (
            "one_process_for_each_gpu_reduces_exactly_and_takes_as_long",
            env::var(LIBRARY).unwrap(),
        );
        let id = text(id);
        let ranks = ["0", "1", "2", "3"].map(|rank| {
            let environment = [
                (id_name, id.as_str()),
                ("SIMGPU_TEST_RANK", rank),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "P2P"),
                // The times were measured without NVLink SHARP.
                ("NCCL_NVLS_ENABLE", "0"),
            ];
            child(own, Path::new(&dir), &environment).spawn().unwrap()
        });
        ranks
            .map(log_of)
            .into_iter()
            .for_each(|text| println!("{text}"));
        return;
    }
    let dir = library_folder(H200, "");
    let began = Instant::now();
    let log = run(
        "one_process_for_each_gpu_reduces_exactly_and_takes_as_long",
        dir.path(),
        &[],
    );
    for line in ["TIME 64 19.55 19.41", "TIME 33554432 173.38 173.75"] {
        assert_eq!(log.matches(line).count(), 4, "{line}\n{log}");
    }
    assert!(
        log.contains("Channel 23/0 : 3[3] -> 0[0] via P2P/CUMEM"),
        "{log}"
    );
    assert!(!log.contains("Init START"), "{log}");
    assert!(began.elapsed().as_secs() < 50, "{:?}", began.elapsed());
}

/// Elements of one rank's part, and number of ranks, in the next test.
const PART: usize = 1000;
const RANKS: usize = 4;

fn check_nine_collectives(sim: &Sim) {
    let (part, all) = (PART as u64, (PART * RANKS) as u64);
    let nccl = &sim.nccl;
    let at = |gpu: &Gpu, n: usize| gpu.receive + n as u64 * part * 4;
    let each = |f: &dyn Fn(usize, &Gpu)| {
        sim.gpus
            .iter()
            .enumerate()
            .for_each(|(rank, gpu)| f(rank, gpu));
    };
    let copied = |gpu: &Gpu, n: usize, rank: usize, first: u64| {
        assert_eq!(
            sim.wrong_copy(gpu, at(gpu, n), part, rank, first),
            0,
            "part {n} of rank {rank}"
        );
    };

    sim.group(|_, g| call!(nccl, "ncclAllGather", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, usize: g.comm, usize: g.stream));
    each(&|_, gpu| (0..RANKS).for_each(|n| copied(gpu, n, n, 0)));
    sim.group(|_, g| call!(nccl, "ncclBroadcast", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, c_int: 2, usize: g.comm, usize: g.stream));
    each(&|_, gpu| copied(gpu, 0, 2, 0));
    sim.group(|_, g| call!(nccl, "ncclReduceScatter", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, u32: SUM, usize: g.comm, usize: g.stream));
    each(&|rank, gpu| {
        assert_eq!(
            sim.check(gpu, gpu.receive, part, SUM, 0, RANKS, rank as u64 * part)[0],
            0
        );
    });
    sim.group(|_, g| call!(nccl, "ncclReduce", u64: g.send, u64: g.receive, usize: PART * RANKS, u32: FLOAT, u32: SUM, c_int: 1, usize: g.comm, usize: g.stream));
    each(&|rank, gpu| assert_eq!(sim.wrong(gpu, gpu.receive, all, RANKS)[0] == 0, rank == 1));

    let parts = 0..RANKS;
    sim.group(|_, gpu| {
        parts.clone().for_each(|n| {
            sim.send(gpu, n, PART, n);
            sim.receive(gpu, n, PART, n);
        });
        0
    });
    each(&|rank, gpu| (0..RANKS).for_each(|n| copied(gpu, n, n, rank as u64 * part)));
    let last = |rank| (rank + RANKS - 1) % RANKS;
    sim.group(|rank, gpu| {
        sim.send(gpu, 0, PART, (rank + 1) % RANKS);
        sim.receive(gpu, 0, PART, last(rank));
        0
    });
    each(&|rank, gpu| copied(gpu, 0, last(rank), 0));
    sim.group(|rank, gpu| {
        sim.send(gpu, 0, PART, 3);
        parts
            .clone()
            .filter(|_| rank == 3)
            .for_each(|n| sim.receive(gpu, n, PART, n));
        0
    });
    each(&|rank, gpu| {
        (0..RANKS)
            .filter(|_| rank == 3)
            .for_each(|n| copied(gpu, n, n, 0));
    });
    sim.group(|rank, gpu| {
        parts
            .clone()
            .filter(|_| rank == 0)
            .for_each(|n| sim.send(gpu, n, PART, n));
        sim.receive(gpu, 0, PART, 0);
        0
    });
    each(&|rank, gpu| copied(gpu, 0, 0, rank as u64 * part));

    // NCCL 2.28's functions for the operations composed above, with other roots.
    sim.group(|_, g| call!(nccl, "ncclAlltoAll", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, usize: g.comm, usize: g.stream));
    each(&|rank, gpu| (0..RANKS).for_each(|n| copied(gpu, n, n, rank as u64 * part)));
    sim.group(|_, g| call!(nccl, "ncclGather", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, c_int: 1, usize: g.comm, usize: g.stream));
    each(&|rank, gpu| {
        (0..RANKS)
            .filter(|_| rank == 1)
            .for_each(|n| copied(gpu, n, n, 0));
    });
    sim.group(|_, g| call!(nccl, "ncclScatter", u64: g.send, u64: g.receive, usize: PART, u32: FLOAT, c_int: 2, usize: g.comm, usize: g.stream));
    each(&|rank, gpu| copied(gpu, 0, 2, rank as u64 * part));
}

#[test]
fn all_nine_collectives_bring_what_they_should() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1, 2, 3], 4 * PART * RANKS);
        assert_eq!(sim.init_all(), 0);
        sim.gpus
            .iter()
            .enumerate()
            .for_each(|(rank, gpu)| sim.fill(gpu, rank, (PART * RANKS) as u64));
        assert_eq!(sim.all_reduce(PART, false), 0);
        sim.gpus
            .iter()
            .for_each(|gpu| assert_eq!(sim.wrong(gpu, gpu.receive, PART as u64, RANKS)[0], 0));
        check_nine_collectives(&sim);
        // If one rank requests something other than the rest, all of them wait.
        succeeds!(sim.nccl, "ncclGroupStart",);
        for (rank, gpu) in sim.gpus.iter().enumerate() {
            succeeds!(sim.nccl, "ncclAllReduce", u64: gpu.send, u64: gpu.receive, usize: 10 + rank % 2, u32: FLOAT, u32: SUM, usize: gpu.comm, usize: gpu.stream);
        }
        succeeds!(sim.nccl, "ncclGroupEnd",);
        succeeds!(sim.cuda, "cuCtxSetCurrent", usize: sim.gpus[0].context);
        assert_eq!(
            call!(sim.cuda, "cuStreamQuery", usize: sim.gpus[0].stream),
            600
        );
        return;
    }
    let dir = library_folder(H200, "");
    let own = "all_nine_collectives_bring_what_they_should";
    let log = run(
        own,
        dir.path(),
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "P2P")],
    );
    assert!(
        log.contains("Channel 01/1 : 2[2] -> 0[0] via P2P/direct pointer"),
        "{log}"
    );
    run(own, dir.path(), &[("NCCL_P2P_DISABLE", "1")]);
}

#[test]
fn strict_mode_without_peer_access_finds_no_transport() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1, 2, 3], 1024);
        let init = sim.init_all();
        println!("INIT {init}");
        if init == 0 {
            println!("CALL {}", sim.all_reduce(16, false));
        }
        // SAFETY: the type is that of the header.
        let last = unsafe {
            let f: Symbol<'_, unsafe extern "C" fn(usize) -> *const c_char> =
                sim.nccl.get("ncclGetLastError").unwrap();
            CStr::from_ptr(f(0)).to_str().unwrap()
        };
        println!("LAST {last}");
        return;
    }
    let own = "strict_mode_without_peer_access_finds_no_transport";
    let strict = [
        ("NCCL_SHM_DISABLE", "1"),
        ("NCCL_NET_DISABLE_INTRA", "1"),
        ("NCCL_DEBUG", "INFO"),
    ];
    let and = |more: &[(&'static str, &'static str)]| [strict.as_slice(), more].concat();
    let warning = "NCCL WARN No transport found for rank 3[90] -> rank 2[80]\n";
    let dir = library_folder(H200, "");
    assert!(run(own, dir.path(), &strict).contains("CALL 0"));
    let off = run(own, dir.path(), &and(&[("NCCL_P2P_DISABLE", "1")]));
    assert!(
        off.contains("INIT 0") && off.contains("CALL 2") && off.contains(warning),
        "{off}"
    );
    assert!(
        off.contains("LAST No transport found for rank 3[90] -> rank 2[80]"),
        "{off}"
    );
    let at_once = run(
        own,
        dir.path(),
        &and(&[("NCCL_P2P_DISABLE", "1"), ("NCCL_RUNTIME_CONNECT", "0")]),
    );
    assert!(
        at_once.contains("INIT 2") && at_once.contains(warning),
        "{at_once}"
    );
    for fault in ["nccl-no-transport", "nccl-shm"] {
        let dir = library_folder(H200, &format!("[[fault]]\nkind = \"{fault}\"\n"));
        assert!(run(own, dir.path(), &strict).contains("CALL 2"), "{fault}");
    }
}

#[test]
fn without_memory_and_peers_the_network_is_left() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1], 1024);
        assert_eq!((sim.init_all(), sim.all_reduce(16, false)), (0, 0));
        return;
    }
    let dir = library_folder(EPYC, "");
    let environment = [
        ("NCCL_SHM_DISABLE", "1"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_DEBUG", "INFO"),
    ];
    let log = run(
        "without_memory_and_peers_the_network_is_left",
        dir.path(),
        &environment,
    );
    assert!(
        log.contains("Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"),
        "{log}"
    );
    assert!(
        log.contains("Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0"),
        "{log}"
    );
}

#[test]
fn what_hangs_can_be_aborted_and_the_stream_is_free_again() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1], 1 << 20);
        assert_eq!((sim.init_all(), sim.all_reduce(1 << 18, false)), (0, 0));
        let query = |gpu: &Gpu| call!(sim.cuda, "cuStreamQuery", usize: gpu.stream);
        for gpu in &sim.gpus {
            succeeds!(sim.cuda, "cuCtxSetCurrent", usize: gpu.context);
            assert_eq!(query(gpu), 600);
            let mut error = 77;
            succeeds!(sim.nccl, "ncclCommGetAsyncError", usize: gpu.comm, *mut c_int: &raw mut error);
            assert_eq!(error, 0);
            succeeds!(sim.nccl, "ncclCommAbort", usize: gpu.comm);
            assert_eq!(query(gpu), 0);
        }
        return;
    }
    let dir = library_folder(
        EPYC,
        "[[fault]]\nkind = \"nccl-hang\"\ncollective = \"all_reduce\"\nfrom_bytes = 1048576\n",
    );
    run(
        "what_hangs_can_be_aborted_and_the_stream_is_free_again",
        dir.path(),
        &[],
    );
}

#[test]
fn one_element_comes_out_wrong_where_a_fault_says_so() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1, 2], 1 << 20);
        assert_eq!(sim.init_all(), 0);
        let wrong = |count: usize| {
            sim.gpus
                .iter()
                .enumerate()
                .for_each(|(rank, gpu)| sim.fill(gpu, rank, count as u64));
            assert_eq!(sim.all_reduce(count, false), 0);
            sim.gpus
                .iter()
                .map(|gpu| sim.wrong(gpu, gpu.receive, count as u64, 3)[0])
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (wrong(1 << 16), wrong(1 << 18)),
            (vec![0, 0, 0], vec![0, 1, 0])
        );
        return;
    }
    let dir = library_folder(
        EPYC,
        "[[fault]]\nkind = \"nccl-wrong\"\ngpu = 1\nfrom_bytes = 1048576\n",
    );
    run(
        "one_element_comes_out_wrong_where_a_fault_says_so",
        dir.path(),
        &[],
    );
}

#[test]
fn what_spoils_transfers_between_two_gpus_spoils_what_nccl_moves_between_them() {
    if is_child() {
        let mut sim = Sim::new(&[0, 1, 2], 1 << 20);
        assert_eq!(sim.init_all(), 0);
        let count = 1 << 16;
        sim.gpus
            .iter()
            .enumerate()
            .for_each(|(rank, gpu)| sim.fill(gpu, rank, count as u64));
        assert_eq!(sim.all_reduce(count, false), 0);
        let wrong = |gpu: &Gpu| sim.wrong(gpu, gpu.receive, count as u64, 3)[0];
        assert_eq!(sim.gpus.iter().map(wrong).collect::<Vec<_>>(), [0, 0, 1]);
        return;
    }
    let test = "what_spoils_transfers_between_two_gpus_spoils_what_nccl_moves_between_them";
    // The ring has an edge from GPU 1 to 2, but none from 2 to 1.
    for pair in [
        "[1, 2]",
        "[1, 2]\n[[fault]]\nkind = \"zeros\"\npair = [2, 1]",
    ] {
        let dir = library_folder(
            EPYC,
            &format!("[[fault]]\nkind = \"flip\"\npair = {pair}\n"),
        );
        run(test, dir.path(), &[("NCCL_P2P_LEVEL", "SYS")]);
    }
}

#[test]
fn topology_and_graphs_are_written_where_the_environment_says() {
    if is_child() {
        assert_eq!(Sim::new(&[0, 1, 2, 3], 1024).init_all(), 0);
        return;
    }
    let dir = library_folder(H200, "");
    let [topology, graph] =
        ["topology.xml", "graph.xml"].map(|n| dir.path().join(n).display().to_string());
    let environment = [
        ("NCCL_TOPO_DUMP_FILE", topology.as_str()),
        ("NCCL_GRAPH_DUMP_FILE", graph.as_str()),
        ("NCCL_MAX_NCHANNELS", "2"),
    ];
    run(
        "topology_and_graphs_are_written_where_the_environment_says",
        dir.path(),
        &environment,
    );
    let [topology, graph] = [topology, graph].map(|path| fs::read_to_string(path).unwrap());
    assert!(
        topology.contains("<system version=\"1\">") && topology.contains("busid=\"0000:00:09.0\""),
        "{topology}"
    );
    assert!(
        topology.contains("<nvlink target=") && topology.contains("count=\"18\""),
        "{topology}"
    );
    assert!(
        graph.contains("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\""),
        "{graph}"
    );
    assert_eq!(graph.matches("<gpu dev=\"3\"/>").count(), 4, "{graph}");
}

#[test]
fn what_is_not_simulated_ends_the_process_with_its_name() {
    if is_child() {
        let sim = Sim::new(&[], 0);
        call!(sim.nccl, "ncclMemAlloc", usize: 0);
        return;
    }
    let dir = library_folder(EPYC, "");
    let output = child(
        "what_is_not_simulated_ends_the_process_with_its_name",
        dir.path(),
        &[],
    )
    .output()
    .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("simgpu: ncclMemAlloc is not simulated"),
        "{stderr}"
    );
    assert_eq!(output.status.signal(), Some(6), "{}", output.status);
}
