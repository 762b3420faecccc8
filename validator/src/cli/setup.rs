//! `firstlight setup`: what is missing for peer-to-peer on an installed system, the steps taken, and taken back.

use super::args::Setup;
use super::args::setup::IommuWord;
use super::output::{to_stdout, write_json_or_text};
use super::{CommandError, NOT_DONE, SUCCESS};
use machine::root::Root;
use outcome::text::{count, shown_text};
use serde::Serialize;
use setup::apply::{Talk, apply};
use setup::check::check;
use setup::keys::Families;
use setup::options::{IommuChoice, Options};
use setup::runner::{Listing, Live, Runner};
use setup::state::State;
use setup::step::Plan;
use setup::undo::undo;
use setup::{plan, read, text};
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

/// The JSON document of a plan.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    root: String,
    machine: &'a State,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// The terminal.
struct Terminal {
    yes: bool,
}

impl Talk for Terminal {
    fn say(&mut self, text: &str) {
        // A reader that has gone cannot be told anything.
        let _ = to_stdout(&shown_text(text));
    }

    fn ask(&mut self, question: &str) -> bool {
        if self.yes {
            return true;
        }
        self.say(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
    }
}

/// Status 0 if it was read or done, 2 if it could not be. `recorded`: the machine is a recording in a temporary folder.
pub(super) fn run(root: &Root, recorded: bool, asked: &Setup) -> Result<u8, CommandError> {
    let acts = asked.apply || asked.undo;
    if acts && recorded {
        return Err(usage(
            "setup: a recording cannot be changed; name a folder with the layout of / by --root",
        ));
    }
    if root.path() != Path::new("/") && !root.join("").is_dir() {
        return Err(usage(&format!(
            "setup: --root {}: is not a folder",
            root.path().display()
        )));
    }
    if root.is_live() && !asked.check && !rustix::process::geteuid().is_root() {
        return Err(usage(
            "setup: run it as root; other users see 64 bytes of configuration space",
        ));
    }
    if acts && !asked.yes && !io::stdin().is_terminal() {
        return Err(usage(
            "setup: it asks before each step, and standard input is no terminal; --yes takes them unasked",
        ));
    }
    let mut terminal = Terminal { yes: asked.yes };
    let mut runner: Box<dyn Runner> = if root.is_live() {
        Box::new(Live)
    } else {
        Box::new(Listing)
    };
    if asked.undo {
        return taken_back(root, runner.as_mut(), &mut terminal);
    }
    if asked.check {
        return checked(root);
    }
    let families = Families::own().map_err(CommandError::Undone)?;
    if let Some(wrong) = asked
        .families
        .iter()
        .find(|name| !families.optional().any(|known| known == *name))
    {
        let allowed: Vec<_> = families.optional().collect();
        return Err(usage(&format!(
            "setup: --families {wrong}: allowed: {}",
            allowed.join(", ")
        )));
    }
    let options = Options {
        iommu: if asked.iommu == Some(IommuWord::Off) {
            IommuChoice::Off
        } else {
            IommuChoice::PassThrough
        },
        families: asked.families.clone(),
        modules: asked.modules.clone(),
    };
    let state = read::read(root, &options).map_err(|e| CommandError::undone(&e))?;
    let plan = plan::plan(&state, &options, &families).map_err(CommandError::Undone)?;
    if !asked.apply {
        let root = root.name();
        let document = Document {
            schema: "firstlight.setup-plan/1",
            root,
            machine: &state,
            plan: &plan,
        };
        write_json_or_text(asked.json.as_ref(), &document, &text::plan(&state, &plan))?;
        return Ok(SUCCESS);
    }
    applied(root, &plan, runner.as_mut(), &mut terminal)
}

fn usage(why: &str) -> CommandError {
    CommandError::Usage(why.to_owned())
}

fn applied(
    root: &Root,
    plan: &Plan,
    runner: &mut dyn Runner,
    terminal: &mut Terminal,
) -> Result<u8, CommandError> {
    if !plan.refused.is_empty() {
        return Err(CommandError::Undone(shown_text(&format!(
            "setup: refused: {}",
            plan.refused.join("; also: ")
        ))));
    }
    plan.notes
        .iter()
        .for_each(|note| terminal.say(&format!("{note}\n")));
    if !plan.has_work() {
        terminal.say("there is no step that setup could take\n");
    }
    let done = apply(root, plan, runner, terminal).map_err(|e| CommandError::undone(&e))?;
    listed(&done.listed, terminal);
    if done.stopped {
        terminal.say(&format!(
            "stopped after {}, as asked; `firstlight setup --undo` takes them back\n",
            count(done.steps as u64, "step")
        ));
        return Ok(NOT_DONE);
    }
    for step in plan
        .steps
        .iter()
        .filter(|step| step.by == setup::step::By::Person)
    {
        terminal.say(&format!("yours: {}\n", step.what));
    }
    Ok(SUCCESS)
}

fn taken_back(
    root: &Root,
    runner: &mut dyn Runner,
    terminal: &mut Terminal,
) -> Result<u8, CommandError> {
    let Some(undone) = undo(root, runner, terminal).map_err(|e| CommandError::undone(&e))? else {
        terminal.say("nothing was set up here, or all of it was taken back\n");
        return Ok(SUCCESS);
    };
    listed(&undone.listed, terminal);
    if undone.stopped {
        terminal.say("nothing was taken back, as asked\n");
        return Ok(NOT_DONE);
    }
    undone
        .left
        .iter()
        .for_each(|line| terminal.say(&format!("left: {line}\n")));
    terminal.say(&format!(
        "{} taken back; reboot\n",
        count(undone.actions as u64, "action")
    ));
    Ok(if undone.left.is_empty() {
        SUCCESS
    } else {
        NOT_DONE
    })
}

/// Programs that a folder's own system would have to run.
fn listed(lines: &[String], terminal: &mut Terminal) {
    for line in lines {
        terminal.say(&format!(
            "not run, because the machine is a folder: {line}\n"
        ));
    }
}

fn checked(root: &Root) -> Result<u8, CommandError> {
    let Some(checked) = check(root).map_err(|e| CommandError::undone(&e))? else {
        to_stdout("nothing was set up here\n").map_err(|e| CommandError::undone(&e))?;
        return Ok(SUCCESS);
    };
    to_stdout(&shown_text(&format!("{}\n", checked.lines.join("\n"))))
        .map_err(|e| CommandError::undone(&e))?;
    Ok(if checked.in_force { SUCCESS } else { NOT_DONE })
}
