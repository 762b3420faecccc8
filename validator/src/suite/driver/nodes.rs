//! Whether programs find the driver's device nodes. No udev runs in the image, so init created every node: each
//! must exist and have the device numbers that the driver uses.

use crate::suite::context::{TestContext, known};
use crate::suite::{FILE_DEADLINE, Group, Test};
use machine::host::nvidia::ReadResult;
use machine::host::nvidia::account::Account;
use machine::host::nvidia::nodes;
use machine::host::nvidia::nodes::{DeviceNode, NodeState};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NODES,
    title: "Device nodes",
    proves: "the driver's device nodes exist and have the numbers that the driver uses",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = context.no_driver()? {
        return Ok(nothing);
    }
    let account = known(&context.nvidia.account)?.as_ref();
    let majors = nodes::majors(&context.root);
    let wanted = nodes::needed_nodes(known(&context.nvidia.gpus)?, known(&majors)?);
    let mut wanted = known(&wanted)?.clone();
    add(&mut wanted, account);
    let all: Vec<_> = wanted
        .into_iter()
        .map(|w| (nodes::state(&context.root, &w.path), w))
        .collect();
    Ok(judge(&all, account.is_some()))
}

/// Adds the nodes that init reports to those that every CUDA program needs.
fn add(wanted: &mut Vec<DeviceNode>, account: Option<&Account>) {
    for node in account.iter().flat_map(|a| &a.nodes) {
        if !wanted.iter().any(|w| w.path == node.path) {
            wanted.push(DeviceNode {
                path: node.path.clone(),
                numbers: Some((node.major, node.minor)),
            });
        }
    }
}

/// `ours`: firstlight's init started this machine, so every node must already exist.
fn judge(all: &[(ReadResult<NodeState>, DeviceNode)], ours: bool) -> Judgement {
    let findings: Vec<_> = all
        .iter()
        .filter_map(|(found, wanted)| finding(found, wanted, ours))
        .collect();
    let summary = match findings.iter().rev().max_by_key(|f| f.severity) {
        Some(worst) => worst.message.to_string(),
        None => format!("{} of {} nodes: {}", all.len(), all.len(), names(all)),
    };
    Judgement::of(summary, findings)
}

fn names(all: &[(ReadResult<NodeState>, DeviceNode)]) -> String {
    let gpus = all
        .iter()
        .filter(|(_, w)| w.path.strip_prefix("/dev/nvidia").is_some_and(is_number))
        .count();
    format!("nvidiactl, {}, uvm", count(gpus, "GPU"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn finding(found: &ReadResult<NodeState>, wanted: &DeviceNode, ours: bool) -> Option<Finding> {
    let path = &wanted.path;
    let (severity, message) = match (found, wanted.numbers) {
        (Err(why), _) => (
            Severity::Error,
            format!("a device node cannot be read: {why}"),
        ),
        // CUDA loads nvidia-uvm at its first use where nvidia-modprobe is installed.
        (_, None) => {
            let severity = if ours { Severity::Fail } else { Severity::Warn };
            (
                severity,
                format!("nvidia-uvm is not loaded, so {path} does not work"),
            )
        }
        (Ok(NodeState::Device(a, b)), Some((c, d))) if (*a, *b) == (c, d) => return None,
        (Ok(state), Some((major, minor))) => {
            let found = match state {
                NodeState::Missing => "missing".to_owned(),
                NodeState::Other => "not a character device".to_owned(),
                NodeState::Device(a, b) => format!("device {a}:{b}"),
            };
            (
                Severity::Fail,
                format!("{path} is {found}, expected device {major}:{minor}"),
            )
        }
    };
    let expected = wanted
        .numbers
        .map(|(major, minor)| format!("{major}:{minor}"));
    let measured = match found {
        Ok(NodeState::Device(a, b)) => Some(format!("{a}:{b}")),
        _ => None,
    };
    Some(
        Code::NodesMissing
            .finding(severity, Subject::file(path), message)
            .values(measured, expected, None),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::nvidia::fixture::account_with as with;
    use outcome::Outcome;
    use serde_json::json;

    fn node(name: &str, numbers: Option<(u32, u32)>) -> DeviceNode {
        DeviceNode {
            path: format!("/dev/{name}"),
            numbers,
        }
    }

    fn say(found: ReadResult<NodeState>, numbers: Option<(u32, u32)>, ours: bool) -> Judgement {
        judge(&[(found, node("nvidia0", numbers))], ours)
    }

    #[test]
    fn the_right_numbers_pass_and_anything_else_fails() {
        let said = say(Ok(NodeState::Device(195, 0)), Some((195, 0)), true);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Pass, "1 of 1 nodes: nvidiactl, 1 GPU, uvm")
        );
        for found in [
            NodeState::Missing,
            NodeState::Other,
            NodeState::Device(195, 1),
            NodeState::Device(511, 0),
        ] {
            let said = say(Ok(found), Some((195, 0)), false);
            assert!(
                said.outcome() == Outcome::Fail && said.findings[0].is(Code::NodesMissing),
                "{found:?}"
            );
        }
        assert_eq!(
            say(Err("/dev/nvidia0: denied".into()), Some((195, 0)), true).outcome(),
            Outcome::Error
        );
    }

    #[test]
    fn a_missing_uvm_fails_where_it_would_not_be_loaded_later() {
        assert_eq!(
            say(Ok(NodeState::Missing), None, true).outcome(),
            Outcome::Fail
        );
        assert_eq!(
            say(Ok(NodeState::Missing), None, false).outcome(),
            Outcome::Warn
        );
    }

    #[test]
    fn nodes_that_init_made_must_still_exist() {
        let caps = json!([{ "path": "/dev/nvidia-caps/nvidia-cap1", "major": 236, "minor": 1 },
                          { "path": "/dev/nvidiactl", "major": 195, "minor": 255 }]);
        let mut wanted = vec![node("nvidiactl", Some((195, 255)))];
        add(&mut wanted, Some(&with("/nodes", caps)));
        assert_eq!(wanted.len(), 2);
        assert_eq!(wanted[1], node("nvidia-caps/nvidia-cap1", Some((236, 1))));
    }
}
