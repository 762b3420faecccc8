//! The row of a finding's code: everything that is the same for all findings of one code. [`super::table`] has the rows.

use super::remedy::{Case, Remedy};
use super::table;
use crate::test::Properties;
use contract::recovery::Recovery;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

pub use table::Code;

/// Everything that is the same for all findings of one code.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Short and stable; never reused for another meaning.
    pub code: &'static str,
    /// What is wrong, as a clause for the answer's one line, without its subject.
    pub clause: &'static str,
    /// What the finding says about the machine.
    pub means: &'static str,
    /// The most likely cause.
    pub cause: &'static str,
    /// The cause by the kind of machine, where that shows more.
    pub(super) cause_for: Option<fn(Case<'_>) -> Option<String>>,
    /// Whether the remedy changes the machine or its system, which a container cannot.
    pub(super) of_machine: bool,
    /// The next thing to do, which may depend on the machine.
    pub(super) remedy: Remedy,
    /// The codes that explain it if they are about the same GPUs, or about the machine. All of them stand above it in the
    /// table, whose order is the order of repair.
    pub explained_by: &'static [&'static [Code]],
    /// The tests whose pass shows that there is no such fault.
    pub ruled_out_by: &'static [&'static Properties],
    /// The action for a code that always requires one.
    pub recovery: Option<Recovery>,
    /// Whether a lost GPU explains it, so that it is not an open question.
    pub after_loss: bool,
    /// Whether load of other programs may cause it.
    pub by_load: ByLoad,
    /// What it shows about peer-to-peer.
    pub p2p: P2pEffect,
    /// The clause about such a fault from before the tests. It is information, but the likely cause of a failure that it
    /// explains; `None` if information of this code is never a cause.
    pub earlier: Option<&'static str>,
}

/// Whether load of other programs on the same GPU may cause a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByLoad {
    /// It is about performance or progress.
    Possible,
    /// Only if it reports a lack of memory.
    OnlyMemory,
    /// Never.
    Never,
}

/// What a finding of a peer test shows about peer-to-peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum P2pEffect {
    /// Nothing.
    None,
    /// It works, but slower than it could.
    Slow,
    /// It does not work.
    Broken,
}

/// The beginning of a row; the table sets the other parts.
pub(super) const fn row(code: &'static str, clause: &'static str) -> Row {
    Row {
        code,
        clause,
        means: "",
        cause: "",
        cause_for: None,
        of_machine: false,
        remedy: Remedy::Words(""),
        explained_by: &[],
        ruled_out_by: &[],
        recovery: None,
        after_loss: false,
        by_load: ByLoad::OnlyMemory,
        p2p: P2pEffect::None,
        earlier: None,
    }
}

impl Row {
    pub(super) const fn means(self, means: &'static str) -> Self {
        Self { means, ..self }
    }

    pub(super) const fn cause(self, cause: &'static str) -> Self {
        Self { cause, ..self }
    }

    pub(super) const fn cause_for(self, of: fn(Case<'_>) -> Option<String>) -> Self {
        Self {
            cause_for: Some(of),
            ..self
        }
    }

    pub(super) const fn of_machine(self) -> Self {
        Self {
            of_machine: true,
            ..self
        }
    }

    pub(super) const fn remedy(self, words: &'static str) -> Self {
        Self {
            remedy: Remedy::Words(words),
            ..self
        }
    }

    pub(super) const fn remedy_for(self, of: fn(Case<'_>) -> String) -> Self {
        Self {
            remedy: Remedy::For(of),
            ..self
        }
    }

    pub(super) const fn explained_by(self, explained_by: &'static [&'static [Code]]) -> Self {
        Self {
            explained_by,
            ..self
        }
    }

    pub(super) const fn ruled_out_by(self, ruled_out_by: &'static [&'static Properties]) -> Self {
        Self {
            ruled_out_by,
            ..self
        }
    }

    pub(super) const fn recovery(self, recovery: Recovery) -> Self {
        Self {
            recovery: Some(recovery),
            ..self
        }
    }

    pub(super) const fn after_loss(self) -> Self {
        Self {
            after_loss: true,
            ..self
        }
    }

    pub(super) const fn by_load(self, by_load: ByLoad) -> Self {
        Self { by_load, ..self }
    }

    pub(super) const fn p2p(self, p2p: P2pEffect) -> Self {
        Self { p2p, ..self }
    }

    pub(super) const fn earlier(self, clause: &'static str) -> Self {
        Self {
            earlier: Some(clause),
            ..self
        }
    }
}

impl Code {
    /// The code with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }

    /// Its name, as `ACS-REDIRECT`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// Its place in the order of repair: the smaller, the earlier.
    #[must_use]
    pub const fn rank(self) -> usize {
        self as usize
    }

    /// The codes that explain it directly.
    pub fn explained_by(self) -> impl Iterator<Item = Self> {
        self.row().explained_by.iter().copied().flatten().copied()
    }

    /// Whether it explains `symptom`, directly or through others.
    #[must_use]
    pub fn explains(self, symptom: Self) -> bool {
        // The table has no cycle: each row lists only codes above it.
        symptom
            .explained_by()
            .any(|code| code == self || self.explains(code))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format_args!("there is no finding {name:?}")))
    }
}

/// Tests name a code by its text.
#[cfg(any(test, feature = "samples"))]
impl PartialEq<&str> for Code {
    fn eq(&self, name: &&str) -> bool {
        self.as_str() == *name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_short_unique_and_complete() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let row = code.row();
            assert!(
                row.code.len() <= 19
                    && row
                        .code
                        .bytes()
                        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-')
            );
            for text in [row.means, row.cause] {
                assert!(
                    text.len() > 5 && !text.ends_with('.') && !text.contains('|'),
                    "{code}: {text}"
                );
            }
            assert_eq!(Code::named(row.code), Some(*code));
        }
    }

    #[test]
    fn what_explains_a_code_stands_above_it() {
        for code in Code::ALL {
            for by in code.explained_by() {
                assert!(by.rank() < code.rank(), "{by} explains {code}");
            }
        }
    }

    #[test]
    fn the_clauses_fit_into_the_answers_line() {
        for clause in Code::ALL
            .iter()
            .map(|code| code.row())
            .flat_map(|row| [Some(row.clause), row.earlier])
            .flatten()
        {
            assert!(
                clause.len() > 5 && clause.len() <= 56 && !clause.ends_with('.'),
                "{clause}"
            );
        }
    }

    #[test]
    fn a_narrow_link_explains_slow_collectives_and_wrong_data_does_not_explain_a_narrow_link() {
        assert!(
            Code::GpuLinkLoad.explains(Code::NcclSlow)
                && Code::IommuTranslating.explains(Code::NcclWrongData)
        );
        assert!(
            !Code::P2pWrongData.explains(Code::LinkNarrow)
                && !Code::NcclSlow.explains(Code::NcclSlow)
        );
    }
}
