//! `firstlight nccl`: measures one collective over a range of sizes in separate processes, and prints the table
//! of nccl-tests. Rows are printed as they are measured; NCCL's transports go to standard error, so that a parser
//! of the table does not see them.

use super::fabric::{gpu_block, log_gpus, no_gpu};
use super::output::{Reserved, to_stdout};
use super::validate::chosen;
use super::{CommandError, FAILURE, NOT_DONE, SUCCESS, nodes};
use crate::cli::args::{Nccl, P2pChoice, Place};
use crate::config::Config;
use crate::engine;
use crate::nccl::log::NcclLog;
use crate::nccl::ranks::{Arm, Ranks, RowAsk, Setup, Started, Trouble, TroubleKind};
use crate::nccl::{Row, Sweep};
use crate::render::nccl::{Device, RunInfo, RunMetadata, columns, head, json, row, tail};
use gpu::Values;
use machine::root::Root;
use machine::{GpuId, Rank};
use outcome::text::shown_text;
use outcome::text::time::utc;
use report::render::pretty;
use std::io;
use std::time::{Duration, SystemTime};

/// Time limit for starting CUDA and NCCL on 16 GPUs.
const START: Duration = Duration::from_secs(120);

/// Runs `nccl`; the status shows whether all values were correct.
pub(super) fn run(root: &Root, config: &Config, asked: &Nccl) -> Result<u8, CommandError> {
    let sweep = asked.sweep();
    let sizes = sweep
        .sizes()
        .map_err(|e| CommandError::Usage(e.to_string()))?;
    if nodes::wanted(asked.nodes, &asked.meet)? {
        return nodes::nccl(root, config, asked, &sweep, &sizes);
    }
    let chosen = gpus(root, config, asked)?;
    let gpus = chosen.len();
    check_exact(&sweep, gpus)?;
    let to = asked
        .json
        .clone()
        .map(|place| Reserved::new("--json", place))
        .transpose()?;
    if let Some(why) = engine::nvml_hangs(root, config) {
        return Err(CommandError::Undone(why));
    }
    let begun = moment(SystemTime::now());
    let mut ranks = Ranks::start(&setup(config, asked, chosen)).map_err(|t| undone(&t))?;
    let started = match ranks.join(START) {
        Ok(started) => started.clone(),
        Err(trouble) => return Ok(stopped(&trouble)),
    };
    let title = RunInfo {
        version: env!("CARGO_PKG_VERSION"),
        library: started.nccl,
        sweep: &sweep,
        gpus: if asked.processes { 1 } else { gpus },
        devices: &devices(&started),
    };
    let shown = asked.json != Some(Place::Stdout);
    let undelivered = |e: io::Error| CommandError::Undone(format!("standard output: {e}"));
    let say = |text: &str| {
        if shown {
            to_stdout(&shown_text(text)).map_err(undelivered)
        } else {
            Ok(())
        }
    };
    say(&(head(&title) + &columns()))?;
    let mut rows = Vec::new();
    let trouble = measure(&mut ranks, &sweep, &sizes, asked.root_rank, |one| {
        say(&row(&one))?;
        rows.push(one);
        Ok(())
    })?;
    log_transports(&ranks);
    let delivered = match to {
        Some(to) => deliver(to, &title, &rows, &begun, &ranks, trouble.as_ref()),
        None => Ok(()),
    };
    if trouble.is_none() {
        say(&tail(sweep.collective, &rows))?;
    }
    log_first_wrong(&rows);
    let status = match &trouble {
        Some(trouble) => stopped(trouble),
        None if rows.iter().any(|row| row.wrong() > 0) => FAILURE,
        None => SUCCESS,
    };
    ended(status, delivered)
}

/// The exit status: a wrong result has precedence over a failed write.
fn ended(status: u8, delivered: Result<(), CommandError>) -> Result<u8, CommandError> {
    match delivered {
        Err(error) if status != SUCCESS => {
            log::error!("{error}");
            Ok(status)
        }
        delivered => delivered.map(|()| status),
    }
}

/// Writes nccl-tests' JSON.
fn deliver(
    to: Reserved,
    title: &RunInfo<'_>,
    rows: &[Row],
    begun: &str,
    ranks: &Ranks,
    trouble: Option<&Trouble>,
) -> Result<(), CommandError> {
    let run = RunMetadata {
        start: begun,
        end: &moment(SystemTime::now()),
        args: &std::env::args().collect::<Vec<_>>(),
        environment: ranks.environment(),
        errors: &trouble.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let text = pretty(&json(title, rows, &run)).map_err(|e| CommandError::undone(&e))?;
    Ok(to.write(&text)?)
}

/// `2026-11-20 10:24:45`, in UTC, in the form of nccl-tests.
fn moment(at: SystemTime) -> String {
    utc(at).replace('T', " ").replace('Z', "")
}

/// Runs every size once untimed, as nccl-tests does, then passes each row to `each` as it is measured; returns the
/// error that stopped the arm, if any.
fn measure(
    ranks: &mut Ranks,
    sweep: &Sweep,
    sizes: &[u64],
    root: Rank,
    mut each: impl FnMut(Row) -> Result<(), CommandError>,
) -> Result<Option<Trouble>, CommandError> {
    let untimed = sweep.untimed();
    for bytes in sizes.iter().filter(|_| sweep.warmups > 0) {
        if let Err(trouble) = ranks.row(&RowAsk::of(&untimed, *bytes, root)) {
            return Ok(Some(trouble));
        }
    }
    for bytes in sizes {
        match ranks.row(&RowAsk::of(sweep, *bytes, root)) {
            Ok(row) => each(row)?,
            Err(trouble) => return Ok(Some(trouble)),
        }
    }
    Ok(None)
}

/// The GPUs to use, by their CUDA ordinals.
fn gpus(root: &Root, config: &Config, asked: &Nccl) -> Result<Vec<GpuId>, CommandError> {
    let fabric = fabric::read(root).map_err(|e| CommandError::undone(&e))?;
    if !root.is_live() && config.validate.library_path.is_empty() {
        return Err(CommandError::Undone(format!(
            "{}: this is a recorded machine, whose GPUs are not in this computer",
            fabric.root
        )));
    }
    let there = fabric.gpus.len();
    if there == 0 {
        return Err(CommandError::Undone(no_gpu()));
    }
    log_gpus(&gpu_block(root, &fabric));
    let limit = chosen(root, &fabric, &asked.only)?;
    let all = || GpuId::all(asked.gpus.map_or(there, usize::from)).collect();
    let chosen: Vec<_> = limit.map_or_else(all, |limit| limit.ordinals());
    let gpus = chosen.len();
    if gpus > there || gpus == 0 {
        let wish = asked.gpus.map_or(String::new(), |n| format!("-g {n}: "));
        return Err(CommandError::Undone(format!(
            "{wish}there are {there} NVIDIA GPUs"
        )));
    }
    if asked.root_rank.index() >= gpus {
        return Err(CommandError::Usage(format!(
            "-r {}: allowed are 0 to {}",
            asked.root_rank,
            gpus - 1
        )));
    }
    Ok(chosen)
}

/// Checks that the reduced values are exact; inexact values cannot be compared.
pub(super) fn check_exact(sweep: &Sweep, gpus: usize) -> Result<(), CommandError> {
    let op = sweep.collective.reduces().then_some(sweep.op);
    let ranks = u32::try_from(gpus).unwrap_or(u32::MAX);
    if sweep.check && Values::exact(sweep.data, op, ranks).is_none() {
        let why = format!(
            "{} of {} by {gpus} GPUs is not exact, so it cannot be checked: -c 0",
            sweep.op, sweep.data
        );
        return Err(CommandError::Usage(why));
    }
    Ok(())
}

fn setup(config: &Config, asked: &Nccl, gpus: Vec<GpuId>) -> Setup {
    Setup {
        arm: match asked.p2p {
            P2pChoice::On => Arm::P2p,
            P2pChoice::Off => Arm::Off,
            P2pChoice::Strict => Arm::Strict,
        },
        processes: asked.processes,
        gpus,
        nvls: config.validate.nvls,
        channels: None,
        most_bytes: asked.to,
        room: asked.to,
        library_path: config.validate.library_path.clone(),
        library: config.validate.nccl.clone(),
        part: None,
    }
}

fn devices(started: &Started) -> Vec<Device> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let one = |d: &crate::nccl::ranks::Device| Device {
        rank: d.rank,
        pid: d.pid,
        host: host.clone(),
        ordinal: d.ordinal,
        bdf: d.bdf,
        name: d.name.clone(),
    };
    started.devices.iter().map(one).collect()
}

/// Logs the transports that NCCL's log names.
fn log_transports(ranks: &Ranks) {
    let nccl_log = NcclLog::read(&ranks.output());
    let mut via: Vec<_> = nccl_log
        .transports()
        .into_iter()
        .flat_map(|(_, _, via)| via)
        .collect();
    via.sort();
    via.dedup();
    let via: Vec<_> = via.iter().map(ToString::to_string).collect();
    let way = if via.is_empty() {
        "no transport named".to_owned()
    } else {
        via.join(", ")
    };
    let channels = nccl_log
        .channels()
        .map_or(String::new(), |n| format!(", {n} channels"));
    log::info!("transports in NCCL's log: {way}{channels}");
    for (name, value) in nccl_log.foreign_settings(ranks.environment()) {
        log::warn!("NCCL: set by the environment or a file: {name}={value}");
    }
}

pub(super) fn log_first_wrong(rows: &[Row]) {
    let placed = rows
        .iter()
        .flat_map(|row| [(row, &row.out_of_place), (row, &row.in_place)]);
    let first = placed
        .filter_map(|(row, timed)| Some((row, timed.wrong.as_ref()?.first.as_ref()?)))
        .next();
    if let Some((row, at)) = first {
        log::error!(
            "{} of {} B: element {} of checked call {} of rank {} is {}, expected {}",
            row.collective,
            row.bytes,
            at.element,
            at.call,
            at.rank,
            at.found,
            at.expected
        );
    }
}

fn undone(trouble: &Trouble) -> CommandError {
    CommandError::Undone(trouble.to_string())
}

/// Logs NCCL's own lines, then one line for the error; returns the exit status.
fn stopped(trouble: &Trouble) -> u8 {
    for line in &trouble.diagnosis {
        log::warn!("{line}");
    }
    log::error!("{trouble}");
    if trouble.kind == TroubleKind::NoTransport {
        FAILURE
    } else {
        NOT_DONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_form_of_nccl_tests() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400 + 3661);
        assert_eq!(moment(at), "2000-02-29 01:01:01");
    }

    #[test]
    fn results_are_reported_even_if_they_cannot_be_written() {
        let undelivered = || Err(CommandError::Undone("x.json: cannot be written".to_owned()));
        assert_eq!(ended(FAILURE, undelivered()).unwrap(), FAILURE);
        assert_eq!(
            ended(SUCCESS, undelivered()).unwrap_err().exit_status(),
            NOT_DONE
        );
        assert_eq!(ended(SUCCESS, Ok(())).unwrap(), SUCCESS);
    }
}
