//! Describes a machine and boots the image on it: kernel words, devices, extra files, what to press at which console
//! output, and when to stop. `run` returns the result, or why there is none.

pub mod booted;
pub mod medium;
mod qemu;
pub mod watch;

use crate::boot::booted::Booted;
use crate::boot::medium::{FIRMWARE, FIRMWARE_VARIABLES, Medium};
use crate::boot::qemu::{Processor, Qemu};
use crate::boot::watch::{MachineLoad, RunningMachine, Slot, UserAction, Watch};
use crate::error::{Error, Result};
use crate::fakepci::Topology;
use crate::image::{ALIGNED, Image, workspace};
use crate::overlay::{self, Overlay};
use crate::times;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far more than a boot takes on two busy cores without hardware virtualization: this only prevents a hung machine from
/// hanging the tests.
const DEADLINE: Duration = Duration::from_secs(900);

/// A boot that has not started yet.
#[derive(Debug, Clone)]
#[must_use = "a boot does nothing until `run`"]
pub struct Boot {
    image: Image,
    processor: Processor,
    words: Vec<String>,
    args: Vec<OsString>,
    overlay: Overlay,
    memory_mib: u32,
    cpus: u32,
    entry: Option<[String; 4]>,
    kernel: Option<PathBuf>,
    /// Starts the kernel as it shipped; only then it gets what the firmware describes.
    packed_kernel: bool,
    initrd: Initrd,
    medium: Medium,
    secure: Option<PathBuf>,
    wrapper: Vec<String>,
    recover: bool,
    actions: Vec<(String, UserAction)>,
    load: MachineLoad,
}

/// The stages of every boot, in order, as `boot()` of init names them.
///
/// # Panics
/// init's source cannot be read.
#[must_use]
pub fn stages_of_boot() -> Vec<String> {
    let source = fs::read_to_string(workspace().join("init/src/main.rs"))
        .expect("init's main.rs can be read");
    source
        .split(".stage(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

/// The initrd that the kernel unpacks.
#[derive(Debug, Clone, Copy)]
enum Initrd {
    /// As shipped.
    Packed,
    /// Uncompressed.
    Plain,
    /// Uncompressed, and the driver's libraries and firmware are empty files.
    Modules,
    /// Uncompressed, and all of the driver's files are empty: it is not loaded.
    Lean,
}

impl Boot {
    /// The shipped image on a q35 machine with 1 GiB and one processor, with the shipped kernel words and a few that save
    /// time. A kernel that panics ends the machine at once. Kernel and initrd are uncompressed, and the driver is neither
    /// there nor loaded; media boot the image as shipped.
    pub fn shipped() -> Self {
        Self {
            image: Image::shipped(),
            processor: Processor::X86,
            // On a busy host the timer that the kernel checks for may be late.
            words: ["panic=-1", "no_timer_check"].map(str::to_owned).to_vec(),
            args: ["-machine", "q35"].map(OsString::from).to_vec(),
            overlay: Overlay::new(),
            memory_mib: 1024,
            cpus: 1,
            entry: None,
            kernel: None,
            packed_kernel: false,
            initrd: Initrd::Lean,
            medium: Medium::Direct,
            secure: None,
            wrapper: Vec::new(),
            recover: false,
            actions: Vec::new(),
            load: MachineLoad::Busy,
        }
    }

    /// The arm64 image on an emulated machine that UEFI firmware describes by ACPI, with an SMMU for all PCI devices.
    pub fn arm64() -> Self {
        Self {
            image: Image::arm64(),
            processor: Processor::Arm64,
            words: vec!["panic=-1".to_owned()],
            args: ["-machine", "virt,gic-version=3,iommu=smmuv3"]
                .map(OsString::from)
                .to_vec(),
            packed_kernel: true,
            initrd: Initrd::Plain,
            medium: Medium::DirectUefi,
            ..Self::shipped()
        }
    }

    /// Marks the machine as mostly waiting for a deadline, so that other machines may run at the same time.
    pub fn mostly_waits(mut self) -> Self {
        self.load = MachineLoad::Waiting;
        self
    }

    /// Adds words to the kernel's command line.
    pub fn append(mut self, words: &str) -> Self {
        self.words
            .extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// Adds a device, in the syntax of QEMU's `-device`.
    pub fn device(self, device: &str) -> Self {
        self.qemu(&["-device", device])
    }

    /// Adds a network card on a QEMU network such as `user` or `hubport,hubid=1`, where nothing responds.
    pub fn card(self, network: &str, mac: &str) -> Self {
        let id = format!("net{}", self.args.len());
        let device = format!("virtio-net-pci,netdev={id},mac={mac}");
        self.qemu(&["-netdev", &format!("{network},id={id}"), "-device", &device])
    }

    /// Adds a screen, which the BIOS describes to the kernel.
    pub fn screen(mut self) -> Self {
        self.packed_kernel = true;
        self.qemu(&["-vga", "std"])
    }

    /// Adds UEFI firmware, whose variables are in the file `variables` and persist there.
    ///
    /// # Errors
    /// If they can neither be found nor made.
    pub fn with_firmware(mut self, variables: &Path) -> Result<Self> {
        self.packed_kernel = true;
        if !variables.exists() {
            fs::copy(FIRMWARE_VARIABLES, variables)
                .map_err(Error::file("copy", FIRMWARE_VARIABLES))?;
        }
        let code = format!("if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE}");
        let own = format!("if=pflash,format=raw,unit=1,file={}", variables.display());
        Ok(self.qemu(&["-drive", &code, "-drive", &own]))
    }

    /// Adds arguments to QEMU's command line.
    pub fn qemu(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(OsString::from));
        self
    }

    /// Adds an ext4 or other image file as a virtio disk.
    pub fn disk(self, file: &Path) -> Self {
        let id = format!("disk{}", self.args.len());
        let drive = format!("if=none,id={id},format=raw,file={}", file.display());
        self.qemu(&[
            "-drive",
            &drive,
            "-device",
            &format!("virtio-blk-pci,drive={id}"),
        ])
    }

    /// Adds an image file as a removable USB stick, which the boot waits for.
    pub fn stick(self, file: &Path) -> Self {
        let drive = format!("if=none,id=stick-drive,format=raw,file={}", file.display());
        let device = "usb-storage,id=stick,bus=usb.0,drive=stick-drive,removable=on";
        let boot = self.qemu(&[
            "-drive",
            &drive,
            "-device",
            "qemu-xhci,id=usb",
            "-device",
            device,
        ]);
        boot.append("firstlight.report.required=true")
    }

    /// Adds files over the image's own; repeated calls add to the previous ones.
    pub fn overlay(mut self, change: impl FnOnce(Overlay) -> Overlay) -> Self {
        self.overlay = change(self.overlay);
        self
    }

    /// Adds a configuration layer.
    pub fn config(self, toml: &str) -> Self {
        self.overlay(|o| o.config("50-test", toml))
    }

    /// Runs `script` as the workload. The files that it leaves in /run/kept come back, together with all of
    /// /run/firstlight; its exit status is the workload's.
    pub fn workload(self, script: &str) -> Self {
        let text = overlay::workload(script);
        let exec = format!(
            "[workload]\nmode = \"exec\"\nexec = [\"/{}\"]\n",
            overlay::WORKLOAD
        );
        let mut boot = self.overlay(|o| {
            o.program(overlay::WORKLOAD, text)
                .config("40-workload", &exec)
        });
        boot.recover = true;
        boot
    }

    /// Runs the workload whatever the verdict is, so that the files come back.
    pub fn on_any_verdict(self) -> Self {
        let all = ["pass", "degraded", "fail", "error"].map(|v| format!("on_{v} = \"workload\"\n"));
        self.overlay(|o| o.config("45-policy", &format!("[policy]\n{}", all.concat())))
    }

    /// Replaces the validator by a script, which finds the real one at /t/firstlight.
    ///
    /// # Errors
    /// If the image has no validator.
    pub fn validator(self, script: &str) -> Result<Self> {
        let real = self.image.file(VALIDATOR)?.data;
        let script = format!("#!/bin/sh\n{script}\n");
        Ok(self.overlay(|o| o.program("t/firstlight", real).program(VALIDATOR, script)))
    }

    /// Adds a fake PCI domain to the machine.
    ///
    /// # Errors
    /// If the module has not been built.
    pub fn fakepci(mut self, topology: &Topology) -> Result<Self> {
        self.overlay = self.overlay.fakepci()?;
        Ok(self.append(&format!("rdinit=/t/init {}", topology.word())))
    }

    /// Boots this boot entry of the image: its kernel and its words.
    ///
    /// # Errors
    /// If the image has no such entry.
    pub fn entry(mut self, id: &str) -> Result<Self> {
        let found = self
            .image
            .entries()?
            .into_iter()
            .find(|entry| entry[0] == id);
        let why = || Error::Archive {
            what: "firstlight.entries",
            why: format!("has no {id}"),
        };
        self.entry = Some(found.ok_or_else(why)?);
        Ok(self)
    }

    /// Boots another kernel, with the shipped kernel words.
    pub fn kernel(mut self, file: &Path) -> Self {
        self.kernel = Some(file.to_owned());
        self
    }

    /// Uses kernel and initrd as shipped, compressed.
    pub fn compressed(mut self) -> Self {
        self.packed_kernel = true;
        self.initrd = Initrd::Packed;
        self
    }

    /// Loads the driver, whose libraries and firmware are empty files.
    pub fn driver(mut self) -> Self {
        self.initrd = Initrd::Modules;
        self
    }

    /// Loads the driver, and the initrd has its libraries and firmware.
    pub fn whole(mut self) -> Self {
        self.initrd = Initrd::Plain;
        self
    }

    /// Boots from this medium instead of kernel and initrd. An overlay cannot be added to it, and kernel words only if UEFI
    /// firmware starts the unified image; the shipped words are part of the medium.
    pub fn from(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Uses UEFI firmware that supports Secure Boot, with a copy of these variables.
    pub fn secure(mut self, variables: &Path) -> Self {
        self.secure = Some(variables.into());
        self
    }

    /// Runs QEMU through this program, which must exec QEMU, for example `nsenter`.
    pub fn wrapper(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Memory in MiB.
    pub fn memory(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Processors.
    pub fn cpus(mut self, n: u32) -> Self {
        self.cpus = n;
        self
    }

    /// Presses Ctrl-Alt-Del once the console contains `text`.
    pub fn ctrl_alt_del_at(self, text: &str) -> Self {
        self.act(text, UserAction::CtrlAltDel)
    }

    /// Presses the power button once the console contains `text`.
    pub fn power_button_at(self, text: &str) -> Self {
        self.act(text, UserAction::PowerButton)
    }

    /// Presses the reset button once the console contains `text`; the machine then ends as [`crate::End::Other`].
    pub fn reset_at(self, text: &str) -> Self {
        self.act(text, UserAction::Reset)
    }

    /// Saves a picture of the screen `linger` after the console contains `text`, then presses these keys on its keyboard.
    pub fn screenshot_at(
        self,
        text: &str,
        picture: &Path,
        keys: &'static [&'static str],
        linger: Duration,
    ) -> Self {
        self.act(text, UserAction::Screen(picture.to_owned(), keys, linger))
    }

    /// Unplugs the device with this id `linger` after the console contains `text`.
    pub fn unplug_after(self, text: &str, id: &str, linger: Duration) -> Self {
        self.act(text, UserAction::Unplug(id.to_owned(), linger))
    }

    /// Types `line` and Enter on the serial console once it contains `text`.
    pub fn type_at(self, text: &str, line: &str) -> Self {
        self.act(text, UserAction::Type(format!("{line}\n")))
    }

    /// Stops the machine, unless it ended before, `linger` after the console contains `text`.
    pub fn stop_after(self, text: &str, linger: Duration) -> Self {
        self.act(text, UserAction::StopAfter(linger))
    }

    fn act(mut self, text: &str, act: UserAction) -> Self {
        self.actions.push((text.to_owned(), act));
        self
    }

    /// Boots, and waits for the end.
    ///
    /// # Errors
    /// If the image is not built, QEMU does not run, or the machine neither ends nor prints what the actions wait for
    /// within its deadline.
    pub fn run(self) -> Result<Booted> {
        self.start()?.finish()
    }

    /// Boots, and returns the running machine.
    ///
    /// # Errors
    /// If the image is not built or QEMU does not run.
    pub fn start(self) -> Result<RunningMachine> {
        let scratch = scratch()?;
        let slot = Slot::take(self.load)?;
        self.launch(scratch, slot)
    }

    /// Starts two machines with cables between them, the networks [`CABLES`] of each: `cables` has the port's number in the
    /// first machine and in the other one. Their cards accept RDMA frames with a path MTU of 4096 bytes.
    ///
    /// # Errors
    /// If the image is not built or QEMU does not run.
    pub fn cabled(boots: [Self; 2], cables: &[[usize; 2]]) -> Result<[RunningMachine; 2]> {
        let [one, other] = boots;
        let [one_slot, other_slot] = Slot::take_two(one.load)?;
        let dirs = [scratch()?, scratch()?];
        let sockets: Vec<_> = CABLES
            .iter()
            .map(|name| dirs[0].path().join(name))
            .collect();
        let sockets = &sockets[..cables.len()];
        let [one_dir, other_dir] = dirs;
        let one = one
            .with_cable_cards(sockets, cables, 0)
            .launch(one_dir, one_slot)?;
        // QEMU creates the sockets before it does anything else with the network.
        sockets.iter().try_for_each(|socket| wait_for(socket))?;
        let other = other
            .with_cable_cards(sockets, cables, 1)
            .launch(other_dir, other_slot)?;
        Ok([one, other])
    }

    /// Adds the cards at this end of the cables, in the order of their ports.
    fn with_cable_cards(self, sockets: &[PathBuf], cables: &[[usize; 2]], end: usize) -> Self {
        let mut ends: Vec<_> = cables
            .iter()
            .map(|ports| ports[end])
            .zip(CABLES.iter().zip(sockets))
            .collect();
        ends.sort_unstable();
        ends.into_iter().fold(self, |boot, (port, (id, socket))| {
            let server = if end == 0 { "on" } else { "off" };
            let cable = format!(
                "stream,id={id},server={server},addr.type=unix,addr.path={}",
                socket.display()
            );
            let mac = format!("52:54:00:00:{:02x}:{:02x}", 10 + port, 1 + end);
            boot.qemu(&[
                "-netdev",
                &cable,
                "-device",
                &format!("virtio-net-pci,netdev={id},mac={mac},host_mtu={MTU}"),
            ])
        })
    }

    fn launch(self, scratch: TempDir, slot: Slot) -> Result<RunningMachine> {
        let args = self.arguments(scratch.path())?;
        let recover = self.recover.then(|| scratch.path().join(RETURN_DISK));
        let qemu = Qemu::start(self.processor, scratch.path(), &self.wrapper, &args)?;
        Ok(RunningMachine::new(
            Watch::new(self.actions, DEADLINE),
            qemu,
            scratch,
            recover,
            slot,
        ))
    }

    /// QEMU's arguments for this machine, whose files are in `dir`.
    fn arguments(&self, dir: &Path) -> Result<Vec<OsString>> {
        let mut args = self.args.clone();
        args.extend(["-m".into(), self.memory_mib.to_string().into()]);
        args.extend(["-smp".into(), self.cpus.to_string().into()]);
        let (firmware, secure) = (self.processor, self.secure.as_deref());
        args.extend(match &self.medium {
            Medium::Direct => self.direct(dir)?,
            Medium::DirectUefi => {
                let mut both = self.medium.arguments(firmware, dir, "", secure)?;
                both.extend(self.direct(dir)?);
                both
            }
            medium => medium.arguments(firmware, dir, &self.words.join(" "), secure)?,
        });
        if self.recover {
            args.extend(overlay::disk(&dir.join(RETURN_DISK))?.map(OsString::from));
        }
        Ok(args)
    }

    fn direct(&self, dir: &Path) -> Result<Vec<OsString>> {
        // An emulator translates a program again wherever the kernel places it: here all its runs share one place. And the
        // kernel takes half a second to clear the 64 MiB for devices that reach 4 GiB; a lean machine has none.
        let (source, own_words) = match self.initrd {
            Initrd::Packed => (self.image.initrd()?, ""),
            Initrd::Plain => (self.image.plain_initrd()?, "norandmaps"),
            Initrd::Modules => (self.image.initrd_with_modules()?, "norandmaps"),
            Initrd::Lean => (
                self.image.lean_initrd()?,
                "norandmaps swiotlb=512 firstlight.driver.load=false",
            ),
        };
        let path = dir.join("initrd");
        append_overlay(&source, &self.overlay.cpio(), &path)
            .map_err(Error::file("write", &path))?;
        let (kernel, words) = match &self.entry {
            Some([_, kernel, _, words]) if kernel == "pt" => {
                (self.image.pt_kernel()?, words.clone())
            }
            Some([.., words]) => (self.image.kernel()?, words.clone()),
            None => (self.image.kernel()?, self.image.words()?),
        };
        let kernel = match &self.kernel {
            Some(other) => other.clone(),
            None if self.packed_kernel => kernel,
            None => self.image.plain(&kernel)?,
        };
        Ok(vec![
            "-kernel".into(),
            kernel.into(),
            "-initrd".into(),
            path.into(),
            "-append".into(),
            format!("{words} {own_words} {}", self.words.join(" ")).into(),
        ])
    }
}

fn scratch() -> Result<TempDir> {
    times::begin();
    tempfile::tempdir().map_err(Error::file("create a folder in", "/tmp"))
}

/// Waits for one of QEMU's sockets; a busy host may be slow.
fn wait_for(socket: &Path) -> Result<()> {
    let due = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        if Instant::now() > due {
            return Err(Error::Program {
                program: "QEMU".into(),
                why: "made no cable".into(),
            });
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The disk on which files come back.
const RETURN_DISK: &str = "recover";
/// The networks between two machines.
pub const CABLES: [&str; 2] = ["cable0", "cable1"];
/// The MTU of their cards: 4096 bytes, plus the headers of RoCE.
const MTU: u32 = 4200;

/// Writes an initrd followed by an overlay.
fn append_overlay(initrd: &Path, overlay: &[u8], to: &Path) -> io::Result<()> {
    let length = fs::copy(initrd, to)?;
    let mut file = fs::OpenOptions::new().append(true).open(to)?;
    file.set_len(length.next_multiple_of(ALIGNED as u64))?;
    file.write_all(overlay)
}

/// The validator's path in the image.
pub const VALIDATOR: &str = "usr/bin/firstlight";
