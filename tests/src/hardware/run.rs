//! The command line of `hardware`, and one run of `firstlight validate --level standard` on this machine, for its report.
//! Its output goes to standard error as it comes; its exit status is the verdict, which the report contains too.

use crate::error::{Error, Result};
use crate::image::workspace;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};
use tempfile::TempDir;

/// The folder for what is measured.
#[derive(Debug)]
pub enum OutputFolder {
    /// Kept permanently.
    Kept(PathBuf),
    /// Removed at the end.
    Temporary(TempDir),
}

impl OutputFolder {
    /// The requested folder, or a temporary one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(options: &Options) -> Result<Self> {
        let Some(path) = &options.keep else {
            return tempfile::tempdir()
                .map(Self::Temporary)
                .map_err(Error::file("make", "a temporary folder"));
        };
        fs::create_dir_all(path).map_err(Error::file("make", path))?;
        Ok(Self::Kept(path.clone()))
    }

    /// The path of a file in it that does not exist, so that an earlier run's file is not mistaken for this one's.
    ///
    /// # Errors
    /// If the file exists and cannot be removed.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        };
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("remove", path)(error))
            }
            _ => Ok(path),
        }
    }
}

/// The report's text.
///
/// # Errors
/// If the program is not built, did not start, or left no report.
pub fn report(options: &Options, into: &OutputFolder) -> Result<String> {
    if let Some(path) = &options.report {
        return read(path);
    }
    let mut command = firstlight(options)?;
    let path = into.fresh("report.json")?;
    command
        .args(["validate", "--level", "standard", "--json"])
        .arg(&path)
        .stdout(io::stderr());
    let failed = |why: String| Error::Program {
        program: "firstlight validate".to_owned(),
        why,
    };
    let status = command.status().map_err(|e| failed(e.to_string()))?;
    match status.code() {
        // The exit statuses of verdicts.
        Some(0..=3) => read(&path),
        _ => Err(failed(status.to_string())),
    }
}

/// A file's text.
///
/// # Errors
/// Its name and the I/O error.
pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}

/// The program with its global options.
///
/// # Errors
/// If it is not built.
pub(super) fn firstlight(options: &Options) -> Result<Command> {
    let program = options
        .firstlight
        .clone()
        .unwrap_or_else(|| workspace().join("target/release/firstlight"));
    if !program.is_file() {
        return Err(Error::NotBuilt {
            path: program,
            recipe: "binaries",
        });
    }
    let mut command = Command::new(program);
    if let Some(folders) = &options.library_path {
        command.arg("--set").arg(format!(
            "validate.library_path={}",
            folders.replace(':', ",")
        ));
    }
    Ok(command)
}

/// How it is used.
pub const USAGE: &str =
    "usage: hardware [--against DIR].. [--only matrices|nccl] [--firstlight PATH] \
[--library-path P]
                [--report FILE] [--nccl DIR] [--keep DIR]

  --against DIR     compare with p2pBandwidthLatencyTest.txt, nvbandwidth.json, and nccl-tests'
                    outputs in nccl-tests.txt and nccl-tests.NCCL_P2P_DISABLE.txt there
  --only WHAT       matrices: not NCCL's tables; nccl: nothing else, and no report
  --firstlight PATH the program; target/release/firstlight unless given
  --library-path P  folders of the driver's libraries, with : between (validate.library_path)
  --report FILE     a report of `firstlight validate --json` instead of a run
  --nccl DIR        what `--keep` left of `firstlight nccl` instead of runs
  --keep DIR        leaves report.json, nccl.all_reduce.json, .. there";

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurement {
    /// The report and its matrices.
    Matrices,
    /// NCCL's collectives.
    Nccl,
}

/// The parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders with saved outputs of other programs.
    pub against: Vec<PathBuf>,
    /// Only this part.
    pub only: Option<Measurement>,
    /// The program.
    pub firstlight: Option<PathBuf>,
    /// `validate.library_path`
    pub library_path: Option<String>,
    /// An existing report to use.
    pub report: Option<PathBuf>,
    /// A folder with existing NCCL figures to use.
    pub nccl: Option<PathBuf>,
    /// Where to keep what is measured.
    pub keep: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// The argument that is not understood, in one line.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let word = word.to_string_lossy().into_owned();
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("{word}: a value is missing"))
            };
            match word.as_str() {
                "--against" => options.against.push(value()?.into()),
                "--only" => options.only = Some(parse_measurement(&value()?.to_string_lossy())?),
                "--firstlight" => options.firstlight = Some(value()?.into()),
                "--library-path" => {
                    options.library_path = Some(value()?.to_string_lossy().into_owned());
                }
                "--report" => options.report = Some(value()?.into()),
                "--nccl" => options.nccl = Some(value()?.into()),
                "--keep" => options.keep = Some(value()?.into()),
                _ => return Err(format!("{word}: not known")),
            }
        }
        if options.only == Some(Measurement::Nccl) && options.against.is_empty() {
            return Err(
                "--only nccl: --against is missing; NCCL's tables are only measured to compare"
                    .to_owned(),
            );
        }
        Ok(options)
    }

    /// Whether this part is requested.
    #[must_use]
    pub fn wants(&self, measurement: Measurement) -> bool {
        self.only.is_none_or(|only| only == measurement)
    }
}

fn parse_measurement(word: &str) -> Result<Measurement, String> {
    match word {
        "matrices" => Ok(Measurement::Matrices),
        "nccl" => Ok(Measurement::Nccl),
        _ => Err(format!("--only: read '{word}'; allowed are matrices, nccl")),
    }
}
