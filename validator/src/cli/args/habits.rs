//! Unknown options: what users of other tools mean by them, and the option of which one is a misspelling. clap's own tip is
//! the name that looks most alike, whatever it means, also where no list shows that name.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use contract::config_format::error::nearest;
use std::ffi::OsString;

/// Names under which other tools have the form of their output.
const FORM: [&str; 4] = ["format", "fmt", "output-format", "out-format"];
/// The options by which ours write a form.
const OURS: [&str; 3] = ["json", "text", "html"];
/// How `nvidia-smi topo` names its matrix of peer-to-peer.
const TOPO_P2P: [&str; 2] = ["-p2p", "--p2p"];

/// The error about an unknown option with a tip that fits; another error as it is.
pub(super) fn with_tip(words: &[OsString], all: &Command, mut error: Error) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg).cloned() else {
        return error;
    };
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let command = named(&words, all);
    let of_topo = command.get_name() == "topo" && words.iter().any(|word| TOPO_P2P.contains(word));
    let tip = if of_topo {
        error.insert(
            ContextKind::InvalidArg,
            ContextValue::String("-p2p".to_owned()),
        );
        Some("type `firstlight p2p`: it tests peer-to-peer between all pairs, which that option only lists".to_owned())
    } else {
        meant(&option, &words, command)
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
        return error;
    }
    let near =
        nearest(option.trim_start_matches('-'), &options(command)).map(|name| format!("--{name}"));
    error.remove(ContextKind::SuggestedArg);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(near));
    }
    error
}

/// The command that the words name.
fn named<'a>(words: &[&str], all: &'a Command) -> &'a Command {
    words.iter().skip(1).fold(all, |command, word| {
        command.find_subcommand(word).unwrap_or(command)
    })
}

/// The option of `command` for the form that `option` and its value ask for.
fn meant(option: &str, words: &[&str], command: &Command) -> Option<String> {
    let of = |word: &str| {
        word.strip_prefix(option)
            .and_then(|rest| rest.strip_prefix('='))
            .map(str::to_owned)
    };
    let at = words.iter().position(|word| *word == option);
    let value = at
        .and_then(|at| words.get(at + 1))
        .map(|word| (*word).to_owned());
    let value = value
        .or_else(|| words.iter().find_map(|word| of(word)))
        .unwrap_or_default()
        .to_lowercase();
    let names = options(command);
    let has = |name: &str| names.iter().any(|known| known == name);
    let takes = |arg: &Arg| {
        arg.get_long() == Some("to")
            && arg
                .get_possible_values()
                .iter()
                .any(|one| one.matches(&value, true))
    };
    let asks_form = FORM.contains(&option.trim_start_matches('-'));
    let here = match OURS.iter().find(|name| **name == value && has(name)) {
        Some(name) => format!("--{name}"),
        None if command.get_arguments().any(takes) => format!("--to {value}"),
        None if asks_form && has("json") => "--json".to_owned(),
        None => return None,
    };
    Some(format!("here it is '{here}'"))
}

/// The long names of the options that help shows, without their dashes.
fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown
        .filter_map(|arg| arg.get_long())
        .chain(["help"])
        .map(str::to_owned)
        .collect()
}
