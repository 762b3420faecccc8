//! Commands that read a finished report: `render` and `env`, which also writes the peer-to-peer file that vLLM reads;
//! and in `baseline` the commands that compare reports.

pub(super) mod baseline;

use super::output::{same_file, write};
use super::{CommandError, SUCCESS};
use crate::cli::args::{Form, Place, Render};
use crate::net::publish::LARGEST;
use crate::schedule::Pair;
use outcome::files::{self, atomic};
use outcome::finding::Code;
use outcome::scope::Scope;
use outcome::test::Traffic;
use outcome::text::{at_width, shown_text};
use outcome::{Advice, Outcome, Verdict};
use report::render::{html, junit, pretty, prometheus, text};
use report::{Report, StepFor, TestEntry, after_runs, from_json};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Columns of a file.
const COLUMNS: usize = 80;

/// Folders below the one for vLLM: one file allows all proven pairs, the other no pair.
const PROVEN: &str = "proven";
const NONE: &str = "none";

/// Converts a report to another form.
pub(super) fn render(asked: &Render) -> Result<u8, CommandError> {
    let Render {
        report: path,
        to,
        without,
        output,
    } = asked;
    let unclear = || {
        let why = format!(
            "--output {output}: say the form by --to, or end the name in .txt .json .html .xml or .prom"
        );
        CommandError::Usage(why)
    };
    let to = to.or_else(|| Form::of_name(output)).ok_or_else(unclear)?;
    if same_file(output, &Place::File(path.clone())) {
        return Err(CommandError::Usage(format!(
            "--output {output}: is the report itself, and will not be replaced"
        )));
    }
    if without.is_some() && to != Form::Prometheus {
        return Err(CommandError::Usage(
            "--without matrices is for --to prometheus".to_owned(),
        ));
    }
    let report = read_any(path)?;
    let place = (path.as_os_str() != "-").then(|| path.display().to_string());
    let text = match to {
        Form::Text if *output == Place::Stdout => {
            shown_text(&text::full_text(&report, place.as_deref()))
        }
        Form::Text => at_width(COLUMNS, || {
            shown_text(&text::full_text(&report, place.as_deref()))
        }),
        Form::Json => pretty(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Html => html::page(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Junit => junit::suites(&report).map_err(|e| CommandError::undone(&e))?,
        Form::Prometheus => prometheus::families(&report, without.is_none()),
    };
    write(output, &text)?;
    Ok(SUCCESS)
}

/// Prints the JSON Schema of the report.
pub(super) fn schema() -> Result<u8, CommandError> {
    write(
        &Place::Stdout,
        &pretty(&report::schema()).map_err(|e| CommandError::undone(&e))?,
    )?;
    Ok(SUCCESS)
}

/// Prints the next step of the last report, and the addresses of its GPUs, in one line.
pub(super) fn next_step(path: &Path, earlier: &[PathBuf]) -> Result<u8, CommandError> {
    let last = read(path)?;
    let earlier = earlier
        .iter()
        .map(|path| read(path))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(later) = earlier.iter().find(|other| other.started > last.started) {
        let (first, other) = (&last.started, &later.started);
        return Err(CommandError::Undone(format!(
            "{}: began {first}, and an earlier report {other}",
            path.display()
        )));
    }
    let StepFor { step, gpus } = after_runs(&last, &earlier);
    let gpus: String = gpus.iter().map(|gpu| format!(" {gpu}")).collect();
    write(&Place::Stdout, &format!("{step}{gpus}\n"))?;
    Ok(SUCCESS)
}

/// Prints NAME=value lines, each after its reason as a comment; writes the files for vLLM below `vllm`.
pub(super) fn env(
    path: &Path,
    nodes: Option<&Path>,
    vllm: Option<&Path>,
) -> Result<u8, CommandError> {
    let mut report = read(path)?;
    if let Some(path) = nodes {
        let between = read_nodes(path)?;
        report.workload_env.extend(between.workload_env);
        report.workload_reasons.extend(between.workload_reasons);
    }
    let mut lines = String::new();
    for (name, value) in &report.workload_env {
        // Any other form could set further variables for the workload.
        let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !named || value.contains(['\n', '\0']) {
            let (file, read) = (path.display(), format!("{name}={value}"));
            return Err(CommandError::Undone(format!(
                "{file}: workload_env: read {read:?}, allowed: a NAME of letters, digits and _ and one line"
            )));
        }
        if let Some(reason) = report.workload_reasons.get(name) {
            if reason.contains(['\n', '\0']) {
                let (file, read) = (path.display(), reason);
                return Err(CommandError::Undone(format!(
                    "{file}: workload_reasons.{name}: read {read:?}, allowed: one line"
                )));
            }
            lines.push_str(&format!("# {reason}\n"));
        }
        lines.push_str(&format!("{name}={value}\n"));
    }
    for Advice {
        name,
        value,
        reason,
    } in vllm.map_or(Ok(Vec::new()), |dir| write_vllm_files(&report, dir))?
    {
        lines.push_str(&format!("# {reason}\n{name}={value}\n"));
    }
    // Last, because a comment belongs to the variable below it.
    if report
        .tests
        .iter()
        .flat_map(|test| &test.findings)
        .any(|finding| finding.is(Code::NvlsUntested))
    {
        lines.push_str("# NCCL_NVLS_ENABLE is not set: NVLink SHARP was not tested; validate.nvls = true tests it\n");
    }
    write(&Place::Stdout, &lines)?;
    Ok(SUCCESS)
}

/// Writes the two files, and returns the settings that make vLLM read the one that applies; no settings if the
/// report neither proves nor forbids peer-to-peer, so that vLLM tests it itself.
fn write_vllm_files(report: &Report, dir: &Path) -> Result<Vec<Advice>, CommandError> {
    let (gpus, proven) = (report.gpus.len(), proven(report));
    let undone = |e: io::Error| CommandError::Undone(format!("{}: {e}", dir.display()));
    if dir
        .to_str()
        .is_none_or(|dir| dir.contains(['\n', '\0']) || !dir.starts_with('/'))
    {
        let read = dir.display().to_string();
        return Err(CommandError::Usage(format!(
            "env --vllm: read {read:?}, allowed: an absolute path in one line"
        )));
    }
    if gpus == 0 {
        return Ok(Vec::new());
    }
    // Both files are written before a choice is made, so that no file of an earlier report stays.
    let pairs = proven
        .clone()
        .map(|pairs| move |pair: Pair| pair.from == pair.to || pairs.contains(&pair));
    write_access_cache(&dir.join(PROVEN), gpus, pairs).map_err(undone)?;
    write_access_cache(&dir.join(NONE), gpus, Some(|_| false)).map_err(undone)?;
    let off = report
        .workload_env
        .get("NCCL_P2P_DISABLE")
        .is_some_and(|value| value == "1");
    let of_frameworks = |t: &TestEntry| {
        t.properties()
            .is_some_and(|test| test.traffic == Traffic::Frameworks)
    };
    let bad =
        |t: &TestEntry| of_frameworks(t) && matches!(t.outcome, Outcome::Fail | Outcome::Error);
    let (folder, reason) = match (off, proven) {
        (true, _) => (
            NONE,
            "peer-to-peer is not proven on this machine, so vLLM uses it for no pair",
        ),
        // vLLM's own all-reduce is off if this file allows no pair; NCCL does not read the file.
        _ if report.tests.iter().any(bad) => (
            NONE,
            "p2p-allreduce did not pass, so vLLM uses NCCL instead of its own all-reduce",
        ),
        (false, Some(_)) => (
            PROVEN,
            "the pairs of GPUs that passed the tests of peer-to-peer, in the form that vLLM reads",
        ),
        (false, None) => return Ok(Vec::new()),
    };
    let root = dir.join(folder).display().to_string();
    Ok(vec![
        Advice::new("VLLM_CACHE_ROOT", root, reason),
        Advice::new(
            "VLLM_SKIP_P2P_CHECK",
            "0",
            "vLLM reads that file and does not trust the driver",
        ),
        Advice::new(
            "CUDA_DEVICE_ORDER",
            "PCI_BUS_ID",
            "the order of the GPUs in that file",
        ),
    ])
}

/// The ordered pairs for which peer-to-peer is proven, also between processes, as vLLM uses it; `None` unless
/// the verdict is good and covers the whole machine.
fn proven(report: &Report) -> Option<Vec<Pair>> {
    let good = matches!(report.verdict, Verdict::Pass | Verdict::Degraded)
        && report.scope == Scope::Machine;
    let test = |id: &str| {
        let found = report.tests.iter().find(|test| test.id == id);
        found.filter(|test| matches!(test.outcome, Outcome::Pass | Outcome::Warn))
    };
    // The two other tests tried every pair for which this matrix has a 1.
    let access = test("p2p-capability")?.matrices.first().filter(|_| good)?;
    test("p2p-integrity").and(test("p2p-processes"))?;
    if access.values.len() != report.gpus.len() {
        return None;
    }
    let rows = access.values.iter().enumerate();
    let yes = rows.flat_map(|(from, row)| {
        row.iter()
            .enumerate()
            .map(move |(to, yes)| (Pair::of(from, to), *yes))
    });
    Some(
        yes.filter(|(_, yes)| *yes == Some(1.0))
            .map(|(pair, _)| pair)
            .collect(),
    )
}

/// Writes the file that vLLM's `gpu_p2p_access_check` reads: whether GPU i reaches GPU j, for all ordered pairs
/// of `gpus` GPUs and each with itself. The file name contains the numbers of all GPUs, as vLLM expects it without
/// `CUDA_VISIBLE_DEVICES`. `None` removes the file.
fn write_access_cache(
    folder: &Path,
    gpus: usize,
    reaches: Option<impl Fn(Pair) -> bool>,
) -> io::Result<()> {
    let numbers: Vec<_> = (0..gpus).map(|gpu| gpu.to_string()).collect();
    let file = folder.join(format!(
        "gpu_p2p_access_cache_for_{}.json",
        numbers.join(",")
    ));
    let Some(reaches) = reaches else {
        return fs::remove_file(file).or_else(|e| {
            if e.kind() == ErrorKind::NotFound {
                Ok(())
            } else {
                Err(e)
            }
        });
    };
    let named = |pair: Pair| {
        (
            format!("{}->{}", pair.from, pair.to),
            Value::Bool(reaches(pair)),
        )
    };
    let all = Pair::all(gpus).map(named);
    let text = serde_json::to_string_pretty(&Value::Object(all.collect::<Map<_, _>>()))?;
    fs::create_dir_all(folder)?;
    atomic::write(&file, text.as_bytes())
}

/// The report in a file, or from standard input.
fn read_any(path: &Path) -> Result<Report, CommandError> {
    if path.as_os_str() == "-" {
        read_input()
    } else {
        read(path)
    }
}

fn read_input() -> Result<Report, CommandError> {
    let here = |why: String| CommandError::Undone(format!("standard input: {why}"));
    from_json(&files::limited(io::stdin().lock(), LARGEST).map_err(here)?)
        .map_err(|e| here(e.to_string()))
}

/// The settings in a report of `nodes`, `firstlight.nodes/1`.
#[derive(Deserialize)]
struct Between {
    schema: String,
    workload_env: BTreeMap<String, String>,
    workload_reasons: BTreeMap<String, String>,
}

fn read_nodes(path: &Path) -> Result<Between, CommandError> {
    let here = |why: String| CommandError::Undone(format!("{}: {why}", path.display()));
    let bytes = files::read(path, LARGEST).map_err(here)?;
    let between: Between = serde_json::from_slice(&bytes).map_err(|e| here(e.to_string()))?;
    let read = &between.schema;
    let expected = contract::schema::NODES;
    if read == expected {
        Ok(between)
    } else {
        Err(here(format!("read schema {read:?}, expected {expected}")))
    }
}

pub(super) fn read(path: &Path) -> Result<Report, CommandError> {
    let here = |why: String| CommandError::Undone(format!("{}: {why}", path.display()));
    let bytes = files::read(path, LARGEST).map_err(here)?;
    from_json(&bytes).map_err(|e| here(e.to_string()))
}
