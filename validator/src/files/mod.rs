//! Files that the user names on the command line or in the configuration.

pub(crate) mod bounded;
pub mod destination;
pub(crate) mod whole;
