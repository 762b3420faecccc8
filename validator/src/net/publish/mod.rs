//! Saves one finished report to each given place: to the folder `reports` of a partition, and to a URL. Each place has
//! a separate result; a failure of one does not prevent the other.

mod finished;
mod mac;
mod partition;
mod send;
mod store;

pub use finished::{FinishedReport, LARGEST};

use crate::net::http::{self, Answer, Authorities, HttpError};
use report::mac::Key;
use send::{ReportPost, SendResult, UploadClient};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use store::ReportStore;

/// The spool if there is no partition; its content is lost at the next boot.
pub const SPOOL: &str = "/run/firstlight/spool";

/// The server that receives the report.
#[derive(Debug)]
pub struct UploadTarget {
    /// `http` or `https`
    pub url: String,
    /// Time limit for all attempts together.
    pub timeout: Duration,
    /// The trusted certificates for https.
    pub authorities: Authorities,
    /// The token that the server demands.
    pub token: Option<String>,
    /// Why the report cannot be sent now; then it is put into the spool without an attempt.
    pub offline: Option<String>,
}

/// How reports are stored on this machine.
#[derive(Debug, Clone, Copy)]
pub struct StorageOptions<'a> {
    /// The most reports that are kept on the partition, and the most that wait to be sent.
    pub keep: usize,
    /// The folder of unsent reports where there is no partition.
    pub spool: &'a Path,
    /// The file with the key for their MACs.
    pub key: Option<&'a Path>,
}

/// The result of saving a report to one place.
#[derive(Debug, PartialEq, Eq)]
pub struct PlaceResult {
    /// One line for people: `partition: ..` or `url: ..`
    pub line: String,
    /// Whether the report was saved there.
    pub done: bool,
}

/// Saves the report to `partition` (a folder, or `LABEL=`, `UUID=`, `/dev/..` of a mounted one) and sends it
/// to `url`; unsent reports wait on the partition, or without one in the folder `spool`. `report` receives each
/// place's result as soon as it is known. With a key, each report has a MAC. If the key cannot be used, the report
/// is kept without a MAC and nothing is sent, because no waiting report can be proven.
pub fn publish(
    finished: &FinishedReport,
    partition: Option<&str>,
    url: Option<&UploadTarget>,
    storage: StorageOptions<'_>,
    mut report: impl FnMut(PlaceResult),
) {
    let folder = partition.map(partition::folder);
    let on = folder.as_ref().and_then(|folder| folder.as_ref().ok());
    let key = usable_key(storage.key, on.map(PathBuf::as_path));
    if let Some(folder) = &folder {
        let kept = |dir: &PathBuf| save_on(finished, dir, (storage.keep, &key));
        report(match folder.as_ref().map_err(Clone::clone).and_then(kept) {
            Ok(text) => PlaceResult {
                line: format!("partition: {text}"),
                done: key.is_ok(),
            },
            Err(why) => PlaceResult {
                line: format!("partition: not kept: {why}"),
                done: false,
            },
        });
    }
    let key = match (key, url) {
        (Err(why), Some(at)) => {
            let line = format!(
                "url: not sent to {}: no report can be proven: {why}",
                at.url
            );
            return report(PlaceResult { line, done: false });
        }
        (key, _) => key.unwrap_or_default(),
    };
    if let Some(at) = url {
        let spool = on.map_or_else(|| storage.spool.to_owned(), |dir| dir.join("spool"));
        let spool = ReportStore::new(spool, storage.keep).with_key(key.clone());
        let sent = match &at.offline {
            Some(why) => send::keep_unsent(finished, &spool, why),
            None => send::send(
                finished,
                &spool,
                at.timeout,
                &mut Http {
                    at,
                    started: Instant::now(),
                    machine: key.as_ref().and_then(Key::machine),
                },
            ),
        };
        report(PlaceResult {
            line: format!("url: {}", sent_line(&sent, &at.url, &spool)),
            done: sent.why_not.is_none(),
        });
    }
}

/// The configured key, if any; or why it cannot be used.
type UsableKey = Result<Option<Key>, String>;

/// Reads the key from a file, which must not be on the partition.
fn usable_key(file: Option<&Path>, partition: Option<&Path>) -> UsableKey {
    let Some(file) = file else { return Ok(None) };
    partition.map_or(Ok(()), |partition| mac::check_key_location(file, partition))?;
    Key::read(file).map(Some)
}

fn save_on(
    finished: &FinishedReport,
    dir: &Path,
    (keep, key): (usize, &UsableKey),
) -> Result<String, String> {
    let store =
        ReportStore::new(dir.join("reports"), keep).with_key(key.clone().unwrap_or_default());
    let saved = store
        .save(&finished.name, &finished.bytes)
        .map_err(|e| save_error(&e, finished.bytes.len()))?;
    let remark = saved
        .left
        .map_or_else(String::new, |why| format!("; an old one cannot go: {why}"));
    let unproven = key
        .as_ref()
        .err()
        .map_or_else(String::new, |why| format!(" without a MAC: {why}"));
    Ok(format!("kept as reports/{}{unproven}{remark}", saved.name))
}

/// Why a report could not be saved, with a remedy.
fn save_error(error: &io::Error, bytes: usize) -> String {
    match error.kind() {
        ErrorKind::StorageFull => {
            format!("reports/: no room for {bytes} bytes; nothing was removed: delete files there")
        }
        _ => format!("reports/: {error}"),
    }
}

fn sent_line(sent: &SendResult, url: &str, spool: &ReportStore) -> String {
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
        line.push_str(&format!(
            "; {} {verb} in {}",
            sent.waiting,
            spool.dir().display()
        ));
    }
    sent.remarks
        .iter()
        .for_each(|remark| line.push_str(&format!("; {remark}")));
    // Rejected reports come first, because the rest of the line may look like success.
    sent.rejected
        .iter()
        .map(|one| format!("{one}; "))
        .collect::<String>()
        + &line
}

/// The real network and clock.
struct Http<'a> {
    at: &'a UploadTarget,
    started: Instant,
    /// The machine whose own key makes the MACs.
    machine: Option<&'a str>,
}

impl UploadClient for Http<'_> {
    fn post(&mut self, post: ReportPost<'_>, within: Duration) -> Result<Answer, HttpError> {
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Idempotency-Key", post.key),
            ("Firstlight-Verdict", post.verdict),
        ];
        let machine_headers = finished::machine_headers(post.body);
        headers.extend(
            machine_headers
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        headers.extend(post.mac.map(|mac| ("Firstlight-MAC", mac)));
        headers.extend(self.machine.map(|name| ("Firstlight-Key-Name", name)));
        let token = self
            .at
            .token
            .as_ref()
            .map(|token| format!("Bearer {token}"));
        headers.extend(token.as_deref().map(|token| ("Authorization", token)));
        http::post(
            &self.at.url,
            &headers,
            post.body,
            &self.at.authorities,
            within,
        )
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        sleep(time);
    }
}
