//! Sends the reports in a spool and then this report, the oldest first. Unsent reports stay in the spool for
//! the next time. Pure except for the spool's files: the POST and the clock are parameters.

use super::finished::{Finished, digest, verdict_of};
use super::shelf::Shelf;
use crate::net::http::{HttpError, status_text};
use std::time::Duration;

/// The first pause between two attempts; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Time limit of a single attempt.
const LONGEST_TRY: Duration = Duration::from_secs(10);

/// One POST.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter<'a> {
    /// The body.
    pub(super) body: &'a [u8],
    /// SHA-256 of the body, by which a receiver recognizes a report that it already has.
    pub(super) key: &'a str,
    /// The verdict, so that a receiver need not parse.
    pub(super) verdict: &'a str,
    /// The MAC of verdict and body, if there is a key.
    pub(super) mac: Option<&'a str>,
}

/// The environment: one POST with a deadline, the time since the start, a pause.
pub(super) trait Line {
    /// Sends one report and returns the status.
    ///
    /// # Errors
    /// There was no answer.
    fn post(&mut self, letter: Letter<'_>, within: Duration) -> Result<u16, HttpError>;
    /// Time since the start.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// The result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// How many older ones were sent.
    pub(super) older: usize,
    /// How many attempts this one took.
    pub(super) tries: usize,
    /// Why this one was not sent.
    pub(super) why_not: Option<String>,
    /// How many are in the spool now.
    pub(super) waiting: usize,
    /// Older ones that are not proven to be ours, each in one line.
    pub(super) rejected: Vec<String>,
    /// Problems with the spool itself.
    pub(super) remarks: Vec<String>,
}

/// The result for one report.
enum Ended {
    Delivered,
    /// The server refuses this one; it may accept the next.
    Refused(String),
    /// Further attempts are useless now.
    Late(String),
}

/// Sends everything within `deadline`.
pub(super) fn send(finished: &Finished, spool: &Shelf, deadline: Duration, line: &mut impl Line) -> Sent {
    let mut sent = Sent::default();
    let older = spool.files().unwrap_or_else(|e| {
        sent.remarks.push(format!("the spool cannot be read: {e}"));
        Vec::new()
    });
    // It goes into the spool before it is sent, so that a report lost in a power failure is sent next time.
    let own = put(finished, spool, &mut sent);
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
        match deliver(&body, (verdict_of(&name), mac.as_deref()), deadline, line, &mut 0) {
            Ended::Delivered => {
                sent.older += 1;
                take_out(spool, &name, &mut sent);
            }
            Ended::Refused(why) => sent.remarks.push(format!("{name} from the spool: {why}")),
            Ended::Late(why) => {
                late = Some(why);
                break;
            }
        }
    }
    sent.why_not = late.or_else(|| {
        let mac = spool.mac(&finished.name, &finished.bytes);
        let head = (verdict_of(&finished.name), mac.as_deref());
        match deliver(&finished.bytes, head, deadline, line, &mut sent.tries) {
            Ended::Delivered => None,
            Ended::Refused(why) | Ended::Late(why) => Some(why),
        }
    });
    if let (None, Some(name)) = (&sent.why_not, own) {
        take_out(spool, &name, &mut sent);
    }
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

/// Puts this report into the spool without trying to send it, because of `why`.
pub(super) fn put_aside(finished: &Finished, spool: &Shelf, why: &str) -> Sent {
    let mut sent = Sent { why_not: Some(why.to_owned()), ..Sent::default() };
    let _name = put(finished, spool, &mut sent);
    sent.waiting = spool.files().map_or(0, |files| files.len());
    sent
}

fn put(finished: &Finished, spool: &Shelf, sent: &mut Sent) -> Option<String> {
    match spool.keep(&finished.name, &finished.bytes) {
        Ok(kept) => {
            if !kept.removed.is_empty() {
                sent.remarks
                    .push(format!("never sent, because the spool is full: {}", kept.removed.join(" ")));
            }
            Some(kept.name)
        }
        Err(e) => {
            sent.remarks.push(format!("not in the spool: {e}"));
            None
        }
    }
}

fn take_out(spool: &Shelf, name: &str, sent: &mut Sent) {
    if let Err(e) = spool.remove(name) {
        sent.remarks.push(format!("sent and still in the spool: {name}: {e}"));
    }
}

/// Prevents a report that another program may have written from being sent, now or later.
fn reject(spool: &Shelf, name: &str, why: &str, sent: &mut Sent) {
    let aside = match spool.set_aside(name) {
        Ok(aside) => format!("set aside as {aside}"),
        Err(e) => format!("not set aside: {e}"),
    };
    sent.rejected.push(format!("{name} from the spool is not sent: {why}, {aside}"));
}

/// Retries until it is delivered, refused, or the time is up.
fn deliver(
    body: &[u8],
    (verdict, mac): (&str, Option<&str>),
    deadline: Duration,
    line: &mut impl Line,
    tries: &mut usize,
) -> Ended {
    let key = digest(body);
    let letter = Letter { body, key: &key, verdict, mac };
    let mut pause = FIRST_PAUSE;
    loop {
        let left = deadline.saturating_sub(line.elapsed());
        if left.is_zero() {
            return Ended::Late("no time was left".to_owned());
        }
        *tries += 1;
        let why = match line.post(letter, left.min(LONGEST_TRY)) {
            Ok(200..=299) => return Ended::Delivered,
            Ok(status) if may_change(status) => format!("answered {}", status_text(status)),
            Ok(status) => return Ended::Refused(format!("answered {}", status_text(status))),
            Err(e) => e.to_string(),
        };
        if line.elapsed() + pause >= deadline {
            let s = if *tries == 1 { "y" } else { "ies" };
            return Ended::Late(format!("{why} ({tries} tr{s} in {} s)", deadline.as_secs()));
        }
        line.pause(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether a retry may soon get another answer: a server error, or a busy server.
const fn may_change(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

#[cfg(test)]
mod tests;
