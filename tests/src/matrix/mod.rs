//! The matrix: hundreds of faults and healthy machines, made from tables in `tests/simgpu/matrix`, each judged by the
//! shipped program. Reports how often a fault passed (false PASS), how often a healthy machine did not (false FAIL), and
//! what each level rules out. A new kind of fault is one `[[class]]` in one of those tables.

mod case;
mod class;
mod healthy;
mod run;
mod table;

pub use case::{Case, Selection, Subject, cases};
pub use class::{Claim, FaultClass, LEVELS};
pub use healthy::HealthyMachine;
pub use run::{Assessment, CaseResult, parallel_map, run};
pub use table::{MatrixCounts, counts, page, table};

use crate::error::Result;
use crate::simgpu::scenario::{folder, read};
use std::fs;
use std::path::PathBuf;
use toml::{Table, Value};

/// The numbers of GPUs with which the faults are tried.
pub const GPUS: [usize; 5] = [2, 3, 5, 8, 16];

/// The tables `[[NAME]]` of all files of `tests/simgpu/matrix`, each with its file's name.
fn tables(name: &str) -> Result<Vec<(String, Table)>> {
    let folder = folder("matrix");
    let entries = fs::read_dir(&folder).map_err(crate::Error::file("read", &folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let stem = file
            .file_stem()
            .map(|s| s.to_string_lossy().into_owned())
            .unwrap_or_default();
        let listed = read(&file)?.remove(name);
        let listed = listed
            .and_then(|v| v.try_into::<Vec<Table>>().ok())
            .unwrap_or_default();
        all.extend(listed.into_iter().map(|table| (stem.clone(), table)));
    }
    Ok(all)
}

/// The text of a key.
fn text(table: &Table, key: &str) -> Option<String> {
    table.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The words of a key that is a list.
fn words(table: &Table, key: &str) -> Vec<String> {
    let listed = table.get(key).and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(|v| Some(v.as_str()?.to_owned()))
        .collect()
}

/// The whole number of a key.
fn number(table: &Table, key: &str) -> Option<usize> {
    table
        .get(key)
        .and_then(Value::as_integer)
        .and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::class::{Claim, FaultClass, LEVELS};
    use super::*;
    use crate::error::Error;
    use std::collections::BTreeSet;

    #[test]
    fn classes_and_machines_have_names_of_their_own_and_say_what_they_are() {
        let (classes, healthy) = (FaultClass::all().unwrap(), HealthyMachine::all().unwrap());
        let names: Vec<_> = classes
            .iter()
            .map(|c| &c.id)
            .chain(healthy.iter().map(|h| &h.name))
            .collect();
        assert_eq!(
            names.iter().collect::<BTreeSet<_>>().len(),
            names.len(),
            "{names:?}"
        );
        assert!(classes.iter().all(|c| !c.what.ends_with('.')));
        assert!(
            classes.iter().map(FaultClass::variants).sum::<usize>() >= 120,
            "fewer faults than promised"
        );
        assert!(healthy.len() >= 40, "fewer machines than promised");
    }

    /// A scenario that the libraries reject must not look like a fault that was found.
    #[test]
    fn every_fault_and_every_machine_is_one_that_the_simulation_knows() {
        for case in cases(&Selection::default()).unwrap() {
            let scenario = case.scenario().unwrap();
            assert_eq!(scenario.count(), case.gpus, "{}", case.full_name());
            let model = simgpu_model::Scenario::parse(&scenario.text());
            assert!(
                model.is_ok(),
                "{}: {}",
                case.full_name(),
                model.unwrap_err()
            );
        }
    }

    #[test]
    fn each_class_is_tried_at_each_level_with_each_number_of_gpus_and_each_variant_at_each_level() {
        let all = cases(&Selection::default()).unwrap();
        for class in FaultClass::all().unwrap() {
            let of = |level: usize| all.iter().filter(move |c| c.level == level);
            for level in 0..LEVELS.len() {
                let here: Vec<_> = of(level).filter(|c| c.name() == class.id).collect();
                let counts: BTreeSet<_> = here.iter().map(|c| c.gpus).collect();
                let wanted = GPUS
                    .iter()
                    .filter(|n| (class.min_gpus..=class.max_gpus).contains(n))
                    .count();
                assert_eq!(counts.len(), wanted, "{}", class.id);
                assert!(here.len() >= class.variants(), "{}", class.id);
            }
        }
    }

    #[test]
    fn a_class_that_makes_no_sense_is_refused() {
        let class = |text: &str| FaultClass::from_table("file", text.parse().unwrap());
        let good = "id = \"x\"\nwhat = \"y\"\nquick = \"not: z\"\nstandard = \"FAIL\"\nfull = \"FAIL ERROR\"\nblamed = [\"cuda\"]\n\
        fault = [{ kind = \"zeros\" }]\n";
        assert!(class(good).is_ok());
        for (from, to) in [
            ("standard = \"FAIL\"\n", ""),
            ("\"FAIL\"", "\"PASS\""),
            ("[\"cuda\"]", "[]"),
            ("fault", "faults"),
            ("[{ kind = \"zeros\" }]", "[]"),
            ("what", "why"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            assert!(
                matches!(class(&text), Err(Error::Scenario { .. })),
                "{text}"
            );
        }
    }

    /// A case of a class that level quick does not find.
    fn case(level: usize) -> Case {
        let selection = Selection {
            names: vec!["reorder".to_owned()],
            ..Selection::default()
        };
        let cases = cases(&selection).unwrap();
        let found = cases.into_iter().find(|case| case.level == level).unwrap();
        let Subject::Fault(class, ..) = &found.subject else {
            panic!("reorder is a fault")
        };
        assert!(matches!(class.claims[0], Claim::Not(_)) && class.claims[1].is_found());
        found
    }

    #[test]
    fn a_fault_that_passes_is_false_only_where_the_level_claims_to_find_it() {
        let order = ["p2p-order".to_owned()];
        assert_eq!(
            Assessment::of(&case(0), "PASS", &[]),
            Assessment::NotCovered
        );
        assert_eq!(
            Assessment::of(&case(0), "FAIL", &order),
            Assessment::Unclaimed
        );
        assert_eq!(Assessment::of(&case(1), "PASS", &[]), Assessment::FalsePass);
        assert_eq!(Assessment::of(&case(1), "FAIL", &order), Assessment::Right);
        assert_eq!(
            Assessment::of(&case(1), "FAIL", &["cuda".to_owned()]),
            Assessment::WrongTest
        );
        assert_eq!(
            Assessment::of(&case(1), "DEGRADED", &order),
            Assessment::WrongVerdict
        );
    }

    #[test]
    fn a_healthy_machine_without_its_verdict_is_a_false_fail() {
        let selection = Selection {
            names: vec!["4090-8".to_owned()],
            ..Selection::default()
        };
        let case = cases(&selection).unwrap().remove(0);
        assert_eq!(Assessment::of(&case, "PASS", &[]), Assessment::Right);
        for verdict in ["DEGRADED", "FAIL", "ERROR", "none"] {
            assert_eq!(Assessment::of(&case, verdict, &[]), Assessment::FalseFail);
        }
    }

    #[test]
    fn the_table_shows_what_went_wrong_and_the_counts_agree() {
        let result = |level: usize, verdict: &str| {
            let case = case(level);
            let assessment = Assessment::of(&case, verdict, &[]);
            let (verdict, blamed, text) = (verdict.to_owned(), Vec::new(), String::new());
            CaseResult {
                case,
                verdict,
                blamed,
                text,
                seconds: 0.0,
                assessment,
            }
        };
        let all = [result(0, "PASS"), result(1, "PASS")];
        let (text, counts) = (table(&all), counts(&all));
        assert!(
            text.contains("P!") && text.contains("false PASS: reorder"),
            "{text}"
        );
        assert_eq!(
            (
                counts.false_pass,
                counts.not_covered,
                counts.runs,
                counts.all_right()
            ),
            (1, 1, 2, false)
        );
    }

    /// `matrix --page` prints the text between the page's marks.
    #[test]
    fn the_page_of_docs_claims_what_the_matrix_holds_the_program_to() {
        let path = crate::workspace().join("docs/what-each-level-rules-out.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let block = format!("<!-- classes -->\n{}\n<!-- /classes -->\n", page().unwrap());
        assert!(
            text.contains(&block),
            "docs/what-each-level-rules-out.md lacks what `matrix --page` prints:\n{block}"
        );
    }
}
