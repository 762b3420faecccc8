//! What the tests leave behind is ended, and what they have said stays as it is.

use harness::Boot;

const WORDS: &str = "firstlight.expect.gpus=0 firstlight.validate.level=quick";

/// A process leaves the child's control group and session, ignores SIGTERM, and writes another verdict two seconds later.
const ESCAPE: &str = r#"case "$*" in *--json*report.json*)
    ( setsid sh -c "
        echo 0 > /sys/fs/cgroup/cgroup.procs
        trap '' TERM HUP INT
        sleep 2
        echo forged > /run/firstlight/verdict.json" < /dev/null > /dev/null 2>&1 & )
    sleep 1 ;;
esac
exec /t/firstlight "$@""#;

/// Root of the workload tries to change, replace and remove both files.
const FORGE: &str = "sleep 4
for file in verdict report; do
    at=/run/firstlight/$file.json
    sum=$(sha256sum < $at)
    echo forged > $at
    echo forged > /run/firstlight/new && mv -f /run/firstlight/new $at
    rm -f $at
    [ \"$(sha256sum < $at)\" = \"$sum\" ] && echo $file: as it was
done
echo escaped: $(ps | grep -c '[s]leep 2')";

#[test]
fn a_process_that_left_its_control_group_ends_with_the_tests_and_the_verdict_stays() {
    let booted = Boot::shipped()
        .mostly_waits()
        .append(WORDS)
        .validator(ESCAPE)
        .unwrap()
        .workload(FORGE)
        .run()
        .unwrap();
    booted.says(" was left running by the tests, and is ended");
    booted.says("verdict: as it was");
    booted.says("report: as it was");
    booted.says("escaped: 0");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
}

/// The validator multiplies, and its deadline is over after 5 + 30 seconds.
#[test]
fn a_fork_bomb_in_the_validator_is_ended_at_its_deadline() {
    const BOMB: &str = r#"case "$*" in *--json*report.json*) bomb() { bomb | bomb & }; bomb; sleep 1000 ;; esac
exec /t/firstlight "$@""#;
    let words =
        format!("{WORDS} firstlight.validate.timeout_s=5 firstlight.policy.on_error=poweroff");
    let booted = Boot::shipped()
        .append(&words)
        .validator(BOMB)
        .unwrap()
        .run()
        .unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), verdict.failed),
        ("ERROR", vec!["validator".to_owned()]),
        "{booted}"
    );
    let stage = booted
        .lines()
        .find(|line| line.starts_with("validate  "))
        .unwrap_or_default()
        .to_owned();
    let took: u64 = stage
        .split_whitespace()
        .rev()
        .nth(1)
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(u64::MAX);
    println!("the stage took {took} ms");
    assert!(took < 90_000, "{stage}");
}
