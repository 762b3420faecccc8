//! The exit statuses of `firstlight`. `validate` ends with that of its verdict.

/// Everything is as it should be; the verdict PASS.
pub const FINE: u8 = 0;
/// The command found something that fails, or had to leave it so; the verdict FAIL.
pub const FAILING: u8 = 1;
/// The command could not do its work; the verdict ERROR.
pub const UNDONE: u8 = 2;
/// The verdict DEGRADED.
pub const DEGRADED: u8 = 3;
/// Wrong use, or a configuration that is refused.
pub const WRONG_USE: u8 = 64;
