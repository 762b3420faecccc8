//! Whether data that one GPU sends to another arrives, and changes nothing else. Every ordered pair moves
//! fresh data by copy engine and by kernel, writing and reading; the owner checks its own memory, the host
//! checks samples, and all other memory must stay unchanged. Nothing is timed here.

mod all_pairs;
mod bench;
mod checker;
mod diagnosis;
mod judge;
mod level_plan;
mod results;
mod simple_values;
mod test_gpu;
#[cfg(test)]
mod tests;
mod tried_table;
mod unused_memory;

use crate::schedule::Pair;
use crate::suite::p2p::processes;
use crate::suite::p2p::processes::NOT_SUPPORTED;
use crate::suite::shared::free_memory;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::peer_access::mapped_for_peers;
use crate::suite::shared::transfer::{Direction, Engine, Memory, Transfer, TransferKind};
use crate::suite::{Group, Test, TestContext};
use bench::IntegrityBench;
use gpu::{self, Gpu, GpuError, PeerAccess};
use level_plan::LevelPlan;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use report::Level;
use results::{AccessState, OverallResults, PairResult};
use std::time::Duration;

/// With more GPUs than this, other memory is checked only once for each pair, because its content shows whose data
/// it is anyway.
const MANY: usize = 16;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_INTEGRITY,
    title: "Peer data",
    proves: "all data that a GPU writes to or reads from another arrives, and no other memory changes",
    level: Level::Quick,
    deadline: Duration::from_secs(60),
    mandatory: true,
    group: Group::Gpu,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = context.no_gpus(true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let broken = |e: GpuError| fault_finding(Subject::Machine, &e);
    if let Some(full) = free_memory::shortage(clique, free_memory::MIN_FREE).map_err(broken)? {
        return Ok(Judgement::by(full));
    }
    // The other process starts while pairs are tried.
    let starting = processes::start_ahead(context);
    context.doing("preparing memory on every GPU");
    let asked = LevelPlan::of(context.config.validate.level);
    let mut bench = IntegrityBench::new(context, clique, asked.clone()).map_err(broken)?;
    let wrong = bench.checkers().map_err(broken)?;
    let avoid = &context.config.validate.avoid;
    let wanted = |(from, to): &(&Gpu, &Gpu)| !avoid.contains(&(from.id(), to.id()));
    let pairs = clique.pairs().filter(wanted).count();
    if !wrong.is_empty() {
        let summary = wrong
            .first()
            .map(|f| f.message.to_string())
            .unwrap_or_default();
        return Ok(Judgement::of(summary, wrong));
    }
    let mut more: Vec<Finding> = bench.plan.left_out(&asked).into_iter().collect();
    if bench.plan.memories.contains(&Memory::Mapped) {
        more.extend(bench.map().map_err(broken)?);
    }
    bench
        .hold_unused_memory(clique, if starting { processes::CONTEXT } else { 0 })
        .map_err(broken)?;
    let mut tried = Vec::new();
    for (from, to) in clique.pairs().filter(wanted) {
        tried.push(bench.pair(from, to).map_err(broken)?);
        if gpu::is_cuda_lost() {
            break;
        }
    }
    let mut all = OverallResults {
        watched: bench.watched(),
        all_pairs: None,
    };
    if !gpu::is_cuda_lost() {
        all.all_pairs = bench
            .run_all_pairs(clique, &mut tried, &mut more)
            .map_err(broken)?;
        more.extend(
            bench
                .check_unused_memory(clique, &mut tried)
                .map_err(broken)?,
        );
    }
    Ok(judge::judge(&bench.plan, pairs, &tried, more, &all))
}

impl<'m> IntegrityBench<'m> {
    /// Wrong results of the GPUs' checkers.
    fn checkers(&self) -> Result<Vec<Finding>, GpuError> {
        let mut wrong = Vec::new();
        for test_gpu in &self.test_gpus {
            self.context
                .doing(format!("GPU {}: testing the checker", test_gpu.gpu.id()));
            wrong.extend(checker::test_checker(
                test_gpu,
                &mut self.nonces.borrow_mut(),
            )?);
        }
        Ok(wrong)
    }

    /// Adds mapped memory to every GPU, for all that may reach it; a refusal is a finding, and mapped memory
    /// is left out.
    fn map(&mut self) -> Result<Option<Finding>, GpuError> {
        let gpus: Vec<&Gpu> = self.test_gpus.iter().map(|s| s.gpu).collect();
        let layout = self.plan.layout(Memory::Mapped);
        let mut refused = None;
        for test_gpu in &mut self.test_gpus {
            self.context.doing(format!(
                "GPU {}: mapping memory for its peers",
                test_gpu.gpu.id()
            ));
            match mapped_for_peers(&gpus, test_gpu.gpu, layout.bytes()) {
                Err(error) if error.is_sticky() => return Err(error),
                Err(error) => refused = Some((test_gpu.gpu.id(), error)),
                Ok(buffer) => test_gpu.add_mapped(buffer),
            }
        }
        if let Some((n, error)) = refused {
            self.test_gpus
                .iter_mut()
                .for_each(|test_gpu| test_gpu.mapped = None);
            self.plan.memories.retain(|m| *m != Memory::Mapped);
            // A driver without such memory does not refuse it.
            let none = error.code() == Some(NOT_SUPPORTED);
            let (severity, what) = if none {
                (Severity::Info, "is not supported")
            } else {
                (Severity::Fail, "is refused")
            };
            let error = error.to_string();
            let message = format!("GPU {n}: mapped memory that its peers may use {what}: {error}");
            return Ok(Some(
                Code::P2pRefused
                    .finding(severity, n, message)
                    .lacking([error.as_str()]),
            ));
        }
        self.reset_sentinels()?;
        Ok(None)
    }

    /// Runs all transfers of one pair. An error ends them early and is recorded; the memory is then restored,
    /// and other pairs are still tried.
    fn pair(&self, from: &Gpu, to: &Gpu) -> Result<PairResult, GpuError> {
        let pair = Pair {
            from: from.id(),
            to: to.id(),
        };
        let mut tried = PairResult {
            pair,
            access: AccessState::No,
            faults: Vec::new(),
            ended: None,
        };
        if let Err(error) = self.transfers(from, to, &mut tried) {
            tried.ended = Some(fault_finding(pair, &error));
            if !gpu::is_cuda_lost() {
                let since = self.since.take();
                self.history.borrow_mut().extend(since);
                self.reset_sentinels()?;
            }
        }
        Ok(tried)
    }

    fn transfers(&self, from: &Gpu, to: &Gpu, tried: &mut PairResult) -> Result<(), GpuError> {
        self.try_staged(tried)?;
        if !from.can_access(to)? {
            return Ok(());
        }
        let mut access = match PeerAccess::one_way(from, to) {
            Ok(access) => Some(access),
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => {
                tried.access = AccessState::Refused(error.to_string());
                return Ok(());
            }
        };
        tried.access = AccessState::On;
        let mut failed: Vec<TransferKind> = Vec::new();
        let kinds = self.plan.kinds();
        let alike = |a: &TransferKind, b: &TransferKind| {
            a.memory == b.memory && (a.direction == b.direction || a.memory == Memory::Small)
        };
        for alike in kinds.chunk_by(alike) {
            for kind in alike {
                if kind.memory == Memory::Mapped {
                    // Mapped memory needs no enabled access, and must not benefit from it.
                    access = None;
                }
                // The same transfer in another kind of memory would prove nothing new.
                let known = failed
                    .iter()
                    .any(|f| (f.engine, f.direction) == (kind.engine, kind.direction));
                if known {
                    continue;
                }
                let mut arrives = self.try_kind(tried.pair, *kind, &mut tried.faults)?;
                if arrives && kind.memory == Memory::Plain {
                    arrives = self.try_values(tried.pair, *kind, &mut tried.faults)?;
                }
                if !arrives {
                    failed.push(*kind);
                }
            }
            if self.test_gpus.len() <= MANY {
                self.find_strays(&mut tried.faults)?;
            }
        }
        drop(access);
        self.find_strays(&mut tried.faults)
    }

    /// With peer access off the driver copies through host memory, and the data must arrive: then any fault
    /// with peer access on is caused by peer access.
    fn try_staged(&self, tried: &mut PairResult) -> Result<(), GpuError> {
        let kind = TransferKind {
            engine: Engine::Staged,
            direction: Direction::Write,
            memory: Memory::Plain,
        };
        let transfer = Transfer {
            pair: tried.pair,
            kind,
            bytes: (64 << 10) + 4,
            shift: (0, 0),
        };
        self.try_transfer(transfer, &mut tried.faults)?;
        Ok(())
    }
}
