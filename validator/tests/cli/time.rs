//! `time`: servers on the loopback that are right, wrong, or silent.

use super::machine::{Said, firstlight, said};
use super::time_server::{RIGHT, Says, start};

fn ask(servers: &[&str]) -> Said {
    said(firstlight("").args(["time", "--timeout", "1"]).args(servers).output().unwrap())
}

#[test]
fn the_first_server_that_is_right_says_how_wrong_the_clock_is() {
    let (silent, ahead) = (start("127.0.0.1", None), Says { ahead: 3600, ..RIGHT });
    let server = start("127.0.0.1", Some(ahead));
    let done = ask(&[&silent, &server]);
    assert_eq!(done.status, 0, "{}", done.err);
    let (who, by) = done.out.trim().split_once(' ').unwrap();
    assert_eq!(who, server);
    let by: f64 = by.parse().unwrap();
    assert!((3599.0..3601.0).contains(&by), "{by}");
}

#[test]
fn each_server_that_is_not_believed_is_named_with_its_reason() {
    for (says, why) in [
        (Says { leap: 3, ..RIGHT }, "not synchronized"),
        (Says { stratum: 16, ..RIGHT }, "not synchronized"),
        (Says { stratum: 0, ..RIGHT }, "Kiss-o'-Death"),
        (Says { ahead: -1_700_000_000, ..RIGHT }, "its clock is wrong: before 2026"),
    ] {
        let (silent, server) = (start("127.0.0.1", None), start("127.0.0.1", Some(says)));
        let done = ask(&[&server, &silent]);
        assert_eq!((done.status, done.out.as_str(), done.err.lines().count()), (2, "", 1), "{}", done.err);
        assert!(done.err.contains(&format!("{server}: ")) && done.err.contains(why), "{}", done.err);
        assert!(done.err.contains(&format!("; {silent}: no answer within 1 s")), "{}", done.err);
    }
}
