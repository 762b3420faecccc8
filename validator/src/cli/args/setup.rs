//! The options of `setup`.

use super::Place;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// `setup`
#[derive(Debug, Clone, Default, PartialEq, Eq, ClapArgs)]
pub struct Setup {
    /// Print what is missing for peer-to-peer and the step for it on this machine; writes nothing (default)
    #[arg(long, conflicts_with_all = ["apply", "undo", "check"])]
    pub plan: bool,
    /// Take the steps of the plan: each file is shown before it changes, and each step asked for
    #[arg(long, conflicts_with_all = ["undo", "check", "json"])]
    pub apply: bool,
    /// Remove exactly what `--apply` added; what changed since is shown and left alone
    #[arg(long, conflicts_with_all = ["check", "json", "iommu", "families", "modules"])]
    pub undo: bool,
    /// Say whether what was set up is in force, by the kernel and the loaded driver: 2 if it is not
    #[arg(long, conflicts_with_all = ["json", "iommu", "families", "modules"])]
    pub check: bool,
    /// Do not ask
    #[arg(long, conflicts_with_all = ["plan", "check", "json"])]
    pub yes: bool,
    /// An IOMMU that translates: let it translate nothing (pt), or switch it off [default: pt]
    #[arg(long, value_name = "pt|off")]
    pub iommu: Option<IommuWord>,
    /// Families of boards for which the modules are edited only where they are named: ampere-geforce (RTX 30)
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub families: Vec<String>,
    /// A folder with the whole source of NVIDIA's open modules in the version of the driver, to be edited
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,
    /// Write the plan as JSON to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
}

/// What is done about an IOMMU that translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IommuWord {
    /// It stays on, and translates nothing.
    Pt,
    /// It is switched off.
    Off,
}
