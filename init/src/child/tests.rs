//! Children that end well, badly, late and never.

use super::*;

fn shell(script: &str, deadline_ms: u64) -> Spec {
    Spec::new("/bin/sh", &["-c", script], Duration::from_millis(deadline_ms))
}

fn run(script: &str, deadline_ms: u64) -> Done {
    Children::new().unwrap().run_quietly(&shell(script, deadline_ms))
}

#[test]
fn exit_statuses_and_signals_are_told_apart() {
    assert_eq!(run("exit 3", 5000).end, End::Exited(3));
    assert_eq!(run("kill -SEGV $$", 5000).end, End::Signalled(11));
    assert_eq!(Children::new().unwrap().run_quietly(&Spec::new("/none", &[], GRACE)).end, End::NotStarted(2));
}

#[test]
fn lines_are_seen_as_they_come_and_the_unwanted_kept() {
    let mut seen = Vec::new();
    let spec = shell("echo a; echo b >&2; printf c", 5000);
    let done = Children::new().unwrap().run(&spec, &mut |stream, line| {
        seen.push((stream, line.to_owned()));
        stream == Stream::Out
    });
    assert!(seen.contains(&(Stream::Out, "a".to_owned())));
    assert!(seen.contains(&(Stream::Out, "c".to_owned())));
    assert_eq!(done.tail, ["b"]);
}

#[test]
fn a_child_past_its_deadline_is_ended_with_its_whole_group() {
    let done = run("sleep 60 & sleep 60", 100);
    assert_eq!(done.end, End::TimedOut(Duration::from_millis(100)));
    assert!(done.took < Duration::from_secs(2), "{:?}", done.took);
}

#[test]
fn a_child_that_ignores_sigterm_is_killed() {
    let done = run("trap '' TERM; while :; do sleep 0.1; done", 100);
    assert_eq!(done.end, End::TimedOut(Duration::from_millis(100)));
    assert!(done.took >= GRACE, "{:?}", done.took);
}

#[test]
fn a_grandchild_that_keeps_the_pipe_open_does_not_hold_us_up() {
    let done = run("sleep 60 & echo done", 30_000);
    assert_eq!((done.end, done.tail.as_slice()), (End::Exited(0), ["done".to_owned()].as_slice()));
    assert!(done.took < Duration::from_secs(5), "{:?}", done.took);
}

#[test]
fn a_flood_of_output_is_bounded_to_the_last_lines() {
    let done = run("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done", 20_000);
    assert_eq!(done.tail.len(), Tail::LINES);
    assert_eq!(done.reason(), "line 2999");
}

#[test]
fn the_environment_is_clean() {
    let (_, mut lines) = Children::new().unwrap().run_for_output(&Spec::new("/usr/bin/env", &[], GRACE));
    lines.sort();
    assert_eq!(lines, ["HOME=/", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TERM=linux"]);
}

#[test]
fn a_child_that_said_nothing_is_described_by_its_end() {
    assert_eq!(run("exit 7", 5000).reason(), "exited with status 7");
}

#[test]
fn no_signal_is_blocked_in_a_child() {
    let spec = Spec::new("/bin/grep", &["SigBlk", "/proc/self/status"], GRACE);
    let (_, lines) = Children::new().unwrap().run_for_output(&spec);
    assert_eq!(lines, ["SigBlk:\t0000000000000000"]);
}
