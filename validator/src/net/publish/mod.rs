//! Saves one finished report to each given place: to the folder `reports` of a partition, and to a URL. Each place has
//! a separate result; a failure of one does not prevent the other.

mod finished;
mod mac;
mod partition;
mod send;
mod shelf;

pub use finished::{Finished, LARGEST, digest, hex};
pub use mac::{Key, token};

use crate::net::http::{self, Authorities, HttpError};
use send::{Letter, Line, Sent};
use shelf::Shelf;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
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
    /// The token that the server demands.
    pub token: Option<String>,
    /// Why it cannot be sent now: then it goes into the spool immediately.
    pub offline: Option<String>,
}

/// How many reports are kept, and the key that proves them.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    /// The most reports that are kept on the partition, and the most that wait to be sent.
    pub keep: usize,
    /// The folder of unsent reports where there is no partition.
    pub spool: &'a Path,
    /// The file with the key for their MACs.
    pub key: Option<&'a Path>,
}

/// The result of one place: one line, and whether it succeeded.
#[derive(Debug, PartialEq, Eq)]
pub struct PlaceResult {
    /// `partition: ..` or `url: ..`
    pub line: String,
    /// Whether the report was saved there.
    pub done: bool,
}

/// Saves the report to `partition` (a folder, or `LABEL=`, `UUID=`, `/dev/..` of a mounted one) and sends it
/// to `url`; unsent reports wait on the partition, or without one in the folder `spool`. `report` receives each
/// place's result as soon as it is known. With a key, each report has a MAC. If the key cannot be used, the report
/// is kept without a MAC and nothing is sent, because no waiting report can be proven.
pub fn publish(
    finished: &Finished,
    partition: Option<&str>,
    url: Option<&AtUrl>,
    keeping: Keeping<'_>,
    mut report: impl FnMut(PlaceResult),
) {
    let folder = partition.map(partition::folder);
    let on = folder.as_ref().and_then(|folder| folder.as_ref().ok());
    let key = usable_key(keeping.key, on.map(PathBuf::as_path));
    if let Some(folder) = &folder {
        let kept = |dir: &PathBuf| keep_on(finished, dir, (keeping.keep, &key));
        report(match folder.as_ref().map_err(Clone::clone).and_then(kept) {
            Ok(text) => PlaceResult { line: format!("partition: {text}"), done: key.is_ok() },
            Err(why) => PlaceResult { line: format!("partition: not kept: {why}"), done: false },
        });
    }
    let key = match (key, url) {
        (Err(why), Some(at)) => {
            let line = format!("url: not sent to {}: no report can be proven: {why}", at.url);
            return report(PlaceResult { line, done: false });
        }
        (key, _) => key.unwrap_or_default(),
    };
    if let Some(at) = url {
        let spool = on.map_or_else(|| keeping.spool.to_owned(), |dir| dir.join("spool"));
        let spool = Shelf::new(spool, keeping.keep).with_key(key);
        let sent = match &at.offline {
            Some(why) => send::put_aside(finished, &spool, why),
            None => send::send(finished, &spool, at.timeout, &mut Http { at, started: Instant::now() }),
        };
        report(PlaceResult {
            line: format!("url: {}", sent_line(&sent, &at.url, &spool)),
            done: sent.why_not.is_none(),
        });
    }
}

/// The key, if there is one, or why it cannot be used.
type UsableKey = Result<Option<Key>, String>;

/// The key in that file, which must not be on the partition.
fn usable_key(file: Option<&Path>, partition: Option<&Path>) -> UsableKey {
    let Some(file) = file else { return Ok(None) };
    partition.map_or(Ok(()), |partition| mac::apart(file, partition))?;
    Key::read(file).map(Some)
}

fn keep_on(finished: &Finished, dir: &Path, (keep, key): (usize, &UsableKey)) -> Result<String, String> {
    let shelf = Shelf::new(dir.join("reports"), keep).with_key(key.clone().unwrap_or_default());
    let kept = shelf.keep(&finished.name, &finished.bytes).map_err(|e| unkept(&e, finished.bytes.len()))?;
    let remark = kept.left.map_or_else(String::new, |why| format!("; an old one cannot go: {why}"));
    let unproven = key.as_ref().err().map_or_else(String::new, |why| format!(" without a MAC: {why}"));
    Ok(format!("kept as reports/{}{unproven}{remark}", kept.name))
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
    // Rejected reports come first, because the rest of the line may look like success.
    sent.rejected.iter().map(|one| format!("{one}; ")).collect::<String>() + &line
}

/// The real network and clock.
struct Http<'a> {
    at: &'a AtUrl,
    started: Instant,
}

impl Line for Http<'_> {
    fn post(&mut self, letter: Letter<'_>, within: Duration) -> Result<u16, HttpError> {
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Idempotency-Key", letter.key),
            ("Firstlight-Verdict", letter.verdict),
        ];
        let whose = finished::whose(letter.body);
        headers.extend(whose.iter().map(|(name, value)| (*name, value.as_str())));
        headers.extend(letter.mac.map(|mac| ("Firstlight-MAC", mac)));
        let token = self.at.token.as_ref().map(|token| format!("Bearer {token}"));
        headers.extend(token.as_deref().map(|token| ("Authorization", token)));
        http::post(&self.at.url, &headers, letter.body, &self.at.authorities, within)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        sleep(time);
    }
}
