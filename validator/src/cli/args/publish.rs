//! The words of the commands that deal with servers and disks.

use crate::net::{http, publish};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// `publish`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Publish {
    /// A report of `validate --json`
    pub report: PathBuf,
    /// The folder where a partition is mounted, or LABEL=.., UUID=.., /dev/.. of a mounted one
    #[arg(long, value_name = "P")]
    pub partition: Option<String>,
    /// Where to POST it to: http or https
    #[arg(long, value_name = "U", value_parser = address)]
    pub url: Option<String>,
    /// How many reports stay on the partition, and how many unsent ones wait
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub keep: u16,
    /// Where what cannot be sent waits when there is no partition
    #[arg(long, value_name = "DIR", default_value = publish::SPOOL)]
    pub spool: PathBuf,
    /// Seconds for all tries to send, of this report and of those that wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Certificates (PEM) that alone may vouch for an https server
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The verdict that counts, where it is not the report's
    #[arg(long, value_name = "VERDICT", value_parser = ["PASS", "DEGRADED", "FAIL", "ERROR"])]
    pub verdict: Option<String>,
    /// Do not try to send now, because of this
    #[arg(long, value_name = "WHY", hide = true)]
    pub offline: Option<String>,
}

/// `fetch`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Fetch {
    /// Where from: http or https
    #[arg(value_parser = address)]
    pub url: String,
    /// The checksum that it must have, in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = checksum)]
    pub sha256: String,
    /// Where to
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// No file is taken that has more bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub largest: u64,
    /// Seconds for all of it
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Certificates (PEM) that alone may vouch for an https server
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Say how far it is, every so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub progress: Option<u64>,
}

/// `time`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Time {
    /// NTP servers, asked at the same time: HOST or HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    pub servers: Vec<String>,
    /// Seconds for all of it
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub timeout: u64,
}

fn address(word: &str) -> Result<String, String> {
    http::checked(word).map(str::to_owned).map_err(|e| e.to_string())
}

fn checksum(word: &str) -> Result<String, String> {
    let fine = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    if fine { Ok(word.to_owned()) } else { Err("allowed: 64 hexadecimal digits".to_owned()) }
}

#[cfg(test)]
mod tests {
    use crate::cli::args::{NoArgs, parse};
    use std::ffi::OsString;

    #[test]
    fn places_and_limits_are_checked_before_anything_is_done() {
        for (line, parts) in [
            ("publish r --url ftp://h/", ["ftp://h/", "https://"]),
            ("publish r --url http://h:80800/", ["http://h:80800/", "[:PORT]"]),
            ("publish r --keep 0", ["'0'", "1..=1000"]),
            ("publish r --verdict GOOD", ["GOOD", "DEGRADED"]),
            ("fetch http://h/f -o f --sha256 12", ["'12'", "64 hexadecimal"]),
        ] {
            let words = format!("firstlight {line}");
            let Err(NoArgs::Wrong(why)) = parse(words.split(' ').map(OsString::from)) else {
                panic!("{line}")
            };
            assert!(parts.iter().all(|p| why.contains(p)), "{line}: {why}");
        }
    }
}
