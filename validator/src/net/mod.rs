//! Everything that uses the network: HTTP, NTP, and publishing a report.

pub mod http;
pub mod publish;
pub mod sntp;
