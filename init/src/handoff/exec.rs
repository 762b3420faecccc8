//! Hand-over by exec: init stays process 1, supervises the workload, forwards signals, reaps orphans, and
//! follows `workload.on_exit` when the workload ends.

use super::FinalState;
use super::set_workload_environment;
use crate::child::{End, pid_of};
use crate::config::types::OnExit;
use crate::environment::Variable;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::sys::process::{self, Pid, Signal, Terminal};
use crate::sys::terminal;
use log::info;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a workload may take to stop when asked, and to disappear when killed.
const GRACE: Duration = Duration::from_secs(10);

/// Starts the workload and waits for its end.
///
/// # Errors
/// [`Fault::HandOff`] when it cannot be started.
pub fn supervise(
    m: &mut Machine,
    words: &[String],
    on_exit: OnExit,
    variables: &[Variable],
    (device, terminal): (&str, Terminal),
) -> Result<FinalState, Fault> {
    let started = Instant::now();
    let program = words.first().map_or("", String::as_str);
    let (end, asked) = run_on_console(m, words, variables, (device, terminal))
        .map_err(|e| Fault::HandOff(format!("workload.exec {program}: {e}")))?;
    info!(
        "workload  {} {} after {:.1} s",
        program,
        end,
        started.elapsed().as_secs_f64()
    );
    Ok(asked.unwrap_or(match on_exit {
        OnExit::PowerOff => FinalState::PowerOff,
        OnExit::Reboot => FinalState::Reboot,
        OnExit::Hold => FinalState::Hold,
    }))
}

/// Starts a program on a console and waits for its end. Returns how it ended, and whether a reboot or power-off was
/// requested meanwhile.
///
/// # Errors
/// As execve(2).
pub(super) fn run_on_console(
    m: &Machine,
    words: &[String],
    variables: &[Variable],
    on: (&str, Terminal),
) -> io::Result<(End, Option<FinalState>)> {
    let pid = start(words, variables, on)?;
    Ok(WorkloadMonitor {
        m,
        pid,
        asked: None,
        kill_at: None,
        give_up_at: None,
    }
    .until_end())
}

/// Starts a program on a console, in its own session.
fn start(
    words: &[String],
    variables: &[Variable],
    (device, terminal): (&str, Terminal),
) -> io::Result<Pid> {
    let (program, args) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    set_workload_environment(command.args(args), variables);
    command.current_dir("/");
    let [input, output, errors] = console(device);
    command.stdin(input).stdout(output).stderr(errors);
    process::unblock_signals(&mut command);
    process::own_session(&mut command, terminal);
    pid_of(&command.spawn()?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Standard input, output and error: the console; without one, no input and the kernel's log.
fn console(device: &str) -> [Stdio; 3] {
    let all =
        open(device).and_then(|t| Ok([t.try_clone()?.into(), t.try_clone()?.into(), t.into()]));
    all.unwrap_or_else(|_| {
        let log = || {
            OpenOptions::new()
                .write(true)
                .open("/dev/kmsg")
                .map_or_else(|_| Stdio::null(), Stdio::from)
        };
        [Stdio::null(), log(), log()]
    })
}

/// Opens the console without waiting for a carrier, then makes it blocking, as programs expect.
pub(super) fn open(device: &str) -> io::Result<File> {
    let file = terminal::open_both_ways(Path::new(device))?;
    terminal::set_blocking(&file)?;
    Ok(file)
}

struct WorkloadMonitor<'a> {
    m: &'a Machine,
    pid: Pid,
    asked: Option<FinalState>,
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
}

impl WorkloadMonitor<'_> {
    fn until_end(mut self) -> (End, Option<FinalState>) {
        loop {
            // Signals come before children: if a SIGCHLD were read after the check for its child, init
            // would not be woken up again.
            while let Some(signal) = self.m.children.signals.next() {
                self.forward(signal);
            }
            if let Some(status) = process::reap(Some(self.pid)) {
                process::kill_group(self.pid, Signal::HUP);
                let end = status.exit_status().map(End::Exited);
                let end = end.or(status.terminating_signal().map(End::Signalled));
                return (end.unwrap_or(End::Exited(0)), self.asked);
            }
            self.m.children.watchdog.pet();
            let now = Instant::now();
            if self.kill_at.is_some_and(|at| now >= at) {
                process::kill_group(self.pid, Signal::KILL);
                self.kill_at = None;
                self.give_up_at = Some(now + GRACE);
            }
            if self.give_up_at.is_some_and(|at| now >= at) {
                return (End::Unkillable(GRACE), self.asked);
            }
            let next = [self.kill_at, self.give_up_at].into_iter().flatten().min();
            let limit = next.map(|at| at.saturating_duration_since(now));
            let limit = self.m.children.watchdog.until_next(limit);
            let _something_came = process::readable(&[self.m.children.signals.as_fd()], limit);
        }
    }

    /// SIGINT (Ctrl-Alt-Del) and SIGTERM end the workload and then the machine; other signals are
    /// forwarded.
    fn forward(&mut self, signal: Signal) {
        let after = match signal {
            Signal::CHILD | Signal::PIPE => return,
            Signal::INT => FinalState::Reboot,
            Signal::TERM => FinalState::PowerOff,
            other => return process::kill_group(self.pid, other),
        };
        if self.asked.is_none() {
            info!("workload  is asked to stop, {} s", GRACE.as_secs());
            self.kill_at = Some(Instant::now() + GRACE);
        }
        self.asked = Some(after);
        process::kill_group(self.pid, Signal::TERM);
    }
}
