use super::*;
use crate::api::Simulation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Host memory as a map, and a clock that the test advances.
#[derive(Debug, Default, Clone)]
pub(crate) struct Host(Arc<Mutex<Inner>>);
/// The bytes, the clock, and the closed ranges.
type Inner = (BTreeMap<u64, u8>, Duration, Vec<(u64, u64)>);

impl Host {
    /// Panics if closed memory is accessed.
    #[track_caller]
    fn touch(&self, address: u64, bytes: u64) {
        let closed = &self.0.lock().unwrap().2;
        assert!(
            !closed
                .iter()
                .any(|(a, n)| address < a + n && *a < address + bytes),
            "{address:#x} is closed"
        );
    }
}

impl crate::Host for Host {
    fn close(&mut self, address: u64, bytes: u64) {
        self.open(address, bytes);
        let mut inner = self.0.lock().unwrap();
        inner
            .0
            .retain(|a, _| !(address..address + bytes).contains(a));
        inner.2.push((address, bytes));
    }
    fn open(&mut self, address: u64, bytes: u64) {
        let mut inner = self.0.lock().unwrap();
        let end = address + bytes;
        let rest = |(a, n): (u64, u64)| [(a, address.min(a + n)), (end.max(a), a + n)];
        let kept = std::mem::take(&mut inner.2).into_iter().flat_map(rest);
        inner.2 = kept
            .filter(|(from, to)| from < to)
            .map(|(from, to)| (from, to - from))
            .collect();
    }
    fn read(&self, address: u64, bytes: u64) -> Vec<u8> {
        self.touch(address, bytes);
        let inner = self.0.lock().unwrap();
        (address..address + bytes)
            .map(|a| inner.0.get(&a).copied().unwrap_or(0))
            .collect()
    }
    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.touch(address, bytes.len() as u64);
        let mut inner = self.0.lock().unwrap();
        inner.0.extend((address..).zip(bytes.iter().copied()));
    }
    fn word(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.read(address, 4).try_into().unwrap())
    }
    fn clock(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

pub(crate) fn simulation(faults: &str) -> Simulation {
    machine("epyc-8x4090", faults).0
}

fn machine(name: &str, faults: &str) -> (Simulation, Host) {
    let host = Host::default();
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../machines/{name}.toml"));
    let text = std::fs::read_to_string(path).unwrap() + "\n" + faults;
    let scenario = Scenario::parse(&text).unwrap();
    (Simulation::new(scenario, Box::new(host.clone())), host)
}

/// GPUs from 0 on, each with a stream and a buffer of 64 MiB, with peer access between all of them.
pub(super) struct EngineFixture {
    pub(super) engine: Engine,
    pub(super) host: Host,
    streams: Vec<StreamId>,
    pub(super) buffers: Vec<u64>,
}

pub(super) const SIZE: u64 = 64 << 20;
/// Address of the host's result numbers.
pub(super) const OUT: u64 = 0x5000_0000_0000;

pub(super) fn fixture(name: &str, faults: &str) -> EngineFixture {
    let (mut simulation, host) = machine(name, faults);
    let gpus = simulation.count();
    (0..gpus).for_each(|g| simulation.retain(g));
    for a in 0..gpus {
        for b in (0..gpus).filter(|b| *b != a) {
            simulation.enable_peer(a, b).unwrap();
        }
    }
    let mut engine = simulation.engine;
    engine
        .memory
        .pinned
        .insert(OUT, crate::memory::Pinned::new(1 << 20));
    let streams = (0..gpus).map(|g| engine.add_stream(g)).collect();
    let buffers = (0..gpus)
        .map(|g| engine.memory.alloc(g, SIZE).unwrap())
        .collect();
    EngineFixture {
        engine,
        host,
        streams,
        buffers,
    }
}

impl EngineFixture {
    pub(super) fn launch(&mut self, gpu: usize, kernel: Kernel) {
        self.engine
            .push(
                self.streams[gpu],
                Work::Launch {
                    kernel,
                    threads: 64,
                },
            )
            .unwrap();
    }

    pub(super) fn fill(&mut self, gpu: usize, seed: u64) {
        let dst = self.buffers[gpu];
        self.launch(
            gpu,
            Kernel::Fill {
                dst,
                words: SIZE / 4,
                seed,
                first: 0,
            },
        );
    }

    pub(super) fn copy(&mut self, by: usize, from: usize, to: usize, bytes: u64) {
        let (dst, src) = (self.buffers[to], self.buffers[from]);
        self.engine
            .push(
                self.streams[by],
                Work::Copy {
                    dst,
                    src,
                    bytes,
                    pageable_bytes: None,
                },
            )
            .unwrap();
    }

    pub(super) fn finish(&mut self, gpu: usize) {
        assert_eq!(self.engine.query(self.streams[gpu]), Ok(()), "GPU {gpu}");
    }

    /// Bad words, zeros, sentinels, first, last.
    pub(super) fn check(
        &mut self,
        gpu: usize,
        bytes: u64,
        expected: u64,
        sentinel: u64,
    ) -> [u64; 5] {
        self.preset();
        let src = self.buffers[gpu];
        self.launch(
            gpu,
            Kernel::Check {
                src,
                words: bytes / 4,
                first: 0,
                expected,
                sentinel,
                out: OUT,
            },
        );
        self.finish(gpu);
        let checked = crate::Host::read(&self.host, OUT + 40, 8);
        assert_eq!(checked, (bytes / 4).to_le_bytes());
        self.out()
    }

    /// Sets the numbers to the values that the host presets.
    pub(super) fn preset(&mut self) {
        for (n, word) in [0, 0, 0, u64::MAX, 0, 0u64].into_iter().enumerate() {
            crate::Host::write(&mut self.host, OUT + 8 * n as u64, &word.to_le_bytes());
        }
    }

    pub(super) fn out(&self) -> [u64; 5] {
        let bytes = crate::Host::read(&self.host, OUT, 40);
        let words: Vec<_> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect();
        words.try_into().unwrap()
    }

    /// GB/s of `copies` (working GPU, source, target), all at once, five times each.
    fn rate(&mut self, copies: &[(usize, usize, usize)]) -> f64 {
        let times: Vec<_> = copies
            .iter()
            .map(|(by, from, to)| {
                let stream = self.engine.add_stream(*by);
                let events = [0; 2].map(|_| self.engine.add_event(*by));
                self.engine.record(events[0], stream).unwrap();
                for _ in 0..5 {
                    let (dst, src) = (self.buffers[*to], self.buffers[*from]);
                    self.engine
                        .push(
                            stream,
                            Work::Copy {
                                dst,
                                src,
                                bytes: SIZE,
                                pageable_bytes: None,
                            },
                        )
                        .unwrap();
                }
                self.engine.record(events[1], stream).unwrap();
                events
            })
            .collect();
        let reached = |fixture: &mut Self, e| fixture.engine.reached(e).unwrap();
        let longest = times
            .iter()
            .map(|[a, b]| reached(self, *b) - reached(self, *a))
            .fold(0.0, f64::max);
        (SIZE * 5 * copies.len() as u64) as f64 / longest
    }
}

fn assert_within(rate: f64, low: f64, high: f64) {
    assert!(
        (low..=high).contains(&rate),
        "{rate} is not within {low} and {high}"
    );
}

#[test]
fn the_reference_machine_reaches_its_figures() {
    let mut fixture = fixture("epyc-8x4090", "");
    assert_within(fixture.rate(&[(0, 0, 1)]), 25.4, 26.0);
    assert_within(fixture.rate(&[(0, 0, 4)]), 20.5, 22.5);
    assert_within(fixture.rate(&[(0, 0, 1), (1, 1, 0)]), 49.5, 50.6);
    assert_within(fixture.rate(&[(0, 0, 0)]) * 2.0, 905.0, 941.0);
    // Pairs that share no link do not slow each other down; two copies out of one GPU do.
    assert_within(fixture.rate(&[(0, 0, 1), (2, 2, 3)]), 50.8, 52.0);
    assert_within(fixture.rate(&[(0, 0, 1), (0, 0, 2)]), 25.5, 26.3);
    fixture.engine.gpus[0].peers.clear();
    assert_within(fixture.rate(&[(0, 0, 1)]), 18.2, 20.5);
    fixture.engine.gpus[1].peers.clear();
    assert_within(fixture.rate(&[(0, 0, 1), (1, 1, 0)]), 19.9, 21.7);
}

#[test]
fn nvlink_reaches_its_figures() {
    let mut fixture = fixture("h200-nvlink", "");
    assert_within(fixture.rate(&[(0, 0, 1)]), 388.0, 396.2);
    assert_within(fixture.rate(&[(1, 0, 1)]), 388.0, 394.0);
    assert_within(fixture.rate(&[(0, 0, 1), (1, 1, 0)]), 765.0, 784.0);
    assert_within(fixture.rate(&[(0, 0, 1), (2, 2, 3)]), 765.0, 793.0);
}

#[test]
fn small_copies_take_their_latency() {
    let mut fixture = fixture("epyc-8x4090", "");
    let events = [0; 2].map(|_| fixture.engine.add_event(0));
    fixture
        .engine
        .record(events[0], fixture.streams[0])
        .unwrap();
    for _ in 0..100 {
        fixture.copy(0, 0, 1, 16);
    }
    fixture
        .engine
        .record(events[1], fixture.streams[0])
        .unwrap();
    let took =
        fixture.engine.reached(events[1]).unwrap() - fixture.engine.reached(events[0]).unwrap();
    assert_within(took / 1e5, 1.17, 1.6);
}

#[test]
fn data_arrives_and_nothing_else_changes() {
    let mut fixture = fixture("epyc-8x4090", "");
    for gpu in 0..8 {
        fixture.fill(gpu, 100 + gpu as u64);
        fixture.finish(gpu);
    }
    fixture.copy(0, 0, 1, SIZE / 2);
    fixture.finish(0);
    assert_eq!(fixture.check(1, SIZE / 2, 100, 101), [0, 0, 0, u64::MAX, 0]);
    let words = SIZE / 4;
    assert_eq!(
        fixture.check(1, SIZE, 100, 101),
        [words / 2, 0, words / 2, words / 2, words - 1]
    );
    for gpu in [0, 2, 7] {
        assert_eq!(fixture.check(gpu, SIZE, 100 + gpu as u64, 0)[0], 0);
    }
}

/// The result of a copy of the whole buffer from GPU 0 to 1, checked on GPU 1, and whether GPU 2 is unchanged.
fn with_fault(fault: &str) -> ([u64; 5], bool) {
    let mut fixture = fixture("epyc-8x4090", &format!("[[fault]]\n{fault}\n"));
    for gpu in 0..3 {
        fixture.fill(gpu, 100 + gpu as u64);
        fixture.finish(gpu);
    }
    fixture.copy(0, 0, 1, SIZE);
    fixture.finish(0);
    let found = fixture.check(1, SIZE, 100, 101);
    let victim = fixture.check(2, SIZE, 102, 0)[0] == 0;
    (found, victim)
}

#[test]
fn each_fault_leaves_its_signature() {
    let words = SIZE / 4;
    let right = [0, 0, 0, u64::MAX, 0];
    assert_eq!(
        with_fault("kind = \"zeros\""),
        ([words, words, 0, 0, words - 1], true)
    );
    let old = [words, 0, words, 0, words - 1];
    assert_eq!(with_fault("kind = \"stale\""), (old, true));
    assert_eq!(with_fault("kind = \"mirror\""), (old, true));
    assert_eq!(with_fault("kind = \"zeros\"\npair = [1, 0]"), (right, true));
    assert_eq!(
        with_fault("kind = \"zeros\"\nengine = \"sm\""),
        (right, true)
    );
    assert_eq!(
        with_fault("kind = \"zeros\"\nway = \"read\""),
        (right, true)
    );
    assert_eq!(
        with_fault("kind = \"zeros\"\nfrom_bytes = 67108865"),
        (right, true)
    );
    assert_eq!(with_fault("kind = \"zeros\"\nevery = 2"), (right, true));
    assert_eq!(
        with_fault("kind = \"partial\"\nrate = 0.5").0,
        [words / 2, 0, words / 2, words / 2, words - 1]
    );
    assert_eq!(
        with_fault("kind = \"offset\"\nbytes = 4096").0,
        [words, 0, 1024, 0, words - 1]
    );
    assert_eq!(
        with_fault("kind = \"flip\"").0,
        [1, 0, 0, words / 2, words / 2]
    );
    assert_eq!(with_fault("kind = \"victim\""), (right, false));
    assert_eq!(
        with_fault("kind = \"victim\"\ninstead = true"),
        (old, false)
    );
}

#[test]
fn the_writer_of_a_mirror_reads_it_back() {
    let mut fixture = fixture("epyc-8x4090", "[[fault]]\nkind = \"mirror\"\n");
    fixture.fill(0, 100);
    fixture.fill(1, 101);
    fixture.finish(1);
    fixture.copy(0, 0, 1, SIZE);
    fixture.fill(0, 0);
    fixture.finish(0);
    fixture.launch(
        0,
        Kernel::Copy {
            dst: fixture.buffers[0],
            src: fixture.buffers[1],
            bytes: SIZE,
        },
    );
    fixture.finish(0);
    assert_eq!(fixture.check(0, SIZE, 100, 0)[0], 0);
    assert_eq!(fixture.check(1, SIZE, 101, 0)[0], 0);
}

#[test]
fn without_peer_access_kernels_fault_and_copies_are_staged() {
    let mut fixture = fixture("epyc-8x4090", "");
    fixture.engine.gpus[0].peers.clear();
    fixture.fill(0, 100);
    fixture.copy(0, 0, 1, SIZE);
    fixture.finish(0);
    assert_eq!(fixture.check(1, SIZE, 100, 0)[0], 0);
    fixture.launch(
        0,
        Kernel::Copy {
            dst: fixture.buffers[1],
            src: fixture.buffers[0],
            bytes: SIZE,
        },
    );
    let stream = fixture.streams[0];
    assert_eq!(fixture.engine.query(stream), Err(Status::ILLEGAL_ADDRESS));
    let work = Work::Set {
        dst: fixture.buffers[0],
        byte: 0,
        bytes: 4,
    };
    assert_eq!(
        fixture.engine.push(stream, work),
        Err(Status::ILLEGAL_ADDRESS)
    );
    fixture.finish(1);
}

#[test]
fn empty_accesses_may_have_any_address() {
    let mut fixture = fixture("epyc-8x4090", "");
    let src = fixture.buffers[0] + SIZE;
    fixture.launch(
        0,
        Kernel::Check {
            src,
            words: 0,
            first: 0,
            expected: 1,
            sentinel: 2,
            out: OUT,
        },
    );
    fixture.launch(
        0,
        Kernel::Fill {
            dst: src,
            words: 0,
            seed: 1,
            first: 0,
        },
    );
    fixture.finish(0);
}

#[test]
fn a_spinning_kernel_waits_for_the_host_flag() {
    let mut fixture = fixture("epyc-8x4090", "");
    let flag = OUT + 4096;
    fixture.launch(
        0,
        Kernel::Spin {
            flag,
            cycles: u64::MAX,
        },
    );
    let event = fixture.engine.add_event(0);
    fixture.fill(0, 100);
    fixture.engine.record(event, fixture.streams[0]).unwrap();
    fixture.engine.wait(event, fixture.streams[1]).unwrap();
    fixture.fill(1, 101);
    for gpu in 0..2 {
        assert_eq!(
            fixture.engine.query(fixture.streams[gpu]),
            Err(Status::NOT_READY)
        );
    }
    assert_eq!(fixture.engine.reached(event), Err(Status::NOT_READY));
    crate::Host::write(&mut fixture.host, flag, &[1, 0, 0, 0]);
    fixture.finish(0);
    fixture.finish(1);
    // A kernel whose flag is never set continues after its timeout.
    crate::Host::write(&mut fixture.host, flag, &[0; 4]);
    fixture.launch(0, Kernel::Spin { flag, cycles: 1000 });
    assert_eq!(
        fixture.engine.query(fixture.streams[0]),
        Err(Status::NOT_READY)
    );
    fixture.host.0.lock().unwrap().1 = Duration::from_secs(2);
    fixture.finish(0);
}

/// While streams wait for the host, simulated time passes as the host's does, and those that wait for one flag continue
/// together, whenever each began. A GPU with a wrong clock reports different times.
#[test]
fn spinning_streams_take_as_long_as_the_host_and_continue_together() {
    for (fault, rate) in [
        ("", 1.0),
        ("[[fault]]\nkind = \"clock\"\ngpu = 1\nrate = 0.5\n", 0.5),
    ] {
        let mut fixture = fixture("epyc-8x4090", fault);
        let flag = OUT + 4096;
        let set = |fixture: &EngineFixture, ms: u64| {
            fixture.host.0.lock().unwrap().1 = Duration::from_millis(ms);
        };
        let mut events = Vec::new();
        for gpu in 0..2 {
            let all: Vec<_> = (0..2).map(|_| fixture.engine.add_event(gpu)).collect();
            fixture.engine.record(all[0], fixture.streams[gpu]).unwrap();
            fixture.launch(
                gpu,
                Kernel::Spin {
                    flag,
                    cycles: u64::MAX,
                },
            );
            fixture.engine.record(all[1], fixture.streams[gpu]).unwrap();
            assert_eq!(
                fixture.engine.query(fixture.streams[gpu]),
                Err(Status::NOT_READY)
            );
            events.push(all);
            set(&fixture, 3);
        }
        set(&fixture, 8);
        crate::Host::write(&mut fixture.host, flag, &[1, 0, 0, 0]);
        fixture.finish(0);
        fixture.finish(1);
        let took: Vec<_> = events
            .iter()
            .map(|e| fixture.engine.elapsed(e[0], e[1]).unwrap())
            .collect();
        assert_eq!(took, [8e6, 8e6 * rate]);
    }
}

#[test]
fn a_hung_stream_is_never_ready_and_others_continue() {
    for (fault, gpu) in [
        ("hang\"\npair = [0, 1]", 0),
        ("error\"\ncode = 719\npair = [0, 1]", 0),
    ] {
        let mut fixture = fixture("epyc-8x4090", &format!("[[fault]]\nkind = \"{fault}\n"));
        fixture.copy(0, 0, 1, 64);
        fixture.copy(2, 2, 3, 64);
        fixture.finish(2);
        let expected = if fault.starts_with("hang") {
            Status::NOT_READY
        } else {
            Status::LAUNCH_FAILED
        };
        assert_eq!(fixture.engine.query(fixture.streams[gpu]), Err(expected));
    }
}

#[test]
fn simultaneous_transfers_collapse() {
    let mut fixture = fixture(
        "epyc-8x4090",
        "[[fault]]\nkind = \"collapse\"\nrate = 0.1\n",
    );
    assert_within(fixture.rate(&[(0, 0, 1), (1, 1, 0)]), 49.5, 50.6);
    assert_within(fixture.rate(&[(0, 0, 1), (1, 1, 0), (0, 0, 2)]), 1.0, 8.0);
}

#[test]
fn a_slow_pair_and_a_narrow_link_are_slow() {
    let mut fixture = fixture(
        "epyc-8x4090",
        "[[fault]]\nkind = \"slow\"\npair = [0, 1]\nrate = 0.5\n[[fault]]\nkind = \"narrow\"\ngpu = 3\nrate = 0.25\n",
    );
    assert_within(fixture.rate(&[(0, 0, 1)]), 12.6, 13.0);
    assert_within(fixture.rate(&[(1, 1, 0)]), 25.4, 26.0);
    assert_within(fixture.rate(&[(0, 0, 3)]), 6.3, 6.6);
    assert_within(fixture.rate(&[(0, 0, 2)]), 25.4, 26.0);
}

fn ping_pong(fault: &str) -> [[u64; 5]; 2] {
    ping_pong_of(fault, 32, false)
}

/// `loaded`: while copy engines move data in the same direction.
fn ping_pong_of(fault: &str, words: u64, loaded: bool) -> [[u64; 5]; 2] {
    let mut fixture = fixture("epyc-8x4090", fault);
    let outs = [OUT, OUT + 64];
    for (gpu, out) in outs.into_iter().enumerate() {
        let mut old = [0u64; 5];
        old[1] = u64::MAX;
        for (n, word) in old.into_iter().enumerate() {
            crate::Host::write(&mut fixture.host, out + 8 * n as u64, &word.to_le_bytes());
        }
        let args = crate::kernel::PingPong {
            words,
            mine: fixture.buffers[gpu],
            theirs: fixture.buffers[1 - gpu],
            rounds: 1000,
            seed_mine: gpu as u64,
            seed_theirs: 1 - gpu as u64,
            first: gpu == 0,
            cycles: 1_000_000,
            out,
        };
        if loaded && gpu == 1 {
            // Queued now, because a query of the first side finishes what is under way; the second side begins after a
            // small copy of its own, when these copies run.
            let [from, to] = [0, 1].map(|gpu| fixture.buffers[gpu] + SIZE / 2);
            let work = Work::Copy {
                dst: to,
                src: from,
                bytes: SIZE / 2,
                pageable_bytes: None,
            };
            let stream = fixture.engine.add_stream(0);
            fixture.engine.push(stream, work).unwrap();
            let own = fixture.buffers[1];
            let small = Work::Copy {
                dst: own + (1 << 20),
                src: own + (2 << 20),
                bytes: 16,
                pageable_bytes: None,
            };
            fixture.engine.push(fixture.streams[1], small).unwrap();
        }
        fixture.launch(gpu, Kernel::PingPong(args));
        if gpu == 0 {
            assert_eq!(
                fixture.engine.query(fixture.streams[0]),
                Err(Status::NOT_READY)
            );
        }
    }
    fixture.finish(0);
    fixture.finish(1);
    outs.map(|out| {
        let bytes = crate::Host::read(&fixture.host, out, 40);
        let words: Vec<_> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect();
        words.try_into().unwrap()
    })
}

#[test]
fn a_ping_pong_detects_faulty_flags_and_data() {
    for side in ping_pong("") {
        assert_eq!(side[..4], [0, u64::MAX, 1000, 0]);
        assert!(side[4] > 0);
    }
    let [a, b] = ping_pong("[[fault]]\nkind = \"reorder\"\npair = [0, 1]\nevery = 100\n");
    assert_eq!(
        (&a[..4], &b[..4]),
        (&[0, u64::MAX, 1000, 0][..], &[320, 100, 1000, 0][..])
    );
    let under_load = "[[fault]]\nkind = \"reorder\"\npair = [0, 1]\nevery = 100\nfrom_bytes = 4096\nbeside = \"engine\"\n";
    for (words, loaded, wrong) in [(32, true, 0), (2048, false, 0), (2048, true, 20_480)] {
        assert_eq!(
            ping_pong_of(under_load, words, loaded)[1][0],
            wrong,
            "{words} words, loaded: {loaded}"
        );
    }
    let [a, b] = ping_pong("[[fault]]\nkind = \"stale\"\npair = [1, 0]\n");
    assert_eq!((a[2], a[3], b[2], b[3]), (0, 1, 1, 1));
}

#[test]
fn dependent_loads_go_around_a_ring() {
    let mut fixture = fixture("epyc-8x4090", "");
    let ring = fixture.buffers[1];
    fixture.launch(
        1,
        Kernel::ChaseInit {
            ring,
            count: 100,
            stride: 128,
        },
    );
    fixture.finish(1);
    let event = [0; 2].map(|_| fixture.engine.add_event(0));
    fixture.engine.record(event[0], fixture.streams[0]).unwrap();
    fixture.launch(
        0,
        Kernel::Chase {
            start: ring,
            steps: 1_000_003,
            out: OUT,
        },
    );
    fixture.engine.record(event[1], fixture.streams[0]).unwrap();
    fixture.finish(0);
    assert_eq!(fixture.out()[0], ring + 3 * 128);
    let took =
        fixture.engine.reached(event[1]).unwrap() - fixture.engine.reached(event[0]).unwrap();
    assert_within(took / 1e6, 1310.0, 1490.0);
}

#[test]
fn every_thread_increments_the_counter() {
    let mut fixture = fixture("epyc-8x4090", "");
    let counter = fixture.buffers[1];
    for gpu in 0..2 {
        fixture.launch(gpu, Kernel::Count { counter, times: 10 });
    }
    fixture.finish(0);
    fixture.finish(1);
    assert_eq!(fixture.engine.numbers(1, counter, 1), Ok(vec![2 * 64 * 10]));
}

#[test]
fn sixty_four_gpus_transfer_all_at_once() {
    let (simulation, _) = machine("epyc-8x4090", "");
    let mut scenario = simulation.engine.scenario;
    scenario.machine.gpus = 64;
    let mut engine = Engine::new(scenario, Box::new(Host::default()));
    let buffers: Vec<_> = (0..64)
        .map(|g| engine.memory.alloc(g, SIZE).unwrap())
        .collect();
    for a in 0..64 {
        engine.gpus[a].peers = (0..64).filter(|b| *b != a).collect();
        for b in (0..64).filter(|b| *b != a) {
            let stream = engine.add_stream(a);
            let work = Work::Copy {
                dst: buffers[b],
                src: buffers[a],
                bytes: SIZE,
                pageable_bytes: None,
            };
            engine.push(stream, work).unwrap();
        }
    }
    for gpu in 0..64 {
        assert_eq!(engine.query_gpu(gpu), Ok(()));
    }
}

#[test]
fn the_clock_advances_after_hours_of_simulated_time() {
    let mut fixture = fixture("epyc-8x4090", "");
    fixture.engine.now = 1e13;
    for _ in 0..200 {
        fixture.fill(0, 1);
        fixture.copy(0, 0, 1, SIZE - 4);
        fixture.copy(1, 1, 2, 12_345);
    }
    fixture.finish(0);
    fixture.finish(1);
}

#[test]
fn a_change_of_closed_host_memory_is_copied() {
    let mut fixture = fixture("epyc-8x4090", "");
    let host = 0x5100_0000_0000;
    fixture
        .engine
        .memory
        .pinned
        .insert(host, crate::memory::Pinned::new(SIZE));
    let (gpu, stream) = (fixture.buffers[0], fixture.streams[0]);
    let copy = |dst, src| Work::Copy {
        dst,
        src,
        bytes: SIZE,
        pageable_bytes: None,
    };
    fixture
        .engine
        .push(
            stream,
            Work::Set {
                dst: gpu,
                byte: 0xa5,
                bytes: SIZE,
            },
        )
        .unwrap();
    fixture.engine.push(stream, copy(host, gpu)).unwrap();
    fixture.finish(0);
    let touched = host + SIZE / 3;
    assert!(fixture.engine.materialize(touched) && !fixture.engine.materialize(touched));
    crate::Host::write(&mut fixture.host, touched, &[1]);
    fixture.engine.push(stream, copy(gpu, host)).unwrap();
    fixture.finish(0);
    let back = 0x5000_0000_8000;
    fixture
        .engine
        .push(
            stream,
            Work::Copy {
                dst: back,
                src: gpu + SIZE / 3 - 1,
                bytes: 3,
                pageable_bytes: None,
            },
        )
        .unwrap();
    fixture.finish(0);
    assert_eq!(crate::Host::read(&fixture.host, back, 3), [0xa5, 1, 0xa5]);
}
