//! The names of the documents that one program writes and the other reads.

/// init's account of the driver's start, [`crate::driver::Account`].
pub const DRIVER: &str = "firstlight.driver/1";
/// The result of `firstlight fabric fix`; init reads its `summary`.
pub const FIX: &str = "firstlight.fix/1";
/// The validator's report.
pub const REPORT: &str = "firstlight.report/1";
/// What init did to recover GPUs.
pub const RECOVERY: &str = "firstlight.recovery/1";
/// init's verdict, which is published where there is no report.
pub const VERDICT: &str = "firstlight.verdict/1";
