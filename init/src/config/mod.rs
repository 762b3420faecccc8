//! The configuration stage's pure part: layers and kernel words to one typed [`Config`], or every
//! thing that is wrong with them. Finding and reading the files is `stages::config`'s.

pub mod cmdline;
pub mod error;
pub mod keys;
pub mod layers;
pub mod mac;
pub mod node;
mod origin;
mod read;
pub mod remote;
pub mod types;
mod url;
pub mod values;

use cmdline::Word;
use error::Wrong;
use layers::Merged;
use std::time::Duration;
use types::{Action, Config, Origin, Validator};

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path, for messages and for `--config`.
    pub path: String,
    /// What stands in it.
    pub text: String,
}

/// Why there is no configuration, and what may be done about it.
#[derive(Debug, PartialEq)]
pub struct Refused {
    /// Each a line.
    pub wrong: Vec<Wrong>,
    /// `policy.on_error` as far as the valid layers say; `Hold` when the policy itself is wrong,
    /// and where it names the workload, which a broken configuration cannot be trusted to describe.
    pub on_error: Action,
}

/// Puts the configuration together.
///
/// # Errors
/// Everything that is wrong, not only the first.
pub fn build(files: &[File], words: &[Word]) -> Result<Config, Refused> {
    let mut m = Merged::default();
    files.iter().for_each(|file| m.add_file(&file.path, &file.text));
    words.iter().for_each(|word| m.add_word(word));
    let config = typed(&mut m, files, words);
    if m.wrong.is_empty() { Ok(config) } else { Err(refused(m)) }
}

/// The refusal that `wrong` things mean before or besides the layers.
#[must_use]
pub fn refuse(files: &[File], words: &[Word], wrong: Vec<Wrong>) -> Refused {
    let mut m = Merged::default();
    files.iter().for_each(|file| m.add_file(&file.path, &file.text));
    words.iter().for_each(|word| m.add_word(word));
    m.wrong.extend(wrong);
    refused(m)
}

fn refused(m: Merged) -> Refused {
    let on_error = match read::policy(&m).on_error {
        _ if m.wrong.iter().any(Wrong::concerns_policy) => Action::Hold,
        Action::Workload | Action::WorkloadWithoutP2p => Action::Hold,
        other => other,
    };
    Refused { wrong: m.wrong, on_error }
}

fn typed(m: &mut Merged, files: &[File], words: &[Word]) -> Config {
    let booted_from = Origin::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", origin::WORD);
        m.refuse(&place, origin::WORD, &format!("\"{read}\""), "stick, network");
        Origin::Stick
    });
    let remote = remote::Remote::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", remote::WORD);
        m.refuse(&place, remote::WORD, &format!("\"{read}\""), remote::ALLOWED);
        None
    });
    let hostname = words.iter().rev().find(|w| w.name == "hostname").and_then(|w| w.value.as_deref());
    Config {
        driver: read::driver(m),
        network: read::network(m, hostname, read::Card::booted_from(words), remote.is_some()),
        remote,
        policy: read::policy(m),
        workload: read::workload(m),
        report: read::report(m),
        console: read::console(m, booted_from),
        validator: Validator {
            files: files.iter().map(|file| file.path.clone()).collect(),
            set: m.set.clone(),
            timeout: Duration::from_secs(m.validate_timeout_s.unwrap_or(900)),
        },
        layers: files.len() + usize::from(words.iter().any(|w| w.name.starts_with("firstlight."))),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
