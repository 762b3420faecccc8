//! The stage `nodes`, only where `nodes.size` is configured: this machine meets the others by `firstlight nodes`, in a
//! child. The machine's own verdict stays as it is; the policy follows the worse of the two.

use super::publish::forget;
use super::reset::ResetCheck;
use super::strays::run_alone;
use super::validate::is_verdict;
use crate::child::{ChildSpec, End, Stream};
use crate::config::LARGEST as LARGEST_LAYER;
use crate::config::types::Validator;
use crate::console::CHILD;
use crate::fault::Fault;
use crate::file_io::{read_at_most, remove, write_privately};
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::verdict::{Met, StageError, Validation, Verdict, judge};
use contract::mark::Step;
use log::{debug, info};
use std::path::Path;
use std::time::Duration;
use toml::Table;

/// The time limit of the tests, after the meeting.
const TESTS: Duration = Duration::from_secs(1800);
/// The columns of a console.
const WIDTH: usize = 80;
/// Maximum size of the report.
const LARGEST: u64 = 64 << 20;

/// Meets the other nodes if that is configured. A machine that did not pass by itself, or had `stage_errors` before,
/// does not take part: its GPUs may hang, and the others report it as absent.
///
/// # Errors
/// Only an interruption.
pub fn meet(
    m: &mut Machine,
    config: &Validator,
    validation: &Validation,
    (reset, stage_errors): (&ResetCheck, &[StageError]),
) -> Result<Option<Met>, Fault> {
    let met = meet_if_asked(m, config, validation, (reset, stage_errors));
    // Whatever the result: what follows may be a workload.
    let forgotten = forget_secret(&config.files, Path::new(paths::RUN));
    forgotten.iter().for_each(|line| info!("{line}"));
    met
}

fn meet_if_asked(
    m: &mut Machine,
    config: &Validator,
    validation: &Validation,
    (reset, stage_errors): (&ResetCheck, &[StageError]),
) -> Result<Option<Met>, Fault> {
    let Some(meeting) = config.meeting else {
        return Ok(None);
    };
    m.stage("nodes", |m| {
        forget(&[paths::NODES]);
        let own = judge(validation, stage_errors).verdict;
        if own.is_good() {
            reset.guard(
                m,
                Step::Nodes,
                |why| Met::failed(why, None),
                |m| run(m, config, meeting),
            )
        } else {
            Ok(Met::failed(format!("not run: this machine is {own}"), None))
        }
    })
    .map(Some)
}

/// Removes the section `nodes`, with the secret of the nodes, from those of these files that are in the folder `run`: copies of
/// the partition's files and layers from a server. The other files are the image's. Returns what people must know.
fn forget_secret(files: &[String], run: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for file in files.iter().map(Path::new) {
        // A file that cannot be read or parsed was refused long before.
        let Some(mut layer) = read_at_most(file, LARGEST_LAYER)
            .ok()
            .and_then(|bytes| toml::from_slice::<Table>(&bytes).ok())
        else {
            continue;
        };
        let secret = layer
            .get("nodes")
            .and_then(|nodes| nodes.get("token"))
            .and_then(toml::Value::as_str);
        if secret.is_none_or(str::is_empty) {
            continue;
        }
        let name = file.display();
        if !file.starts_with(run) {
            lines.push(format!(
                "warning: {name}: nodes.token is in the image; whoever has the image has it"
            ));
            continue;
        }
        layer.remove("nodes");
        let text = toml::to_string(&layer).map_err(|e| e.to_string());
        match text
            .and_then(|text| write_privately(file, text.as_bytes()).map_err(|e| e.to_string()))
        {
            Ok(()) => debug!(
                "{name}: [nodes] removed; by hand: firstlight nodes --size N --token-file FILE"
            ),
            Err(why) => {
                // Without the file, no later test of this boot can begin; with it, the secret would be kept.
                let _not_there = remove(file);
                lines.push(format!(
                    "warning: {name}: removed, because [nodes] cannot be removed from it: {why}"
                ));
            }
        }
    }
    lines
}

fn run(m: &Machine, config: &Validator, meeting: Duration) -> Result<Met, Fault> {
    let spec = spec(config, meeting);
    let reached = |end| matches!(end, End::Exited(status) if Verdict::of_status(status).is_some());
    let done = run_alone(m, &spec, &mut show, reached)?;
    let report = read_at_most(Path::new(paths::NODES), LARGEST)
        .map_err(|e| format!("{}: {e}", paths::NODES));
    Ok(Met::accept(done.end, &done.reason(), report))
}

fn spec(config: &Validator, meeting: Duration) -> ChildSpec {
    helper::validator(config, &["nodes", "--json", paths::NODES], meeting + TESTS)
}

/// Shows the command's rows, without the tables of perftest's and nccl-tests' form, which are wider than a console. Its verdict
/// lines get a prefix, because the last line of a boot must be the machine's verdict.
fn show(stream: Stream, line: &str) -> bool {
    match stream {
        Stream::Err => debug!("nodes: {line}"),
        Stream::Out if is_verdict(line) => info!(target: CHILD, "nodes: {line}"),
        Stream::Out if is_of_a_table(line) => debug!("nodes: {line}"),
        Stream::Out => info!(target: CHILD, "{line}"),
    }
    stream == Stream::Out
}

/// A wide row, a title, or an empty line between tables.
fn is_of_a_table(line: &str) -> bool {
    let begins = line.trim_start();
    line.chars().count() > WIDTH || begins.is_empty() || begins.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_tests_are_shown_and_tables_are_not() {
        for row in [
            "  PASS   nodes-pairs     2 of 2 pairs   0.0 s",
            "                         are fine",
        ] {
            assert!(!is_of_a_table(row), "{row}");
        }
        for line in [
            "",
            "#",
            "# Using devices",
            " #bytes     #iterations",
            &"1".repeat(81),
        ] {
            assert!(is_of_a_table(line), "{line}");
        }
    }

    #[test]
    fn the_secret_of_the_nodes_does_not_stay_and_one_in_the_image_is_named() {
        let (run, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = "[nodes]\nsize = 2\ntoken = \"a secret of the nodes\"\n\n[validate]\nlevel = \"quick\"\n";
        let other = "[validate]\nlevel = \"full\"\n";
        let at = |dir: &tempfile::TempDir, name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let files = [
            at(&run, "a.toml", text),
            at(&run, "b.toml", other),
            at(&image, "c.toml", text),
            at(&run, "d.toml", "["),
        ];
        let said = forget_secret(&files, run.path());
        assert_eq!(
            said,
            [format!(
                "warning: {}: nodes.token is in the image; whoever has the image has it",
                files[2]
            )]
        );
        let read = |file: &str| std::fs::read_to_string(file).unwrap();
        assert_eq!(
            toml::from_str::<Table>(&read(&files[0])).unwrap(),
            toml::from_str("[validate]\nlevel = \"quick\"").unwrap()
        );
        assert_eq!(
            (read(&files[1]).as_str(), read(&files[2]).as_str()),
            (other, text)
        );
        let mode = |file: &str| {
            std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(file).unwrap()) & 0o777
        };
        assert_eq!(mode(&files[0]), 0o600);
    }

    #[test]
    fn the_time_limit_is_that_of_the_meeting_and_of_the_tests() {
        let (timeout, meeting) = (Duration::from_secs(900), Duration::from_secs(60));
        let config = Validator {
            files: Vec::new(),
            set: Vec::new(),
            timeout,
            meeting: Some(meeting),
        };
        assert_eq!(spec(&config, meeting).deadline, Duration::from_secs(1860));
    }
}
