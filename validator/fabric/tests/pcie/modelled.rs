//! Modelled machines for the tests: each test has a folder with one, which it may change; and a kernel that behaves
//! as Linux does for `resourceN_resize`, `remove` and `rescan`, on the files of such a machine: correctly, or
//! incorrectly in one of the ways that the real one was seen to.

pub(crate) use ::machines::names;
use fabric::rebar::Kernel;
use machine::pcie::config_space;
use machine::pcie::model::{Bdf, Fabric};
use machine::root::Root;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::{fs, io};
use tempfile::TempDir;

/// The fabric of the machine `name`.
#[track_caller]
pub(crate) fn fabric(name: &str) -> Fabric {
    MachineCopy::of(name).fabric()
}

/// A copy of the machine `name`.
pub(crate) struct MachineCopy(TempDir);

impl MachineCopy {
    pub(crate) fn of(name: &str) -> Self {
        Self(::machines::laid_out(name))
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    #[track_caller]
    pub(crate) fn fabric(&self) -> Fabric {
        fabric::read(&self.root()).unwrap()
    }

    /// A file of one function.
    pub(crate) fn file(&self, bdf: &str, name: &str) -> PathBuf {
        self.0
            .path()
            .join("sys/bus/pci/devices")
            .join(bdf)
            .join(name)
    }

    pub(crate) fn at(&self, rel: &str) -> PathBuf {
        self.0.path().join(rel)
    }
}

pub(crate) fn bdf(text: &str) -> Bdf {
    text.parse().unwrap()
}

/// How one GPU's resize goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResizeFault {
    /// It fails with this error, and nothing changes.
    Refuses(i32),
    /// It fails for lack of room, and the BAR register is left at another address than the kernel believes.
    MasksRegister,
    /// It succeeds, but the BAR has no address.
    NoAddress,
    /// It succeeds for the kernel, but the hardware keeps its size.
    HardwareKeeps,
    /// It fails for lack of room, and the previous address is lost permanently.
    Loses,
}

/// The kernel of a modelled machine.
pub(crate) struct SimulatedKernel<'a> {
    pub(crate) copy: &'a MachineCopy,
    /// Room for all BAR1s of the machine, in bytes.
    pub(crate) room: u64,
    /// Whether a GPU's BAR1 can be enlarged in place; otherwise only by laying out everything anew.
    pub(crate) movable: bool,
    pub(crate) faults: BTreeMap<Bdf, ResizeFault>,
    /// This function does not come back from a rescan.
    pub(crate) lost: Option<Bdf>,
    /// Whether the pass is killed when it wants to remove something.
    pub(crate) dies: bool,
    /// The requests, in order.
    pub(crate) asked: RefCell<Vec<String>>,
    pub(crate) removed: RefCell<Vec<(Bdf, PathBuf)>>,
}

/// Where the window of all BAR1s begins.
const WINDOW: u64 = 0x40_0000_0000;
const FLAGS: u64 = 0x14_220c;
const ENOSPC: i32 = 28;

impl<'a> SimulatedKernel<'a> {
    pub(crate) fn new(copy: &'a MachineCopy) -> Self {
        let (asked, removed) = (RefCell::default(), RefCell::default());
        Self {
            copy,
            room: 1 << 40,
            movable: true,
            faults: BTreeMap::new(),
            lost: None,
            dies: false,
            asked,
            removed,
        }
    }

    /// Every present GPU, with its address and size according to the kernel.
    fn gpus(&self) -> Vec<(Bdf, u64, u64)> {
        let fabric = self.copy.fabric();
        let bar = |bdf: &Bdf| {
            let device = fabric.devices.iter().find(|d| d.bdf == *bdf)?;
            let bar = device.aperture();
            Some((*bdf, bar.map_or(0, |b| b.start), bar.map_or(0, |b| b.bytes)))
        };
        fabric.gpus.iter().filter_map(bar).collect()
    }

    fn config(&self, bdf: Bdf) -> PathBuf {
        self.copy.file(&bdf.to_string(), "config")
    }

    fn write(&self, bdf: Bdf, at: u64, bytes: &[u8]) {
        let file = format!("sys/bus/pci/devices/{bdf}/config");
        self.copy.root().write_at(file, at, bytes).unwrap();
    }

    pub(crate) fn register(&self, bdf: Bdf, address: u64) {
        self.write(bdf, 0x14, &(address | 0xc).to_le_bytes());
    }

    pub(crate) fn control(&self, bdf: Bdf, bytes: u64) {
        let config = fs::read(self.config(bdf)).unwrap();
        let (at, value) = config_space::rebar_control(&config, 1).unwrap();
        let value = (value & !0x3f00) | ((bytes.ilog2() - 20) << 8);
        self.write(bdf, u64::from(at), &value.to_le_bytes());
    }

    /// Sets what the kernel believes about BAR 1.
    fn believe(&self, bdf: Bdf, start: u64, bytes: u64, flags: u64) {
        let path = self.copy.file(&bdf.to_string(), "resource");
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let end = if bytes == 0 { 0 } else { start + bytes - 1 };
        lines[1] = format!("{start:#018x} {end:#018x} {flags:#018x}");
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    fn place(&self, bdf: Bdf, start: u64, bytes: u64) {
        self.believe(bdf, start, bytes, FLAGS);
        self.register(bdf, start);
    }

    fn ask(&self, what: String) {
        self.asked.borrow_mut().push(what);
    }

    /// A free aligned address after all others, if the room suffices.
    fn free(&self, bdf: Bdf, bytes: u64) -> Option<u64> {
        let taken = self
            .gpus()
            .into_iter()
            .filter(|g| g.0 != bdf)
            .map(|(_, start, size)| start + size)
            .max();
        let start = taken.unwrap_or(WINDOW).max(WINDOW).next_multiple_of(bytes);
        (start + bytes <= WINDOW + self.room).then_some(start)
    }
}

impl Kernel for SimulatedKernel<'_> {
    fn resize(&self, bdf: Bdf, bar: u8, bytes: u64) -> io::Result<()> {
        assert_eq!(bar, 1);
        self.ask(format!("{bdf} {} MiB", bytes >> 20));
        let (_, start, before) = self.gpus().into_iter().find(|g| g.0 == bdf).unwrap();
        let error = |number| Err(io::Error::from_raw_os_error(number));
        match self.faults.get(&bdf) {
            Some(ResizeFault::Refuses(number)) => return error(*number),
            Some(ResizeFault::MasksRegister) => {
                self.register(bdf, start & !(bytes - 1));
                return error(ENOSPC);
            }
            Some(ResizeFault::NoAddress) if bytes > before => {
                self.believe(bdf, 0, bytes, FLAGS | 0x2000_0000);
                self.register(bdf, 0);
                self.control(bdf, bytes);
                return Ok(());
            }
            Some(ResizeFault::HardwareKeeps) => {
                self.place(bdf, self.free(bdf, bytes).unwrap(), bytes);
                return Ok(());
            }
            Some(ResizeFault::Loses) => {
                self.believe(bdf, 0, before, FLAGS | 0x2000_0000);
                return error(ENOSPC);
            }
            _ => {}
        }
        if !self.movable && bytes > before {
            return error(ENOSPC);
        }
        let Some(start) = self.free(bdf, bytes) else {
            return error(ENOSPC);
        };
        self.control(bdf, bytes);
        self.place(bdf, start, bytes);
        Ok(())
    }

    fn remove(&self, bdf: Bdf) -> io::Result<()> {
        assert!(!self.dies, "the pass dies here");
        self.ask(format!("remove {bdf}"));
        let devices = self.copy.at("sys/bus/pci/devices");
        for entry in fs::read_dir(devices).unwrap().map(Result::unwrap) {
            let target = fs::read_link(entry.path()).unwrap();
            if target
                .iter()
                .any(|part| part.to_str() == Some(&bdf.to_string()))
            {
                let own = entry.file_name().to_str().unwrap().parse().unwrap();
                self.removed.borrow_mut().push((own, target));
                fs::remove_file(entry.path()).unwrap();
            }
        }
        Ok(())
    }

    fn rescan(&self, port: Bdf) -> io::Result<()> {
        self.ask(format!("rescan {port}"));
        let removed: Vec<_> = self
            .removed
            .borrow_mut()
            .drain(..)
            .filter(|r| Some(r.0) != self.lost)
            .collect();
        for (bdf, target) in &removed {
            symlink(
                target,
                self.copy.at("sys/bus/pci/devices").join(bdf.to_string()),
            )
            .unwrap();
        }
        let gpus: Vec<Bdf> = self
            .gpus()
            .iter()
            .map(|g| g.0)
            .filter(|g| removed.iter().any(|r| r.0 == *g))
            .collect();
        gpus.iter().for_each(|gpu| self.believe(*gpu, 0, 0, 0));
        let size = |gpu: &Bdf| {
            let config = fs::read(self.config(*gpu)).unwrap();
            config_space::rebar_size(config_space::rebar_control(&config, 1).unwrap().1).unwrap()
        };
        let fits = gpus.iter().all(|gpu| {
            let free = self.free(*gpu, size(gpu));
            free.map(|start| self.place(*gpu, start, size(gpu)))
                .is_some()
        });
        if !fits {
            for gpu in &gpus {
                self.believe(*gpu, 0, 0, 0);
                self.register(*gpu, 0);
            }
        }
        Ok(())
    }
}
