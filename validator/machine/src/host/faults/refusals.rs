//! Why NVIDIA's module did not accept a GPU, by what it logged when it was loaded or the GPU was to be started. The words are
//! those of kernel-open/nvidia/{nv,nv-pci}.c and src/nvidia/arch/nvalloc/unix/src/osapi.c in the open kernel modules, and of
//! the closed ones. [`super::no_room`] has the lines about BARs. Pure.

use super::earlier::Starts;
use super::place::{self, Place};
use crate::host::kmsg::Line;
use crate::pcie::model::Device;
use outcome::finding::DriverRefusal;

/// How many lines one message has at most.
const LINES: usize = 8;

/// The module's first line each time it is loaded: what is before it was said to an earlier one.
const LOADED: &str = "nvidia-nvlink: Nvlink Core is being initialized";

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<'a> {
    /// The GPU; `None` where the line names none.
    place: Option<Place>,
    /// Why.
    pub why: DriverRefusal,
    /// The message as one line.
    pub message: String,
    /// The lines of the log.
    pub lines: Vec<&'a str>,
}

impl Refused<'_> {
    /// Whether it names this device.
    #[must_use]
    pub fn concerns(&self, device: &Device) -> bool {
        self.place.is_some_and(|place| place.matches(device.bdf))
    }

    /// Whether it names no device.
    #[must_use]
    pub const fn is_unnamed(&self) -> bool {
        self.place.is_none()
    }
}

/// The refusals since the module was last loaded, in the log's order, without those of GPUs that were started later.
#[must_use]
pub fn refusals(lines: &[Line]) -> Vec<Refused<'_>> {
    let since = lines.iter().rposition(|line| line.text.contains(LOADED));
    let lines = lines.get(since.unwrap_or_default()..).unwrap_or_default();
    let starts = Starts::of(lines);
    let all = (0..lines.len()).filter_map(|n| Some((n, refusal(lines.get(n..)?, lines)?)));
    all.filter(|(n, refused)| !refused.place.is_some_and(|gpu| starts.is_later(gpu, *n)))
        .map(|(_, refused)| refused)
        .collect()
}

/// The refusal whose first line is the first of `rest`.
fn refusal<'a>(rest: &'a [Line], all: &[Line]) -> Option<Refused<'a>> {
    let first = rest.first()?.text.as_str();
    if !first.contains("NVRM: ") {
        return None;
    }
    let place = place::first(first);
    let begins = ["The NVIDIA GPU ", "The NVIDIA vGPU "];
    let (why, lines) = if begins.iter().any(|words| first.contains(words)) {
        let more = rest.iter().skip(1).map(|line| line.text.as_str());
        let more =
            more.take_while(|text| text.starts_with("NVRM: ") && place::first(text).is_none());
        let lines: Vec<_> = std::iter::once(first).chain(more).take(LINES).collect();
        (of_gpu(&joined(&lines))?, lines)
    } else {
        (of_line(first, place, all)?, vec![first])
    };
    Some(Refused {
        place,
        why,
        message: joined(&lines),
        lines,
    })
}

/// What a message that begins with the name of a GPU means; `None` if it is about something else.
fn of_gpu(message: &str) -> Option<DriverRefusal> {
    let has = |words: &str| message.contains(words);
    Some(match () {
        () if has("requires use of the NVIDIA open kernel modules") => DriverRefusal::NeedsOpen,
        () if has("not supported by open nvidia.ko because it does not include") => {
            DriverRefusal::NoGsp
        }
        () if has("not supported by open nvidia.ko") => DriverRefusal::NoVgpu,
        () if has("is not supported by the") && has("driver release") => {
            DriverRefusal::OtherRelease
        }
        () => return None,
    })
}

/// What one line means.
fn of_line(line: &str, place: Option<Place>, all: &[Line]) -> Option<DriverRefusal> {
    if line.contains("ignoring the legacy GPU") {
        return place.map(|_| DriverRefusal::Legacy(legacy_branch(all)));
    }
    if line.contains("NVIDIA probe routine was not called for") {
        return Some(DriverRefusal::Held(None));
    }
    let (_, name) = line.split_once(" is already bound to ")?;
    let name = name.trim().trim_end_matches('.');
    // Its own name means that nothing else holds the GPU.
    let known = !["another driver", "nvidia", ""].contains(&name);
    place.filter(|_| name != "nvidia")?;
    Some(DriverRefusal::Held(known.then(|| name.into())))
}

/// The one branch that the module names for old GPUs: `supported through the NVIDIA 580.xx Legacy drivers`. These lines name
/// a model and no address.
fn legacy_branch(lines: &[Line]) -> Option<u32> {
    let branch = |line: &Line| {
        let (_, rest) = line.text.split_once("supported through the NVIDIA ")?;
        rest.split('.').next()?.parse::<u32>().ok()
    };
    let mut branches = lines.iter().filter_map(branch);
    let first = branches.next()?;
    branches.all(|other| other == first).then_some(first)
}

/// The lines as one, without the module's name before each and without the documents to which the module refers. One record of
/// the log may hold several lines, with their ends written as `\x0a` (Documentation/ABI/testing/dev-kmsg).
fn joined(lines: &[&str]) -> String {
    let text = lines.join(" ").replace("\\x0a", " ").replace("NVRM:", " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split_once(" Please see ") {
        Some((said, _)) => said.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::kmsg::sample as log;
    use crate::pcie::sample;

    fn why(texts: &[&str]) -> Vec<DriverRefusal> {
        let log = log(texts);
        refusals(&log)
            .into_iter()
            .map(|refused| refused.why)
            .collect()
    }

    const GPU: &str = "NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:1b80)";
    const OPEN: &str =
        "NVRM: installed in this system requires use of the NVIDIA open kernel modules.";

    #[test]
    fn each_refusal_is_known_in_several_records_and_in_one() {
        for (lines, expected) in [
            (vec![OPEN], DriverRefusal::NeedsOpen),
            (
                vec![
                    "NVRM: installed in this system is not supported by open",
                    "NVRM: nvidia.ko because it does not include the required GPU",
                    "NVRM: System Processor (GSP).",
                ],
                DriverRefusal::NoGsp,
            ),
            (
                vec![
                    "NVRM: installed in this vGPU host system is not supported by",
                    "NVRM: open nvidia.ko.",
                ],
                DriverRefusal::NoVgpu,
            ),
            (
                vec![
                    "NVRM: installed in this system is not supported by the",
                    "NVRM: NVIDIA 535.54.03 driver release.",
                    "NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'",
                ],
                DriverRefusal::OtherRelease,
            ),
        ] {
            let whole: Vec<_> = std::iter::once(GPU).chain(lines).collect();
            let one = whole.join("\\x0a");
            let (whole, one) = (log(&whole), log(&[one.as_str()]));
            for log in [whole, one] {
                let found = refusals(&log);
                assert_eq!(found.len(), 1, "{log:?}");
                assert_eq!(found[0].why, expected);
                assert!(found[0].message.starts_with("The NVIDIA GPU 0000:41:00.0"));
                assert!(!found[0].message.contains("Please see"), "{found:?}");
                assert!(found[0].concerns(&sample::gpu("0000:41:00.0", "0000:40:01.0")));
                assert!(!found[0].concerns(&sample::gpu("0000:01:00.0", "0000:00:01.0")));
            }
        }
    }

    #[test]
    fn two_gpus_have_a_refusal_each() {
        let other = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)";
        assert_eq!(
            why(&[GPU, OPEN, other, OPEN]),
            [const { DriverRefusal::NeedsOpen }; 2]
        );
        assert_eq!(why(&[GPU, other, OPEN]).len(), 1);
    }

    #[test]
    fn an_old_gpu_has_its_branch_if_the_module_names_only_one() {
        const IGNORED: &str = "NVRM: ignoring the legacy GPU 0000:41:00.0";
        let branch = |number: &str| {
            format!("NVRM:  supported through the NVIDIA {number}.xx Legacy drivers. Please")
        };
        let (old, older) = (branch("580"), branch("470"));
        for (lines, expected) in [
            (vec![IGNORED, &old], Some(580)),
            (vec![IGNORED, &old, &old], Some(580)),
            (vec![IGNORED, &old, &older], None),
            (vec![IGNORED], None),
        ] {
            assert_eq!(why(&lines), [DriverRefusal::Legacy(expected)], "{lines:?}");
        }
    }

    #[test]
    fn a_gpu_that_another_driver_held_has_its_name() {
        assert_eq!(
            why(&["NVRM: GPU 0000:41:00.0 is already bound to nouveau."]),
            [DriverRefusal::Held(Some("nouveau".into()))]
        );
        assert_eq!(
            why(&["NVRM: GPU 0000:41:00.0 is already bound to nvidia."]),
            []
        );
        let uncalled = log(&["NVRM: The NVIDIA probe routine was not called for 1 device(s)."]);
        let found = refusals(&uncalled);
        assert!(found[0].is_unnamed() && found[0].why == DriverRefusal::Held(None));
    }

    #[test]
    fn a_refusal_is_over_when_the_module_is_loaded_again_or_the_gpu_starts() {
        let loaded = "nvidia-nvlink: Nvlink Core is being initialized, major device number 236";
        assert_eq!(why(&[loaded, GPU, OPEN]).len(), 1);
        assert_eq!(why(&[GPU, OPEN, loaded]), []);
        let xid = "NVRM: Xid (PCI:0000:41:00): 31, pid=1, name=train, MMU Fault";
        assert_eq!(why(&[GPU, OPEN, xid]), []);
        assert_eq!(why(&[GPU, "NVRM: something else"]), []);
    }
}
