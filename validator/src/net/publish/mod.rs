//! Saves one finished report to each given place: to the folder `reports` of a partition, and to a URL. Each
//! place is reported separately; a failure of one does not prevent the other.

mod finished;
mod partition;
mod send;
mod shelf;

pub use finished::{Finished, LARGEST, digest, hex};

use crate::net::http::{self, Authorities, HttpError};
use send::{Letter, Line, Sent};
use shelf::Shelf;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The spool if there is no partition: it lasts for this boot.
pub const SPOOL: &str = "/run/firstlight/spool";

/// A server to send it to.
#[derive(Debug)]
pub struct AtUrl {
    /// `http` or `https`
    pub url: String,
    /// Time limit for all attempts together.
    pub timeout: Duration,
    /// The trusted certificates for https.
    pub authorities: Authorities,
    /// Why it cannot be sent now: then it goes into the spool immediately.
    pub offline: Option<String>,
}

/// The result of one place: one line, and whether it succeeded.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    /// `partition: ..` or `url: ..`
    pub line: String,
    /// Whether the report is there.
    pub done: bool,
}

/// Saves the report to `partition` (a folder, or `LABEL=`, `UUID=`, `/dev/..` of a mounted one) and sends it
/// to `url`; unsent reports wait on the partition, or without one in the folder `spool`. `tell` gets each
/// place's line as soon as it is known.
pub fn publish(
    finished: &Finished,
    partition: Option<&str>,
    url: Option<&AtUrl>,
    (keep, spool): (usize, &Path),
    mut tell: impl FnMut(Told),
) {
    let folder = partition.map(partition::folder);
    if let Some(folder) = &folder {
        tell(match folder.as_ref().map_err(Clone::clone).and_then(|dir| keep_on(finished, dir, keep)) {
            Ok(said) => Told { line: format!("partition: {said}"), done: true },
            Err(why) => Told { line: format!("partition: not kept: {why}"), done: false },
        });
    }
    if let Some(at) = url {
        let spool = folder.and_then(Result::ok).map_or_else(|| spool.to_owned(), |dir| dir.join("spool"));
        let spool = Shelf::new(spool, keep);
        let sent = match &at.offline {
            Some(why) => send::put_aside(finished, &spool, why),
            None => send::send(finished, &spool, at.timeout, &mut Http { at, started: Instant::now() }),
        };
        tell(Told {
            line: format!("url: {}", sent_line(&sent, &at.url, &spool)),
            done: sent.why_not.is_none(),
        });
    }
}

fn keep_on(finished: &Finished, dir: &Path, keep: usize) -> Result<String, String> {
    let shelf = Shelf::new(dir.join("reports"), keep);
    let kept = shelf.keep(&finished.name, &finished.bytes).map_err(|e| unkept(&e, finished.bytes.len()))?;
    let remark = kept.left.map_or_else(String::new, |why| format!("; an old one cannot go: {why}"));
    Ok(format!("kept as reports/{}{remark}", kept.name))
}

/// Why a report is not on the disk, and a remedy.
fn unkept(error: &io::Error, bytes: usize) -> String {
    match error.kind() {
        ErrorKind::StorageFull => {
            format!("reports/: no room for {bytes} bytes; nothing was removed: delete files there")
        }
        _ => format!("reports/: {error}"),
    }
}

fn sent_line(sent: &Sent, url: &str, spool: &Shelf) -> String {
    let mut line = match &sent.why_not {
        None if sent.tries == 1 => format!("sent to {url}"),
        None => format!("sent to {url} at try {}", sent.tries),
        Some(why) => format!("not sent to {url}: {why}"),
    };
    if sent.older > 0 {
        line.push_str(&format!(", {} older before it", sent.older));
    }
    if sent.waiting > 0 {
        let verb = if sent.waiting == 1 { "waits" } else { "wait" };
        line.push_str(&format!("; {} {verb} in {}", sent.waiting, spool.dir().display()));
    }
    sent.remarks.iter().for_each(|remark| line.push_str(&format!("; {remark}")));
    line
}

/// The actual network and clock.
struct Http<'a> {
    at: &'a AtUrl,
    started: Instant,
}

impl Line for Http<'_> {
    fn post(&mut self, letter: Letter<'_>, within: Duration) -> Result<u16, HttpError> {
        let headers = [
            ("Content-Type", "application/json"),
            ("Idempotency-Key", letter.key),
            ("Firstlight-Verdict", letter.verdict),
        ];
        http::post(&self.at.url, &headers, letter.body, &self.at.authorities, within)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        sleep(time);
    }
}
