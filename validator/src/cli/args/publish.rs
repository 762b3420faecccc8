//! The options of the commands that use servers, disks and the firmware's variables.

use super::whole;
use crate::net::{http, publish};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// `publish`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Publish {
    /// A report of `validate --json`
    pub report: PathBuf,
    /// The folder where a partition is mounted, or LABEL=.., UUID=.., /dev/.. of a mounted partition
    #[arg(long, value_name = "P")]
    pub partition: Option<String>,
    /// The http or https URL to which the report is POSTed
    #[arg(long, value_name = "U", value_parser = address)]
    pub url: Option<String>,
    /// How many reports are kept on the partition, and how many unsent reports are queued
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u16>(1, 1000), allow_negative_numbers = true)]
    pub keep: u16,
    /// The queue of unsent reports if there is no partition
    #[arg(long, value_name = "DIR", default_value = publish::SPOOL)]
    pub spool: PathBuf,
    /// The key (32 to 4096 bytes) for the MAC of each report; a queued report without a correct MAC is not sent
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// A file with the token that the server demands: one line of 16 to 256 visible ASCII characters
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
    /// Time limit in seconds for all attempts to send this report and the queued ones
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole::<u64>(1, 3600), allow_negative_numbers = true)]
    pub timeout: u64,
    /// Trust only these CA certificates (PEM) for https
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The verdict to publish, if it is not the report's own
    #[arg(long, value_name = "VERDICT", value_parser = ["PASS", "DEGRADED", "FAIL", "ERROR"])]
    pub verdict: Option<String>,
    /// Do not try to send now, for this reason
    #[arg(long, value_name = "WHY", hide = true)]
    pub offline: Option<String>,
}

/// `reset`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Reset {
    /// What to do with the mark
    #[arg(default_value = "show")]
    pub action: ResetAction,
    /// The folder where the data partition is mounted; a machine without EFI variables has its mark there
    #[arg(long, value_name = "DIR")]
    pub partition: Option<PathBuf>,
}

/// What is done with the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResetAction {
    /// Show it.
    Show,
    /// Remove it, so that the next boot runs every step.
    Clear,
}

/// `fetch`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Fetch {
    /// The http or https URL
    #[arg(value_parser = address)]
    pub url: String,
    /// The expected checksum, in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = checksum, required_unless_present = "any_content")]
    pub sha256: Option<String>,
    /// Accept any content: for a file that needs no checksum, such as a signature
    #[arg(long, conflicts_with = "sha256")]
    pub any_content: bool,
    /// The output file
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The largest allowed size of the file, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = whole::<u64>(0, u64::MAX - 1), allow_negative_numbers = true)]
    pub largest: u64,
    /// Time limit in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole::<u64>(1, 3600), allow_negative_numbers = true)]
    pub timeout: u64,
    /// Trust only these CA certificates (PEM) for https
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Print the progress at this interval, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>(0, 3600), allow_negative_numbers = true)]
    pub progress: Option<u64>,
}

/// `time`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Time {
    /// NTP servers, queried simultaneously: HOST or HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    pub servers: Vec<String>,
    /// Time limit in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = whole::<u64>(1, 60), allow_negative_numbers = true)]
    pub timeout: u64,
}

fn address(word: &str) -> Result<String, String> {
    http::checked_url(word)
        .map(str::to_owned)
        .map_err(|e| e.to_string())
}

fn checksum(word: &str) -> Result<String, String> {
    let fine = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    if fine {
        Ok(word.to_owned())
    } else {
        Err("allowed: 64 hexadecimal digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::args::{NoArgs, parse};
    use std::ffi::OsString;

    #[test]
    fn places_and_limits_are_checked_first() {
        for (line, parts) in [
            ("publish r --url ftp://h/", ["ftp://h/", "https://"]),
            (
                "publish r --url http://h:80800/",
                ["http://h:80800/", "[:PORT]"],
            ),
            (
                "publish r --keep 0",
                ["'0'", "allowed: a whole number of 1 to 1000"],
            ),
            (
                "publish r --timeout -5",
                ["'-5'", "a whole number of 1 to 3600"],
            ),
            (
                "publish r --timeout 99999999999999999999",
                ["--timeout", "a whole number of 1 to 3600"],
            ),
            (
                "nodes --meeting-timeout x",
                ["'x'", "a whole number of 1 to 86400"],
            ),
            ("nodes --size 1", ["'1'", "a whole number of 2 to 1024"]),
            (
                "nodes --rendezvous 127.0.0.1",
                ["'127.0.0.1'", "mdns, or HOST:PORT"],
            ),
            (
                "nccl all_reduce -n x",
                ["'x'", "a whole number of 1 to 100000"],
            ),
            ("publish r --verdict GOOD", ["GOOD", "DEGRADED"]),
            (
                "fetch http://h/f -o f --sha256 12",
                ["'12'", "64 hexadecimal"],
            ),
        ] {
            let words = format!("firstlight {line}");
            let Err(NoArgs::Wrong(why)) = parse(words.split(' ').map(OsString::from)) else {
                panic!("{line}")
            };
            assert!(parts.iter().all(|p| why.contains(p)), "{line}: {why}");
        }
    }
}
