//! The kernel's counters of PCIe errors while tests run (`aer_dev_correctable` and its siblings in sysfs,
//! Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats): errors that a link corrected are reported with
//! the test that moved the data. Functions and kernels without such counters report nothing.

use machine::host::faults::Scene;
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};

const CORRECTABLE: &str = "aer_dev_correctable";
/// The kinds of errors, each with its counter file and severity.
const KINDS: [(&str, &str, Severity); 3] = [
    (CORRECTABLE, "correctable", Severity::Warn),
    ("aer_dev_nonfatal", "uncorrectable", Severity::Fail),
    ("aer_dev_fatal", "fatal", Severity::Fail),
];

/// Counters by function, file and name of the error.
type Counters = BTreeMap<(Bdf, &'static str, String), u64>;

/// The functions that matter to the tests, and the previous values of their counters.
#[derive(Debug, Default)]
pub(super) struct Aer {
    functions: Vec<Bdf>,
    before: Counters,
}

impl Aer {
    /// Starts watching.
    pub(super) fn begin(root: &Root, scene: &Scene) -> Self {
        let functions: BTreeSet<Bdf> = scene.functions().collect();
        let functions: Vec<Bdf> = functions
            .into_iter()
            .filter(|bdf| root.text(file(*bdf, CORRECTABLE)).is_ok())
            .collect();
        let before = read(root, &functions);
        Self { functions, before }
    }

    /// The errors since the last call.
    pub(super) fn new_findings(&mut self, root: &Root) -> Vec<Finding> {
        let now = read(root, &self.functions);
        let findings = increase_findings(&self.before, &now);
        self.before = now;
        findings
    }
}

fn file(bdf: Bdf, name: &str) -> String {
    format!("sys/bus/pci/devices/{bdf}/{name}")
}

fn read(root: &Root, functions: &[Bdf]) -> Counters {
    let mut all = Counters::new();
    for bdf in functions {
        for (name, ..) in KINDS {
            // A function that fell off the bus has no counters, which the kernel log reports.
            let text = root.text(file(*bdf, name)).unwrap_or_default();
            all.extend(parse(&text).map(|(error, count)| ((*bdf, name, error.to_owned()), count)));
        }
    }
    all
}

/// `BadTLP 3`, one error a line; the totals are the sums of the others.
fn parse(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let counted = pairs.filter_map(|(error, count)| Some((error, count.trim().parse().ok()?)));
    counted.filter(|(error, _)| !error.starts_with("TOTAL_"))
}

fn increase_findings(before: &Counters, now: &Counters) -> Vec<Finding> {
    let more = |(key, count): (&(Bdf, &'static str, String), &u64)| {
        let more = count
            .checked_sub(*before.get(key)?)
            .filter(|more| *more > 0)?;
        let (bdf, name, error) = key;
        let (_, word, severity) = KINDS.into_iter().find(|(file, ..)| file == name)?;
        let message =
            format!("{bdf}: {more} {word} PCIe errors ({error}) during this test, expected 0");
        let seen = format!(
            "/{}: {error} {count}, {more} more than before",
            file(*bdf, name)
        );
        Some(
            Code::PcieAer
                .finding(severity, bdf, message)
                .values(more, 0, Some("errors"))
                .seen(seen),
        )
    };
    now.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample;

    fn counters(bad_tlp: u64, fatal: u64) -> Counters {
        let bdf = Bdf {
            domain: 0,
            bus: 1,
            device: 0,
            function: 0,
        };
        let count = |file, error: &str, n| ((bdf, file, error.to_owned()), n);
        Counters::from([
            count("aer_dev_correctable", "BadTLP", bad_tlp),
            count("aer_dev_fatal", "DLP", fatal),
        ])
    }

    #[test]
    fn only_increased_counters_are_reported() {
        assert_eq!(increase_findings(&counters(7, 0), &counters(7, 0)), []);
        let said = increase_findings(&counters(7, 0), &counters(10, 1));
        assert_eq!(
            said.iter().map(|f| f.severity).collect::<Vec<_>>(),
            [Severity::Warn, Severity::Fail]
        );
        assert_eq!(
            said[0].message,
            "0000:01:00.0: 3 correctable PCIe errors (BadTLP) during this test, expected 0"
        );
        // A reset clears the counters.
        assert_eq!(increase_findings(&counters(7, 0), &counters(2, 0)), []);
    }

    #[test]
    fn totals_are_not_counted() {
        let text = "RxErr 0\nBadTLP 12\nTOTAL_ERR_COR 12\nbroken line\n";
        assert_eq!(
            parse(text).collect::<Vec<_>>(),
            [("RxErr", 0), ("BadTLP", 12)]
        );
    }

    #[test]
    fn only_functions_on_gpu_paths_with_counters_are_watched() {
        let dir = tempfile::tempdir().unwrap();
        let fabric = sample::fabric(sample::two_gpus());
        let gpu = fabric.gpus[0];
        let path = dir.path().join(file(gpu, "aer_dev_correctable"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "BadTLP 1\nTOTAL_ERR_COR 1\n").unwrap();
        let root = Root::new(dir.path());
        let mut aer = Aer::begin(&root, &Scene::of(Some(&fabric)));
        assert_eq!(aer.functions, [gpu]);
        assert_eq!(aer.new_findings(&root), []);
        std::fs::write(&path, "BadTLP 3\nTOTAL_ERR_COR 3\n").unwrap();
        assert_eq!(aer.new_findings(&root).len(), 1);
        assert_eq!(aer.new_findings(&root), []);
    }
}
