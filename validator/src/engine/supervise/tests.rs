//! Misbehaving workers, played by the shell: each ends in time, with the right value.

use super::*;

const SOON: Duration = Duration::from_millis(300);

fn run_script(script: &str) -> (Ending, Vec<String>, Vec<Message>) {
    let mut messages = Vec::new();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let none = Interrupts::default();
    let (ending, last_lines) = supervise(
        command,
        b"the request",
        Duration::from_secs(5),
        &none,
        |message, _| {
            messages.push(message);
            SOON
        },
    );
    (ending, last_lines, messages)
}

#[test]
fn a_worker_that_sends_its_result_and_exits_is_done() {
    let (ending, last_lines, messages) = run_script(r#"echo '{"begin":"acs"}'; echo note >&2"#);
    assert!(matches!(ending, Ending::Done), "{ending}");
    assert_eq!(messages, [Message::Begin("acs".into())]);
    assert_eq!(last_lines, ["note"]);
}

#[test]
fn a_worker_gets_its_request() {
    let (_, last_lines, _) = run_script("head -n 1 >&2");
    assert_eq!(last_lines, ["the request"]);
}

#[test]
fn a_message_is_answered_after_it_was_processed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("processed");
    let mut command = Command::new("sh");
    let script = r#"read request; echo '{"begin":"acs"}'; read answer; test -e "$0" && echo "first $request, then $answer." >&2"#;
    command.args(["-c", script]).arg(&file);
    let (_, last_lines) = supervise(
        command,
        b"this",
        Duration::from_secs(5),
        &Interrupts::default(),
        |_, _| {
            thread::sleep(SOON);
            std::fs::write(&file, "").unwrap();
            Duration::from_secs(5)
        },
    );
    assert_eq!(last_lines, ["first this, then ."]);
}

#[test]
fn a_worker_that_dies_by_a_signal_is_reported_with_its_name() {
    let (ending, last_lines, messages) =
        run_script(r#"echo '{"begin":"acs"}'; echo last words >&2; kill -SEGV $$"#);
    assert!(ending.to_string().contains("SIGSEGV"), "{ending}");
    assert_eq!(
        (last_lines, messages.len()),
        (vec!["last words".to_owned()], 1)
    );
}

#[test]
fn a_worker_that_exits_with_a_status_is_reported_with_it() {
    assert!(run_script("exit 101").0.to_string().contains("101"));
}

#[test]
fn a_worker_that_falls_silent_is_killed_in_time() {
    let start = Instant::now();
    let (ending, last_lines, _) =
        run_script(r#"echo '{"begin":"acs"}'; echo stuck >&2; exec sleep 60"#);
    assert!(matches!(ending, Ending::Silent(SOON)), "{ending}");
    assert!(start.elapsed() < Duration::from_secs(50));
    assert_eq!(last_lines, ["stuck"]);
}

#[test]
fn a_worker_that_sends_an_invalid_message_is_killed() {
    let (ending, _, messages) = run_script("echo '{\"begin\":3}'; exec sleep 60");
    assert!(
        matches!(&ending, Ending::InvalidMessage(line) if line.contains("begin")),
        "{ending}"
    );
    assert_eq!(messages, []);
}

#[test]
fn a_worker_that_closes_its_pipes_and_stays_is_killed() {
    let start = Instant::now();
    let (ending, _, _) = run_script("exec sleep 60 >&- 2>&- <&-");
    assert!(matches!(ending, Ending::Silent(_)), "{ending}");
    assert!(start.elapsed() < Duration::from_secs(50));
}

#[test]
fn only_the_last_lines_are_kept() {
    let (_, last_lines, _) = run_script("for i in $(seq 100); do echo $i >&2; done");
    assert_eq!(last_lines.len(), LAST_LINES);
    assert_eq!(last_lines.last().map(String::as_str), Some("100"));
}

#[test]
fn a_missing_worker_cannot_be_started() {
    let (ending, _) = supervise(
        Command::new("/nowhere/worker"),
        b"",
        SOON,
        &Interrupts::default(),
        |_, _| SOON,
    );
    assert!(matches!(ending, Ending::NotStarted(_)), "{ending}");
}

/// The deadline applies to the arrival of a message, not to the time it is read.
#[test]
fn a_late_message_does_not_extend_the_deadline() {
    let mut messages = 0;
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "echo '{\"begin\":\"acs\"}'; sleep 0.6; echo '{\"begin\":\"acs\"}'; exec sleep 60",
    ]);
    let none = Interrupts::default();
    let (ending, _) = supervise(command, b"", Duration::from_secs(5), &none, |_, _| {
        messages += 1;
        thread::sleep(Duration::from_millis(1200));
        SOON
    });
    assert!(
        matches!(ending, Ending::Silent(SOON)) && messages == 1,
        "{ending} {messages}"
    );
}

#[test]
fn a_worker_that_only_ever_logs_is_killed_in_time() {
    let start = Instant::now();
    let (ending, _, _) = run_script("while :; do echo x >&2; done");
    assert!(matches!(ending, Ending::Silent(_)), "{ending}");
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn children_of_a_worker_end_with_it() {
    for end in ["kill -SEGV $$", "exec >&- 2>&-; exit 0", "exec sleep 60"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 60 >&- 2>&- & echo $! > {}; {end}", file.display());
        run_script(&script);
        let pid = std::fs::read_to_string(&file).unwrap();
        let stat =
            || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let due = Instant::now() + Duration::from_secs(2);
        while !stat().is_empty() && !stat().contains(") Z ") {
            assert!(Instant::now() < due, "{end}: {}", stat());
            thread::sleep(Duration::from_millis(5));
        }
    }
}
