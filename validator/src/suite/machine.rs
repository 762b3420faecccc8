//! What tests are given: the root, the configuration, and what has been read once for all of them.

use crate::config::Config;
use crate::finding::{Code, Finding, Severity};
use crate::host::identity::Identity;
use crate::host::kmsg;
use crate::host::nvidia::{Nvidia, Read};
use crate::outcome::Judgement;
use crate::pcie::model::Fabric;
use crate::root::Root;
use std::fmt::Display;

/// The machine under test.
#[derive(Debug)]
pub struct Machine {
    /// Where everything is read.
    pub root: Root,
    /// What is asked of the machine.
    pub config: Config,
    /// The fabric, or why it could not be read.
    pub fabric: Result<Fabric, String>,
    /// The kernel's log so far, or why it could not be read.
    pub log: Result<Vec<kmsg::Line>, String>,
    /// Names and versions.
    pub identity: Identity,
    /// NVIDIA's driver.
    pub nvidia: Nvidia,
}

impl Machine {
    /// The fabric, for tests that cannot say anything without it.
    ///
    /// # Errors
    /// `FABRIC-UNREADABLE` with the reason.
    pub fn fabric(&self) -> Result<&Fabric, Box<Finding>> {
        self.fabric.as_ref().map_err(|why| {
            let message = format!("the fabric cannot be read: {why}");
            Box::new(Code::FabricUnreadable.finding(Severity::Error, "machine", message))
        })
    }

    /// The kernel's log, for tests that cannot say anything without it.
    ///
    /// # Errors
    /// `KMSG-UNREADABLE` with the reason.
    pub fn log(&self) -> Result<&[kmsg::Line], Box<Finding>> {
        let unreadable = |why: &str| {
            let message = format!("the kernel's log cannot be read: {why}");
            Box::new(Code::KmsgUnreadable.finding(Severity::Error, "machine", message))
        };
        match &self.log {
            // No kernel starts without a word: something else stands in the log's place.
            Ok(lines) if lines.is_empty() => Err(unreadable("/dev/kmsg holds no line")),
            Ok(lines) => Ok(lines),
            Err(why) => Err(unreadable(why)),
        }
    }

    /// Why a test of the driver's work has nothing to look at: no GPU, or no driver for it, which
    /// the test `driver` judges.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn idle(&self) -> Result<Option<Judgement>, Box<Finding>> {
        if self.fabric()?.gpus.is_empty() {
            return Ok(Some(Judgement::not_applicable("no NVIDIA GPU")));
        }
        let none = || Judgement::not_applicable("no NVIDIA driver is loaded; see the test driver");
        Ok(known(&self.nvidia.loaded)?.is_none().then(none))
    }

    /// Lines of the kernel's log that hold one of `words`, or the one line that says why there are none.
    #[must_use]
    pub fn log_evidence(&self, words: &[&str]) -> Vec<String> {
        match &self.log {
            Ok(lines) => kmsg::mentioning(lines, words, 8),
            Err(why) => vec![format!("kernel log not read: {why}")],
        }
    }
}

/// What was read, or `SYS-UNREADABLE` with the file and the reason.
pub(super) fn known<T>(read: &Read<T>) -> Result<&T, Box<Finding>> {
    read.as_ref().map_err(|why| Box::new(Code::SysUnreadable.finding(Severity::Error, "machine", why)))
}

/// `SYS-UNREADABLE`: a test cannot judge because `path` could not be read.
pub(super) fn unreadable(path: &str, why: &impl Display) -> Box<Finding> {
    let message = format!("/{path} could not be read: {why}");
    Box::new(Code::SysUnreadable.finding(Severity::Error, "machine", message))
}
