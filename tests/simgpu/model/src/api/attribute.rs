//! Device attributes by the driver's numbers, and peer access: which GPU may reach which, and what CUDA and NVML report
//! about a pair.

use super::Simulation;
use crate::events;
use crate::scenario::{Fault, Hca, Kind, Scenario};
use crate::status::{Result, Status};

impl Simulation {
    /// cuDeviceGetAttribute.
    pub fn attribute(&self, gpu: usize, attribute: i32) -> Result<i32> {
        let machine = &self.scenario().machine;
        let (domain, bus, device) = machine.address(gpu);
        let [major, minor] = machine.capability;
        let yes = |b: bool| i64::from(b);
        let value: i64 = match attribute {
            1..=3 => 1024,    // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
            4 => 64,          // MAX_BLOCK_DIM_Z
            5 => 0x7fff_ffff, // MAX_GRID_DIM_X
            6 | 7 => 65_535,  // MAX_GRID_DIM_Y, _Z
            8 => 48 << 10,    // MAX_SHARED_MEMORY_PER_BLOCK
            10 => 32,         // WARP_SIZE
            12 => 65_536,     // MAX_REGISTERS_PER_BLOCK
            13 => i64::from(machine.clock_mhz) * 1000, // CLOCK_RATE, in kHz
            15 | 18 | 31 | 35 => 0, // GPU_OVERLAP .., INTEGRATED, TCC_DRIVER
            16 => i64::from(machine.sms), // MULTIPROCESSOR_COUNT
            19 | 41 | 78 | 79 | 80 | 83 => 1, // CAN_MAP_HOST_MEMORY, UNIFIED_ADDRESSING ..
            20 => 0,          // COMPUTE_MODE: default
            32 => 0,          // ECC_ENABLED
            33 => i64::from(bus), // PCI_BUS_ID
            34 => i64::from(device), // PCI_DEVICE_ID
            36 => i64::from(machine.memory_clock_mhz) * 1000, // MEMORY_CLOCK_RATE, in kHz
            37 => 384,        // GLOBAL_MEMORY_BUS_WIDTH
            38 => 72 << 20,   // L2_CACHE_SIZE
            39 => i64::from(machine.threads_per_sm), // MAX_THREADS_PER_MULTIPROCESSOR
            40 => 2,          // ASYNC_ENGINE_COUNT
            50 => i64::from(domain), // PCI_DOMAIN_ID
            75 => i64::from(major), // COMPUTE_CAPABILITY_MAJOR
            76 => i64::from(minor), // COMPUTE_CAPABILITY_MINOR
            88..=91 => 0,     // PAGEABLE_MEMORY_ACCESS .. COMPUTE_PREEMPTION
            92 => 1,          // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            102 | 103 => yes(machine.vmm), // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, POSIX_FD
            116 | 124 => yes(matches!(
                self.scenario().nccl.hca,
                Some(Hca::Gdr | Hca::Unused)
            )), // GPU_DIRECT_RDMA, DMA_BUF_SUPPORTED
            110 | 117..=119 => 0, // GPU_DIRECT_RDMA_WITH_CUDA_VMM ..
            115 => 1,         // MEMORY_POOLS_SUPPORTED
            130 | 132 | 133 => 0, // NUMA_CONFIG, MULTICAST_SUPPORTED ..
            134 => i64::from(machine.numa.get(gpu).copied().unwrap_or(-1)), // HOST_NUMA_ID
            _ => return Err(Status::INVALID_VALUE),
        };
        i32::try_from(value).map_err(|_| Status::UNKNOWN)
    }

    /// Blocks of `threads` threads that fit on one multiprocessor.
    pub fn occupancy(&self, threads: i32) -> Result<i32> {
        let all = i32::try_from(self.scenario().machine.threads_per_sm).unwrap_or(1024);
        if !(1..=1024).contains(&threads) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(all / ((threads + 31) / 32 * 32))
    }
}

impl Scenario {
    /// The faults that change what is reported about a pair.
    fn capability_faults(&self, from: usize, to: usize) -> impl Iterator<Item = &Fault> {
        self.faults(Kind::Capability, from, to)
    }

    /// Whether CUDA reports that `from` can access `to`.
    #[must_use]
    pub fn can_access(&self, from: usize, to: usize) -> bool {
        let reported = self
            .capability_faults(from, to)
            .filter_map(|f| f.cuda)
            .last();
        from != to && reported.unwrap_or(self.allowed(from, to))
    }

    /// Whether the driver allows peer access between the two GPUs.
    fn allowed(&self, from: usize, to: usize) -> bool {
        let groups = &self.machine.peers;
        let joined = groups
            .iter()
            .any(|group| group.contains(&from) && group.contains(&to));
        self.machine.p2p && (groups.is_empty() || joined)
    }

    /// What NVML reports about a pair, a number of [`crate::scenario::status`]: about atomics if `atomics`, else about
    /// reads and writes.
    #[must_use]
    pub fn nvml_status(&self, from: usize, to: usize, atomics: bool) -> u32 {
        let number = |text: &str| crate::scenario::status(text).unwrap_or_default();
        let reported = self
            .capability_faults(from, to)
            .filter_map(|f| f.nvml.as_deref())
            .last();
        match reported {
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
            1 => Ok(i32::from(!can || scenario.machine.nvlink.is_none())), // PERFORMANCE_RANK, 0 is the best
            2 => Ok(i32::from(can)),                                       // ACCESS_SUPPORTED
            3 => Ok(i32::from(atomics)), // NATIVE_ATOMIC_SUPPORTED
            4 => Ok(i32::from(can)),     // CUDA_ARRAY_ACCESS_SUPPORTED
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// cuCtxEnablePeerAccess: `from` may reach `to`.
    pub fn enable_peer(&mut self, from: usize, to: usize) -> Result<()> {
        self.engine.check_alive(from)?;
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
        if events::is_refused(scenario, from, to) {
            return Err(Status::OUT_OF_MEMORY);
        }
        let most = scenario.machine.max_peers;
        let peers = self
            .engine
            .gpus
            .get_mut(from)
            .map(|g| &mut g.peers)
            .ok_or(Status::INVALID_CONTEXT)?;
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
        self.engine.check_alive(from)?;
        // Work in progress keeps its access.
        self.engine.run();
        let peers = self
            .engine
            .gpus
            .get_mut(from)
            .map(|g| &mut g.peers)
            .ok_or(Status::INVALID_CONTEXT)?;
        if peers.remove(&to) {
            Ok(())
        } else {
            Err(Status::PEER_ACCESS_NOT_ENABLED)
        }
    }

    /// cuMemSetAccess for one GPU.
    pub fn set_access(
        &mut self,
        address: u64,
        bytes: u64,
        gpu: usize,
        allowed: bool,
    ) -> Result<()> {
        let owners = self.engine.memory.owners(address, bytes)?;
        let scenario = self.scenario();
        let unreachable = |owner: &usize| *owner != gpu && !scenario.can_access(gpu, *owner);
        if allowed && owners.iter().any(unreachable) {
            return Err(Status::INVALID_DEVICE);
        }
        let refused = owners
            .iter()
            .find_map(|o| scenario.faults(Kind::Refuse, gpu, *o).next());
        if let Some(fault) = refused.filter(|_| allowed) {
            return Err(Status(fault.code));
        }
        self.engine.memory.set_access(address, bytes, gpu, allowed)
    }
}
