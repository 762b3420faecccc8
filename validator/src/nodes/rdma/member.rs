//! A node's side: passes the leading node's requests on to the child process, with a time limit for each.

use super::child::COMMAND;
use super::messages::{Answer, Ask, Make};
use crate::machine::GpuId;
use crate::process::partner::{self, Partner};
use std::io;
use std::process::Stdio;
use std::time::Duration;

/// The time limit of an answer; that of the transfers in the child process is shorter.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// A port of a rail.
#[derive(Debug, Clone, PartialEq)]
pub struct Rail {
    /// `mlx5_0`
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// Whether it is RoCE: RDMA over Ethernet.
    pub ethernet: bool,
    /// The index of its RoCE v2 address, where it has one.
    pub gid: Option<u8>,
    /// The GPU next to it; `None` without GPUs.
    pub gpu: Option<GpuId>,
    /// What it should carry in one direction, Gb/s: the rate of its link or of its slot. `None` for a device without a slot.
    pub gbit_s: Option<f64>,
}

/// The child process, while it is there.
#[derive(Debug, Default)]
pub struct Verbs(Option<Partner>);

impl Verbs {
    /// Answers a request of the leading node.
    pub fn answer(&mut self, ask: Ask, rails: &[Rail], library_path: &[String]) -> Answer {
        let answered = match ask {
            Ask::Close => {
                self.0 = None;
                return Answer::Done;
            }
            Ask::Open { rail, gpu } => {
                self.0 = None;
                let made = rails
                    .get(rail)
                    .ok_or_else(|| format!("this node has no rail {rail}"))
                    .and_then(|rail| make(rail, gpu));
                match made {
                    Ok(made) => self
                        .start(library_path)
                        .map_err(|e| e.to_string())
                        .and_then(|()| self.pass(&Ask::Make(made))),
                    Err(why) => Err(why),
                }
            }
            ask => self.pass(&ask),
        };
        let answer = answered.unwrap_or_else(Answer::Failed);
        if matches!(answer, Answer::Failed(_) | Answer::Unsupported(_)) {
            self.0 = None;
        }
        answer
    }

    fn start(&mut self, library_path: &[String]) -> io::Result<()> {
        let mut command = partner::command(COMMAND)?;
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        if !library_path.is_empty() {
            command.env("LD_LIBRARY_PATH", library_path.join(":"));
        }
        self.0 = Some(Partner::of(command)?);
        Ok(())
    }

    fn pass(&mut self, ask: &Ask) -> Result<Answer, String> {
        let partner = self.0.as_mut().ok_or("no port is open")?;
        partner.ask(ask, None, ANSWER).map_err(|lost| format!("libibverbs: {lost}"))
    }
}

fn make(rail: &Rail, gpu: bool) -> Result<Make, String> {
    if rail.ethernet && rail.gid.is_none() {
        return Err(format!("{}:{} has no RoCE v2 address on IPv4", rail.device, rail.port));
    }
    let gpu = match (gpu, rail.gpu) {
        (true, None) => return Err("there is no GPU next to the port".to_owned()),
        (wanted, gpu) => gpu.filter(|_| wanted),
    };
    Ok(Make { device: rail.device.clone(), port: rail.port, gid: rail.gid, gpu })
}
