//! Keeps the watchdog from resetting the machine as long as process 1 makes progress: it pets the device between bounded
//! steps and in each iteration of its waiting loops, and no other code does. A driver of the kernel's watchdog core is
//! petted by one write, which sets a register. A driver that talks to a management controller (IPMI) may never return from
//! that write: there each petting is done by a separate child, which process 1 starts and does not wait for.

use super::{ENVIRONMENT, pid_of};
use crate::sys::process::{self, unblock_signals};
use log::info;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The device is petted four times per timeout, so that two late pettings in a row are not too late.
const PETS_PER_TIMEOUT: u32 = 4;

/// How the device is petted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PetMethod {
    /// Process 1 writes to the device.
    Write,
    /// A child writes to it: this program with these words.
    Child([String; 2]),
}

/// The open device.
#[derive(Debug)]
struct Device {
    file: File,
    method: PetMethod,
    every: Duration,
    next: Instant,
    /// Readable once the child of the last petting has ended.
    busy: Option<OwnedFd>,
    is_refused: bool,
}

/// Pets the watchdogs of this machine that process 1 has.
#[derive(Debug, Default)]
pub struct Petting(RefCell<Vec<Device>>);

impl Petting {
    /// Begins with an open device that resets the machine after `timeout`, beside those that it has.
    pub fn begin(&self, device: OwnedFd, method: PetMethod, timeout: Duration) {
        let (file, every) = (File::from(device), timeout / PETS_PER_TIMEOUT);
        let device = Device {
            file,
            method,
            every,
            next: Instant::now(),
            busy: None,
            is_refused: false,
        };
        if let Ok(mut devices) = self.0.try_borrow_mut() {
            devices.push(device);
        }
        self.pet();
    }

    /// Stops petting and returns the devices in the order of [`Petting::begin`]; they keep counting.
    #[must_use]
    pub fn end(&self) -> Vec<OwnedFd> {
        self.0
            .take()
            .into_iter()
            .map(|device| device.file.into())
            .collect()
    }

    /// Pets each device if it is time.
    pub fn pet(&self) {
        let Ok(mut devices) = self.0.try_borrow_mut() else {
            return;
        };
        devices
            .iter_mut()
            .filter(|device| Instant::now() >= device.next)
            .for_each(Device::pet);
    }

    /// The time that process 1 may wait: until the next petting at most.
    #[must_use]
    pub fn until_next(&self, limit: Option<Duration>) -> Option<Duration> {
        let next = self
            .0
            .try_borrow()
            .ok()
            .and_then(|devices| devices.iter().map(|device| device.next).min());
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        [limit, left].into_iter().flatten().min()
    }
}

impl Device {
    fn pet(&mut self) {
        self.next = Instant::now() + self.every;
        let petted = match &self.method {
            PetMethod::Write => self.file.write_all(&[0]),
            PetMethod::Child(words) => start_child(words, &self.file, &mut self.busy),
        };
        // Reported once: a device that is gone refuses every time.
        if let Err(why) = petted
            && !std::mem::replace(&mut self.is_refused, true)
        {
            info!("warning: the watchdog is not petted: {why}");
        }
    }
}

/// Starts this program with these words, which pets the device, unless the previous one is still running.
fn start_child(words: &[String; 2], device: &File, busy: &mut Option<OwnedFd>) -> io::Result<()> {
    if busy.as_ref().is_some_and(|child| !ended(child)) {
        return Err(io::Error::other(
            "the device has not answered the last time",
        ));
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .args(words)
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir("/");
    command
        .stdin(device.try_clone()?)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    unblock_signals(&mut command);
    let child = command.spawn()?;
    *busy = pid_of(&child).and_then(|pid| process::pidfd(pid).ok());
    Ok(())
}

fn ended(child: &OwnedFd) -> bool {
    process::readable(&[child.as_fd()], Some(Duration::ZERO)).contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn device(timeout_ms: u64) -> (Petting, File, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("watchdog0");
        let petting = Petting::default();
        let ours = File::create_new(&path).unwrap();
        petting.begin(
            ours.into(),
            PetMethod::Write,
            Duration::from_millis(timeout_ms),
        );
        (petting, File::open(path).unwrap(), dir)
    }

    fn new_bytes(device: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        device.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn it_is_petted_at_once_and_then_each_quarter_of_the_timeout() {
        let (petting, mut seen, _dir) = device(800);
        assert_eq!(new_bytes(&mut seen), [0]);
        petting.pet();
        assert_eq!(new_bytes(&mut seen), [0; 0]);
        std::thread::sleep(Duration::from_millis(200));
        petting.pet();
        petting.pet();
        assert_eq!(new_bytes(&mut seen), [0]);
    }

    #[test]
    fn process_one_waits_no_longer_than_until_the_next_petting() {
        let (petting, _, _dir) = device(80_000);
        let quarter = Duration::from_secs(20);
        assert!(
            petting
                .until_next(None)
                .is_some_and(|left| left <= quarter && left > quarter / 2)
        );
        assert_eq!(
            petting.until_next(Some(Duration::from_secs(1))),
            Some(Duration::from_secs(1))
        );
        assert!(
            petting
                .until_next(Some(Duration::MAX))
                .is_some_and(|left| left <= quarter)
        );
        assert_eq!(Petting::default().until_next(None), None);
    }

    #[test]
    fn what_was_ended_is_petted_no_more_and_is_still_open() {
        let (petting, mut seen, _dir) = device(4);
        assert_eq!(new_bytes(&mut seen), [0]);
        let mut device = File::from(petting.end().pop().unwrap());
        std::thread::sleep(Duration::from_millis(5));
        petting.pet();
        assert_eq!(new_bytes(&mut seen), [0; 0]);
        device.write_all(b"V").unwrap();
        assert_eq!(new_bytes(&mut seen), b"V");
        assert!(petting.end().is_empty());
    }
}
