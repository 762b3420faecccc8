//! Words of the command line that the kernel ignores. The kernel's log is the proof where it names them; without it, the
//! table of known values decides, and a word that another kernel knows is named with that condition. Pure.

use super::known::{CONFIG_ACS_SINCE, KEYS, NEWEST, Values};
use machine::host::cmdline::{Word, words};
use machine::host::kmsg::Line;
use machine::host::nvidia::log;
use outcome::finding::{Code, Finding, Severity, Subject};

/// The running kernel.
#[derive(Debug, Default)]
pub(super) struct Kernel<'a> {
    /// Its release, `6.8.0-90-generic`.
    pub(super) release: Option<&'a str>,
    /// Whether its architecture is arm64, which has no `iommu=`.
    pub(super) arm64: bool,
    /// Its log, as far as it could be read.
    pub(super) log: &'a [Line],
    /// Whether records of the log were lost.
    pub(super) lost: bool,
}

/// The kernel logs the items that it does not know: of `pci=` with these words, of the IOMMUs' keys with those.
const UNKNOWN_PCI: &str = "PCI: Unknown option `";
const UNKNOWN_ITEM: &str = "Unknown option - '";
/// And whole words that no part of it claimed.
const UNKNOWN_WORDS: &str = "Unknown kernel command line parameters \"";
/// The kernels of distributions that have the patch for `pcie_acs_override=`.
const PATCHED: &[&str] = &["-pve", "zen", "xanmod", "lqx", "acso", "cachyos", "nraid"];

/// Why a word has no effect.
enum Why {
    /// No kernel that we know has it, or this kernel reported it as unknown.
    Unknown,
    /// This kernel does not know it, unless the condition holds.
    Unless(String),
}

/// Findings about the words without effect: one for those that are unknown, one for each that has a condition.
pub(super) fn findings(line: &str, kernel: &Kernel<'_>) -> Vec<Finding> {
    let (mut unknown, mut conditions) = (Vec::<String>::new(), Vec::<(String, String)>::new());
    for word in words(line) {
        for (written, why) in without_effect(&word, kernel) {
            match why {
                Why::Unknown if !unknown.contains(&written) => unknown.push(written),
                Why::Unless(condition)
                    if !conditions.iter().any(|(known, _)| *known == written) =>
                {
                    conditions.push((written, condition));
                }
                Why::Unknown | Why::Unless(_) => {}
            }
        }
    }
    let lines: Vec<_> = kernel
        .log
        .iter()
        .filter(|line| is_about_words(&line.text))
        .take(4)
        .collect();
    let found = |message: String| {
        let finding =
            Code::CmdlineNoEffect.finding(Severity::Info, Subject::part("kernel"), message);
        let logged = lines
            .iter()
            .map(|line| format!("kmsg: {}", line.text))
            .collect();
        finding
            .seen(format!("/proc/cmdline: {line}"))
            .seen_all(logged)
    };
    let (have, them) = if unknown.len() == 1 {
        ("has", "it")
    } else {
        ("have", "them")
    };
    let all = (!unknown.is_empty()).then(|| {
        found(format!(
            "{} {have} no effect: the kernel does not know {them}",
            unknown.join(", ")
        ))
    });
    let conditions = conditions
        .into_iter()
        .map(|(written, unless)| found(format!("{written} has no effect {unless}")));
    all.into_iter().chain(conditions).collect()
}

/// The parts of a word without effect, as they are written, each with the reason.
fn without_effect(word: &Word, kernel: &Kernel<'_>) -> Vec<(String, Why)> {
    let whole = match &word.value {
        Some(value) => format!("{}={value}", word.key),
        None => word.key.clone(),
    };
    if kernel.lists_as_unknown(&whole, word) {
        return vec![(whole, Why::Unknown)];
    }
    let Some((key, values)) = KEYS.iter().find(|(key, _)| word.has_key(key)) else {
        return Vec::new();
    };
    if let Values::Patch(patch) = values {
        let why = || Why::Unless(format!("on a kernel without the patch \"{patch}\""));
        return if kernel.is_patched() {
            Vec::new()
        } else {
            vec![(whole, why())]
        };
    }
    if *key == "iommu" && kernel.arm64 {
        return vec![(whole, Why::Unknown)];
    }
    let items: Vec<_> = match values {
        Values::Switch => word.value.as_deref().into_iter().collect(),
        Values::Begins(_) | Values::Items(..) | Values::Patch(_) => {
            word.items().filter(|i| !i.is_empty()).collect()
        }
    };
    let many = items.len() > 1;
    let written = |item: &str| {
        if many {
            format!("{item} in {whole}")
        } else {
            format!("{}={item}", word.key)
        }
    };
    items
        .into_iter()
        .filter_map(|item| Some((written(item), kernel.ignores(key, *values, item)?)))
        .collect()
}

impl Kernel<'_> {
    /// Whether the log still has its beginning, where these lines are.
    fn log_is_whole(&self) -> bool {
        !self.lost && !self.log.is_empty() && log::begins(self.log).is_none()
    }

    fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Why this kernel ignores an item; `None` if it knows it, or if that is unknown.
    fn ignores(&self, key: &str, values: Values, item: &str) -> Option<Why> {
        if self.names_item(key, item) {
            return Some(Why::Unknown);
        }
        let version = self.version();
        if values.know(item) {
            // The log would name it.
            let since = (
                CONFIG_ACS_SINCE,
                item.starts_with("config_acs=") && key == "pci" && !self.log_is_whole(),
            );
            let ((major, minor), version) = match (since, version) {
                ((since, true), Some(version)) if version < since => (since, version),
                _ => return None,
            };
            let (own, minor_own) = version;
            return Some(Why::Unless(format!(
                "on kernels before {major}.{minor}, unless the distribution added it, and this is {own}.{minor_own}"
            )));
        }
        // A newer kernel may know more; it would log what it does not know.
        version
            .is_none_or(|version| version <= NEWEST)
            .then_some(Why::Unknown)
    }

    /// Whether the log names this item as unknown.
    fn names_item(&self, key: &str, item: &str) -> bool {
        let named = |line: &Line| match key {
            "pci" => quoted_after(&line.text, UNKNOWN_PCI, '\'') == Some(item),
            // The rest of the value follows.
            "intel_iommu" if line.text.contains("DMAR: ") => names_rest(&line.text, item),
            "amd_iommu" if line.text.contains("AMD-Vi: ") => names_rest(&line.text, item),
            _ => false,
        };
        self.log.iter().any(named)
    }

    /// Whether the log names the whole word as one that nothing claimed, and it is about the IOMMU or PCI.
    fn lists_as_unknown(&self, whole: &str, word: &Word) -> bool {
        let about = ["iommu", "acs", "pci"]
            .iter()
            .any(|part| word.key.to_ascii_lowercase().contains(part));
        about
            && self
                .unclaimed()
                .any(|list| list.split(' ').any(|one| one == whole))
    }

    fn unclaimed(&self) -> impl Iterator<Item = &str> {
        self.log
            .iter()
            .filter_map(|line| quoted_after(&line.text, UNKNOWN_WORDS, '"'))
    }

    /// Whether it has the patch for `pcie_acs_override=`: by its name, or because it lists other words as unclaimed.
    fn is_patched(&self) -> bool {
        let by_name = self
            .release
            .is_some_and(|release| PATCHED.iter().any(|part| release.contains(part)));
        by_name || self.unclaimed().next().is_some()
    }
}

/// The text between `before` and `end`.
fn quoted_after<'a>(text: &'a str, before: &str, end: char) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.rsplit_once(end).map_or(rest, |(quoted, _)| quoted))
}

fn names_rest(text: &str, item: &str) -> bool {
    quoted_after(text, UNKNOWN_ITEM, '\'').is_some_and(|rest| rest.split(',').next() == Some(item))
}

fn is_about_words(text: &str) -> bool {
    [UNKNOWN_PCI, UNKNOWN_ITEM, UNKNOWN_WORDS]
        .iter()
        .any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn log(first: u64, texts: &[&str]) -> Vec<Line> {
        let line = |(seq, text): (u64, &&str)| Line {
            seq,
            at: Duration::ZERO,
            text: (*text).to_owned(),
        };
        (first..).zip(texts).map(line).collect()
    }

    fn said(line: &str, kernel: &Kernel<'_>) -> Vec<String> {
        findings(line, kernel)
            .into_iter()
            .map(|f| f.message.to_string())
            .collect()
    }

    fn old<'a>() -> Kernel<'a> {
        Kernel {
            release: Some("6.8.0-90-generic"),
            ..Kernel::default()
        }
    }

    #[test]
    fn words_that_no_kernel_knows_are_named_in_one_sentence() {
        for word in [
            "pci=noacs",
            "pci=noACS",
            "intel_iommu=pt",
            "amd_iommu=pt",
            "amd_iommu=on",
            "iommu=none",
            "iommu=on",
        ] {
            assert_eq!(
                said(&format!("ro {word} quiet"), &old()),
                [format!("{word} has no effect: the kernel does not know it")]
            );
        }
        let both =
            "pt in intel_iommu=on,pt, pci=noacs have no effect: the kernel does not know them";
        assert_eq!(
            said("intel_iommu=on,pt pci=noacs pci=noacs", &old()),
            [both]
        );
        assert_eq!(
            said("amd-iommu=pt", &old()),
            ["amd-iommu=pt has no effect: the kernel does not know it"]
        );
        let found = &findings("pci=noacs", &old())[0];
        assert!(found.is(Code::CmdlineNoEffect) && found.severity == Severity::Info);
        assert_eq!(found.evidence, ["/proc/cmdline: pci=noacs"]);
    }

    #[test]
    fn words_with_an_effect_are_not_named() {
        let line = "iommu=pt iommu.passthrough=1 iommu.strict=0 intel_iommu=on,sm_on amd_iommu=off pci=realloc,noats \
                    pci=disable_acs_redir=pci:0:0 pci= pcie_aspm=off nvidia.x=pt -- pci=noacs";
        assert_eq!(said(line, &old()), Vec::<String>::new());
        assert_eq!(
            said(
                "pci=config_acs=0@pci:0:0",
                &Kernel {
                    release: Some("6.12.9"),
                    ..old()
                }
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_log_is_the_proof() {
        let lines = log(
            0,
            &[
                "PCI: Unknown option `config_acs=0000000@pci:0:0'",
                "DMAR: Unknown option - 'future,x'",
            ],
        );
        let kernel = Kernel {
            release: Some("7.3.0"),
            log: &lines,
            ..Kernel::default()
        };
        let words = "pci=config_acs=0000000@pci:0:0, future in intel_iommu=on,future,x have no effect: the kernel does not know them";
        let found = findings(
            "pci=config_acs=0000000@pci:0:0 intel_iommu=on,future,x",
            &kernel,
        );
        assert_eq!(found[0].message, words);
        assert!(
            found[0]
                .evidence
                .contains(&format!("kmsg: {}", lines[0].text)),
            "{found:?}"
        );
        // A newer kernel than the table may know a word that the table lacks.
        assert_eq!(said("pci=newer iommu=newer", &kernel), Vec::<String>::new());
        let lines = log(
            0,
            &[
                "Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz pcie_acs_override=downstream\", will be passed to user space.",
            ],
        );
        let kernel = Kernel {
            log: &lines,
            ..old()
        };
        let word = "pcie_acs_override=downstream has no effect: the kernel does not know it";
        assert_eq!(
            said("BOOT_IMAGE=/vmlinuz pcie_acs_override=downstream", &kernel),
            [word]
        );
        assert_eq!(
            said("pcie_acs_override=multifunction", &kernel),
            Vec::<String>::new(),
            "it was claimed"
        );
    }

    #[test]
    fn what_depends_on_the_kernel_is_named_with_its_condition() {
        let acs = "pci=config_acs=0@pci:0:0";
        let expected = "pci=config_acs=0@pci:0:0 has no effect on kernels before 6.11, unless the distribution added it, and this is 6.8";
        assert_eq!(said(acs, &old()), [expected]);
        let cut = log(900, &["x"]);
        assert_eq!(said(acs, &Kernel { log: &cut, ..old() }), [expected]);
        let whole = log(0, &["x"]);
        assert_eq!(
            said(
                acs,
                &Kernel {
                    log: &whole,
                    ..old()
                }
            ),
            Vec::<String>::new(),
            "a backport: the log does not name it"
        );
        let patch = "pcie_acs_override=downstream,multifunction";
        let expected =
            format!("{patch} has no effect on a kernel without the patch \"PCIe ACS override\"");
        assert_eq!(said(patch, &old()), [expected]);
        assert_eq!(
            said(
                patch,
                &Kernel {
                    release: Some("6.8.12-4-pve"),
                    ..old()
                }
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn arm64_has_no_iommu_word() {
        let arm = Kernel {
            release: Some("6.12.9-arm64"),
            arm64: true,
            ..Kernel::default()
        };
        assert_eq!(
            said("iommu=pt iommu.passthrough=1", &arm),
            ["iommu=pt has no effect: the kernel does not know it"]
        );
    }
}
