//! Everything that uses the network: HTTP, NTP, publishing a report, and meetings of several nodes.

pub mod discovery;
pub mod http;
pub mod meeting;
pub mod publish;
pub mod sntp;
