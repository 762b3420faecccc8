//! Peer access: what CUDA and NVML say about it, and what comes of enabling it.

use super::Simulation;
use crate::scenario::{Fault, Kind, Scenario};
use crate::status::{Result, Status};

impl Scenario {
    /// The last fault about what is said of a pair.
    fn said(&self, from: usize, to: usize) -> impl Iterator<Item = &Fault> {
        self.faults(Kind::Capability, from, to)
    }

    /// Whether CUDA says that `from` can access `to`.
    #[must_use]
    pub fn can_access(&self, from: usize, to: usize) -> bool {
        let said = self.said(from, to).filter_map(|f| f.cuda).last();
        from != to && said.unwrap_or(self.allowed(from, to))
    }

    /// Whether the driver allows peer access between the two.
    fn allowed(&self, from: usize, to: usize) -> bool {
        let groups = &self.machine.peers;
        let joined = groups.iter().any(|group| group.contains(&from) && group.contains(&to));
        self.machine.p2p && (groups.is_empty() || joined)
    }

    /// What NVML says about a pair: a number of [`crate::scenario::status`]. `atomics` is about those.
    #[must_use]
    pub fn nvml_status(&self, from: usize, to: usize, atomics: bool) -> u32 {
        let number = |text: &str| crate::scenario::status(text).unwrap_or_default();
        let said = self.said(from, to).filter_map(|f| f.nvml.as_deref()).last();
        match said {
            Some(text) => number(text),
            None if !self.allowed(from, to) => number(&self.machine.p2p_off),
            None if atomics && !self.machine.p2p_atomics => number("NS"),
            None => 0,
        }
    }
}

impl Simulation {
    /// cuDeviceGetP2PAttribute.
    pub fn p2p_attribute(&self, attribute: i32, from: usize, to: usize) -> Result<i32> {
        if from == to {
            return Err(Status::INVALID_DEVICE);
        }
        let scenario = self.scenario();
        let can = scenario.can_access(from, to);
        let atomics = can && scenario.machine.p2p_atomics;
        match attribute {
            1 => Ok(i32::from(!can || scenario.machine.nvlink.is_none())), // PERFORMANCE_RANK, 0 the best
            2 => Ok(i32::from(can)),                                       // ACCESS_SUPPORTED
            3 => Ok(i32::from(atomics)),                                   // NATIVE_ATOMIC_SUPPORTED
            4 => Ok(i32::from(can)),                                       // CUDA_ARRAY_ACCESS_SUPPORTED
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// cuCtxEnablePeerAccess: `from` may reach `to`.
    pub fn enable_peer(&mut self, from: usize, to: usize) -> Result<()> {
        self.engine.well(from)?;
        if from == to || !self.has_context(to) {
            return Err(Status::INVALID_CONTEXT);
        }
        let scenario = self.scenario();
        if !scenario.can_access(from, to) {
            return Err(Status::PEER_ACCESS_UNSUPPORTED);
        }
        if let Some(fault) = scenario.faults(Kind::Refuse, from, to).next() {
            return Err(Status(fault.code));
        }
        let most = scenario.machine.max_peers;
        let peers = self.engine.gpus.get_mut(from).map(|g| &mut g.peers).ok_or(Status::INVALID_CONTEXT)?;
        if peers.contains(&to) {
            return Err(Status::PEER_ACCESS_ALREADY_ENABLED);
        }
        if peers.len() >= most {
            return Err(Status::TOO_MANY_PEERS);
        }
        peers.insert(to);
        Ok(())
    }

    /// cuCtxDisablePeerAccess.
    pub fn disable_peer(&mut self, from: usize, to: usize) -> Result<()> {
        self.engine.well(from)?;
        // What is under way still may.
        self.engine.run();
        let peers = self.engine.gpus.get_mut(from).map(|g| &mut g.peers).ok_or(Status::INVALID_CONTEXT)?;
        if peers.remove(&to) { Ok(()) } else { Err(Status::PEER_ACCESS_NOT_ENABLED) }
    }

    /// cuMemSetAccess for one GPU.
    pub fn set_access(&mut self, address: u64, bytes: u64, gpu: usize, allowed: bool) -> Result<()> {
        let owners = self.engine.memory.owners(address, bytes)?;
        let scenario = self.scenario();
        let unreachable = |owner: &usize| *owner != gpu && !scenario.can_access(gpu, *owner);
        if allowed && owners.iter().any(unreachable) {
            return Err(Status::INVALID_DEVICE);
        }
        let refused = owners.iter().find_map(|o| scenario.faults(Kind::Refuse, gpu, *o).next());
        if let Some(fault) = refused.filter(|_| allowed) {
            return Err(Status(fault.code));
        }
        self.engine.memory.set_access(address, bytes, gpu, allowed)
    }
}
