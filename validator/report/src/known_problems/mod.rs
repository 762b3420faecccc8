//! Problems that others have reported in public for certain versions of driver, kernel and NCCL, on certain GPUs. A
//! match is information: it says that this machine has the versions of a report, and not that it has the problem. Where a
//! test fails, it is named as a possible cause behind all others. It never is the first cause, a remedy, or a part of the
//! verdict. The program's own rows are in `table.toml`; a file of the user adds others. Pure.

mod read;
mod version;

use super::Report;
use outcome::text::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use version::{Range, Version};

/// The program's own rows.
const OWN: &str = include_str!("table.toml");

/// One row: the versions and GPUs that it is about, and what was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    id: String,
    says: String,
    thread: String,
    read: String,
    driver: Option<Range>,
    kernel: Option<Range>,
    nccl: Option<Range>,
    gpus: Vec<String>,
    tests: Vec<String>,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProblems(Vec<Problem>);

/// A row whose versions and GPUs this machine has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct KnownProblem {
    /// The row's id.
    pub id: String,
    /// What was reported, as a clause.
    pub says: String,
    /// The versions and the GPU of this machine that the row is about.
    pub seen: String,
    /// The public thread.
    pub thread: String,
    /// When it was read, as `2026-11-27`.
    pub read: String,
    /// The tests whose failure it may explain; none where firstlight does not do what meets the problem.
    #[serde(default)]
    pub tests: Vec<String>,
}

/// What rows are compared with; `None` is unknown, and no row about it matches.
#[derive(Debug, Clone, Copy)]
struct Machine<'a> {
    driver: Option<&'a str>,
    kernel: Option<&'a str>,
    nccl: Option<&'a str>,
    gpus: &'a [&'a str],
}

impl KnownProblems {
    /// The program's own rows, and those in the text of a user's file; `tests`: the existing test ids.
    ///
    /// # Errors
    /// The first mistake, in one line without the file's name.
    pub fn with(file: Option<&str>, tests: &[&str]) -> Result<Self, String> {
        let mut rows =
            read::parse(OWN, tests).map_err(|why| format!("the program's own table: {why}"))?;
        rows.extend(
            file.map(|text| read::parse(text, tests))
                .transpose()?
                .unwrap_or_default(),
        );
        match doubled(&rows) {
            Some(id) => Err(format!("id: {id} is a row of the program's own table")),
            None => Ok(Self(rows)),
        }
    }

    /// The rows whose versions and GPUs a report's machine has.
    #[must_use]
    pub fn matching(&self, report: &Report) -> Vec<KnownProblem> {
        let gpus: Vec<_> = report
            .gpus
            .iter()
            .filter_map(|gpu| gpu.name.as_deref())
            .collect();
        let machine = Machine {
            driver: report.driver.module.as_deref(),
            kernel: report.machine.kernel.as_deref(),
            nccl: report.driver.nccl.as_deref(),
            gpus: &gpus,
        };
        self.0
            .iter()
            .filter_map(|problem| problem.on(machine))
            .collect()
    }

    /// The rows as Markdown, for `docs/known-problems.md`.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out =
            String::from("| problem | versions | GPUs | tests | read |\n|---|---|---|---|---|\n");
        for problem in &self.0 {
            let Problem {
                id,
                says,
                thread,
                read,
                gpus,
                tests,
                ..
            } = problem;
            let or = |list: &[String], none: &str| {
                if list.is_empty() {
                    none.to_owned()
                } else {
                    list.join(", ")
                }
            };
            let (gpus, tests) = (or(gpus, "any"), or(tests, "none"));
            // Writing into a String cannot fail.
            let _ = writeln!(
                out,
                "| {says} ([{id}]({thread})) | {} | {gpus} | {tests} | {read} |",
                problem.versions()
            );
        }
        out
    }
}

/// An id that two rows have.
fn doubled(rows: &[Problem]) -> Option<&str> {
    let mut ids = BTreeSet::new();
    rows.iter()
        .map(|row| row.id.as_str())
        .find(|id| !ids.insert(*id))
}

impl Problem {
    /// `driver 595.71.05, kernel 6.14`
    fn versions(&self) -> String {
        let all = [
            ("driver", &self.driver),
            ("kernel", &self.kernel),
            ("NCCL", &self.nccl),
        ];
        let all = all
            .into_iter()
            .filter_map(|(name, range)| Some(format!("{name} {}", range.as_ref()?)));
        all.collect::<Vec<_>>().join(", ")
    }

    /// The match on this machine; `None` if a part differs or is unknown.
    fn on(&self, machine: Machine<'_>) -> Option<KnownProblem> {
        let parts = [
            ("driver", &self.driver, machine.driver),
            ("kernel", &self.kernel, machine.kernel),
            ("NCCL", &self.nccl, machine.nccl),
        ];
        let mut seen = Vec::new();
        for (name, range, version) in parts {
            let Some(range) = range else { continue };
            let text = version?;
            if !range.contains(&Version::begins(text)?) {
                return None;
            }
            seen.push(format!("{name} {}", shown(text)));
        }
        if !self.gpus.is_empty() {
            let is_named = |name: &&&str| self.gpus.iter().any(|model| names(name, model));
            seen.push(shown(machine.gpus.iter().find(is_named)?));
        }
        Some(KnownProblem {
            id: self.id.clone(),
            says: self.says.clone(),
            seen: seen.join(", "),
            thread: self.thread.clone(),
            read: self.read.clone(),
            tests: self.tests.clone(),
        })
    }
}

/// Whether the words of `model` are in a GPU's name, one after the other, in any case.
fn names(name: &str, model: &str) -> bool {
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_lowercase)
            .collect::<Vec<_>>()
    };
    let (name, model) = (words(name), words(model));
    !model.is_empty() && name.windows(model.len()).any(|part| part == model)
}

impl KnownProblem {
    /// What was reported for what this machine has: one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "{}: {} (read {}, {})",
            self.seen, self.says, self.read, self.thread
        )
    }

    /// Whether it may explain the failure of one of these tests.
    pub(super) fn may_explain<'a>(&self, mut failed: impl Iterator<Item = &'a str>) -> bool {
        failed.any(|id| self.tests.iter().any(|test| test == id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word in quotes of the program's own table: the ids of its tests are among them.
    fn ids() -> Vec<&'static str> {
        OWN.split('"').chain(["nccl"]).collect()
    }

    const TESTS: [&str; 2] = ["p2p-integrity", "nccl"];

    fn row(about: &str) -> Problem {
        let text = format!(
            "[[problem]]\nid = 'x'\nsays = 'data arrives wrong'\nthread = 'https://example.org/1'\nread = '2026-11-27'\n\
             tests = ['nccl']\n{about}"
        );
        read::parse(&text, &TESTS).unwrap().remove(0)
    }

    const GPUS: [&str; 2] = ["NVIDIA GeForce RTX 3090", "NVIDIA RTX 6000 Ada Generation"];
    const MACHINE: Machine<'static> = Machine {
        driver: Some("580.142"),
        kernel: Some("6.8.0-111-generic"),
        nccl: Some("2.29.7"),
        gpus: &GPUS,
    };

    #[test]
    fn every_part_of_a_row_must_match() {
        let all = row(
            "driver = { from = '580.142', to = '580.142' }\nkernel = { from = '6.8', fixed = '6.9' }\n\
             nccl = { from = '2.29', fixed = '2.31.2' }\ngpus = ['H200', 'rtx 6000 ada']",
        );
        let seen = all.on(MACHINE).unwrap();
        assert_eq!(
            seen.seen,
            "driver 580.142, kernel 6.8.0-111-generic, NCCL 2.29.7, NVIDIA RTX 6000 Ada Generation"
        );
        assert_eq!(
            seen.sentence(),
            format!(
                "{}: data arrives wrong (read 2026-11-27, https://example.org/1)",
                seen.seen
            )
        );
        for other in [
            Machine {
                driver: Some("580.159.04"),
                ..MACHINE
            },
            Machine {
                kernel: Some("6.9.1"),
                ..MACHINE
            },
            Machine {
                nccl: Some("2.31.2"),
                ..MACHINE
            },
            Machine {
                gpus: &GPUS[..1],
                ..MACHINE
            },
        ] {
            assert_eq!(all.on(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_unknown_matches_no_row_about_it() {
        let of_driver = row("driver = { from = '580.142', to = '580.142' }");
        let of_nccl = row("nccl = { from = '2.29', to = '2.29' }");
        assert!(
            of_driver
                .on(Machine {
                    nccl: None,
                    kernel: None,
                    gpus: &[],
                    ..MACHINE
                })
                .is_some()
        );
        assert_eq!(
            of_driver.on(Machine {
                driver: None,
                ..MACHINE
            }),
            None
        );
        assert_eq!(
            of_driver.on(Machine {
                driver: Some("unknown"),
                ..MACHINE
            }),
            None
        );
        assert_eq!(
            of_nccl.on(Machine {
                nccl: None,
                ..MACHINE
            }),
            None
        );
        assert_eq!(
            row("nccl = { from = '2', to = '3' }\ngpus = ['B200']").on(Machine {
                gpus: &[],
                ..MACHINE
            }),
            None
        );
    }

    #[test]
    fn a_model_is_named_by_whole_words_in_their_order() {
        assert!(
            names("Simulated NVIDIA GeForce RTX 4090", "RTX 4090") && names("NVIDIA B200", "b200")
        );
        for model in ["RTX 40", "4090 RTX", "RTX 4090 D", "RTX  5090"] {
            assert!(!names("NVIDIA GeForce RTX 4090", model), "{model}");
        }
    }

    #[test]
    fn a_users_rows_are_added_and_cannot_replace_our_own() {
        let ids = ids();
        let own = KnownProblems::with(None, &ids).unwrap();
        let more = "[[problem]]\nid = 'ours'\nsays = 'x'\nthread = 'https://example.org/1'\nread = '2026-11-27'\n\
             tests = ['nccl']\nnccl = { from = '1', to = '2' }";
        let all = KnownProblems::with(Some(more), &ids).unwrap();
        assert_eq!(
            (all.0.len(), &all.0[..own.0.len()]),
            (own.0.len() + 1, &own.0[..])
        );
        if let Some(first) = own.0.first() {
            let same = more.replace("'ours'", &format!("'{}'", first.id));
            let why = KnownProblems::with(Some(&same), &ids).unwrap_err();
            assert_eq!(
                why,
                format!("id: {} is a row of the program's own table", first.id)
            );
        }
        assert!(
            KnownProblems::with(Some("x = 1"), &ids)
                .unwrap_err()
                .starts_with("x: there is no such key")
        );
    }

    #[test]
    fn the_programs_own_rows_are_dated_and_name_a_public_thread() {
        let own = KnownProblems::with(None, &ids()).unwrap();
        for problem in &own.0 {
            assert!(
                problem.thread.starts_with("https://github.com/"),
                "{problem:?}"
            );
            assert!(
                !problem.says.contains('|') && !problem.says.ends_with('.'),
                "{problem:?}"
            );
        }
        assert_eq!(own.markdown().lines().count(), own.0.len() + 2);
    }
}
