//! The command line of `hardware`.

use std::ffi::OsString;
use std::path::PathBuf;

/// How it is used.
pub const USAGE: &str =
    "usage: hardware [--against DIR].. [--firstlight PATH] [--library-path P] [--report FILE]

  --against DIR     compare with p2pBandwidthLatencyTest.txt and nvbandwidth.json there
  --firstlight PATH the program; target/release/firstlight unless given
  --library-path P  folders of the driver's libraries, with : between (validate.library_path)
  --report FILE     a report of `firstlight validate --json` instead of a run";

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// Folders with peers' outputs.
    pub against: Vec<PathBuf>,
    /// The program.
    pub firstlight: Option<PathBuf>,
    /// `validate.library_path`
    pub library_path: Option<String>,
    /// A report that is there already.
    pub report: Option<PathBuf>,
}

impl Words {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// The word that is not understood, in one line.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let word = word.to_string_lossy().into_owned();
            let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            match word.as_str() {
                "--against" => asked.against.push(value()?.into()),
                "--firstlight" => asked.firstlight = Some(value()?.into()),
                "--library-path" => asked.library_path = Some(value()?.to_string_lossy().into_owned()),
                "--report" => asked.report = Some(value()?.into()),
                _ => return Err(format!("{word}: not known")),
            }
        }
        Ok(asked)
    }
}
