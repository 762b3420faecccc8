//! `firstlight p2p`: runs only the peer-to-peer tests. Prints their rows first, so that integrity is known before any
//! figure is shown, then the sample's tables and the result of every pair, then the verdict. With `--plan` it prints
//! only the pairs that would be measured simultaneously.

mod unfinished;

use crate::cli::args::{P2p, Place};
use crate::cli::console::Console;
use crate::cli::deliver::{CopyForm, ReportCopy, deliver};
use crate::cli::fabric::{gpu_block, no_gpu, nvlinks};
use crate::cli::output::write_json_or_text;
use crate::cli::validate::{apart, limit, status};
use crate::cli::{CommandError, SUCCESS};
use crate::config::Config;
use crate::engine;
use crate::render::nvidia_sample;
use crate::schedule::{Plan, Routes};
use crate::suite;
use machine::pcie::model::Fabric;
use machine::root::Root;
use outcome::text::wrapped;
use report::render::pair_matrix::pairs;
use report::render::text::MOST_GPUS;
use serde::Serialize;
use std::fmt::Write as _;

/// The tests of this command: CUDA, capability, integrity, speed.
const TESTS: &[&str] = &[
    "cuda",
    "p2p-capability",
    "p2p-integrity",
    "p2p-bandwidth",
    "p2p-latency",
];

/// `p2p`; the exit status is that of the verdict.
pub(in crate::cli) fn run(
    root: &Root,
    mut config: Config,
    asked: &P2p,
) -> Result<u8, CommandError> {
    if asked.plan {
        return plan(root, &config, asked.json.as_ref());
    }
    if let Some(unknown) = TESTS.iter().find(|id| suite::by_id(id).is_none()) {
        return Err(CommandError::Undone(format!("there is no test {unknown}")));
    }
    let forms = apart([
        (CopyForm::Json, asked.json.clone()),
        (CopyForm::Html, asked.html.clone()),
    ])?;
    let on_console = !forms.iter().any(|(_, place)| *place == Place::Stdout);
    config.validate.level = asked.level.unwrap_or(config.validate.level);
    // The configuration's selection of tests for `validate` does not apply to this command.
    (config.validate.only, config.validate.skip) = (Vec::new(), Vec::new());
    let fabric = fabric::read(root);
    if fabric.as_ref().is_ok_and(|fabric| fabric.gpus.is_empty()) {
        return Err(CommandError::Undone(no_gpu()));
    }
    limit(root, &fabric, &mut config, &asked.gpus)?;
    let chosen = suite::selection(&config.validate, TESTS);
    let interrupts = engine::Interrupts::catch().map_err(|e| CommandError::undone(&e))?;
    let mut console = Console::new(on_console, asked.output)?;
    let copies = forms
        .into_iter()
        .map(|(form, place)| ReportCopy::new(form, place))
        .collect::<Result<Vec<_>, _>>()?;
    let mut report = engine::run_plan(root, &config, &chosen, &interrupts, &mut console);
    unfinished::finish(root, &config, &mut report, &interrupts, &mut console);
    // The end of the text has the matrix of fewer GPUs.
    let many = (report.gpus.len() > MOST_GPUS)
        .then(|| pairs(&report))
        .flatten();
    for text in [nvidia_sample::report_tables(&report), many]
        .into_iter()
        .flatten()
    {
        console.say(&format!("\n{text}"));
    }
    deliver(&mut report, copies, &mut console);
    Ok(status(&report, &interrupts))
}

/// `firstlight.p2p-plan/1`
#[derive(Serialize)]
struct Plans<'a> {
    schema: &'static str,
    root: &'a str,
    ordered: Plan,
    unordered: Plan,
}

fn plan(root: &Root, config: &Config, json: Option<&Place>) -> Result<u8, CommandError> {
    let fabric = fabric::read(root).map_err(|e| CommandError::undone(&e))?;
    if fabric.gpus.is_empty() {
        return Err(CommandError::Undone(no_gpu()));
    }
    let nvlinks = nvlinks(root, config, &fabric)?;
    let known = nvlinks.is_some();
    let routes = Routes::new(&fabric, &fabric.gpus, &nvlinks.unwrap_or_default())
        .map_err(|e| CommandError::undone(&e))?;
    let plans = Plans {
        schema: "firstlight.p2p-plan/1",
        root: &fabric.root,
        ordered: Plan::ordered(&routes),
        unordered: Plan::unordered(&routes),
    };
    write_json_or_text(
        json,
        &plans,
        &plan_text(&fabric, &gpu_block(root, &fabric), known, &plans),
    )?;
    Ok(SUCCESS)
}

fn plan_text(fabric: &Fabric, block: &str, nvlinks_known: bool, plans: &Plans<'_>) -> String {
    let mut text = "p2p plan".to_owned();
    if fabric.root != "/" {
        text += &format!("   the machine in {}", fabric.root);
    }
    text.push('\n');
    text += block;
    if !nvlinks_known {
        let said = "over PCIe; NVLinks are only known with a running driver";
        text += &wrapped("  ", "  ", said);
    }
    // Writing into a String cannot fail.
    let _ = write!(text, "\n{}\n{}", plans.ordered, plans.unordered);
    text
}
