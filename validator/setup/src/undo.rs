//! Removes exactly what was added, the last first, and runs the same generators again. What changed since is shown as a
//! difference and left alone.

use crate::apply::Talk;
use crate::difference::unified;
use crate::journal::{Entry, Journal, Record};
use crate::read::text_of;
use crate::runner::{self, Runner};
use crate::step::{Call, line};
use crate::{SetupResult, files};
use machine::root::Root;

/// What was taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// How many actions were taken back.
    pub actions: usize,
    /// What was left alone or failed, one line each; the journal keeps it.
    pub left: Vec<String>,
    /// Programs that were not run, because the machine is a folder.
    pub listed: Vec<String>,
    /// Whether a person said no.
    pub stopped: bool,
}

/// Takes back what the journal has.
///
/// # Errors
/// One line: the journal cannot be read or written. `None` if there is none.
pub fn undo(
    root: &Root,
    runner: &mut dyn Runner,
    talk: &mut dyn Talk,
) -> SetupResult<Option<Undone>> {
    let Some(mut journal) = Journal::read(root)? else {
        return Ok(None);
    };
    let mut undone = Undone::default();
    for entry in journal.entries.iter().rev() {
        talk.say(&shown(root, entry));
    }
    if !talk.ask("Take all of this back?") {
        undone.stopped = true;
        return Ok(Some(undone));
    }
    let mut generators: Vec<Call> = Vec::new();
    let mut kept = Vec::new();
    while let Some(entry) = journal.entries.pop() {
        let result = match &entry.record {
            Record::Run { call } if call.generator => {
                if !generators.contains(call) {
                    generators.insert(0, call.clone());
                }
                Ok(())
            }
            _ => back(root, &entry, runner, &mut undone.listed),
        };
        match result {
            Ok(()) => undone.actions += 1,
            Err(why) => {
                undone.left.push(why);
                kept.insert(0, entry);
            }
        }
        // After a crash here, what is still to be taken back is known.
        let mut now = journal.clone();
        now.entries.extend(kept.iter().cloned());
        now.entries.extend(generators.iter().map(|call| Entry {
            record: Record::Run { call: call.clone() },
            done: true,
        }));
        now.write(root)?;
    }
    for call in generators {
        match runner::run(runner, &call) {
            Ok(true) => {}
            Ok(false) => undone.listed.push(call.line()),
            Err(why) => {
                undone.left.push(why.0);
                kept.push(Entry {
                    record: Record::Run { call },
                    done: true,
                });
            }
        }
    }
    if kept.is_empty() {
        Journal::remove(root)?;
    } else {
        journal.entries = kept;
        journal.write(root)?;
    }
    Ok(Some(undone))
}

/// What will be done about an entry.
fn shown(root: &Root, entry: &Entry) -> String {
    match &entry.record {
        Record::Write { change, .. } => match text_of(root, &change.path) {
            Ok(now) if now == change.before => {
                format!("nothing to do: /{} is as it was before\n", change.path)
            }
            Ok(now) if now.as_deref() == Some(&change.after) => {
                unified(&change.path, Some(&change.after), change.before.as_deref())
            }
            Ok(now) => format!(
                "leave alone: /{} has changed since:\n{}",
                change.path,
                unified(&change.path, Some(&change.after), now.as_deref())
            ),
            Err(why) => format!("leave alone: {why}\n"),
        },
        Record::Run { call } if call.generator => format!("run again: {}\n", call.line()),
        Record::Run { call } if call.back.is_empty() => String::new(),
        Record::Run { call } => format!("run: {}\n", line(&call.back)),
        Record::Tree { path, .. } => format!("remove: /{path}\n"),
    }
}

/// Takes one action back.
fn back(
    root: &Root,
    entry: &Entry,
    runner: &mut dyn Runner,
    listed: &mut Vec<String>,
) -> Result<(), String> {
    match &entry.record {
        Record::Write { change, folders } => {
            let now = text_of(root, &change.path).map_err(|e| e.0)?;
            if now == change.before {
                return Ok(());
            }
            if now.as_deref() != Some(&change.after) {
                return Err(format!(
                    "/{} has changed since, and is left alone",
                    change.path
                ));
            }
            match &change.before {
                Some(before) => files::write(root, &change.path, before, 0o644),
                None => files::remove(root, &change.path, folders),
            }
            .map_err(|e| e.0)
        }
        Record::Run { call } if call.back.is_empty() => Ok(()),
        Record::Run { call } => match runner.run(&call.back, call.seconds) {
            Ok(true) => Ok(()),
            Ok(false) => {
                listed.push(line(&call.back));
                Ok(())
            }
            // It may have failed before it did anything that could be taken back.
            Err(_) if !entry.done => Ok(()),
            Err(why) => Err(why.0),
        },
        Record::Tree { path, files } => tree(root, path, files, entry.done),
    }
}

/// Removes a folder that is as it was left.
fn tree(
    root: &Root,
    path: &str,
    files: &std::collections::BTreeMap<String, String>,
    done: bool,
) -> Result<(), String> {
    if root.stat(path).is_err() {
        return Ok(());
    }
    if done {
        let now = files::hashes(root, path).map_err(|e| e.0)?;
        let differs = |(name, hash): &(&String, &String)| files.get(*name) != Some(*hash);
        let changed = now.iter().find(differs).map(|(name, _)| name);
        if let Some(name) = changed.or_else(|| files.keys().find(|name| !now.contains_key(*name))) {
            return Err(format!(
                "/{path}/{name} has changed since; the folder is left alone"
            ));
        }
    }
    files::remove_tree(root, path).map_err(|e| e.0)
}
