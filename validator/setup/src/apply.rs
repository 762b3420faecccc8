//! Takes the steps of a plan: shows each, asks, writes what is about to be done into the journal, does it, and ends at the
//! first failure.

use crate::difference::unified;
use crate::journal::{Entry, Journal, Record};
use crate::plan::{PLACE, dkms_conf, place};
use crate::read::text_of;
use crate::runner::Runner;
use crate::step::{Action, By, Change, Edited, Plan, line, paths};
use crate::{SetupError, SetupResult, edits, files};
use machine::host::nvidia::modinfo::{self, value};
use machine::root::Root;
use std::collections::BTreeMap;

/// How a person is told and asked.
pub trait Talk {
    /// Shows this text.
    fn say(&mut self, text: &str);
    /// Asks a question that is answered by yes or no.
    fn ask(&mut self, question: &str) -> bool;
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many steps were taken.
    pub steps: usize,
    /// Programs that were not run, because the machine is a folder.
    pub listed: Vec<String>,
    /// Whether a person said no; the steps after that were not taken.
    pub stopped: bool,
}

/// Takes the steps that are `--apply`'s.
///
/// # Errors
/// One line: the plan is refused, or a step failed; then with the way back.
pub fn apply(
    root: &Root,
    plan: &Plan,
    runner: &mut dyn Runner,
    talk: &mut dyn Talk,
) -> SetupResult<Applied> {
    if let Some(why) = plan.refused.first() {
        return Err(SetupError(why.clone()));
    }
    let mut journal = Journal::opened(root)?;
    let mut applied = Applied::default();
    let steps = plan
        .steps
        .iter()
        .filter(|step| step.by == By::Apply && !step.actions.is_empty());
    for step in steps {
        talk.say(&format!("{}\n", step.what));
        step.actions
            .iter()
            .for_each(|action| talk.say(&shown(action)));
        if !talk.ask("Take this step?") {
            applied.stopped = true;
            return Ok(applied);
        }
        // What is in force is known from the first step on; a step that failed is then named by `--check`.
        journal.expected = plan.expected.clone();
        for action in &step.actions {
            one(root, action, &mut journal, runner, &mut applied.listed).map_err(|e| {
                SetupError(format!(
                    "{e}; nothing more was done, and `firstlight setup --undo` takes back what was"
                ))
            })?;
        }
        applied.steps += 1;
    }
    Ok(applied)
}

/// An action as it is shown before it is taken.
#[must_use]
pub fn shown(action: &Action) -> String {
    match action {
        Action::Write(change) => {
            unified(&change.path, change.before.as_deref(), Some(&change.after))
        }
        Action::Run(call) => format!("run: {}\n", call.line()),
        Action::Source(edited) => format!(
            "copy: {} to /{}, and edit it by name (level {}, {})\n",
            edited.from.shown,
            edited.to,
            edited.level,
            edited.families.join(", ")
        ),
        Action::Built { version, .. } => {
            format!("check: the built nvidia.ko is {version}, and edited\n")
        }
    }
}

/// One action, between two entries of the journal.
fn one(
    root: &Root,
    action: &Action,
    journal: &mut Journal,
    runner: &mut dyn Runner,
    listed: &mut Vec<String>,
) -> SetupResult<()> {
    let record = match action {
        Action::Built { version, release } => return built(root, version, release),
        Action::Write(change) => {
            unchanged(root, change)?;
            Record::Write {
                change: change.clone(),
                folders: files::missing_folders(root, &change.path)?,
            }
        }
        Action::Run(call) => Record::Run { call: call.clone() },
        Action::Source(edited) => Record::Tree {
            path: edited.to.clone(),
            files: BTreeMap::new(),
        },
    };
    if let Action::Source(edited) = action
        && root.stat(&edited.to).is_ok()
    {
        return Err(SetupError::at(
            &edited.to,
            &"exists already, and was not made by this run",
        ));
    }
    journal.entries.push(Entry {
        record,
        done: false,
    });
    journal.write(root)?;
    let mut tree = None;
    match action {
        Action::Write(change) => files::write(root, &change.path, &change.after, 0o644)?,
        Action::Run(call) => {
            if !runner.run(&call.words, call.seconds)? {
                listed.push(call.line());
            }
        }
        Action::Source(edited) => tree = Some(source(root, edited, runner, listed)?),
        Action::Built { .. } => {}
    }
    if let Some(entry) = journal.entries.last_mut() {
        entry.done = true;
        if let (Record::Tree { files, .. }, Some(tree)) = (&mut entry.record, tree) {
            *files = tree;
        }
    }
    journal.write(root)
}

/// A file must still be as it was when the plan was made.
fn unchanged(root: &Root, change: &Change) -> SetupResult<()> {
    let now = text_of(root, &change.path)?;
    if now == change.before {
        return Ok(());
    }
    let why = format!(
        "has changed since the plan was made:\n{}",
        unified(&change.path, change.before.as_deref(), now.as_deref())
    );
    Err(SetupError::at(&change.path, &why))
}

/// Copies and edits the source; returns the hashes of its files.
fn source(
    root: &Root,
    edited: &Edited,
    runner: &mut dyn Runner,
    listed: &mut Vec<String>,
) -> SetupResult<BTreeMap<String, String>> {
    files::copy_source(root, &edited.from.at, &edited.to)?;
    let own = format!("{}/{}", edited.to, edits::FOLDER);
    for (name, text) in edits::FILES {
        files::write(root, &format!("{own}/{name}"), text, 0o644)?;
    }
    files::write(
        root,
        &format!("{}/dkms.conf", edited.to),
        &dkms_conf(&edited.from.version),
        0o644,
    )?;
    files::write(root, &format!("{}/{PLACE}", edited.to), &place(), 0o755)?;
    let at = |path: &str| {
        if root.is_live() {
            format!("/{path}")
        } else {
            root.join(path).display().to_string()
        }
    };
    let (script, description) = edits::SCRIPT;
    let mut words = vec![
        "python3".to_owned(),
        "-B".to_owned(),
        at(&format!("{own}/{script}")),
        at(&edited.to),
    ];
    words.extend([at(&format!("{own}/{description}")), edited.level.clone()]);
    words.extend(edited.families.iter().cloned());
    if !runner.run(&words, 600)? {
        listed.push(line(&words));
    }
    files::hashes(root, &edited.to)
}

/// The module that DKMS has built must have the version and our level. One that is compressed shows it when it is loaded.
fn built(root: &Root, version: &str, release: &str) -> SetupResult<()> {
    if !root.is_live() {
        return Ok(());
    }
    let folder = format!("var/lib/dkms/{}/{version}/{release}", paths::DKMS);
    let wrong = |why: &str| SetupError::at(&folder, &why);
    let architectures = root
        .names(&folder)
        .map_err(|e| SetupError::at(&folder, &e))?;
    let file = architectures.iter().find_map(|name| {
        let folder = format!("{folder}/{}/module", name.to_str()?);
        let names = root.names(&folder).ok()?;
        let file = names
            .iter()
            .filter_map(|name| name.to_str())
            .find(|name| name.starts_with("firstlight-nvidia.ko"))?;
        Some(format!("{folder}/{file}"))
    });
    let file =
        file.ok_or_else(|| wrong("has no firstlight-nvidia.ko, although `dkms build` ended well"))?;
    if !file.ends_with(".ko") {
        return Ok(());
    }
    let bytes = root.read(&file).map_err(|e| SetupError::at(&file, &e))?;
    let fields =
        modinfo::fields(&bytes).ok_or_else(|| SetupError::at(&file, &"is not a module"))?;
    match (
        value(&fields, "version"),
        value(&fields, "firstlight.patch"),
    ) {
        (Some(found), Some(_)) if found == version => Ok(()),
        (Some(found), Some(_)) => Err(SetupError::at(
            &file,
            &format!("is {found}; expected {version}"),
        )),
        _ => Err(SetupError::at(&file, &"is not an edited module")),
    }
}
