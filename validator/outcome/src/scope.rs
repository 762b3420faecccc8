//! The scope of a verdict: the whole machine, its fabric alone, or the tests that the user named. A PASS says
//! nothing beyond its scope, so every form of a report names it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The scope of a verdict. As text one word without blanks: `machine`, `fabric`, `gpus:0,2`,
/// `only:acs,iommu`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Scope {
    /// The machine, including what its GPUs do.
    #[default]
    Machine,
    /// Everything that can be tested without using a GPU: kernel, PCIe, driver.
    Fabric,
    /// These GPUs, by number, and nothing else of the machine.
    Gpus(Vec<usize>),
    /// These tests, by id, and nothing else.
    Only(Vec<String>),
}

/// The prefix before the test ids.
const ONLY: &str = "only:";
/// The prefix before the GPU numbers.
const GPUS: &str = "gpus:";

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Fabric => f.write_str("fabric"),
            Self::Gpus(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "{GPUS}{}", numbers.join(","))
            }
            Self::Only(ids) => write!(f, "{ONLY}{}", ids.join(",")),
        }
    }
}

/// A word that is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a scope; allowed: machine, fabric, gpus:N,.., only:TEST,..")]
pub struct InvalidScope(String);

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(word: &str) -> Result<Self, InvalidScope> {
        let is_id = |id: &str| {
            !id.is_empty()
                && id
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        match (word, word.strip_prefix(ONLY)) {
            ("machine", _) => Ok(Self::Machine),
            ("fabric", _) => Ok(Self::Fabric),
            (_, Some(ids)) if ids.split(',').all(is_id) => {
                Ok(Self::Only(ids.split(',').map(str::to_owned).collect()))
            }
            _ => numbers(word)
                .map(Self::Gpus)
                .ok_or_else(|| InvalidScope(word.to_owned())),
        }
    }
}

fn numbers(word: &str) -> Option<Vec<usize>> {
    word.strip_prefix(GPUS)?
        .split(',')
        .map(|n| n.parse().ok())
        .collect()
}

impl TryFrom<String> for Scope {
    type Error = InvalidScope;

    fn try_from(word: String) -> Result<Self, InvalidScope> {
        word.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_is_written_as_one_word_and_parsed_back() {
        let only = Scope::Only(vec!["acs".into(), "p2p-order".into()]);
        for (scope, word) in [
            (Scope::Machine, "machine"),
            (Scope::Fabric, "fabric"),
            (Scope::Gpus(vec![0, 12]), "gpus:0,12"),
            (only, "only:acs,p2p-order"),
        ] {
            assert_eq!(
                (scope.to_string().as_str(), word.parse()),
                (word, Ok(scope))
            );
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in [
            "",
            "Machine",
            "only:",
            "only:acs,",
            "only:a b",
            "only:a\nb",
            "fabric ",
            "gpus:",
            "gpus:x",
            "gpus:1,",
        ] {
            assert_eq!(word.parse::<Scope>(), Err(InvalidScope(word.to_owned())));
        }
    }
}
