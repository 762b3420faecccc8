//! `firstlight validate`: prints a row as each test ends, then writes the report, then prints the verdict. The report
//! is written first, because a verdict without a report to read later is worthless.

use super::CommandError;
use super::console::Console;
use super::deliver::{CopyForm, ReportCopy, deliver};
use super::fabric::no_gpu;
use super::output::same_file;
use super::report::baseline::from_file;
use crate::cli::args::{Place, ScopeChoice, Validate};
use crate::config::{Config, GpuName, Level, Limit};
use crate::engine::{self, Interrupt, Interrupts, ProgressListener};
use crate::process::lineage::VISIBLE_DEVICES;
use crate::suite;
use fabric::ReadError;
use machine::host::nvidia::gpus;
use machine::pcie::model::Fabric;
use machine::root::Root;
use outcome::files;
use outcome::finding::Code;
use outcome::scope::Scope;
use outcome::text::shown;
use report::Report;
use report::drift::as_test;
use report::known_problems::KnownProblems;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Runs the tests; the exit status is that of the verdict.
pub(super) fn run(root: &Root, mut config: Config, asked: Validate) -> Result<u8, CommandError> {
    let Validate {
        level,
        scope,
        gpus,
        only,
        skip,
        nccl,
        json,
        text,
        html,
        identity,
        output,
        screen,
        before_part,
        boot_stage,
        ..
    } = asked;
    let only = if asked.without_peers {
        names(&suite::ids_of(|test| test.each_gpu))
    } else {
        only
    };
    config.validate.before_part = before_part;
    config.validate.identity = identity.unwrap_or(config.validate.identity);
    let taken = [&json, &html].contains(&&Some(Place::Stdout));
    let forms = apart([
        (CopyForm::Json, json),
        (CopyForm::Text, text),
        (CopyForm::Html, html),
    ])?;
    let on_console = if forms.iter().any(|(form, _)| *form == CopyForm::Text) {
        forms.contains(&(CopyForm::Text, Place::Stdout))
    } else {
        !taken
    };
    // The last line goes to standard output although the text goes to a file.
    let on_console = on_console || (!taken && (output.quiet || output.short));
    if let Some(file) = nccl {
        config.validate.nccl = Some(library_file(&file)?);
    }
    config.validate.level = level.unwrap_or(config.validate.level);
    config.validate.scope = match scope {
        _ if !only.is_empty() => Scope::Only(only.clone()),
        ScopeChoice::Machine => Scope::Machine,
        ScopeChoice::Fabric => Scope::Fabric,
    };
    for (given, place) in [
        (only, &mut config.validate.only),
        (skip, &mut config.validate.skip),
    ] {
        if !given.is_empty() {
            *place = given;
        }
    }
    if asked.without_load {
        config
            .validate
            .skip
            .extend(names(&suite::ids_of(|test| test.full_load)));
    }
    some_test(&config)?;
    enough_time(&config)?;
    let known = known_problems(config.validate.known_problems.as_deref())?;
    let fabric = fabric::read(root);
    limit(root, &fabric, &mut config, &gpus)?;
    let interrupts = Interrupts::catch().map_err(|e| CommandError::undone(&e))?;
    let plan = suite::plan(&config, fabric.ok().as_ref());
    let mut console = Console::new(on_console, output)?;
    let copies = forms
        .into_iter()
        .filter(|copy| *copy != (CopyForm::Text, Place::Stdout));
    let copies = copies
        .map(|(form, place)| ReportCopy::new(form, place))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &screen {
        console.show_on(path, plan.run.iter().map(|test| test.id()));
    }
    let mut report = engine::run_plan(root, &config, &plan, &interrupts, &mut console);
    report.boot = boot_stage;
    report.known_problems = known.matching(&report);
    report.explain();
    match &config.validate.baseline {
        Some(path) if config.validate.scope == Scope::Machine => {
            let entry = as_test(from_file(path), &report);
            console.ended(&entry);
            report.push(entry);
            engine::finish_report(&mut report, Vec::new());
        }
        Some(_) => {
            log::warn!("validate.baseline is not compared, because the scope is not the machine");
        }
        None => {}
    }
    deliver(&mut report, copies, &mut console);
    Ok(status(&report, &interrupts))
}

/// The absolute path of the library that `--nccl` names.
fn library_file(file: &Path) -> Result<PathBuf, CommandError> {
    let usage = |why: &dyn Display| {
        CommandError::Usage(format!(
            "--nccl {}: {why}",
            shown(&file.display().to_string())
        ))
    };
    let path = std::path::absolute(file).map_err(|e| usage(&e))?;
    if path.metadata().map_err(|e| usage(&e))?.is_file() {
        Ok(path)
    } else {
        Err(usage(
            &"not a regular file; allowed: the file of an NCCL library, such as libnccl.so.2",
        ))
    }
}

/// The forms that are asked for, each with its place.
///
/// # Errors
/// Two of them go to one place.
pub(super) fn apart<const N: usize>(
    asked: [(CopyForm, Option<Place>); N],
) -> Result<Vec<(CopyForm, Place)>, CommandError> {
    let forms: Vec<_> = asked
        .into_iter()
        .filter_map(|(form, place)| Some((form, place?)))
        .collect();
    for (n, (form, place)) in forms.iter().enumerate() {
        for (other, to) in forms.iter().take(n) {
            let both = match (place, to) {
                (Place::Stdout, Place::Stdout) => "standard output",
                _ if same_file(place, to) => "the same file",
                _ => continue,
            };
            let (first, second) = (other.option(), form.option());
            let why =
                format!("{first} {to} and {second} {place}: only one of them can go to {both}");
            return Err(CommandError::Usage(why));
        }
    }
    Ok(forms)
}

fn names(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// The largest file of known problems, bytes.
const LARGEST: u64 = 1 << 20;

/// The known problems of the program and of a user's file, which are read before the first test: a mistake stops the run.
fn known_problems(file: Option<&Path>) -> Result<KnownProblems, CommandError> {
    let name = file
        .map(|path| format!("{}: ", shown(&path.display().to_string())))
        .unwrap_or_default();
    let read = |path: &Path| {
        let bytes = files::read(path, LARGEST)?;
        String::from_utf8(bytes).map_err(|e| format!("cannot be read: {e}"))
    };
    let text = file.map(read).transpose();
    let known = text.and_then(|text| KnownProblems::with(text.as_deref(), &suite::ids()));
    known.map_err(|why| CommandError::Usage(format!("{name}{why}")))
}

/// Checks that a test is left of those that are named.
fn some_test(config: &Config) -> Result<(), CommandError> {
    let (only, skip) = (&config.validate.only, &config.validate.skip);
    if only.is_empty() || only.iter().any(|id| !skip.contains(id)) {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "validate: no test is left: --only or validate.only names {}, and --skip, validate.skip or --without-load leaves \
         all of that out",
        only.join(", ")
    )))
}

/// The time that the tests of the other levels need on a machine with many GPUs, seconds.
const OTHER_TESTS_S: u64 = 300;

/// Checks that the time limit for all tests is long enough for level `acceptance`.
fn enough_time(config: &Config) -> Result<(), CommandError> {
    let Config { validate, .. } = config;
    let least = validate.acceptance_s.saturating_add(OTHER_TESTS_S);
    if validate.level < Level::Acceptance || validate.timeout_s >= least {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "level acceptance: validate.timeout_s is {}, allowed: at least {least} (validate.acceptance_s, {}, and \
         {OTHER_TESTS_S} for the other tests)",
        validate.timeout_s, validate.acceptance_s
    )))
}

/// Limits the run to the named GPUs. A fabric that could not be read matters here only where some are named.
pub(super) fn limit(
    root: &Root,
    fabric: &Result<Fabric, ReadError>,
    config: &mut Config,
    names: &[GpuName],
) -> Result<(), CommandError> {
    if names.is_empty() {
        warn_of_ignored_choice();
        return Ok(());
    }
    let fabric = fabric.as_ref().map_err(|e| CommandError::undone(e))?;
    if let Some(limit) = chosen(root, fabric, names)? {
        limit.narrow(&mut config.expect, &fabric.gpus);
        if config.validate.scope == Scope::Machine {
            config.validate.scope =
                Scope::Gpus(limit.gpus.iter().map(|(number, _)| *number).collect());
        }
        config.validate.limit = Some(limit);
    }
    Ok(())
}

/// Says that the driver's own choice of GPUs does not count.
fn warn_of_ignored_choice() {
    if let Some(gpus) = std::env::var(VISIBLE_DEVICES)
        .ok()
        .filter(|gpus| !gpus.is_empty())
    {
        log::warn!(
            "{VISIBLE_DEVICES}={} is ignored: all GPUs take part; use --gpus to select some of them",
            shown(&gpus)
        );
    }
}

/// The named GPUs; `None` if none is named, or all are.
pub(super) fn chosen(
    root: &Root,
    fabric: &Fabric,
    names: &[GpuName],
) -> Result<Option<Limit>, CommandError> {
    if names.is_empty() {
        warn_of_ignored_choice();
        return Ok(None);
    }
    let bus = &fabric.gpus;
    if bus.is_empty() {
        return Err(CommandError::Undone(no_gpu()));
    }
    let held = gpus::read(root).map_err(|e| CommandError::undone(&e))?;
    let held: Vec<_> = held
        .keys()
        .filter_map(|address| address.parse().ok())
        .collect();
    Limit::of(names, bus, &held).map_err(CommandError::Usage)
}

/// The exit status of the verdict, unless a signal ended the run.
pub(super) fn status(report: &Report, interrupts: &Interrupts) -> u8 {
    let mut found = report.tests.iter().flat_map(|t| &t.findings);
    let cut_short = found.any(|finding| finding.is(Code::Interrupted));
    let by = interrupts.received().filter(|_| cut_short);
    by.map_or(report.verdict.exit_status(), Interrupt::exit_status)
}
