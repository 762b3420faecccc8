//! An arm's processes as a group: requests go to all, all answer within one deadline, and all stop in bounded time.

use super::messages::{Answer, Ask};
use super::output::Output;
use super::serve::ABORT;
use super::trouble::{Reply, Responder};
use crate::process::partner;
use crate::process::partner::{GRACE, Partner, PartnerError};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the others may take to report once one has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often `abandoned` is checked, which means that the leading node no longer waits for the replies.
const ABANDONED_CHECK: Duration = Duration::from_millis(200);
/// The time limit for releasing GPUs and a communicator.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// All processes of an arm, in rank order.
#[derive(Debug, Default)]
pub(super) struct RankProcesses(Vec<Process>);

#[derive(Debug)]
struct Process {
    responder: Responder,
    partner: Partner,
    output: Output,
}

impl RankProcesses {
    /// Starts another process.
    pub(super) fn start(&mut self, mut command: Command, responder: Responder) -> io::Result<()> {
        let output = Output::new()?;
        command.stdout(output.stdio()?);
        let partner = Partner::spawn(command)?;
        self.0.push(Process {
            responder,
            partner,
            output,
        });
        Ok(())
    }

    /// Sends each process the request that `ask` returns for its position. A process that cannot receive it is
    /// noticed later.
    pub(super) fn send_all(&mut self, ask: impl Fn(usize) -> Ask) {
        for (n, process) in self.0.iter_mut().enumerate() {
            // The process's exit or silence says more about the cause than the socket's error.
            if let Err(lost) = process.partner.send(&ask(n), None) {
                log::debug!("{}: {lost}", process.responder);
            }
        }
    }

    /// The replies of all processes. After one has failed, the wait for the others is short; once `abandoned` is set,
    /// it ends, because the replies are no longer wanted.
    pub(super) fn receive_all(
        &mut self,
        within: Duration,
        abandoned: &AtomicBool,
    ) -> Vec<(Responder, Reply)> {
        let begun = Instant::now();
        let mut due = begun + within;
        let mut replies: Vec<Option<Reply>> = self.0.iter().map(|_| None).collect();
        while replies.iter().any(Option::is_none)
            && Instant::now() < due
            && !abandoned.load(Ordering::Acquire)
        {
            let left = due
                .saturating_duration_since(Instant::now())
                .min(ABANDONED_CHECK);
            let ready = match self.ready(&replies, left) {
                Ok(ready) => ready,
                Err(error) => {
                    log::warn!("waiting for ranks: {error}");
                    break;
                }
            };
            for n in ready {
                let Some((process, reply)) = self.0.get_mut(n).zip(replies.get_mut(n)) else {
                    continue;
                };
                let received = to_reply(process.partner.receive(within));
                if !matches!(received, Reply::Answered(ref answer) if !matches!(answer, Answer::Failed(_)))
                {
                    due = due.min(Instant::now() + AFTER_FAILURE);
                }
                *reply = Some(received);
            }
        }
        // Shorter than `within` if another process's failure has shortened the wait.
        let waited = begun.elapsed().min(within);
        let replies = replies
            .into_iter()
            .map(|reply| reply.unwrap_or(Reply::Silent(waited)));
        self.0
            .iter()
            .map(|process| process.responder)
            .zip(replies)
            .collect()
    }

    /// Whether all processes have replied, or ended.
    pub(super) fn all_ready(&self) -> bool {
        let none: Vec<Option<Reply>> = self.0.iter().map(|_| None).collect();
        self.ready(&none, Duration::ZERO)
            .is_ok_and(|ready| ready.len() == self.0.len())
    }

    /// The processes among those without a reply that are ready to be read.
    fn ready(&self, replies: &[Option<Reply>], within: Duration) -> io::Result<Vec<usize>> {
        let open = self
            .0
            .iter()
            .zip(replies)
            .enumerate()
            .filter(|(_, (_, reply))| reply.is_none());
        let (places, partners): (Vec<_>, Vec<_>) =
            open.map(|(n, (process, _))| (n, &process.partner)).unzip();
        let ready = partner::ready(&partners, within)?;
        Ok(places
            .into_iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|(n, _)| n)
            .collect())
    }

    /// NCCL's output in each process.
    pub(super) fn output(&self) -> Vec<String> {
        self.0.iter().map(|process| process.output.text()).collect()
    }

    /// Closes our ends of the sockets, so that the processes exit by themselves.
    pub(super) fn close(&mut self) {
        self.0
            .iter_mut()
            .for_each(|process| process.partner.close());
    }

    /// Lets all processes exit by themselves. False if one did not, or failed.
    pub(super) fn end(&mut self) -> bool {
        let well = self.release(|_| true, RELEASE_TIMEOUT);
        self.kill();
        well
    }

    /// Stops all after an error: those that reported a failure abort the communicator, the others are killed.
    pub(super) fn end_after(&mut self, replies: &[(Responder, Reply)]) {
        let has_reported = |responder: Responder| {
            let failed = |reply: &Reply| matches!(reply, Reply::Answered(Answer::Failed(_)));
            replies
                .iter()
                .any(|(of, reply)| *of == responder && failed(reply))
        };
        for process in self
            .0
            .iter_mut()
            .filter(|process| !has_reported(process.responder))
        {
            process.partner.kill();
        }
        self.release(has_reported, ABORT + Duration::from_millis(500));
        self.kill();
    }

    /// Closes our ends of the selected processes' sockets; true if all of them exited successfully in time.
    fn release(&mut self, which: impl Fn(Responder) -> bool, within: Duration) -> bool {
        let due = Instant::now() + within;
        let mut chosen: Vec<_> = self
            .0
            .iter_mut()
            .filter(|process| which(process.responder))
            .collect();
        for process in &mut chosen {
            process.partner.close();
        }
        let mut well = true;
        for process in chosen {
            let left = due.saturating_duration_since(Instant::now());
            well &= process
                .partner
                .wait_exit(left)
                .is_some_and(|status| status.success());
        }
        well
    }

    /// Kills the remaining processes. A process that hangs in the kernel remains.
    pub(super) fn kill(&mut self) {
        let due = Instant::now() + GRACE;
        for process in &mut self.0 {
            process.partner.close();
            process.partner.kill();
        }
        for process in &mut self.0 {
            if process
                .partner
                .wait_exit(due.saturating_duration_since(Instant::now()))
                .is_none()
            {
                log::warn!(
                    "{} cannot be killed; it hangs in the kernel and remains",
                    process.responder
                );
            }
        }
    }
}

fn to_reply(received: Result<Answer, PartnerError>) -> Reply {
    match received {
        Ok(answer) => Reply::Answered(answer),
        Err(PartnerError::Silent(within)) => Reply::Silent(within),
        Err(PartnerError::Died(how)) => Reply::Died(how),
        Err(PartnerError::Broken(error)) => Reply::Broken(error.to_string()),
    }
}
