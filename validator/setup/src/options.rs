//! What the user asks of setup.

use std::path::PathBuf;

/// What is done about an IOMMU that translates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IommuChoice {
    /// It stays on and translates nothing: processors, virtual machines and protection of other devices are kept.
    #[default]
    PassThrough,
    /// It is switched off.
    Off,
}

/// The options of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// What is done about an IOMMU that translates.
    pub iommu: IommuChoice,
    /// Optional families of boards that are asked for.
    pub families: Vec<String>,
    /// A folder with the whole source of NVIDIA's open modules.
    pub modules: Option<PathBuf>,
}
