//! The sections of the configuration and their owners. Each program checks the content of its own sections
//! and knows the names of the others, so that both refuse an unknown section.

/// The sections that init owns.
pub const INIT: &[&str] =
    &["config", "driver", "network", "policy", "workload", "report", "console", "watchdog"];

/// The sections that the validator owns; init passes them on.
pub const VALIDATOR: &[&str] = &["fabric", "validate", "expect"];
