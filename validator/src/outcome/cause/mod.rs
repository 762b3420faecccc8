//! Which finding is the cause of which: a table with an entry for every code. The order of the table is the
//! order of repair, and each entry lists the codes that explain it, all of which are above it. Pure data;
//! [`crate::report`] applies it to the findings of a run.

mod gpu;
mod machine;
mod ruled_out;

pub use ruled_out::{RULED_OUT, RuledOut};

use super::finding::Code;

/// The entry of a code in the table of causes.
#[derive(Debug, Clone, Copy)]
pub struct CauseEntry {
    /// The code.
    pub code: Code,
    /// What is wrong, as a clause for the answer's one line, without its subject.
    pub says: &'static str,
    /// The codes that explain it if they are about the same GPUs, or about the machine.
    pub by: &'static [&'static [Code]],
}

const fn entry(code: Code, says: &'static str, by: &'static [&'static [Code]]) -> CauseEntry {
    CauseEntry { code, says, by }
}

/// The codes that show that peer-to-peer does not work.
pub const P2P_BROKEN: &[Code] = gpu::P2P_BROKEN;
/// The codes that show that it works but is slow.
pub const P2P_SLOW: &[Code] = gpu::P2P_SLOW;

/// All entries, in the order of repair.
fn entries() -> impl Iterator<Item = &'static CauseEntry> {
    machine::ENTRIES.iter().chain(gpu::ENTRIES)
}

/// More exact words than those of the table, for findings whose cause contains a certain text.
const EXACT: &[(Code, &str, &str)] = &[
    (Code::P2pUnsupported, "stock driver", "the stock driver refuses it"),
    (Code::P2pUnsupported, "registry key", "a registry key of the driver switches it off"),
    (Code::P2pUnsupported, "too far apart", "the driver finds the GPUs too far apart"),
    (Code::P2pWrongData, "dropped", "what is written to the peer does not arrive"),
    (Code::P2pWrongData, "reads of", "reads of the peer give other data"),
    (Code::P2pWrongData, "bits are flipped", "bits arrive flipped"),
];

/// The entry of a code and its rank: the smaller, the earlier it is repaired. A code of a newer version has none.
#[must_use]
pub fn entry_of(code: &str) -> Option<(usize, &'static CauseEntry)> {
    entries().enumerate().find(|(_, entry)| entry.code.entry().code == code)
}

/// What is wrong, in the words of the table, or more exactly where the finding's `cause` allows it.
#[must_use]
pub fn describe(entry: &CauseEntry, cause: &str) -> &'static str {
    let exact = EXACT.iter().find(|(code, word, _)| *code == entry.code && cause.contains(word));
    exact.map_or(entry.says, |(_, _, says)| says)
}

/// Whether `cause` explains `symptom`, directly or through others.
#[must_use]
pub fn explains(cause: Code, symptom: Code) -> bool {
    // The table has no cycle: each entry lists only entries above it.
    explained_by(symptom).any(|code| code == cause || explains(cause, code))
}

/// The codes that explain `symptom` directly.
pub fn explained_by(symptom: Code) -> impl Iterator<Item = Code> {
    let by = entries().find(|entry| entry.code == symptom).map_or(&[][..], |entry| entry.by);
    by.iter().copied().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_one_place() {
        let placed: Vec<_> = entries().map(|entry| entry.code.entry().code).collect();
        let all: BTreeSet<_> = Code::ALL.iter().map(|code| code.entry().code).collect();
        assert_eq!(placed.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(placed.len(), all.len(), "a code has two places");
    }

    #[test]
    fn what_explains_a_code_stands_above_it() {
        let mut above = BTreeSet::new();
        for entry in entries() {
            for by in entry.by.iter().copied().flatten() {
                assert!(above.contains(by.entry().code), "{} explains {}", by.entry().code, entry.code.entry().code);
            }
            above.insert(entry.code.entry().code);
        }
    }

    #[test]
    fn the_words_fit_into_the_answers_line() {
        for says in entries().map(|entry| entry.says).chain(EXACT.iter().map(|(_, _, says)| *says)) {
            let one = says.len() > 5 && says.len() <= 56 && !says.ends_with('.');
            assert!(
                one && !says.starts_with(|c: char| c.is_uppercase() && !says.starts_with(char::is_uppercase)),
                "{says}"
            );
        }
    }

    #[test]
    fn a_narrow_link_explains_slow_collectives_and_wrong_data_does_not_explain_a_narrow_link() {
        assert!(explains(Code::GpuLinkLoad, Code::NcclSlow) && explains(Code::IommuTranslating, Code::NcclWrongData));
        assert!(!explains(Code::P2pWrongData, Code::LinkNarrow) && !explains(Code::NcclSlow, Code::NcclSlow));
    }
}
