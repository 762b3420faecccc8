//! The mark that init writes before a step that can crash or reset the machine, and removes after the step. A
//! mark that is found at the next boot shows during which step the machine was reset. It is one line of text
//! of a fixed size: `firstlight-mark/1 step=.. image=.. boot=.. finding=..`, padded with blanks; after a reboot that the policy
//! asked for, `count=..` follows.

use std::fmt;
use std::str::FromStr;

/// The folder of the firmware's variables, below the root.
pub const VARIABLES: &str = "sys/firmware/efi/efivars";
/// The variable that holds the mark: its name, and firstlight's own GUID.
pub const VARIABLE: &str = "FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";
/// The attributes that are written before its value: non-volatile, available to boot services and at run time.
pub const ATTRIBUTES: u32 = 7;
/// The file on the data partition that holds the mark if the firmware has no variables.
pub const FILE: &str = "reset-mark";
/// The size of a mark in bytes: each write replaces the same number of bytes, so that the firmware's store does not grow.
pub const SIZE: usize = 256;

const BEGINNING: &str = "firstlight-mark/1";
/// The longest value in bytes; four of them and their names fit into the size.
const LONGEST: usize = 48;
/// Represents an unknown value.
const NONE: &str = "none";

/// A step that can crash or reset the machine. Each needs the steps before it, unless they are parts of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The fabric pass changes BARs and ACS.
    Fabric,
    /// Modules of the GPU driver are loaded.
    DriverLoad,
    /// The validator works on the GPUs.
    Validate,
    /// The validator puts all GPUs under full load. Part of [`Step::Validate`].
    FullLoad,
    /// GPUs write to each other for the first time. Part of [`Step::Validate`].
    PeerWrite,
    /// The machine works with other nodes.
    Nodes,
    /// The machine was rebooted to recover GPUs. It vetoes no step: the machine continues without peer-to-peer.
    Recover,
    /// The machine was rebooted because its policy says so after a verdict. It vetoes no step, and counts such boots in a row.
    Reboot,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 8] = [
        Self::Fabric,
        Self::DriverLoad,
        Self::Validate,
        Self::FullLoad,
        Self::PeerWrite,
        Self::Nodes,
        Self::Recover,
        Self::Reboot,
    ];

    /// The step that this one is a part of. A part needs the steps before the whole, but not the other parts.
    #[must_use]
    pub const fn whole(self) -> Self {
        match self {
            Self::FullLoad | Self::PeerWrite => Self::Validate,
            other => other,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fabric => "fabric",
            Self::DriverLoad => "driver-load",
            Self::Validate => "validate",
            Self::FullLoad => "full-load",
            Self::PeerWrite => "peer-write",
            Self::Nodes => "nodes",
            Self::Recover => "recover",
            Self::Reboot => "reboot",
        })
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|step| step.to_string() == text);
        known.ok_or_else(|| {
            format!(
                "not one of {}",
                Self::ALL.map(|step| step.to_string()).join(", ")
            )
        })
    }
}

/// A mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The step that is about to begin.
    pub step: Step,
    /// The image's id, if the image states one.
    pub image: Option<String>,
    /// The kernel's boot id.
    pub boot: Option<String>,
    /// The code of the last finding before the step.
    pub finding: Option<String>,
    /// For [`Step::Reboot`]: how many boots in a row ended with a reboot by the policy; otherwise 0.
    pub count: u64,
}

impl Mark {
    /// The text of the mark, [`SIZE`] bytes.
    #[must_use]
    pub fn text(&self) -> String {
        let value =
            |text: &Option<String>| text.as_deref().map_or_else(|| NONE.to_owned(), sanitize);
        let (image, boot, finding) = (value(&self.image), value(&self.boot), value(&self.finding));
        let count = if self.count == 0 {
            String::new()
        } else {
            format!(" count={}", self.count)
        };
        let line = format!(
            "{BEGINNING} step={} image={image} boot={boot} finding={finding}{count}",
            self.step
        );
        format!("{line:<width$}\n", width = SIZE - 1)
    }

    /// Parses the bytes of a mark.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() != SIZE {
            return Err(format!("holds {} bytes, expected {SIZE}", bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text".to_owned())?;
        text.parse()
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            Some(BEGINNING) => {}
            first => {
                return Err(format!(
                    "begins with {:?}, expected {BEGINNING}",
                    first.unwrap_or_default()
                ));
            }
        }
        let mut value = |name: &str| {
            let word = words
                .next()
                .and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
            let known = word.filter(|word| *word == sanitize(word));
            known.ok_or_else(|| format!("{name}: not a word of at most {LONGEST} letters"))
        };
        let step = value("step")?
            .parse()
            .map_err(|why| format!("step: {why}"))?;
        let mut text = |name| value(name).map(|word| (word != NONE).then(|| word.to_owned()));
        let (image, boot, finding) = (text("image")?, text("boot")?, text("finding")?);
        let count = match words.next() {
            None => 0,
            Some(word) if step == Step::Reboot => {
                let count = word
                    .strip_prefix("count=")
                    .and_then(|count| count.parse().ok());
                count.ok_or_else(|| "count: not a number".to_owned())?
            }
            Some(_) => return Err("has more words than a mark".to_owned()),
        };
        if words.next().is_some() {
            return Err("has more words than a mark".to_owned());
        }
        Ok(Self {
            step,
            image,
            boot,
            finding,
            count,
        })
    }
}

/// Keeps the characters that a value of a mark may contain; an empty result becomes `none`.
#[must_use]
pub fn sanitize(text: &str) -> String {
    let keeps = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let kept: String = text.chars().filter(keeps).take(LONGEST).collect();
    if kept.is_empty() {
        NONE.to_owned()
    } else {
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(step: Step, image: Option<&str>) -> Mark {
        let boot = Some("c0ffee00-0000-4000-8000-000000000000".to_owned());
        Mark {
            step,
            image: image.map(str::to_owned),
            boot,
            finding: None,
            count: 0,
        }
    }

    #[test]
    fn every_mark_has_one_size_and_comes_back() {
        let long = "x".repeat(LONGEST);
        for step in Step::ALL {
            for image in [None, Some("5f1d989d03a878d8"), Some(long.as_str())] {
                let mark = Mark {
                    finding: Some(long.clone()),
                    boot: Some(long.clone()),
                    ..mark(step, image)
                };
                assert_eq!(mark.text().len(), SIZE);
                assert_eq!(Mark::read(mark.text().as_bytes()), Ok(mark));
            }
        }
        let counted = Mark {
            count: u64::MAX,
            ..mark(Step::Reboot, Some(&long))
        };
        assert_eq!(Mark::read(counted.text().as_bytes()), Ok(counted));
        assert_eq!(
            mark(Step::Fabric, Some("a b=c\n")).text().parse(),
            Ok(mark(Step::Fabric, Some("abc")))
        );
    }

    #[test]
    fn anything_else_is_no_mark() {
        let good = mark(Step::Validate, Some("abc")).text();
        for (bad, why) in [
            (String::new(), "holds 0 bytes"),
            (good.trim().to_owned(), "holds "),
            ("\0".repeat(SIZE), "begins with"),
            (good.replace("mark/1", "mark/2"), "begins with"),
            (good.replace("validate", "validata"), "step: not one of"),
            (good.replace("image=abc", "image=a/c"), "image: not a word"),
            (good.replace("boot=", "boat="), "boot: not a word"),
            (good.replace("none  ", "none x"), "has more words"),
            (
                good.replace("none         ", "none count=3 "),
                "has more words",
            ),
            (
                good.replace("validate", "reboot  ")
                    .replace("none           ", "none count=-1  "),
                "count: not a number",
            ),
            (
                good.replace("validate", "reboot  ")
                    .replace("none           ", "none count=1 x "),
                "has more words",
            ),
        ] {
            let error = Mark::read(bad.as_bytes()).unwrap_err();
            assert!(error.starts_with(why), "{bad:?}: {error}");
        }
        assert_eq!(Mark::read(&[0xff; SIZE]).unwrap_err(), "is not text");
    }
}
