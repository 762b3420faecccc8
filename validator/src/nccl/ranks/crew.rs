//! An arm's processes as a group: requests go to all, all answer within one deadline, and all stop in bounded time.

use super::messages::{Answer, Ask};
use super::output::Output;
use super::serve::ABORT;
use super::trouble::{Reply, Whose};
use crate::process::partner;
use crate::process::partner::{GRACE, Lost, Partner};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the others may take to report once one has failed.
const OTHERS: Duration = Duration::from_secs(1);
/// How often `abandoned` is checked, which means that the leading node no longer waits for the replies.
const LOOK: Duration = Duration::from_millis(200);
/// The time limit for releasing GPUs and a communicator.
const ENDING: Duration = Duration::from_secs(5);

/// All processes of an arm, in rank order.
#[derive(Debug, Default)]
pub(super) struct Crew(Vec<Process>);

#[derive(Debug)]
struct Process {
    whose: Whose,
    partner: Partner,
    output: Output,
}

impl Crew {
    /// Starts another process.
    pub(super) fn start(&mut self, mut command: Command, whose: Whose) -> io::Result<()> {
        let output = Output::new()?;
        command.stdout(output.stdio()?);
        let partner = Partner::of(command)?;
        self.0.push(Process { whose, partner, output });
        Ok(())
    }

    /// Sends each process the request that `ask` returns for its position. A process that cannot receive it is
    /// noticed later.
    pub(super) fn say(&mut self, ask: impl Fn(usize) -> Ask) {
        for (n, process) in self.0.iter_mut().enumerate() {
            // The process's exit or silence says more about the cause than the socket's error.
            if let Err(lost) = process.partner.say(&ask(n), None) {
                log::debug!("{}: {lost}", process.whose);
            }
        }
    }

    /// The replies of all processes. After one has failed, the wait for the others is short; once `abandoned` is set,
    /// it ends, because the replies are no longer wanted.
    pub(super) fn hear(&mut self, within: Duration, abandoned: &AtomicBool) -> Vec<(Whose, Reply)> {
        let begun = Instant::now();
        let mut due = begun + within;
        let mut replies: Vec<Option<Reply>> = self.0.iter().map(|_| None).collect();
        while replies.iter().any(Option::is_none)
            && Instant::now() < due
            && !abandoned.load(Ordering::Acquire)
        {
            let left = due.saturating_duration_since(Instant::now()).min(LOOK);
            let ready = match self.ready(&replies, left) {
                Ok(ready) => ready,
                Err(error) => {
                    log::warn!("waiting for ranks: {error}");
                    break;
                }
            };
            for n in ready {
                let Some((process, reply)) = self.0.get_mut(n).zip(replies.get_mut(n)) else { continue };
                let heard = heard(process.partner.hear(within));
                if !matches!(heard, Reply::Said(ref answer) if !matches!(answer, Answer::Failed(_))) {
                    due = due.min(Instant::now() + OTHERS);
                }
                *reply = Some(heard);
            }
        }
        // Shorter than `within` if another process's failure has shortened the wait.
        let waited = begun.elapsed().min(within);
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(Reply::Silent(waited)));
        self.0.iter().map(|process| process.whose).zip(replies).collect()
    }

    /// The processes among those without a reply that are ready to be read.
    fn ready(&self, replies: &[Option<Reply>], within: Duration) -> io::Result<Vec<usize>> {
        let open = self.0.iter().zip(replies).enumerate().filter(|(_, (_, reply))| reply.is_none());
        let (places, partners): (Vec<_>, Vec<_>) =
            open.map(|(n, (process, _))| (n, &process.partner)).unzip();
        let ready = partner::ready(&partners, within)?;
        Ok(places.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(n, _)| n).collect())
    }

    /// NCCL's output in each process.
    pub(super) fn output(&self) -> Vec<String> {
        self.0.iter().map(|process| process.output.text()).collect()
    }

    /// Closes our ends of the sockets, so that the processes exit by themselves.
    pub(super) fn let_go(&mut self) {
        self.0.iter_mut().for_each(|process| process.partner.let_go());
    }

    /// Lets all processes exit by themselves. False if one did not, or failed.
    pub(super) fn end(&mut self) -> bool {
        let well = self.release(|_| true, ENDING);
        self.kill();
        well
    }

    /// Stops all after an error: those that reported a failure abort the communicator, the others are killed.
    pub(super) fn end_after(&mut self, replies: &[(Whose, Reply)]) {
        let has_reported = |whose: Whose| {
            let failed = |reply: &Reply| matches!(reply, Reply::Said(Answer::Failed(_)));
            replies.iter().any(|(of, reply)| *of == whose && failed(reply))
        };
        for process in self.0.iter_mut().filter(|process| !has_reported(process.whose)) {
            process.partner.kill();
        }
        self.release(has_reported, ABORT + Duration::from_millis(500));
        self.kill();
    }

    /// Closes our ends of the selected processes' sockets; true if all of them exited successfully in time.
    fn release(&mut self, which: impl Fn(Whose) -> bool, within: Duration) -> bool {
        let due = Instant::now() + within;
        let mut chosen: Vec<_> = self.0.iter_mut().filter(|process| which(process.whose)).collect();
        for process in &mut chosen {
            process.partner.let_go();
        }
        let mut well = true;
        for process in chosen {
            let left = due.saturating_duration_since(Instant::now());
            well &= process.partner.gone(left).is_some_and(|status| status.success());
        }
        well
    }

    /// Kills the remaining processes. A process that hangs in the kernel remains.
    fn kill(&mut self) {
        let due = Instant::now() + GRACE;
        for process in &mut self.0 {
            process.partner.let_go();
            process.partner.kill();
        }
        for process in &mut self.0 {
            if process.partner.gone(due.saturating_duration_since(Instant::now())).is_none() {
                log::warn!("{} cannot be killed; it hangs in the kernel and remains", process.whose);
            }
        }
    }
}

fn heard(heard: Result<Answer, Lost>) -> Reply {
    match heard {
        Ok(answer) => Reply::Said(answer),
        Err(Lost::Silent(within)) => Reply::Silent(within),
        Err(Lost::Died(how)) => Reply::Died(how),
        Err(Lost::Broken(error)) => Reply::Broken(error.to_string()),
    }
}
