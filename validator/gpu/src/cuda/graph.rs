//! Rounds of the all-reduce that frameworks implement themselves, captured into a CUDA graph and launched again
//! and again. `kernels/allreduce.cu` describes the kernels.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::context::Context;
use super::device::Gpu;
use super::error::GpuError;
use super::launch::{THREADS, at};
use super::memory::{Buffer, pinned::Pinned, span::Span};
use super::stream::Stream;
use cudarc::driver::sys;
use machine::Rank;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: does not restrict the calls of other threads meanwhile.
const THREAD_LOCAL: u32 = 1;
/// The most ranks: `RANKS` of the kernels.
pub const RANKS: usize = 16;
/// Bytes of a rank's signal area: a flag for each block and rank.
pub const SIGNALS: u64 = (BLOCKS as u64) * (RANKS as u64) * 4;
/// Rounds of a graph: first one-shot, then two-shot.
pub const ROUNDS: [u32; 2] = [20, 20];
/// The most launches of a graph whose times are kept.
pub const LAUNCHES: u64 = 8;

/// Blocks of an all-reduce at most, and the threads of each.
const BLOCKS: u32 = 32;
const REDUCE_THREADS: u32 = 512;
/// Offset of the kernels' `Books` in the books' memory: the addresses of all areas are before it, two results after it.
const BOOKS: u64 = 512;
const BOOKS_BYTES: u64 = 512;
const RESULTS: u64 = 1024;
const RESULT_BYTES: u64 = 128;
/// Numbers of `Books` before the times.
const TIMES: u64 = 2;
/// The numbers of a result that start as all ones: a minimum, and a mask from which bits are removed.
const PRESET: [u64; 2] = [3, 6];
/// The low bits of a word's number that are its place: `PLACE_BITS` of the kernels.
const PLACE_BITS: u32 = 20;

/// One rank's own records: the addresses of its peers' memory, its progress, and its results.
#[derive(Debug)]
pub struct Books {
    device: Buffer,
    host: Pinned,
}

/// One rank's all-reduces of one size.
#[derive(Debug, Clone)]
pub struct Reduction<'m> {
    /// Which of the ranks it is.
    pub rank: Rank,
    /// All ranks' signal areas.
    pub signals: Vec<Span<'m>>,
    /// All ranks' data areas: the first half is the input, the second half a rank's part of the sum.
    pub data: Vec<Span<'m>>,
    /// The memory for its result; its size is the size of the all-reduce, a multiple of 16 bytes.
    pub out: Span<'m>,
    /// The seed of the values.
    pub seed: u64,
    /// The number of this GPU's clocks after which it no longer waits for a flag.
    pub max_cycles: u64,
    /// Its books.
    pub books: &'m Books,
}

/// A flag that did not arrive in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Its step; a round has three.
    pub step: u64,
    /// The rank that should have set it.
    pub peer: Rank,
}

/// The check of one rank's results of one kind of all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduced {
    /// Words that were checked.
    pub looked: u64,
    /// Words that are not the sum of all inputs.
    pub wrong: u64,
    /// Of those, words that contain zeros in place of an input or of the sum.
    pub zeros: u64,
    /// Of those, words that contain the previous round's values there.
    pub stale: u64,
    /// Of those, words that contain all ones there.
    pub ones: u64,
    /// A bit for each rank whose input explains all of them.
    pub peers: u64,
    /// One of the wrong words: round, place, found, expected.
    pub sample: Option<[u64; 4]>,
    /// The place of the wrong word with the lowest number.
    pub first: u64,
}

/// Captured work, ready to be launched.
#[derive(Debug)]
pub struct Graph<'m> {
    exec: sys::CUgraphExec,
    context: Rc<Context>,
    /// The memory that its work uses.
    memory: PhantomData<&'m Rc<()>>,
}

/// Captured work that cannot be launched yet.
#[derive(Debug)]
pub struct Captured {
    graph: sys::CUgraph,
    context: Rc<Context>,
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; what was made of it does not need it.
        unsafe { (self.context.api.graph_destroy)(self.graph) };
    }
}

impl Books {
    /// The books of a rank on `gpu`, before the first round.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu, stream: &Stream) -> Result<Self, GpuError> {
        let books = Self {
            device: gpu.alloc(4096)?,
            host: Pinned::alloc(gpu, 8192)?,
        };
        stream.set_bytes(books.device.whole(), 0)?;
        Ok(books)
    }

    /// The 64-bit number `n` of the copy on the host.
    fn number(&self, n: u64) -> u64 {
        u64::from(self.host.word(n * 2)) | u64::from(self.host.word(n * 2 + 1)) << 32
    }

    /// Each round's nanoseconds in launch `launch`; only after `finish` of its stream.
    #[must_use]
    pub fn nanoseconds(&self, launch: u64) -> Vec<u64> {
        let rounds = ROUNDS.iter().map(|n| u64::from(*n)).sum();
        let begin = launch * BOOKS_BYTES / 8 + TIMES;
        (0..rounds).map(|n| self.number(begin + n)).collect()
    }

    /// The flag that this rank gave up waiting for in one of `launches` launches; only after `finish` of its stream.
    #[must_use]
    pub fn late(&self, launches: u64) -> Option<Late> {
        let late = self.number(launches.saturating_sub(1) * BOOKS_BYTES / 8 + 1);
        let peer = usize::try_from(late & 0xff).ok()?.checked_sub(1)?;
        Some(Late {
            step: late >> 8,
            peer: Rank::new(peer),
        })
    }

    /// The check of the results of kind 0, one-shot, or 1, two-shot; only after `finish` of its stream.
    #[must_use]
    pub fn reduced(&self, kind: u64) -> Reduced {
        let at = |n| self.number((LAUNCHES * BOOKS_BYTES + kind * RESULT_BYTES) / 8 + n);
        let place = |number: u64| number & ((1 << PLACE_BITS) - 1);
        let sample = [at(9) >> PLACE_BITS, place(at(9)), at(10), at(11)];
        Reduced {
            looked: at(5),
            wrong: at(0),
            zeros: at(1),
            stale: at(2),
            peers: if at(6) == u64::MAX { 0 } else { at(6) },
            ones: at(7),
            sample: (at(8) > 0).then_some(sample),
            first: place(at(3)),
        }
    }
}

impl Stream {
    /// Prepares the all-reduces that `asked` describes and captures their rounds, each with new input and a check.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if an area is too small.
    pub fn reductions<'m>(&self, asked: &Reduction<'m>) -> Result<Graph<'m>, GpuError> {
        self.introduce(asked)?;
        for kind in [0, 1] {
            let result = asked
                .books
                .device
                .span(RESULTS + kind * RESULT_BYTES, RESULT_BYTES)?;
            self.set_bytes(result, 0)?;
            PRESET
                .iter()
                .try_for_each(|n| self.set_bytes(result.part(n * 8, 8)?, 0xff))?;
        }
        self.capture(|| self.rounds(asked))
    }

    /// Writes the addresses of all ranks' memory for the kernels.
    fn introduce(&self, asked: &Reduction<'_>) -> Result<(), GpuError> {
        let Reduction {
            books,
            signals,
            data,
            out,
            ..
        } = asked;
        let (rank, ranks) = (asked.rank.index(), signals.len());
        if ranks != data.len() || ranks > RANKS || rank >= ranks || !out.bytes.is_multiple_of(16) {
            return Err(GpuError::Nonsense(format!(
                "an all-reduce of {ranks} ranks, {} bytes",
                out.bytes
            )));
        }
        let begin = LAUNCHES * BOOKS_BYTES + 2 * RESULT_BYTES;
        let host = books.host.span(begin, 3 * 8 * RANKS as u64)?;
        for (rank, (signals, data)) in signals.iter().zip(data).enumerate() {
            let sums = data.part(data.bytes / 2, out.bytes)?;
            let areas = [signals.part(0, SIGNALS)?, data.part(0, out.bytes)?, sums];
            for (n, area) in areas.iter().enumerate() {
                let word = begin / 4 + ((n * RANKS + rank) * 2) as u64;
                books.host.set_word(
                    word,
                    u32::try_from(area.address & 0xffff_ffff).unwrap_or_default(),
                );
                books.host.set_word(
                    word + 1,
                    u32::try_from(area.address >> 32).unwrap_or_default(),
                );
            }
        }
        self.copy_in(books.device.span(0, host.bytes)?, host)
    }

    fn rounds(&self, asked: &Reduction<'_>) -> Result<(), GpuError> {
        let [once, twice] = ROUNDS;
        (0..once + twice).try_for_each(|n| self.round(asked, n, n >= once))?;
        let mut a = (
            asked.books.device.span(BOOKS, BOOKS_BYTES)?.address,
            once + twice,
        );
        let list = [at(&raw mut a.0), at(&raw mut a.1)];
        self.launch(self.kernels().reduce_next, 1, 1, &list, "fl_reduce_next")
    }

    /// New input, the all-reduce, and the check of its result.
    fn round(&self, asked: &Reduction<'_>, n: u32, twice: bool) -> Result<(), GpuError> {
        let (books, rank) = (asked.books, asked.rank.index());
        let own = asked
            .data
            .get(rank)
            .ok_or_else(|| GpuError::Nonsense("no own area".to_owned()))?;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (mut rank, mut ranks) = (small(rank), small(asked.signals.len()));
        let (mut n, mut words, mut seed) = (n, asked.out.words(), asked.seed);
        let mut input = own.address;
        let mut state = books.device.span(BOOKS, BOOKS_BYTES)?.address;
        let grid = self.grid(words);
        let list = [
            at(&raw mut input),
            at(&raw mut words),
            at(&raw mut seed),
            at(&raw mut rank),
            at(&raw mut n),
            at(&raw mut state),
        ];
        self.launch(
            self.kernels().reduce_fill,
            grid,
            THREADS,
            &list,
            "fl_reduce_fill",
        )?;
        let (mut areas, mut cycles) = (books.device.span(0, 8)?.address, asked.max_cycles);
        let (mut out, mut vectors, mut kind) = (asked.out.address, words / 4, u32::from(twice));
        let blocks = u32::try_from(vectors.div_ceil(u64::from(REDUCE_THREADS))).unwrap_or(BLOCKS);
        let list = [
            at(&raw mut areas),
            at(&raw mut rank),
            at(&raw mut ranks),
            at(&raw mut cycles),
            at(&raw mut state),
            at(&raw mut out),
            at(&raw mut vectors),
            at(&raw mut n),
            at(&raw mut kind),
        ];
        self.launch(
            self.kernels().reduce,
            blocks.clamp(1, BLOCKS),
            REDUCE_THREADS,
            &list,
            "fl_reduce",
        )?;
        let mut result = books
            .device
            .span(RESULTS + u64::from(kind) * RESULT_BYTES, RESULT_BYTES)?
            .address;
        let list = [
            at(&raw mut out),
            at(&raw mut words),
            at(&raw mut seed),
            at(&raw mut ranks),
            at(&raw mut n),
            at(&raw mut state),
            at(&raw mut result),
        ];
        self.launch(
            self.kernels().reduce_check,
            grid,
            THREADS,
            &list,
            "fl_reduce_check",
        )
    }

    /// Launches a rank's graph `launches` times, at most [`LAUNCHES`], and copies its records to the host.
    ///
    /// # Errors
    /// The driver's error.
    pub fn replay(&self, graph: &Graph<'_>, launches: u64, books: &Books) -> Result<(), GpuError> {
        for n in 0..launches.min(LAUNCHES) {
            self.launch_graph(graph)?;
            let from = books.device.span(BOOKS, BOOKS_BYTES)?;
            self.copy_out(books.host.span(n * BOOKS_BYTES, BOOKS_BYTES)?, from)?;
        }
        let all = books.device.span(RESULTS, 2 * RESULT_BYTES)?;
        self.copy_out(books.host.span(LAUNCHES * BOOKS_BYTES, all.bytes)?, all)
    }

    /// Captures the work that `queue` queues here, without running it.
    fn capture<'m>(
        &self,
        queue: impl FnOnce() -> Result<(), GpuError>,
    ) -> Result<Graph<'m>, GpuError> {
        self.begin_capture()?;
        let queued = queue();
        let captured = self.end_capture();
        queued
            .and(captured)
            .and_then(|captured| self.instantiate(&captured))
    }

    /// From now on work that this thread queues here is captured and does not run. Every capture must be ended.
    ///
    /// # Errors
    /// The driver's error.
    pub fn begin_capture(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.context.api.capture)(self.handle, THREAD_LOCAL) };
        self.check_call("cuStreamBeginCapture", code, String::new)
    }

    /// Ends the capture that began here.
    ///
    /// # Errors
    /// The driver's error, also if something was queued that cannot be captured.
    pub fn end_capture(&self) -> Result<Captured, GpuError> {
        self.context.bind()?;
        let mut graph = ptr::null_mut();
        // SAFETY: one handle is written; the capture ends whatever was queued.
        let code = unsafe { (self.context.api.capture_end)(self.handle, &raw mut graph) };
        self.check_call("cuStreamEndCapture", code, String::new)?;
        Ok(Captured {
            graph,
            context: Rc::clone(&self.context),
        })
    }

    /// Makes captured work ready to be launched here. Not while a stream of this thread captures: the driver then refuses it with
    /// 900 (seen with 580.159.04). The memory that the work uses must outlive the graph.
    ///
    /// # Errors
    /// The driver's error.
    pub fn instantiate<'m>(&self, captured: &Captured) -> Result<Graph<'m>, GpuError> {
        self.context.bind()?;
        let mut exec = ptr::null_mut();
        // SAFETY: one handle is written; the graph is alive.
        let code =
            unsafe { (self.context.api.graph_instantiate)(&raw mut exec, captured.graph, 0) };
        self.check_call("cuGraphInstantiateWithFlags", code, String::new)?;
        Ok(Graph {
            exec,
            context: Rc::clone(&self.context),
            memory: PhantomData,
        })
    }

    /// Launches a graph that was captured here.
    ///
    /// # Errors
    /// The driver's error.
    pub fn launch_graph(&self, graph: &Graph<'_>) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: the graph belongs to this context and is alive, and the memory that its work uses outlives it.
        let code = unsafe { (self.context.api.graph_launch)(graph.exec, self.handle) };
        self.check_call("cuGraphLaunch", code, String::new)
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        if self.context.wait_until_idle() {
            // SAFETY: made once, destroyed once; no launch of it runs.
            unsafe { (self.context.api.graph_exec_destroy)(self.exec) };
        }
    }
}
