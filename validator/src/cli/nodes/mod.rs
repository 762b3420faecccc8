//! `firstlight nodes`, and `firstlight nccl --nodes`: this node meets the others. The node that leads runs the tests
//! over all nodes and prints their results; the others follow its orders and print the final result.

mod display;
mod local;
mod meet;
mod settings;

use super::{CommandError, FAILURE, NOT_DONE, SUCCESS};
use crate::cli::args::{Meet, Nccl, Nodes, Place};
use crate::config::Config;
use crate::nccl::advice::between_nodes;
use crate::nccl::{Row, Sweep};
use crate::nodes::member::MemberResult;
use crate::nodes::order::Ending;
use crate::nodes::suite::{self, TestSelection};
use contract::status::DEGRADED;
use display::{CollectiveTable, Node, NodesConsole};
use local::LocalNode;
use machine::root::Root;
use meet::Role;
use outcome::finding::{Finding, Severity};
use outcome::{Advice, Outcome};
use report::TestEntry;
pub(super) use settings::launched_process;
use std::time::{Instant, SystemTime};

/// Runs tests over the nodes.
pub(super) fn run(
    root: &Root,
    config: &Config,
    asked: &Nodes,
    selection: TestSelection,
) -> Result<u8, CommandError> {
    let started = SystemTime::now();
    let begun = Instant::now();
    let shown = asked.json != Some(Place::Stdout);
    let local = local::read(root, config, &asked.meet, &asked.gpus)?;
    let mut screen = NodesConsole::new(shown);
    let write =
        |nodes: Vec<Node<'_>>, tests: &[TestEntry], ending: &Ending, workload: &[Advice]| {
            let Some(place) = &asked.json else {
                return Ok(());
            };
            display::write(place, nodes, tests, (ending, workload), (started, begun))
        };
    match meet::meet(config, &asked.meet, &local)? {
        Role::Member(link) => {
            let (ended, names) = meet::follow(link, &local, shown, begun)?;
            let nodes = names.iter().map(|name| Node::Name { name }).collect();
            write(nodes, &[], &ended.ending, &workload(&ended, &local))?;
            Ok(ended.ending.status)
        }
        Role::Alone(finding) => {
            let ending = Ending {
                status: NOT_DONE,
                findings: vec![*finding],
                network: None,
            };
            screen.findings(&ending.findings);
            write(Vec::new(), &[], &ending, &[])?;
            Ok(NOT_DONE)
        }
        Role::Leader(mut leader) => {
            let (tests, network) = suite::run(&mut leader.gathered, selection, &mut screen);
            let findings: Vec<_> = tests
                .iter()
                .flat_map(|(_, judgement, _)| judgement.findings.clone())
                .collect();
            let tests = display::entries(&tests);
            let status = worst(tests.iter().map(|test| test.outcome));
            let network = network.filter(|_| matches!(status, SUCCESS | DEGRADED));
            let ending = Ending {
                status,
                findings,
                network,
            };
            let own = leader.end(&ending);
            let seconds = begun.elapsed().as_secs_f64();
            let name = &local.card.name;
            screen.end(&tests, status, name, seconds);
            let nodes = leader
                .gathered
                .cluster
                .cards()
                .into_iter()
                .map(Node::Card)
                .collect();
            let workload = own.map(|own| workload(&own, &local)).unwrap_or_default();
            write(nodes, &tests, &ending, &workload)?;
            screen
                .failed
                .map_or(Ok(status), |why| Err(CommandError::Undone(why)))
        }
    }
}

/// One collective over all nodes: nccl-tests' table, printed by the node that leads. `asked.gpus` counts per node.
pub(super) fn nccl(
    root: &Root,
    config: &Config,
    asked: &Nccl,
    sweep: &Sweep,
    sizes: &[u64],
) -> Result<u8, CommandError> {
    let begun = Instant::now();
    let mut local = local::read(root, config, &asked.meet, &[])?;
    if let Some(gpus) = asked.gpus {
        local.limit_gpus(usize::from(gpus))?;
    }
    let shown = asked.json != Some(Place::Stdout);
    match meet::meet(config, &asked.meet, &local)? {
        Role::Member(link) => Ok(meet::follow(link, &local, false, begun)?.0.ending.status),
        Role::Alone(finding) => {
            NodesConsole::new(true).findings(&[*finding]);
            Ok(NOT_DONE)
        }
        Role::Leader(mut leader) => {
            let mut table = CollectiveTable::new(shown, asked.json.clone());
            let (status, findings) = match leader.complete() {
                Err(findings) => (NOT_DONE, findings),
                Ok(cluster) => {
                    super::nccl::check_exact(sweep, cluster.gpus())?;
                    match suite::run_collective(cluster, sweep, sizes, asked.root_rank, &mut table)
                    {
                        Ok(rows) => (of_rows(&rows), Vec::new()),
                        Err(finding) => {
                            let status = if finding.severity == Severity::Fail {
                                FAILURE
                            } else {
                                NOT_DONE
                            };
                            (status, vec![*finding])
                        }
                    }
                }
            };
            leader.end(&Ending {
                status,
                findings: findings.clone(),
                network: None,
            });
            NodesConsole::new(true).findings(&findings);
            table.finish(sweep, findings.is_empty())?;
            Ok(status)
        }
    }
}

/// The workload's settings for traffic between the nodes, with this node's device names; none without a good result.
fn workload(ended: &MemberResult, node: &LocalNode) -> Vec<Advice> {
    let Some(choice) = &ended.ending.network else {
        return Vec::new();
    };
    let hcas: Vec<_> = choice
        .rails
        .iter()
        .filter_map(|rail| node.local.hcas.get(*rail).cloned())
        .collect();
    between_nodes(ended.interface.as_deref().ok(), &hcas, choice.merge)
}

fn of_rows(rows: &[Row]) -> u8 {
    super::nccl::log_first_wrong(rows);
    if rows.iter().any(|row| row.wrong() > 0) {
        FAILURE
    } else {
        SUCCESS
    }
}

/// The exit status of these outcomes; an error if no test ran.
fn worst(outcomes: impl Iterator<Item = Outcome>) -> u8 {
    let (mut worst, mut passed) = (0, false);
    for outcome in outcomes {
        passed |= outcome == Outcome::Pass;
        worst = worst.max(match outcome {
            Outcome::Pass | Outcome::NotApplicable => 0,
            Outcome::Warn => 1,
            Outcome::Fail => 2,
            Outcome::Error => 3,
        });
    }
    match worst {
        0 if passed => SUCCESS,
        1 => DEGRADED,
        2 => FAILURE,
        _ => NOT_DONE,
    }
}

/// Whether the options ask for several nodes, or a launcher has started several processes.
pub(super) fn wanted(nodes: bool, meet: &Meet) -> Result<bool, CommandError> {
    let asked = nodes || *meet != Meet::default();
    Ok(asked || launched_process()?.is_some())
}

fn messages(findings: &[Finding]) -> impl Iterator<Item = String> {
    findings
        .iter()
        .map(|finding| format!("{}: {}", finding.code, finding.message))
}
