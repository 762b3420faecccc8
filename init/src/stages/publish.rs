//! The stage `publish`: writes the files that the workload reads, and has the report kept and sent
//! (`keep`). If a file cannot be written the verdict becomes ERROR, because a workload cannot follow settings
//! that it cannot read.

use crate::child::{End, on_output};
use crate::config::types::{Action, Config};
use crate::environment::{self, Variable};
use crate::fault::Fault;
use crate::file_io::{read_at_most, remove, write_atomically};
use crate::helper;
use crate::machine::{Armed, Machine};
use crate::paths;
use crate::stages::decide::Decision;
use crate::sys::files::{allow_changes, forbid_changes};
use crate::sys::kernel::in_initial_namespace;
use crate::verdict::{Judgement, Met, StageError, Verdict};
use contract::schema;
use log::info;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::keep::keep_report;
use super::watchdog;

/// Size limit of the image's nccl.conf.
const LARGEST_SETTINGS: u64 = 1 << 20;

/// The published decision and the workload's variables.
#[derive(Debug)]
pub struct Publication {
    /// The decision; ERROR if it could not be written.
    pub decision: Decision,
    /// The workload's variables.
    pub variables: Vec<Variable>,
    kept: String,
}

impl fmt::Display for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kept)
    }
}

/// Publishes the decision.
///
/// # Errors
/// Only an interruption.
pub fn publish(
    m: &mut Machine,
    config: &Config,
    mut decision: Decision,
) -> Result<Publication, Fault> {
    if let Some(root) = &decision.judgement.recorded {
        info!("warning: the report is about the machine in {root}, not about this one");
    }
    let mut variables = match variables(m, &decision)? {
        Ok(variables) => variables,
        Err(stage_error) => {
            decision.add_stage_error(&config.policy, &stage_error);
            Vec::new()
        }
    };
    apply_action(&decision, &mut variables);
    variables.extend(decision.judgement.nodes.as_ref().map(|met| Variable {
        name: "FIRSTLIGHT_NODES_VERDICT".to_owned(),
        value: met.verdict.to_string(),
        reason: "the verdict of the tests over all nodes".to_owned(),
    }));
    watchdog::set_variables(m, config, decision.action, &mut variables);
    if let Err(stage_error) = write_files(m, &decision, &variables) {
        rewrite(m, &mut decision, config, &mut variables, &stage_error);
    }
    let (kept, stage_error) = keep_report(m, config, &decision.judgement)?;
    if let Some(stage_error) = stage_error {
        rewrite(m, &mut decision, config, &mut variables, &stage_error);
    }
    protect();
    Ok(Publication {
        decision,
        variables,
        kept,
    })
}

/// Writes everything again after an error made the verdict ERROR. If a file cannot be written even then, its old
/// version must not remain, and a workload that needs the setting against peer-to-peer is not started.
fn rewrite(
    m: &Machine,
    decision: &mut Decision,
    config: &Config,
    variables: &mut Vec<Variable>,
    stage_error: &StageError,
) {
    decision.add_stage_error(&config.policy, stage_error);
    apply_action(decision, variables);
    watchdog::set_variables(m, config, decision.action, variables);
    withdraw(m, &decision.judgement);
    if write_files(m, decision, variables).is_err() && decision.action == Action::WorkloadWithoutP2p
    {
        decision.action = Action::Hold;
    }
}

/// The files that must not change once the verdict is published.
const FINAL: [&str; 3] = [paths::REPORT, paths::VERDICT, paths::NODES];

/// Makes the report and the verdict read-only, also for root, so that only another validation of init's replaces them. In a process
/// id namespace the files are another system's.
fn protect() {
    if in_initial_namespace() {
        FINAL
            .iter()
            .for_each(|path| forbid_changes(Path::new(path)));
    }
}

/// Removes these files, and any that cannot be changed any more.
pub(super) fn forget(paths: &[&str]) {
    for path in paths.iter().map(Path::new) {
        let _changeable = allow_changes(path);
        let _not_there = remove(path);
    }
}

/// Writes a verdict without a report, as far as possible, and removes the mark of a validated machine.
pub fn withdraw(m: &Machine, judgement: &Judgement) {
    let _not_there = remove(Path::new(paths::VALIDATED));
    if let Err(stage_error) =
        verdict_json(judgement, m.watchdog.as_ref()).and_then(|text| write(paths::VERDICT, &text))
    {
        // An old verdict must not be read in its place.
        forget(&[paths::VERDICT]);
        info!("warning: {}", stage_error.cause);
    }
}

/// The workload's variables according to the validator.
fn variables(m: &Machine, decision: &Decision) -> Result<Result<Vec<Variable>, StageError>, Fault> {
    if !decision.judgement.has_report {
        return Ok(Ok(Vec::new()));
    }
    let mut lines = Vec::new();
    let mut take = |line: &str| {
        if lines.len() < 1000 {
            lines.push(line.to_owned());
        }
    };
    let met = decision
        .judgement
        .nodes
        .as_ref()
        .is_some_and(|met| met.verdict.is_good());
    let done = m.run(
        &helper::environment(met),
        &mut on_output(&mut take),
        |end| end == End::Exited(0),
    )?;
    let stage_error = |cause| StageError {
        stage: "publish",
        code: None,
        cause,
    };
    if done.end != End::Exited(0) {
        return Ok(Err(stage_error(format!("firstlight env {}", done.end))));
    }
    Ok(environment::parse(&lines).map_err(stage_error))
}

/// Adds the setting that the action requires, and removes settings that the verdict does not justify: it
/// may have become worse than the report's.
fn apply_action(decision: &Decision, variables: &mut Vec<Variable>) {
    let verdict = decision.judgement.worst();
    if decision.action == Action::WorkloadWithoutP2p {
        let reason =
            format!("the verdict is {verdict}, and the policy for it workload-without-p2p");
        environment::switch_p2p_off(variables, &reason);
    } else if !verdict.is_good() {
        environment::trust_no_p2p(variables);
    }
}

fn write_files(m: &Machine, decision: &Decision, variables: &[Variable]) -> Result<(), StageError> {
    // A child may have created this file.
    let _not_there = remove(Path::new(paths::VALIDATED));
    write(paths::ENV, &environment::lines(variables))?;
    let old = settings(Path::new(paths::NCCL_CONF)).map_err(|e| failed(paths::NCCL_CONF, &e))?;
    write(paths::NCCL_CONF, &environment::nccl_conf(&old, variables))?;
    write(
        paths::VERDICT,
        &verdict_json(&decision.judgement, m.watchdog.as_ref())?,
    )?;
    if decision.judgement.worst().is_good() {
        write(paths::VALIDATED, "")?;
    }
    Ok(())
}

/// The image's settings for NCCL; it may have none.
fn settings(path: &Path) -> io::Result<String> {
    match read_at_most(path, LARGEST_SETTINGS) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        bytes => String::from_utf8(bytes?).map_err(|_| io::Error::other("not UTF-8")),
    }
}

fn write(path: &str, text: &str) -> Result<(), StageError> {
    let at = Path::new(path);
    let _changeable = allow_changes(at);
    let written = write_atomically(at, text.as_bytes()).or_else(|_| {
        // A child may have removed the folder, or made a folder where the file must be.
        let _there = fs::create_dir(paths::RUN);
        let _not_there = remove(at);
        write_atomically(at, text.as_bytes())
    });
    written.map_err(|e| failed(path, &e))
}

fn failed(path: &str, e: &io::Error) -> StageError {
    StageError {
        stage: "publish",
        code: None,
        cause: format!("{path}: {e}"),
    }
}

/// `firstlight.verdict/1`
#[derive(Serialize)]
struct VerdictFile<'a> {
    schema: &'static str,
    verdict: Verdict,
    scope: Option<&'a str>,
    covers: Option<&'a str>,
    cause: Option<&'a str>,
    failed: &'a [String],
    codes: &'a [String],
    exit_status: Option<i32>,
    fingerprint: Option<&'a str>,
    bound_to: Option<&'a RawValue>,
    report: Option<&'static str>,
    watchdog: Option<&'a Armed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a Met>,
    seconds: f64,
}

fn verdict_json(judgement: &Judgement, watchdog: Option<&Armed>) -> Result<String, StageError> {
    let file = VerdictFile {
        schema: schema::VERDICT,
        verdict: judgement.verdict,
        scope: judgement.scope.as_deref(),
        covers: judgement.covers.as_deref(),
        cause: judgement.cause.as_deref(),
        failed: &judgement.failed,
        codes: &judgement.codes,
        exit_status: judgement.exit_status,
        fingerprint: judgement.fingerprint.as_deref(),
        bound_to: judgement.bound_to.as_deref(),
        report: judgement.has_report.then_some(paths::REPORT),
        watchdog,
        nodes: judgement.nodes.as_ref(),
        seconds: judgement.seconds,
    };
    let text = serde_json::to_string(&file).map(|text| text + "\n");
    let cause = |e| format!("{}: {e}", paths::VERDICT);
    text.map_err(|e| StageError {
        stage: "publish",
        code: None,
        cause: cause(e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::recover::RecoveryResult;
    use crate::stages::reset::Reboots;
    use serde_json::json;

    #[test]
    fn a_verdict_file_has_every_key_of_its_schema() {
        let judgement = Judgement::error("config", "why".to_owned(), 0.5);
        let (device, name) = ("/dev/watchdog0".to_owned(), "x".to_owned());
        let watchdog = Armed {
            device,
            name,
            timeout_s: 60,
            is_reliable: true,
        };
        let text = verdict_json(&judgement, Some(&watchdog)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({ "schema": "firstlight.verdict/1", "verdict": "ERROR", "scope": null, "covers": null, "cause": "why", "failed": ["config"],
                "codes": [], "watchdog": { "device": "/dev/watchdog0", "name": "x", "timeout_s": 60 }, "exit_status": null, "fingerprint": null, "bound_to": null, "report": null, "seconds": 0.5 })
        );
    }

    /// The variables that the workload gets for `action`, with the report's verdict or with ERROR.
    fn variables_for(action: Action, worse: bool) -> String {
        let lines = ["# fast", "NCCL_P2P_LEVEL=SYS", "NCCL_IB_HCA=mlx5_0"].map(str::to_owned);
        let mut variables = environment::parse(&lines).unwrap();
        let mut judgement = Judgement::error("driver", "late".to_owned(), 0.5);
        if !worse {
            judgement.verdict = Verdict::Pass;
        }
        apply_action(
            &Decision {
                judgement,
                action,
                recovery: RecoveryResult::NotTried,
                reboots: Reboots::default(),
                objection: None,
            },
            &mut variables,
        );
        environment::lines(&variables)
    }

    #[test]
    fn settings_for_peer_to_peer_stay_only_with_a_good_verdict() {
        assert_eq!(
            variables_for(Action::Workload, false),
            "# fast\nNCCL_P2P_LEVEL=SYS\nNCCL_IB_HCA=mlx5_0\n"
        );
        assert_eq!(
            variables_for(Action::Workload, true),
            "NCCL_IB_HCA=mlx5_0\n"
        );
    }

    #[test]
    fn a_workload_without_peer_to_peer_gets_the_reason() {
        let why = "# the verdict is ERROR, and the policy for it workload-without-p2p";
        let lines = variables_for(Action::WorkloadWithoutP2p, true);
        let off = format!(
            "{why}\nNCCL_P2P_DISABLE=1\n{why}\nVLLM_CACHE_ROOT={}\n",
            environment::VLLM_NONE
        );
        assert_eq!(
            lines,
            format!("NCCL_IB_HCA=mlx5_0\n{off}{why}\nVLLM_SKIP_P2P_CHECK=0\n")
        );
    }
}
