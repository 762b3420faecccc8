//! The formats that init and the validator share: documents, console lines and single words. Only types and
//! their text forms: nothing here reads files, makes decisions or acts.

pub mod config_format;
pub mod driver_account;
pub mod elf;
pub mod kmsg;
pub mod last_line;
pub mod mark;
pub mod outcome;
pub mod pci_vendor;
pub mod recovery;
pub mod screen;
pub mod text;

/// The names of the documents that one program writes and the other reads.
pub mod schema {
    /// init's account of the driver's start, [`crate::driver_account::Account`].
    pub const DRIVER: &str = "firstlight.driver/1";
    /// The result of `firstlight fabric fix`; init reads its `summary`.
    pub const FIX: &str = "firstlight.fix/1";
    /// The report of the tests over several nodes.
    pub const NODES: &str = "firstlight.nodes/1";
    /// The validator's report.
    pub const REPORT: &str = "firstlight.report/1";
    /// What init did to recover GPUs.
    pub const RECOVERY: &str = "firstlight.recovery/1";
    /// init's verdict, which is published if there is no report.
    pub const VERDICT: &str = "firstlight.verdict/1";
}

/// The sections of the configuration and their owners. Each program checks the content of its own sections
/// and knows the names of the others, so that both refuse an unknown section.
pub mod section {
    /// The sections that init owns.
    pub const INIT: &[&str] = &[
        "config", "driver", "network", "policy", "workload", "report", "console", "watchdog",
    ];

    /// The sections that the validator owns; init passes them on.
    pub const VALIDATOR: [&str; 4] = ["fabric", "validate", "expect", "nodes"];
}

/// The exit statuses of `firstlight`. `validate` exits with the status of its verdict.
pub mod status {
    /// Everything is as it should be; the verdict PASS.
    pub const SUCCESS: u8 = 0;
    /// The command found a failure, or could not correct one; the verdict FAIL.
    pub const FAILURE: u8 = 1;
    /// The command could not do its work; the verdict ERROR.
    pub const NOT_DONE: u8 = 2;
    /// The verdict DEGRADED.
    pub const DEGRADED: u8 = 3;
    /// Wrong usage, or a configuration that is refused.
    pub const USAGE_ERROR: u8 = 64;
}
