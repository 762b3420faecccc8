//! What a device says about itself, by the driver's numbers for attributes.

use super::Simulation;
use crate::status::{Result, Status};

impl Simulation {
    /// cuDeviceGetAttribute.
    pub fn attribute(&self, gpu: usize, attribute: i32) -> Result<i32> {
        let machine = &self.scenario().machine;
        let (domain, bus, device) = machine.address(gpu);
        let [major, minor] = machine.capability;
        let yes = |b: bool| i64::from(b);
        let value: i64 = match attribute {
            1..=3 => 1024,                                    // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
            4 => 64,                                          // MAX_BLOCK_DIM_Z
            5 => 0x7fff_ffff,                                 // MAX_GRID_DIM_X
            6 | 7 => 65_535,                                  // MAX_GRID_DIM_Y, _Z
            8 => 48 << 10,                                    // MAX_SHARED_MEMORY_PER_BLOCK
            10 => 32,                                         // WARP_SIZE
            12 => 65_536,                                     // MAX_REGISTERS_PER_BLOCK
            13 => i64::from(machine.clock_mhz) * 1000,        // CLOCK_RATE, in kHz
            15 | 18 | 31 | 35 => 0,                           // GPU_OVERLAP .., INTEGRATED, TCC_DRIVER
            16 => i64::from(machine.sms),                     // MULTIPROCESSOR_COUNT
            19 | 41 | 78 | 79 | 80 | 83 => 1,                 // CAN_MAP_HOST_MEMORY, UNIFIED_ADDRESSING ..
            20 => 0,                                          // COMPUTE_MODE: default
            32 => 0,                                          // ECC_ENABLED
            33 => i64::from(bus),                             // PCI_BUS_ID
            34 => i64::from(device),                          // PCI_DEVICE_ID
            36 => i64::from(machine.memory_clock_mhz) * 1000, // MEMORY_CLOCK_RATE, in kHz
            37 => 384,                                        // GLOBAL_MEMORY_BUS_WIDTH
            38 => 72 << 20,                                   // L2_CACHE_SIZE
            39 => i64::from(machine.threads_per_sm),          // MAX_THREADS_PER_MULTIPROCESSOR
            40 => 2,                                          // ASYNC_ENGINE_COUNT
            50 => i64::from(domain),                          // PCI_DOMAIN_ID
            75 => i64::from(major),                           // COMPUTE_CAPABILITY_MAJOR
            76 => i64::from(minor),                           // COMPUTE_CAPABILITY_MINOR
            88..=91 => 0,                                     // PAGEABLE_MEMORY_ACCESS .. COMPUTE_PREEMPTION
            92 => 1,                                          // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            102 | 103 => yes(machine.vmm),                    // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, POSIX_FD
            110 | 116 | 117 | 118 | 119 | 124 => 0,           // GPU_DIRECT_RDMA .., DMA_BUF_SUPPORTED
            115 => 1,                                         // MEMORY_POOLS_SUPPORTED
            130 | 132 | 133 => 0,                             // NUMA_CONFIG, MULTICAST_SUPPORTED ..
            134 => i64::from(machine.numa.get(gpu).copied().unwrap_or(-1)), // HOST_NUMA_ID
            _ => return Err(Status::INVALID_VALUE),
        };
        i32::try_from(value).map_err(|_| Status::UNKNOWN)
    }

    /// Blocks of so many threads that one multiprocessor holds.
    pub fn occupancy(&self, threads: i32) -> Result<i32> {
        let all = i32::try_from(self.scenario().machine.threads_per_sm).unwrap_or(1024);
        if !(1..=1024).contains(&threads) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(all / ((threads + 31) / 32 * 32))
    }
}
