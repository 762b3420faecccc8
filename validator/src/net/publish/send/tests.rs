//! Servers that fail, refuse and recover, with a simulated clock.

use super::*;
use report::mac::Key;
use std::collections::VecDeque;

/// Returns the given answers, and then the last one forever.
struct Server {
    answers: VecDeque<Result<u16, HttpError>>,
    now: Duration,
    got: Vec<(String, String)>,
    pauses: Vec<u128>,
    macs: Vec<Option<String>>,
}

impl Server {
    fn new(answers: impl IntoIterator<Item = Result<u16, HttpError>>) -> Self {
        let answers = answers.into_iter().collect();
        Self {
            answers,
            now: Duration::ZERO,
            got: Vec::new(),
            pauses: Vec::new(),
            macs: Vec::new(),
        }
    }

    fn bodies(&self) -> Vec<&str> {
        self.got.iter().map(|(body, _)| body.as_str()).collect()
    }
}

impl UploadClient for Server {
    fn post(&mut self, post: ReportPost<'_>, within: Duration) -> Result<Answer, HttpError> {
        assert!(within <= MAX_ATTEMPT && !within.is_zero());
        self.now += Duration::from_millis(10);
        assert_eq!(post.key, digest(post.body));
        self.macs.push(post.mac.map(str::to_owned));
        self.got.push((
            String::from_utf8_lossy(post.body).into_owned(),
            post.verdict.to_owned(),
        ));
        let answer = if self.answers.len() > 1 {
            self.answers.pop_front().unwrap()
        } else {
            self.answers[0].clone()
        };
        answer.map(Answer::from)
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

fn finished(text: &str) -> FinishedReport {
    FinishedReport {
        bytes: text.into(),
        name: "20261120T100000Z-FAIL".into(),
    }
}

fn spool(keep: usize) -> (tempfile::TempDir, ReportStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ReportStore::new(dir.path().join("spool"), keep);
    (dir, store)
}

#[test]
fn a_failing_server_is_retried_until_it_accepts() {
    let (_dir, spool) = spool(9);
    let mut server = Server::new([Ok(500), refused(), Ok(201)]);
    let sent = send(&finished("r"), &spool, MINUTE, &mut server);
    assert_eq!(
        sent,
        SendResult {
            tries: 3,
            ..SendResult::default()
        }
    );
    assert_eq!(server.bodies(), ["r", "r", "r"]);
    assert_eq!(server.pauses, [500, 1000]);
    assert_eq!(spool.files().unwrap(), []);
}

#[test]
fn unsent_reports_are_sent_first_next_time_the_oldest_first() {
    let (_dir, spool) = spool(9);
    for text in ["one", "two"] {
        let sent = send(
            &finished(text),
            &spool,
            MINUTE,
            &mut Server::new([refused()]),
        );
        assert!(sent.why_not.unwrap().contains("Connection refused ("));
    }
    let mut server = Server::new([Ok(200)]);
    let sent = send(&finished("three"), &spool, MINUTE, &mut server);
    assert_eq!(
        (sent.older, sent.tries, sent.why_not, sent.waiting),
        (2, 1, None, 0)
    );
    assert_eq!(
        server.got,
        ["one", "two", "three"].map(|text| (text.to_owned(), "FAIL".to_owned()))
    );
}

#[test]
fn an_unreachable_server_costs_the_deadline_and_not_more() {
    let (_dir, spool) = spool(9);
    let mut server = Server::new([refused()]);
    let sent = send(&finished("r"), &spool, Duration::from_secs(20), &mut server);
    assert!(server.now <= Duration::from_secs(20));
    assert_eq!(server.pauses, [500, 1000, 2000, 4000, 8000]);
    assert_eq!(
        sent.why_not.unwrap(),
        "Connection refused (6 tries in 15.6 s)"
    );
    assert_eq!(sent.waiting, 1);
}

#[test]
fn a_refused_report_is_not_retried_and_does_not_block_others() {
    let (_dir, spool) = spool(9);
    keep_unsent(&finished("bad"), &spool, "no network");
    let mut server = Server::new([Ok(413), Ok(204)]);
    let sent = send(&finished("good"), &spool, MINUTE, &mut server);
    assert_eq!(
        (server.bodies(), sent.why_not, sent.waiting),
        (vec!["bad", "good"], None, 0)
    );
    let line = "000001-20261120T100000Z-FAIL.json from the spool is not sent: the server takes other reports, and this one \
                not: answered 413 Payload Too Large, set aside as 000001-20261120T100000Z-FAIL.json.unsent";
    assert_eq!(sent.rejected, [line]);
    let mut server = Server::new([Ok(302)]);
    let sent = send(&finished("moved"), &spool, MINUTE, &mut server);
    assert_eq!(sent.why_not.unwrap(), "answered 302 Found");
}

/// Answers each body as `of` says.
struct Choosy<F: Fn(&str) -> Result<u16, HttpError>> {
    of: F,
    now: Duration,
    got: Vec<String>,
}

impl<F: Fn(&str) -> Result<u16, HttpError>> UploadClient for Choosy<F> {
    fn post(&mut self, post: ReportPost<'_>, within: Duration) -> Result<Answer, HttpError> {
        let body = String::from_utf8_lossy(post.body).into_owned();
        let answer = (self.of)(&body);
        // One that does not answer takes all the time that it gets.
        self.now += if answer.is_err() {
            within
        } else {
            Duration::from_millis(10)
        };
        self.got.push(body);
        answer.map(Answer::from)
    }

    fn elapsed(&self) -> Duration {
        self.now
    }

    fn pause(&mut self, time: Duration) {
        self.now += time;
    }
}

#[test]
fn a_report_that_always_fails_blocks_no_other_and_is_set_aside_and_named() {
    for answer in [
        Ok(500),
        Ok(503),
        Err(HttpError::NoAnswer("Connection reset by peer".into())),
    ] {
        let (_dir, spool) = spool(9);
        for text in ["poison", "older"] {
            keep_unsent(&finished(text), &spool, "no network");
        }
        let of = |body: &str| {
            if body == "poison" {
                answer.clone()
            } else {
                Ok(201)
            }
        };
        let mut server = Choosy {
            of,
            now: Duration::ZERO,
            got: vec![],
        };
        let sent = send(&finished("today"), &spool, MINUTE, &mut server);
        assert_eq!(server.got, ["poison", "today", "older", "poison"]);
        assert_eq!(
            (sent.why_not, sent.older, sent.waiting),
            (None, 1, 0),
            "{answer:?}"
        );
        let line = "000001-20261120T100000Z-FAIL.json from the spool is not sent: the server takes other reports";
        assert!(
            sent.rejected.len() == 1 && sent.rejected[0].starts_with(line),
            "{:?}",
            sent.rejected
        );
        assert!(
            spool
                .dir()
                .join("000001-20261120T100000Z-FAIL.json.unsent")
                .exists()
        );
        let mut server = Choosy {
            of: |_: &str| Ok(201),
            now: Duration::ZERO,
            got: vec![],
        };
        send(&finished("tomorrow"), &spool, MINUTE, &mut server);
        assert_eq!(server.got, ["tomorrow"]);
    }
}

#[test]
fn while_the_server_takes_nothing_no_report_is_set_aside() {
    for answer in [
        Ok(500),
        Err(HttpError::NoAnswer("Connection reset by peer".into())),
    ] {
        let (_dir, spool) = spool(9);
        keep_unsent(&finished("one"), &spool, "no network");
        for text in ["two", "three"] {
            let mut server = Choosy {
                of: |_: &str| answer.clone(),
                now: Duration::ZERO,
                got: vec![],
            };
            let sent = send(&finished(text), &spool, MINUTE, &mut server);
            assert!(
                server.got.iter().any(|body| body == text) && server.now <= MINUTE,
                "{:?}",
                server.got
            );
            assert!(
                sent.why_not.is_some() && sent.rejected.is_empty(),
                "{:?}",
                sent.rejected
            );
        }
        assert_eq!(spool.files().unwrap().len(), 3);
    }
    // One that fails once, as where the server starts again, is sent.
    let (_dir, spool) = spool(9);
    keep_unsent(&finished("one"), &spool, "no network");
    let mut server = Server::new([Ok(503), Ok(201)]);
    let sent = send(&finished("two"), &spool, MINUTE, &mut server);
    assert_eq!(
        (server.bodies(), sent.rejected.len(), sent.waiting),
        (vec!["one", "two", "one"], 0, 0)
    );
}

#[test]
fn reports_that_are_set_aside_do_not_fill_the_disk() {
    let (_dir, spool) = spool(2);
    for text in ["one", "two", "three", "four"] {
        keep_unsent(&finished(text), &spool, "no network");
        let of = |body: &str| if body == text { Ok(400) } else { Ok(201) };
        send(
            &finished("today"),
            &spool,
            MINUTE,
            &mut Choosy {
                of,
                now: Duration::ZERO,
                got: vec![],
            },
        );
    }
    assert_eq!(std::fs::read_dir(spool.dir()).unwrap().count(), 2);
}

#[test]
fn a_file_of_a_mac_is_read_no_further_than_a_mac_goes() {
    let (_dir, plain) = spool(9);
    let spool = keyed(&plain, b'k');
    keep_unsent(&finished("one"), &spool, "no network");
    let mac = spool.dir().join("000001-20261120T100000Z-FAIL.json.hmac");
    let long = std::fs::read_to_string(&mac).unwrap() + &" ".repeat(100);
    std::fs::write(&mac, long).unwrap();
    let sent = send(
        &finished("two"),
        &spool,
        MINUTE,
        &mut Server::new([Ok(200)]),
    );
    assert!(
        sent.rejected[0].contains("its MAC cannot be read: larger than 66 B"),
        "{:?}",
        sent.rejected
    );
}

#[test]
fn the_spool_is_bounded_and_reports_losses() {
    let (_dir, spool) = spool(2);
    for text in ["one", "two"] {
        assert_eq!(
            keep_unsent(&finished(text), &spool, "no network").remarks,
            [""; 0]
        );
    }
    let sent = keep_unsent(&finished("three"), &spool, "no network");
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
    let spool = ReportStore::new(dir.path().join("spool"), 9);
    let sent = send(&finished("r"), &spool, MINUTE, &mut Server::new([Ok(200)]));
    assert_eq!(sent.why_not, None);
    assert!(
        sent.remarks
            .iter()
            .any(|r| r.starts_with("not in the spool: ")),
        "{:?}",
        sent.remarks
    );
}

fn keyed(spool: &ReportStore, byte: u8) -> ReportStore {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("key");
    std::fs::write(&at, [byte; 32]).unwrap();
    spool.clone().with_key(Some(Key::read(&at).unwrap()))
}

#[test]
fn with_a_key_each_report_is_sent_with_its_mac() {
    let (_dir, plain) = spool(9);
    let spool = keyed(&plain, b'k');
    keep_unsent(&finished("one"), &spool, "no network");
    let mut server = Server::new([Ok(200)]);
    let sent = send(&finished("two"), &spool, MINUTE, &mut server);
    assert_eq!(
        (sent.older, &sent.why_not, sent.waiting, &sent.remarks[..]),
        (1, &None, 0, &[][..])
    );
    let macs = ["one", "two"].map(|text| spool.mac("x-FAIL", text.as_bytes()));
    assert!(macs[0].is_some() && macs[0] != macs[1]);
    assert_eq!(server.macs, macs);
    assert_eq!(
        std::fs::read_dir(spool.dir()).unwrap().count(),
        0,
        "a sent report takes its MAC with it"
    );
    let mut server = Server::new([Ok(200)]);
    send(&finished("three"), &plain, MINUTE, &mut server);
    assert_eq!(server.macs, [None]);
}

#[test]
fn a_report_that_is_not_proven_is_named_set_aside_and_never_sent() {
    let (_dir, plain) = spool(9);
    let spool = keyed(&plain, b'k');
    let name = |n: u32, verdict| format!("{n:06}-20261120T100000Z-{verdict}.json");
    // Without a MAC, with another key's, changed, and renamed to a better verdict.
    keep_unsent(&finished("forged"), &plain, "");
    keep_unsent(&finished("other"), &keyed(&plain, b'o'), "");
    keep_unsent(&finished("changed"), &spool, "");
    std::fs::write(spool.dir().join(name(3, "FAIL")), "better").unwrap();
    keep_unsent(&finished("renamed"), &spool, "");
    for end in ["", ".hmac"] {
        let [from, to] = ["FAIL", "PASS"].map(|v| spool.dir().join(name(4, v) + end));
        std::fs::rename(from, to).unwrap();
    }
    keep_unsent(&finished("good"), &spool, "");
    let mut server = Server::new([Ok(200)]);
    let sent = send(&finished("now"), &spool, MINUTE, &mut server);
    assert_eq!(
        (server.bodies(), sent.older, sent.waiting),
        (vec!["good", "now"], 1, 0)
    );
    let why = [
        "it has no MAC",
        "its MAC is wrong",
        "its MAC is wrong",
        "its MAC is wrong",
    ];
    let names = [
        name(1, "FAIL"),
        name(2, "FAIL"),
        name(3, "FAIL"),
        name(4, "PASS"),
    ];
    let expected = names.iter().zip(why).map(|(name, why)| {
        format!("{name} from the spool is not sent: {why}, set aside as {name}.unproven")
    });
    assert_eq!(sent.rejected, expected.collect::<Vec<_>>());
    for name in names {
        assert!(
            spool.dir().join(format!("{name}.unproven")).exists(),
            "{name}"
        );
    }
    let mut server = Server::new([Ok(200)]);
    assert_eq!(
        send(&finished("next"), &spool, MINUTE, &mut server).rejected,
        [""; 0]
    );
    assert_eq!(server.bodies(), ["next"]);
}

fn fs_file(path: &std::path::Path) {
    std::fs::write(path, "a file where the folder should be").unwrap();
}
