//! The result of the driver's start, which `driver.json` carries to the validator: the account of
//! [`contract::driver`] with the codes that init may write.

pub use contract::driver::{Code, Image, Module, Node, Outcome, Parameter};
pub use contract::outcome::Severity;

/// The whole file.
pub type Report = contract::driver::Account<Code>;
/// One finding.
pub type Finding = contract::driver::Finding<Code>;
