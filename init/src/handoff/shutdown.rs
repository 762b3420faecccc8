//! The end of the boot: holds until a request arrives, stops all processes, unmounts the disks, lets the
//! consoles finish, and powers the machine off or restarts it.

use super::FinalState;
use crate::child::monitor::request_of;
use crate::child::{End, ShutdownRequest, no_lines};
use crate::helper;
use crate::machine::Machine;
use crate::stages::watchdog;
use crate::sys::process::Signal;
use crate::sys::{kernel, process};
use log::info;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long processes may take to stop, and consoles to finish.
const GRACE: Duration = Duration::from_secs(2);

/// How long the kernel may take to restart or power off the machine by force.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Never returns, because process 1 must not end.
pub fn finish(m: &mut Machine, mut after: FinalState) -> ! {
    let mut petted = true;
    loop {
        if after == FinalState::Hold {
            // The workload that had the watchdog has ended.
            if watchdog::rearm(m).is_err() {
                info!("warning: the watchdog is not armed again: interrupted");
            }
            info!("HOLD      Ctrl-Alt-Del reboots, SIGTERM powers off");
            m.console.drain(GRACE);
            after = hold(m, petted);
        }
        stop_everything(m);
        info!(
            "{}",
            if after == FinalState::Reboot {
                "REBOOT"
            } else {
                "POWEROFF"
            }
        );
        m.console.drain(GRACE);
        info!(
            "warning: the machine did not go down: {}",
            shut_down(m, after == FinalState::Reboot)
        );
        // The machine should be down by now, so the watchdog may reset it.
        petted = false;
        after = FinalState::Hold;
    }
}

/// Shuts the machine down, by force when its devices do not shut down in time; returns only if that failed, with the reason.
fn shut_down(m: &Machine, restart: bool) -> String {
    let done = m.children.run(&helper::end_machine(restart), &mut no_lines);
    match done.end {
        End::Exited(_) => return done.reason(),
        // If no child can be started, this is the only way left.
        End::NotStarted(_) => return kernel::reboot_or_power_off(restart),
        _ => {}
    }
    info!(
        "warning: the shutdown of the devices {}; it is skipped",
        done.end
    );
    m.console.drain(GRACE);
    let refused = kernel::end_by_sysrq(restart).err();
    // A power-off without shutdown is done by a thread of the kernel.
    sleep(AT_ONCE);
    refused.map_or_else(
        || format!("still up after {} s", AT_ONCE.as_secs()),
        |e| e.to_string(),
    )
}

/// Reaps orphans and waits for a request. Besides the workload this is the only wait without a limit.
fn hold(m: &Machine, petted: bool) -> FinalState {
    loop {
        // Signals come before children, as in the supervision of the workload.
        let asked = request_of(&m.children.signals);
        let _orphans = process::reap(None);
        match asked {
            Some(ShutdownRequest::Reboot) => return FinalState::Reboot,
            Some(ShutdownRequest::PowerOff) => return FinalState::PowerOff,
            None => {}
        }
        if petted {
            m.children.watchdog.pet();
        }
        let limit = if petted {
            m.children.watchdog.until_next(None)
        } else {
            None
        };
        let _something_came = process::readable(&[m.children.signals.as_fd()], limit);
    }
}

fn stop_everything(m: &Machine) {
    process::kill_all(Signal::TERM);
    let until = Instant::now() + GRACE;
    while process::others_live() && Instant::now() < until {
        let _orphans = process::reap(None);
        sleep(Duration::from_millis(10));
    }
    process::kill_all(Signal::KILL);
    let done = m.children.run(&helper::unmount_all(), &mut no_lines);
    if done.end != End::Exited(helper::SUCCESS) {
        info!("warning: unmounting: {}", done.reason());
    }
}
