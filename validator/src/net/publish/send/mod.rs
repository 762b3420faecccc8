//! Sends the reports in a spool and then this report, the oldest first. Unsent reports stay in the spool for
//! the next time. Pure except for the spool's files: the POST and the clock are parameters.

use super::finished::{FinishedReport, verdict_of};
use super::store::ReportStore;
use crate::net::http::{HttpError, status_text};
use report::mac::digest;
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
    /// Sends one report and returns the status.
    ///
    /// # Errors
    /// The server did not answer.
    fn post(&mut self, post: ReportPost<'_>, within: Duration) -> Result<u16, HttpError>;
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
    /// Older reports whose MAC is missing or wrong, each in one line.
    pub(super) rejected: Vec<String>,
    /// Problems with the spool itself.
    pub(super) remarks: Vec<String>,
}

/// The result of delivering one report.
enum Delivery {
    Delivered,
    /// The server refuses this report; it may accept the next one.
    Refused(String),
    /// The time is up, so further attempts are useless.
    Late(String),
}

/// Sends the older reports and then this one, all within `deadline`.
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
    // It goes into the spool before it is sent, so that a report lost in a power failure is sent next time.
    let own = add_to_spool(finished, spool, &mut sent);
    let mut late = None;
    for (_, name) in older {
        let Ok(body) = spool.read(&name) else { continue };
        let mac = match spool.proven(&name, &body) {
            Ok(mac) => mac,
            Err(why) => {
                reject(spool, &name, &why, &mut sent);
                continue;
            }
        };
        match deliver(&body, (verdict_of(&name), mac.as_deref()), deadline, client, &mut 0) {
            Delivery::Delivered => {
                sent.older += 1;
                remove_sent(spool, &name, &mut sent);
            }
            Delivery::Refused(why) => sent.remarks.push(format!("{name} from the spool: {why}")),
            Delivery::Late(why) => {
                late = Some(why);
                break;
            }
        }
    }
    sent.why_not = late.or_else(|| {
        let mac = spool.mac(&finished.name, &finished.bytes);
        let head = (verdict_of(&finished.name), mac.as_deref());
        match deliver(&finished.bytes, head, deadline, client, &mut sent.tries) {
            Delivery::Delivered => None,
            Delivery::Refused(why) | Delivery::Late(why) => Some(why),
        }
    });
    if let (None, Some(name)) = (&sent.why_not, own) {
        remove_sent(spool, &name, &mut sent);
    }
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

/// Puts this report into the spool without trying to send it; `why` is the reason.
pub(super) fn keep_unsent(finished: &FinishedReport, spool: &ReportStore, why: &str) -> SendResult {
    let mut sent = SendResult { why_not: Some(why.to_owned()), ..SendResult::default() };
    let _name = add_to_spool(finished, spool, &mut sent);
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

fn add_to_spool(finished: &FinishedReport, spool: &ReportStore, sent: &mut SendResult) -> Option<String> {
    match spool.save(&finished.name, &finished.bytes) {
        Ok(saved) => {
            if !saved.removed.is_empty() {
                sent.remarks.push(format!("never sent, because the spool is full: {}", saved.removed.join(" ")));
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
        sent.remarks.push(format!("sent and still in the spool: {name}: {e}"));
    }
}

/// Prevents a report that another program may have written from being sent, now or later.
fn reject(spool: &ReportStore, name: &str, why: &str, sent: &mut SendResult) {
    let aside = match spool.set_aside(name) {
        Ok(aside) => format!("set aside as {aside}"),
        Err(e) => format!("not set aside: {e}"),
    };
    sent.rejected.push(format!("{name} from the spool is not sent: {why}, {aside}"));
}

/// Retries until the report is delivered or refused, or the time is up.
fn deliver(
    body: &[u8],
    (verdict, mac): (&str, Option<&str>),
    deadline: Duration,
    client: &mut impl UploadClient,
    tries: &mut usize,
) -> Delivery {
    let key = digest(body);
    let post = ReportPost { body, key: &key, verdict, mac };
    let mut pause = FIRST_PAUSE;
    loop {
        let left = deadline.saturating_sub(client.elapsed());
        if left.is_zero() {
            return Delivery::Late("no time was left".to_owned());
        }
        *tries += 1;
        let why = match client.post(post, left.min(MAX_ATTEMPT)) {
            Ok(200..=299) => return Delivery::Delivered,
            Ok(status) if is_retryable(status) => format!("answered {}", status_text(status)),
            Ok(status) => return Delivery::Refused(format!("answered {}", status_text(status))),
            Err(e) => e.to_string(),
        };
        if client.elapsed() + pause >= deadline {
            let s = if *tries == 1 { "y" } else { "ies" };
            return Delivery::Late(format!("{why} ({tries} tr{s} in {} s)", deadline.as_secs()));
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
