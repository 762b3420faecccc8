//! The options of the commands that read finished reports: `render`, `baseline` and `compare`.

use super::Place;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `render`
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
pub struct Render {
    /// A report of `validate --json`, or `-` for standard input
    pub report: PathBuf,
    /// The output form [default: by the end of the output file's name: .txt .json .html .xml .prom]
    #[arg(long, required_unless_present = "output")]
    pub to: Option<Form>,
    /// What to leave out of the form `prometheus`, in which each value is a series
    #[arg(long, value_name = "WHAT")]
    pub without: Option<Without>,
    /// The output file, or `-`
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: Place,
}

/// `--without`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Without {
    /// The values of each pair of GPUs.
    Matrices,
}

impl Form {
    /// The form that the end of a file's name says.
    #[must_use]
    pub fn of_name(place: &Place) -> Option<Self> {
        let Place::File(path) = place else {
            return None;
        };
        match path.extension()?.to_str()? {
            "txt" => Some(Self::Text),
            "json" => Some(Self::Json),
            "html" | "htm" => Some(Self::Html),
            "xml" => Some(Self::Junit),
            "prom" => Some(Self::Prometheus),
            _ => None,
        }
    }
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The text of the console.
    Text,
    /// The report's own JSON.
    Json,
    /// One self-contained page.
    Html,
    /// JUnit XML, for CI systems.
    Junit,
    /// For node_exporter's textfile collector.
    Prometheus,
}

/// `baseline`
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Baseline {
    /// Make a baseline from reports with PASS or DEGRADED; several reports also give the noise of each figure
    Save {
        /// Reports of `validate --json`, or `-` for standard input; without --to the last file is the baseline
        #[arg(required = true, value_name = "REPORT|FILE")]
        files: Vec<PathBuf>,
        /// The file of the baseline
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
    /// Compare a report: exit status 0 PASS, 1 FAIL, 2 ERROR (a figure is missing), 3 DEGRADED (a figure is worse)
    Compare {
        /// The file of the baseline
        baseline: PathBuf,
        /// A report of `validate --json`, or `-` for standard input
        report: PathBuf,
        /// Write the comparison as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
}

/// `compare`
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
pub struct Compare {
    /// Reports, and folders in which every .json file is read
    #[arg(required = true, value_name = "REPORT|DIR")]
    pub places: Vec<PathBuf>,
    /// Write one page for a browser to a file or `-`
    #[arg(long, value_name = "FILE")]
    pub html: Option<Place>,
    /// Write the comparison as JSON to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
}
