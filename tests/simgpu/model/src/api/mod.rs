//! The simulated driver, as calls on values: the GPUs, their contexts, peer access and modules. An image is accepted if it
//! looks like one for the GPU, and has the kernels that it names. Handles, pointers and threads are left to the library in
//! front of it.

mod attribute;

use crate::engine::{Engine, StreamId};
use crate::scenario::{Kind, Scenario};
use crate::status::{Result, Status};
use crate::{Host, events, kernel};
use std::collections::BTreeMap;

/// The simulated driver.
pub struct Simulation {
    /// The machine and the work on it.
    pub engine: Engine,
    /// The GPUs that the driver shows, in order: ordinals index this list, which contains GPU numbers of the machine.
    visible: Vec<usize>,
    /// Reference count of each GPU's primary context.
    retain_counts: Vec<u64>,
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
            retain_counts: vec![0; gpus],
            default_streams: BTreeMap::new(),
            modules: BTreeMap::new(),
            next_module: 0,
            engine: Engine::new(scenario, host),
        }
    }

    /// The simulated scenario.
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
        if self.visible.is_empty() {
            Err(Status::NO_DEVICE)
        } else {
            Ok(())
        }
    }

    /// How many GPUs the driver shows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.visible.len()
    }

    /// The GPU with this ordinal.
    pub fn gpu(&self, ordinal: i32) -> Result<usize> {
        let place = usize::try_from(ordinal)
            .ok()
            .and_then(|n| self.visible.get(n));
        place.copied().ok_or(Status::INVALID_DEVICE)
    }

    /// cuDevicePrimaryCtxRetain.
    pub fn retain(&mut self, gpu: usize) {
        if let Some(count) = self.retain_counts.get_mut(gpu) {
            *count += 1;
        }
    }

    /// cuDevicePrimaryCtxRelease: the last release destroys everything in the context.
    pub fn release(&mut self, gpu: usize) -> Result<()> {
        let count = self
            .retain_counts
            .get_mut(gpu)
            .filter(|n| **n > 0)
            .ok_or(Status::INVALID_CONTEXT)?;
        *count -= 1;
        if *count == 0 {
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
        self.retain_counts.get(gpu).is_some_and(|n| *n > 0)
    }

    /// A GPU's stream 0.
    pub fn default_stream(&mut self, gpu: usize) -> StreamId {
        let engine = &mut self.engine;
        *self
            .default_streams
            .entry(gpu)
            .or_insert_with(|| engine.add_stream(gpu))
    }

    /// Free and total bytes of a GPU's memory.
    #[must_use]
    pub fn memory(&self, gpu: usize) -> (u64, u64) {
        (
            self.engine.memory.free(gpu),
            self.scenario().machine.usable(),
        )
    }
}

impl Scenario {
    /// The GPUs that CUDA can compute on, in order.
    #[must_use]
    fn computing(&self) -> Vec<usize> {
        self.visible()
            .into_iter()
            .filter(|gpu| !self.machine.mig.contains(gpu))
            .collect()
    }

    /// The GPUs that the driver knows, in order.
    #[must_use]
    pub fn visible(&self) -> Vec<usize> {
        let missing = |gpu| {
            self.fault
                .iter()
                .any(|f| f.kind == Kind::Missing && f.gpu == Some(gpu))
        };
        (0..self.machine.gpus)
            .filter(|gpu| !missing(*gpu))
            .collect()
    }

    /// The GPUs that CUDA shows to this process, in order: all that it can compute on, or those whose numbers
    /// `CUDA_VISIBLE_DEVICES` lists.
    #[must_use]
    pub fn shown(&self) -> Vec<usize> {
        let all = self.computing();
        let Ok(named) = std::env::var("CUDA_VISIBLE_DEVICES") else {
            return all;
        };
        // As in CUDA, the first invalid entry ends the list.
        let place = |name: &str| all.get(name.trim().parse::<usize>().ok()?).copied();
        named.split(',').map_while(place).collect()
    }
}

/// A loaded image.
#[derive(Debug, Clone)]
pub struct Module {
    /// The GPU whose context it was loaded into.
    pub gpu: usize,
    /// The kernels that it names, as indices in [`kernel::ALL`].
    kernels: Vec<usize>,
}

/// How an ELF image begins, and what PTX text contains.
const ELF: &[u8] = b"\x7fELF";
const PTX: &[u8] = b".version";

/// Size of an image in bytes: from its ELF header, or up to the zero byte after its text. `byte` returns the byte at an
/// offset.
pub fn image_length(byte: impl Fn(usize) -> u8) -> usize {
    let number = |at: usize, n: usize| {
        (0..n)
            .rev()
            .fold(0, |all: u64, i| all << 8 | u64::from(byte(at + i)))
    };
    if (0..ELF.len()).any(|i| Some(&byte(i)) != ELF.get(i)) {
        return (0..).find(|i| byte(*i) == 0).unwrap_or_default();
    }
    let (table, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let programs = number(0x20, 8) + number(0x36, 2) * number(0x38, 2);
    usize::try_from((table + size * count).max(programs)).unwrap_or_default()
}

impl Simulation {
    /// cuModuleLoadData.
    pub fn load(&mut self, gpu: usize, image: &[u8]) -> Result<u64> {
        self.engine.check_alive(gpu)?;
        let text = image.windows(PTX.len()).any(|w| w == PTX);
        if !image.starts_with(ELF) && !text {
            return Err(Status::INVALID_IMAGE);
        }
        let kernels = (0..kernel::ALL.len())
            .filter(|k| contains_name(image, *k))
            .collect();
        self.next_module += 1;
        self.modules
            .insert(self.next_module, Module { gpu, kernels });
        Ok(self.next_module)
    }

    /// cuModuleUnload.
    pub fn unload(&mut self, module: u64) -> Result<()> {
        self.modules
            .remove(&module)
            .map(|_| ())
            .ok_or(Status::INVALID_HANDLE)
    }

    /// cuModuleGetFunction: the kernel's index in [`kernel::ALL`].
    pub fn function(&self, module: u64, name: &str) -> Result<usize> {
        let module = self.modules.get(&module).ok_or(Status::INVALID_HANDLE)?;
        let place = kernel::find(name).ok_or(Status::NOT_FOUND)?;
        if module.kernels.contains(&place) {
            Ok(place)
        } else {
            Err(Status::NOT_FOUND)
        }
    }

    /// The GPU that a module was loaded on.
    pub fn module_gpu(&self, module: u64) -> Result<usize> {
        self.modules
            .get(&module)
            .map(|m| m.gpu)
            .ok_or(Status::INVALID_HANDLE)
    }
}

/// Whether an image contains a kernel's name, and not only as a prefix of a longer name.
fn contains_name(image: &[u8], kernel: usize) -> bool {
    let Some((name, _)) = kernel::ALL.get(kernel) else {
        return false;
    };
    let places = image
        .windows(name.len())
        .enumerate()
        .filter(|(_, w)| *w == name.as_bytes());
    let after = |at: usize| {
        image
            .get(at + name.len())
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    places.map(|(at, _)| at).any(|at| !after(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::simulation;

    #[test]
    fn an_images_length_follows_from_its_header() {
        let mut image = vec![0u8; 300];
        image[..4].copy_from_slice(b"\x7fELF");
        image[0x28] = 200;
        image[0x3a] = 20;
        image[0x3c] = 5;
        assert_eq!(image_length(|i| image[i]), 300);
        assert_eq!(image_length(|i| b".version 8.4\n\0"[i]), 13);
    }

    #[test]
    fn only_kernels_that_the_image_names_are_found() {
        let mut simulation = simulation("");
        assert_eq!(simulation.load(0, b"nothing"), Err(Status::INVALID_IMAGE));
        let module = simulation
            .load(0, b"\x7fELF fl_fill\0fl_chase_init\0fl_other\0")
            .unwrap();
        assert!(simulation.function(module, "fl_fill").is_ok());
        assert!(simulation.function(module, "fl_chase_init").is_ok());
        for name in ["fl_chase", "fl_check", "fl_other"] {
            assert_eq!(
                simulation.function(module, name),
                Err(Status::NOT_FOUND),
                "{name}"
            );
        }
    }

    #[test]
    fn peers_are_enabled_once_and_up_to_a_limit() {
        let mut simulation = simulation("");
        for gpu in 0..8 {
            simulation.retain(gpu);
        }
        simulation.engine.scenario.machine.max_peers = 2;
        assert_eq!(simulation.enable_peer(0, 0), Err(Status::INVALID_CONTEXT));
        assert_eq!(simulation.enable_peer(0, 1), Ok(()));
        assert_eq!(
            simulation.enable_peer(0, 1),
            Err(Status::PEER_ACCESS_ALREADY_ENABLED)
        );
        assert_eq!(simulation.enable_peer(0, 2), Ok(()));
        assert_eq!(simulation.enable_peer(0, 3), Err(Status::TOO_MANY_PEERS));
        assert_eq!(simulation.disable_peer(0, 2), Ok(()));
        assert_eq!(
            simulation.disable_peer(0, 2),
            Err(Status::PEER_ACCESS_NOT_ENABLED)
        );
    }

    #[test]
    fn reported_peer_access_can_differ_from_real_access() {
        let lie = "[[fault]]\nkind = \"capability\"\npair = [1, 0]\nnvml = \"CNS\"\n[[fault]]\nkind = \"refuse\"\npair = [2, 3]\ncode = 205\n";
        let mut simulation = simulation(lie);
        for gpu in 0..8 {
            simulation.retain(gpu);
        }
        let scenario = simulation.scenario();
        assert!(scenario.can_access(1, 0));
        assert_eq!(
            (
                scenario.nvml_status(1, 0, false),
                scenario.nvml_status(0, 1, false)
            ),
            (1, 0)
        );
        assert_eq!(simulation.p2p_attribute(2, 1, 0), Ok(1));
        assert_eq!(simulation.enable_peer(2, 3), Err(Status::MAP_FAILED));
        assert_eq!(simulation.enable_peer(3, 2), Ok(()));
    }

    #[test]
    fn releasing_a_context_frees_its_memory() {
        let mut simulation = simulation("");
        simulation.retain(0);
        let before = simulation.memory(0);
        simulation.engine.memory.alloc(0, 1 << 30).unwrap();
        assert!(simulation.memory(0).0 < before.0);
        simulation.release(0).unwrap();
        assert_eq!(simulation.memory(0), before);
        assert_eq!(simulation.release(0), Err(Status::INVALID_CONTEXT));
    }

    #[test]
    fn a_missing_gpu_has_no_ordinal() {
        let simulation = simulation("[[fault]]\nkind = \"missing\"\ngpu = 3\n");
        assert_eq!(simulation.count(), 7);
        assert_eq!(
            (simulation.gpu(2), simulation.gpu(3), simulation.gpu(7)),
            (Ok(2), Ok(4), Err(Status::INVALID_DEVICE))
        );
    }
}
