//! Process 1 of the appliance. `boot()` shows the order of the boot; each stage is one module and returns
//! what a later stage needs.

#![no_main]

use contract::mark::Step;
use firstlight_init::child::ShutdownRequest;
use firstlight_init::config::types::Action;
use firstlight_init::console::Console;
use firstlight_init::fault::{self, Fault};
use firstlight_init::handoff::{self, FinalState, menu, shutdown};
use firstlight_init::helper;
use firstlight_init::machine::Machine;
use firstlight_init::stages::result::StageResult;
use firstlight_init::stages::{
    config, decide, driver, fabric, firmware, lock_down, mounts, network, nodes, publish, recover,
    reset, screen, validate, watchdog,
};
use firstlight_init::sys::process::is_process_one;
use firstlight_init::verdict::{Judgement, StageError};
use log::info;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exit status for wrong usage, as in sysexits.h.
const USAGE: i32 = 64;

/// The program's entry point, in place of std's: std's own aborts when descriptors 0 to 2 are closed and
/// there is no /dev/null, which is how a kernel without a console starts process 1.
#[expect(unsafe_code, reason = "the C library looks for this name")]
// SAFETY: no other item of the program is called main.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    fault::record_panics();
    if is_process_one() {
        process_one();
    }
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    helper::dispatch(&args).unwrap_or_else(|| {
        let version = env!("CARGO_PKG_VERSION");
        let _no_reader = writeln!(
            std::io::stdout(),
            "firstlight-init {version}: runs as process 1 only"
        );
        USAGE
    })
}

/// Boots, and never returns.
fn process_one() -> ! {
    let console = Console::default();
    // Fails only if there is already a logger, and this is the first.
    let _first = console.serve_log();
    let mut machine = loop {
        match Machine::new(console.clone()) {
            Ok(machine) => break machine,
            // Without signals no child can be supervised. The kernel may have enough memory again later.
            Err(fault) => {
                fault::print_last_words(&console, &fault);
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }
    };
    let m = &mut machine;
    let booted = catch_panic(|| boot(m));
    let after = booted.unwrap_or_else(|fault| {
        catch_panic(|| Ok(after_fault(m, &fault))).unwrap_or(FinalState::Hold)
    });
    loop {
        let _panicked = catch_panic::<()>(|| shutdown::finish(m, after));
    }
}

/// Runs all stages of the boot in order; returns the final state.
fn boot(m: &mut Machine) -> Result<FinalState, Fault> {
    m.stage("mounts", mounts::prepare)?;
    lock_down::harden();
    firmware::show_last_boot(m)?;
    firmware::show_secure_boot(m)?;
    let config = m.stage("config", config::load)?;
    let watchdog_state = m.stage("watchdog", |m| watchdog::arm(m, &config.watchdog))?;
    let reset = m.stage("reset", |m| reset::check(m, &config))?;
    m.stage("screen", |m| screen::keep_or_release(m, &config))?;
    let fabric = m.stage("fabric", |m| {
        reset.guard(m, Step::Fabric, StageResult::Failed, |m| {
            fabric::fix(m, &config.validator)
        })
    })?;
    let driver = m.stage("driver", |m| {
        reset.guard(m, Step::DriverLoad, StageResult::Failed, |m| {
            driver::load(m, &config.driver)
        })
    })?;
    m.stage("network", |m| network::start(m, &config.network))?;
    let validation = m.stage("validate", |m| {
        reset.guard(m, Step::Validate, validate::skipped, |m| {
            validate::run_tests(m, &config.validator, reset.tests())
        })
    })?;
    let rebooted = reset.rebooted().map(|why| StageError {
        stage: "reset",
        code: None,
        cause: why.to_owned(),
    });
    let (fabric, driver) = (fabric.stage_error("fabric"), driver.stage_error("driver"));
    let before = [
        reset.stage_error(),
        watchdog_state.stage_error(),
        fabric,
        driver,
    ];
    let before: Vec<_> = before.into_iter().flatten().collect();
    let unfit: Vec<_> = before.iter().cloned().chain(rebooted).collect();
    let met = nodes::meet(m, &config.validator, &validation, (&reset, &unfit))?;
    let recovery = recover::recover(m, &config, &reset, &validation)?;
    let stage_errors: Vec<_> = before.into_iter().chain(recovery.stage_error()).collect();
    let reboots = reset.reboots(config.policy.max_reboots);
    let decision = m.stage("decide", |m| {
        let mut decision = decide::decide(
            &config.policy,
            &validation,
            &stage_errors,
            recovery,
            reboots,
            met,
        );
        // Keeping and sending the report can take minutes, and cannot take the machine down.
        reset::settle(m, &mut decision)?;
        Ok(decision)
    })?;
    let mut published = m.stage("publish", |m| publish::publish(m, &config, decision))?;
    // A report that could not be kept may have changed the action.
    reset::settle(m, &mut published.decision)?;
    m.announce(&published.decision.judgement);
    let action = published.decision.action;
    m.stage("lock down", |_| {
        Ok(lock_down::lock(action, &config.workload))
    })?;
    let plan = m.stage("hand off", |_| Ok(handoff::plan(action, &config.workload)))?;
    let after = handoff::execute(m, plan, &config, &published.variables)?;
    let boot = menu::BootContext {
        config: &config,
        reset: &reset,
        stage_errors: &stage_errors,
    };
    menu::run_menu(m, after, &boot, published.decision)
}

/// After a fault of init: writes the last words, announces ERROR unless a verdict was announced, then
/// follows the policy.
fn after_fault(m: &mut Machine, fault: &Fault) -> FinalState {
    fault::print_last_words(&m.console, fault);
    if !m.announced {
        let cause = fault
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        let judgement = Judgement::error(
            fault.failed(),
            format!("{}: {cause}", fault.code()),
            m.seconds(),
        );
        publish::withdraw(m, &judgement);
        m.announce(&judgement);
    }
    // init still runs, so the step under the mark did not take the machine down; and the workload that should have received
    // the watchdog does not run.
    let asked_for = matches!(fault, Fault::ShutdownRequested(_));
    let marks = if m.on_fault == Action::Reboot && !asked_for {
        reset::reboot_after_fault(m)
    } else {
        reset::finish_marks(m).map(|_| None)
    };
    let (objection, interrupted) =
        marks.map_or_else(|fault| (None, Some(fault)), |why| (why, None));
    let ended = [watchdog::rearm(m), firmware::keep_fault(m, fault)];
    let asked = interrupted.or(ended.into_iter().find_map(Result::err));
    match asked.as_ref().unwrap_or(fault) {
        Fault::ShutdownRequested(ShutdownRequest::Reboot) => return FinalState::Reboot,
        Fault::ShutdownRequested(ShutdownRequest::PowerOff) => return FinalState::PowerOff,
        _ => {}
    }
    if let Some(why) = objection {
        info!("policy    on_error = {}, but {why}: hold", m.on_fault);
        return FinalState::Hold;
    }
    info!("policy    on_error = {}", m.on_fault);
    handoff::fallback(m.on_fault).execute(m)
}

/// Runs a function; a panic in it becomes a fault.
fn catch_panic<T>(run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(fault::from_panic()))
}
