//! The cases of a run of the matrix: each fault at each level, with every number of GPUs in turn.

use super::GPUS;
use super::class::{FaultClass, GpuPair, LEVELS};
use super::healthy::HealthyMachine;
use crate::error::Result;
use crate::simgpu::Scenario;
use std::sync::Arc;

/// Which cases are selected.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Each variant with each number of GPUs; otherwise each variant with one number, and each number with one variant.
    pub all: bool,
    /// One case of each class at the lowest level that finds it, by the tests that find it alone, and the smaller healthy
    /// machines.
    pub part: bool,
    /// Only these levels; all if empty.
    pub levels: Vec<String>,
    /// Only these numbers of GPUs; all if empty.
    pub gpus: Vec<usize>,
    /// Only classes and machines whose names contain one of these; all if empty.
    pub names: Vec<String>,
}

/// What is judged.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A variant of a class of faults, and where the fault is.
    Fault(Arc<FaultClass>, usize, GpuPair),
    /// A healthy machine.
    Healthy(Arc<HealthyMachine>),
}

/// One run of the program.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is judged.
    pub subject: Subject,
    /// The level, as an index in [`LEVELS`].
    pub level: usize,
    /// Number of GPUs.
    pub gpus: usize,
    /// Only the tests that find it run.
    pub alone: bool,
}

/// The maximum number of GPUs in a partial matrix, of faults and of healthy machines. Six ordered pairs are judged in half
/// of the time that twenty need, and healthy machines with more at level quick.
const PART_MAX_GPUS: usize = 3;
const PART_MAX_HEALTHY: usize = 4;

/// The chosen cases of all classes and machines.
///
/// # Errors
/// If a table is invalid.
pub fn cases(selection: &Selection) -> Result<Vec<Case>> {
    let named = |name: &str| {
        selection.names.is_empty() || selection.names.iter().any(|n| name.contains(n.as_str()))
    };
    let mut cases = Vec::new();
    for (nth, class) in FaultClass::all()?
        .into_iter()
        .enumerate()
        .filter(|(_, class)| named(&class.id))
    {
        cases.extend(class_cases(&Arc::new(class), nth, selection));
    }
    for healthy in HealthyMachine::all()?
        .into_iter()
        .filter(|healthy| named(&healthy.name))
    {
        cases.extend(healthy_cases(&Arc::new(healthy), selection));
    }
    let level = |case: &Case| {
        selection.levels.is_empty() || selection.levels.iter().any(|l| l == LEVELS[case.level])
    };
    cases.retain(|case| {
        level(case) && (selection.gpus.is_empty() || selection.gpus.contains(&case.gpus))
    });
    Ok(cases)
}

fn class_cases(class: &Arc<FaultClass>, nth: usize, selection: &Selection) -> Vec<Case> {
    let counts: Vec<_> = GPUS
        .into_iter()
        .filter(|n| (class.min_gpus..=class.max_gpus).contains(n))
        .collect();
    let case = |variant: usize, offset: usize, gpus: usize, level: usize| Case {
        subject: Subject::Fault(Arc::clone(class), variant, GpuPair::nth(nth + offset, gpus)),
        level,
        gpus,
        alone: selection.part,
    };
    let variants = class.variants();
    if selection.part {
        let level = class.claims.iter().position(|claim| claim.is_found());
        let few: Vec<_> = counts
            .iter()
            .copied()
            .filter(|n| *n <= PART_MAX_GPUS)
            .collect();
        let gpus = few.get(nth % few.len().max(1)).or(counts.first()).copied();
        return level
            .zip(gpus)
            .map(|(level, gpus)| case(nth % variants, 0, gpus, level))
            .into_iter()
            .collect();
    }
    let runs: Vec<(usize, usize)> = if selection.all {
        (0..variants)
            .flat_map(|v| counts.iter().map(move |n| (v, *n)))
            .collect()
    } else {
        let turn = |i: usize| (i % variants, counts[(i + nth) % counts.len()]);
        (0..if counts.is_empty() {
            0
        } else {
            variants.max(counts.len())
        })
            .map(turn)
            .collect()
    };
    let runs = runs.into_iter().enumerate();
    runs.flat_map(|(i, (variant, gpus))| {
        (0..LEVELS.len()).map(move |level| (i, variant, gpus, level))
    })
    .map(|(i, variant, gpus, level)| case(variant, i + level, gpus, level))
    .collect()
}

fn healthy_cases(healthy: &Arc<HealthyMachine>, selection: &Selection) -> Vec<Case> {
    let levels = match healthy.gpus {
        _ if !selection.part => 0..LEVELS.len(),
        0..=PART_MAX_GPUS => 1..2,
        _ => 0..1,
    };
    let wanted = !selection.part || healthy.gpus <= PART_MAX_HEALTHY;
    let subject = Subject::Healthy(Arc::clone(healthy));
    let one = |level| Case {
        subject: subject.clone(),
        level,
        gpus: healthy.gpus,
        alone: false,
    };
    levels.filter(|_| wanted).map(one).collect()
}

impl Case {
    /// The name of its class or machine.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.subject {
            Subject::Fault(class, ..) => &class.id,
            Subject::Healthy(healthy) => &healthy.name,
        }
    }

    /// Whether its run mostly waits, for a deadline or for a GPU that initialises slowly.
    #[must_use]
    pub fn mostly_waits(&self) -> bool {
        ["hang", "slow-start"]
            .iter()
            .any(|word| self.name().contains(word))
    }

    /// The part of the table that it is in.
    #[must_use]
    pub fn chapter(&self) -> &str {
        match &self.subject {
            Subject::Fault(class, ..) => &class.chapter,
            Subject::Healthy(_) => "healthy machines",
        }
    }

    /// Its unique name: `zeros engine=ce way=write 3>1 quick 5 GPUs`.
    #[must_use]
    pub fn full_name(&self) -> String {
        let (level, gpus) = (LEVELS[self.level], self.gpus);
        match &self.subject {
            Subject::Fault(class, variant, pair) => {
                let variant = class.variant_name(*variant);
                let variant = if variant.is_empty() {
                    variant
                } else {
                    format!(" {variant}")
                };
                format!("{}{variant} {pair} {level} {gpus} GPUs", class.id)
            }
            Subject::Healthy(healthy) => format!("{} {level} {gpus} GPUs", healthy.name),
        }
    }

    /// Its machine including its faults.
    ///
    /// # Errors
    /// What is wrong with its table.
    pub fn scenario(&self) -> Result<Scenario> {
        match &self.subject {
            Subject::Fault(class, variant, pair) => class.scenario(*variant, self.gpus, *pair),
            Subject::Healthy(healthy) => healthy.scenario(),
        }
    }

    /// The arguments for `validate`: without the minute of traffic, since its faults are found earlier.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec!["--level".to_owned(), LEVELS[self.level].to_owned()];
        if LEVELS[self.level] == "full" {
            words.extend(["--skip".to_owned(), "p2p-soak".to_owned()]);
        }
        if let Subject::Fault(class, ..) = &self.subject
            && self.alone
        {
            words.extend([
                "--only".to_owned(),
                [&class.blamed[..], &class.needs].concat().join(","),
            ]);
        }
        words
    }
}
