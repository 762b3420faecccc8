//! The simulated driver, as calls on values: which GPUs there are, their contexts, peer access and
//! modules. Handles, pointers and threads are left to the library in front of it.

mod attribute;
mod module;

pub use module::{Module, length as image_length};

use crate::engine::{Engine, StreamId};
use crate::events;
use crate::host::Host;
use crate::scenario::{Kind, Scenario};
use crate::status::{Result, Status};
use std::collections::BTreeMap;

/// The simulated driver.
pub struct Simulation {
    /// The machine at work.
    pub engine: Engine,
    /// GPUs that the driver shows, in order: ordinals lead to places in the machine.
    visible: Vec<usize>,
    /// How often each GPU's context is held.
    held: Vec<u64>,
    /// Each GPU's stream 0.
    default_streams: BTreeMap<usize, StreamId>,
    modules: BTreeMap<u64, Module>,
    next_module: u64,
}

impl Simulation {
    /// The driver of a scenario's machine.
    #[must_use]
    pub fn new(scenario: Scenario, host: Box<dyn Host + Send>) -> Self {
        let gpus = scenario.machine.gpus;
        Self {
            visible: scenario.shown(),
            held: vec![0; gpus],
            default_streams: BTreeMap::new(),
            modules: BTreeMap::new(),
            next_module: 0,
            engine: Engine::new(scenario, host),
        }
    }

    /// What is simulated.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.engine.scenario
    }

    /// cuInit.
    pub fn init(&self) -> Result<()> {
        let fault = self.scenario().fault.iter().find(|f| f.kind == Kind::Init);
        fault.map_or(Ok(()), |f| Err(Status(f.code)))?;
        if (0..self.scenario().machine.gpus).any(|gpu| events::is_lost(self.scenario(), gpu)) {
            return Err(Status::UNKNOWN);
        }
        if self.visible.is_empty() { Err(Status::NO_DEVICE) } else { Ok(()) }
    }

    /// How many GPUs the driver shows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.visible.len()
    }

    /// The GPU of an ordinal.
    pub fn gpu(&self, ordinal: i32) -> Result<usize> {
        let place = usize::try_from(ordinal).ok().and_then(|n| self.visible.get(n));
        place.copied().ok_or(Status::INVALID_DEVICE)
    }

    /// cuDevicePrimaryCtxRetain.
    pub fn retain(&mut self, gpu: usize) {
        if let Some(held) = self.held.get_mut(gpu) {
            *held += 1;
        }
    }

    /// cuDevicePrimaryCtxRelease: with the last holder all that is in the context goes.
    pub fn release(&mut self, gpu: usize) -> Result<()> {
        let held = self.held.get_mut(gpu).filter(|n| **n > 0).ok_or(Status::INVALID_CONTEXT)?;
        *held -= 1;
        if *held == 0 {
            self.engine.run();
            self.engine.forget(gpu);
            self.default_streams.remove(&gpu);
            self.modules.retain(|_, m| m.gpu != gpu);
        }
        Ok(())
    }

    /// Whether a GPU has a context.
    #[must_use]
    pub fn has_context(&self, gpu: usize) -> bool {
        self.held.get(gpu).is_some_and(|n| *n > 0)
    }

    /// A GPU's stream 0.
    pub fn default_stream(&mut self, gpu: usize) -> StreamId {
        let engine = &mut self.engine;
        *self.default_streams.entry(gpu).or_insert_with(|| engine.add_stream(gpu))
    }

    /// Free and total bytes of a GPU's memory.
    #[must_use]
    pub fn memory(&self, gpu: usize) -> (u64, u64) {
        (self.engine.memory.free(gpu), self.scenario().machine.usable())
    }
}

impl Scenario {
    /// GPUs that CUDA can compute on, in order.
    #[must_use]
    fn computing(&self) -> Vec<usize> {
        self.visible().into_iter().filter(|gpu| !self.machine.mig.contains(gpu)).collect()
    }

    /// GPUs that the driver knows, in order.
    #[must_use]
    pub fn visible(&self) -> Vec<usize> {
        let missing = |gpu| self.fault.iter().any(|f| f.kind == Kind::Missing && f.gpu == Some(gpu));
        (0..self.machine.gpus).filter(|gpu| !missing(*gpu)).collect()
    }

    /// Those of them that CUDA shows to this process, in order: `CUDA_VISIBLE_DEVICES` names some by number.
    #[must_use]
    pub fn shown(&self) -> Vec<usize> {
        let all = self.computing();
        let Ok(named) = std::env::var("CUDA_VISIBLE_DEVICES") else { return all };
        // As CUDA has it, the first name that is none ends the list.
        let place = |name: &str| all.get(name.trim().parse::<usize>().ok()?).copied();
        named.split(',').map_while(place).collect()
    }
}

#[cfg(test)]
mod tests;
