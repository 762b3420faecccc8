//! Sends the reports in a spool and then this report, the oldest first. Unsent reports stay in the spool for the next time,
//! but none of them stops the others: this report is tried in any case, and one that fails while the server takes others is
//! set aside. Pure except for the spool's files: the POST and the clock are parameters.

use super::finished::{FinishedReport, verdict_of};
use super::mac::{UNPROVEN, UNSENT};
use super::store::ReportStore;
use crate::net::http::{Answer, HttpError};
use report::mac::digest;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

/// The first pause between two attempts; each further one is twice as long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// Time limit of a single attempt.
const MAX_ATTEMPT: Duration = Duration::from_secs(10);

/// The content of one POST.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportPost<'a> {
    /// The body.
    pub(super) body: &'a [u8],
    /// SHA-256 of the body, by which a receiver recognizes a report that it already has.
    pub(super) key: &'a str,
    /// The verdict, so that a receiver need not parse.
    pub(super) verdict: &'a str,
    /// The MAC of verdict and body, if there is a key.
    pub(super) mac: Option<&'a str>,
}

/// The network and the clock, which tests replace.
pub(super) trait UploadClient {
    /// Sends one report and returns the answer.
    ///
    /// # Errors
    /// The server did not answer.
    fn post(&mut self, post: ReportPost<'_>, within: Duration) -> Result<Answer, HttpError>;
    /// Time since the start.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// The result of sending this report and the older ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SendResult {
    /// How many older reports were sent.
    pub(super) older: usize,
    /// How many attempts this report took.
    pub(super) tries: usize,
    /// Why this report was not sent.
    pub(super) why_not: Option<String>,
    /// How many reports are in the spool now.
    pub(super) waiting: usize,
    /// Older reports that were set aside, each in one line with the reason.
    pub(super) rejected: Vec<String>,
    /// Problems with the spool itself.
    pub(super) remarks: Vec<String>,
}

/// The result of one attempt.
enum Attempt {
    Delivered,
    /// The server refuses this report; it may accept the next one.
    Refused(String),
    /// No answer, or one that may soon be another.
    Failed(String),
}

/// Sends the older reports and then this one, all within `deadline`. If one of the older ones fails, this one is next; if the
/// server takes it, the older ones follow, and the failed one is tried a second time.
pub(super) fn send(
    finished: &FinishedReport,
    spool: &ReportStore,
    deadline: Duration,
    client: &mut impl UploadClient,
) -> SendResult {
    let mut sent = SendResult::default();
    let older = spool.files().unwrap_or_else(|e| {
        sent.remarks.push(format!("the spool cannot be read: {e}"));
        Vec::new()
    });
    let mut older: VecDeque<_> = older.into_iter().map(|(_, name)| name).collect();
    // It goes into the spool before it is sent, so that a report lost in a power failure is sent next time.
    let own = add_to_spool(finished, spool, &mut sent);
    let mut failed = Vec::new();
    // Half of the time is this report's.
    while client.elapsed() < deadline / 2 && failed.iter().all(|one: &FailedReport| !one.again) {
        let Some(name) = older.pop_front() else { break };
        failed.extend(send_older(&name, spool, deadline / 2, client, &mut sent));
    }
    let mac = spool.mac(&finished.name, &finished.bytes);
    let head = (verdict_of(&finished.name), mac.as_deref());
    sent.why_not = deliver(&finished.bytes, head, deadline, client, &mut sent.tries).err();
    if sent.why_not.is_none() {
        if let Some(name) = own {
            remove_sent(spool, &name, &mut sent);
        }
        // The server takes reports: what it did not take before is tried once more.
        while let Some(name) = older.pop_front().filter(|_| client.elapsed() < deadline) {
            failed.extend(send_older(&name, spool, deadline, client, &mut sent));
        }
        for one in failed {
            let again = one.again && client.elapsed() < deadline;
            let still = if again {
                send_older(&one.name, spool, deadline, client, &mut sent)
            } else {
                Some(one)
            };
            if let Some(FailedReport {
                name,
                why,
                again: tried,
            }) = still
                && (again || !tried)
            {
                let why = format!("the server takes other reports, and this one not: {why}");
                set_aside(spool, &name, &why, UNSENT, &mut sent);
            }
        }
    } else {
        let line = |one: FailedReport| format!("{} from the spool: {}", one.name, one.why);
        sent.remarks.extend(failed.into_iter().map(line));
    }
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

/// An older report that was not delivered.
struct FailedReport {
    name: String,
    why: String,
    /// Whether another attempt may have another result.
    again: bool,
}

/// One attempt to send a report of the spool; returns it if it was not delivered.
fn send_older(
    name: &str,
    spool: &ReportStore,
    deadline: Duration,
    client: &mut impl UploadClient,
    sent: &mut SendResult,
) -> Option<FailedReport> {
    let body = match spool.read(name) {
        Ok(body) => body,
        // Another run has sent it or set it aside.
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            sent.remarks
                .push(format!("{name} from the spool cannot be read: {e}"));
            return None;
        }
    };
    let mac = match spool.proven(name, &body) {
        Ok(mac) => mac,
        Err(why) => {
            set_aside(spool, name, &why, UNPROVEN, sent);
            return None;
        }
    };
    let (key, left) = (digest(&body), deadline.saturating_sub(client.elapsed()));
    let post = ReportPost {
        body: &body,
        key: &key,
        verdict: verdict_of(name),
        mac: mac.as_deref(),
    };
    let failed = |why, again| {
        Some(FailedReport {
            name: name.to_owned(),
            why,
            again,
        })
    };
    match attempt(post, left, client) {
        Attempt::Delivered => {
            sent.older += 1;
            remove_sent(spool, name, sent);
            None
        }
        Attempt::Refused(why) => failed(why, false),
        Attempt::Failed(why) => failed(why, true),
    }
}

/// Puts this report into the spool without trying to send it; `why` is the reason.
pub(super) fn keep_unsent(finished: &FinishedReport, spool: &ReportStore, why: &str) -> SendResult {
    let mut sent = SendResult {
        why_not: Some(why.to_owned()),
        ..SendResult::default()
    };
    let _name = add_to_spool(finished, spool, &mut sent);
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

fn add_to_spool(
    finished: &FinishedReport,
    spool: &ReportStore,
    sent: &mut SendResult,
) -> Option<String> {
    match spool.save(&finished.name, &finished.bytes) {
        Ok(saved) => {
            if !saved.removed.is_empty() {
                sent.remarks.push(format!(
                    "never sent, because the spool is full: {}",
                    saved.removed.join(" ")
                ));
            }
            Some(saved.name)
        }
        Err(e) => {
            sent.remarks.push(format!("not in the spool: {e}"));
            None
        }
    }
}

fn remove_sent(spool: &ReportStore, name: &str, sent: &mut SendResult) {
    if let Err(e) = spool.remove(name) {
        sent.remarks
            .push(format!("sent and still in the spool: {name}: {e}"));
    }
}

/// Prevents a report from being sent, now or later: another program may have written it, or the server does not take it.
fn set_aside(spool: &ReportStore, name: &str, why: &str, suffix: &str, sent: &mut SendResult) {
    let aside = match spool.set_aside(name, suffix) {
        Ok(aside) => format!("set aside as {aside}"),
        // Another run has sent it or set it aside.
        Err(e) if e.kind() == ErrorKind::NotFound => return,
        Err(e) => format!("not set aside: {e}"),
    };
    sent.rejected
        .push(format!("{name} from the spool is not sent: {why}, {aside}"));
}

/// One attempt within `left`.
fn attempt(post: ReportPost<'_>, left: Duration, client: &mut impl UploadClient) -> Attempt {
    if left.is_zero() {
        return Attempt::Failed("no time was left".to_owned());
    }
    match client.post(post, left.min(MAX_ATTEMPT)) {
        Ok(answer) => match answer.status {
            200..=299 => Attempt::Delivered,
            status if is_retryable(status) => Attempt::Failed(format!("answered {answer}")),
            _ => Attempt::Refused(format!("answered {answer}")),
        },
        Err(e) => Attempt::Failed(e.to_string()),
    }
}

/// Retries until the report is delivered or refused, or the time is up.
///
/// # Errors
/// Why it is not delivered.
fn deliver(
    body: &[u8],
    (verdict, mac): (&str, Option<&str>),
    deadline: Duration,
    client: &mut impl UploadClient,
    tries: &mut usize,
) -> Result<(), String> {
    let key = digest(body);
    let post = ReportPost {
        body,
        key: &key,
        verdict,
        mac,
    };
    let mut pause = FIRST_PAUSE;
    loop {
        let left = deadline.saturating_sub(client.elapsed());
        if left.is_zero() {
            return Err("no time was left".to_owned());
        }
        *tries += 1;
        let why = match attempt(post, left, client) {
            Attempt::Delivered => return Ok(()),
            Attempt::Refused(why) => return Err(why),
            Attempt::Failed(why) => why,
        };
        if client.elapsed() + pause >= deadline {
            let s = if *tries == 1 { "y" } else { "ies" };
            let took = client.elapsed().as_secs_f64();
            return Err(format!("{why} ({tries} tr{s} in {took:.1} s)"));
        }
        client.pause(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Whether a retry may soon get another answer: a server error, or a busy server.
const fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

#[cfg(test)]
mod tests;
