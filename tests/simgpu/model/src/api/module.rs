//! Modules: an image is taken if it looks like one for the GPU, and has the kernels that it names.

use super::Simulation;
use crate::kernel;
use crate::status::{Result, Status};

/// A loaded image.
#[derive(Debug, Clone)]
pub struct Module {
    /// Into which GPU's context.
    pub gpu: usize,
    /// The kernels that it names, as places in [`kernel::ALL`].
    kernels: Vec<usize>,
}

/// How an image begins.
const ELF: &[u8] = b"\x7fELF";
const PTX: &[u8] = b".version";

/// Bytes of an image: from its ELF header, or up to the zero byte behind its text. `byte` reads one.
pub fn length(byte: impl Fn(usize) -> u8) -> usize {
    let number = |at: usize, n: usize| (0..n).rev().fold(0, |all: u64, i| all << 8 | u64::from(byte(at + i)));
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
        self.engine.well(gpu)?;
        let text = image.windows(PTX.len()).any(|w| w == PTX);
        if !image.starts_with(ELF) && !text {
            return Err(Status::INVALID_IMAGE);
        }
        let kernels = (0..kernel::ALL.len()).filter(|k| names(image, *k)).collect();
        self.next_module += 1;
        self.modules.insert(self.next_module, Module { gpu, kernels });
        Ok(self.next_module)
    }

    /// cuModuleUnload.
    pub fn unload(&mut self, module: u64) -> Result<()> {
        self.modules.remove(&module).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    /// cuModuleGetFunction: the kernel's place in [`kernel::ALL`].
    pub fn function(&self, module: u64, name: &str) -> Result<usize> {
        let module = self.modules.get(&module).ok_or(Status::INVALID_HANDLE)?;
        let place = kernel::find(name).ok_or(Status::NOT_FOUND)?;
        if module.kernels.contains(&place) { Ok(place) } else { Err(Status::NOT_FOUND) }
    }

    /// The GPU of a module.
    pub fn module_gpu(&self, module: u64) -> Result<usize> {
        self.modules.get(&module).map(|m| m.gpu).ok_or(Status::INVALID_HANDLE)
    }
}

/// Whether an image names a kernel, and not only as the beginning of a longer name.
fn names(image: &[u8], kernel: usize) -> bool {
    let Some((name, _)) = kernel::ALL.get(kernel) else { return false };
    let places = image.windows(name.len()).enumerate().filter(|(_, w)| *w == name.as_bytes());
    let after =
        |at: usize| image.get(at + name.len()).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    places.map(|(at, _)| at).any(|at| !after(at))
}
