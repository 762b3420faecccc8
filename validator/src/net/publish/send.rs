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
}

/// The environment: one POST with a deadline, the time since the start, a pause.
pub(super) trait Line {
    /// Sends one report and returns the status.
    ///
    /// # Errors
    /// If there was no answer.
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
        match deliver(&body, verdict_of(&name), deadline, line, &mut 0) {
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
        let verdict = verdict_of(&finished.name);
        match deliver(&finished.bytes, verdict, deadline, line, &mut sent.tries) {
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

/// Retries until it is delivered, refused, or the time is up.
fn deliver(body: &[u8], verdict: &str, deadline: Duration, line: &mut impl Line, tries: &mut usize) -> Ended {
    let key = digest(body);
    let letter = Letter { body, key: &key, verdict };
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
mod tests {
    //! Servers that fail, refuse and recover, with a simulated clock.

    use super::*;
    use std::collections::VecDeque;

    /// Returns the given answers, and then the last one forever.
    struct Server {
        answers: VecDeque<Result<u16, HttpError>>,
        now: Duration,
        got: Vec<(String, String)>,
        pauses: Vec<u128>,
    }

    impl Server {
        fn new(answers: impl IntoIterator<Item = Result<u16, HttpError>>) -> Self {
            let answers = answers.into_iter().collect();
            Self { answers, now: Duration::ZERO, got: Vec::new(), pauses: Vec::new() }
        }

        fn bodies(&self) -> Vec<&str> {
            self.got.iter().map(|(body, _)| body.as_str()).collect()
        }
    }

    impl Line for Server {
        fn post(&mut self, letter: Letter<'_>, within: Duration) -> Result<u16, HttpError> {
            assert!(within <= LONGEST_TRY && !within.is_zero());
            self.now += Duration::from_millis(10);
            assert_eq!(letter.key, digest(letter.body));
            self.got.push((String::from_utf8_lossy(letter.body).into_owned(), letter.verdict.to_owned()));
            if self.answers.len() > 1 { self.answers.pop_front().unwrap() } else { self.answers[0].clone() }
        }

        fn elapsed(&self) -> Duration {
            self.now
        }

        fn pause(&mut self, time: Duration) {
            self.now += time;
            self.pauses.push(time.as_millis());
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    fn refused() -> Result<u16, HttpError> {
        Err(HttpError::NoAnswer("Connection refused".into()))
    }

    fn finished(text: &str) -> Finished {
        Finished { bytes: text.into(), name: "20261120T100000Z-FAIL".into() }
    }

    fn spool(keep: usize) -> (tempfile::TempDir, Shelf) {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("spool"), keep);
        (dir, shelf)
    }

    #[test]
    fn a_failing_server_is_retried_until_it_accepts() {
        let (_dir, spool) = spool(9);
        let mut server = Server::new([Ok(500), refused(), Ok(201)]);
        let sent = send(&finished("r"), &spool, MINUTE, &mut server);
        assert_eq!(sent, Sent { tries: 3, ..Sent::default() });
        assert_eq!(server.bodies(), ["r", "r", "r"]);
        assert_eq!(server.pauses, [500, 1000]);
        assert_eq!(spool.files().unwrap(), []);
    }

    #[test]
    fn unsent_reports_are_sent_first_next_time_the_oldest_first() {
        let (_dir, spool) = spool(9);
        for text in ["one", "two"] {
            let sent = send(&finished(text), &spool, MINUTE, &mut Server::new([refused()]));
            assert!(sent.why_not.unwrap().contains("Connection refused ("));
        }
        let mut server = Server::new([Ok(200)]);
        let sent = send(&finished("three"), &spool, MINUTE, &mut server);
        assert_eq!((sent.older, sent.tries, sent.why_not, sent.waiting), (2, 1, None, 0));
        assert_eq!(server.got, ["one", "two", "three"].map(|text| (text.to_owned(), "FAIL".to_owned())));
    }

    #[test]
    fn an_unreachable_server_costs_the_deadline_and_not_more() {
        let (_dir, spool) = spool(9);
        let mut server = Server::new([refused()]);
        let sent = send(&finished("r"), &spool, Duration::from_secs(20), &mut server);
        assert!(server.now <= Duration::from_secs(20));
        assert_eq!(server.pauses, [500, 1000, 2000, 4000, 8000]);
        assert_eq!(sent.why_not.unwrap(), "Connection refused (6 tries in 20 s)");
        assert_eq!(sent.waiting, 1);
    }

    #[test]
    fn a_refused_report_is_not_retried_and_does_not_block_others() {
        let (_dir, spool) = spool(9);
        put_aside(&finished("bad"), &spool, "no network");
        let mut server = Server::new([Ok(413), Ok(204)]);
        let sent = send(&finished("good"), &spool, MINUTE, &mut server);
        assert_eq!((server.bodies(), sent.why_not, sent.waiting), (vec!["bad", "good"], None, 1));
        assert_eq!(
            sent.remarks,
            ["000001-20261120T100000Z-FAIL.json from the spool: answered 413 Payload Too Large"]
        );
        let mut server = Server::new([Ok(302)]);
        let sent = send(&finished("moved"), &spool, MINUTE, &mut server);
        assert_eq!(sent.why_not.unwrap(), "answered 302 Found");
    }

    #[test]
    fn the_spool_is_bounded_and_reports_losses() {
        let (_dir, spool) = spool(2);
        for text in ["one", "two"] {
            assert_eq!(put_aside(&finished(text), &spool, "no network").remarks, [""; 0]);
        }
        let sent = put_aside(&finished("three"), &spool, "no network");
        assert_eq!(sent.waiting, 2);
        assert_eq!(
            sent.remarks,
            ["never sent, because the spool is full: 000001-20261120T100000Z-FAIL.json"]
        );
    }

    #[test]
    fn an_unwritable_spool_does_not_prevent_sending() {
        let dir = tempfile::tempdir().unwrap();
        fs_file(&dir.path().join("spool"));
        let spool = Shelf::new(dir.path().join("spool"), 9);
        let sent = send(&finished("r"), &spool, MINUTE, &mut Server::new([Ok(200)]));
        assert_eq!(sent.why_not, None);
        assert!(sent.remarks.iter().any(|r| r.starts_with("not in the spool: ")), "{:?}", sent.remarks);
    }

    fn fs_file(path: &std::path::Path) {
        std::fs::write(path, "a file where the folder should be").unwrap();
    }
}
