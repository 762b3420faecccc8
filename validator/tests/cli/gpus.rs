//! Commands about GPUs on machines without any: the hidden `rank` of the built program, and the plan of `p2p` for a
//! modelled machine, which has no figures.

use super::machine::{Machine, firstlight};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Our end of a socket pair and the process's.
fn pair() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    // Much shorter than the time for which a rank waits for its worker's last message.
    set_socket_timeout(&ours, Timeout::Recv, Some(Duration::from_secs(8))).unwrap();
    (ours, theirs)
}

/// The process's next message; empty at its end.
fn hear(socket: &OwnedFd) -> String {
    let mut room = vec![0; 1 << 16];
    let (_, n) = recv(socket, room.as_mut_slice(), RecvFlags::empty()).unwrap();
    String::from_utf8(room[..n].to_vec()).unwrap()
}

const OPEN: &[u8] = br#"{"Open":{"gpus":[],"first":0,"most_bytes":8,"room":8,"id":false}}"#;

/// Killing the parent ends the worker (`workers.rs`), and killing the worker its ranks.
#[test]
fn a_rank_does_not_outlive_its_worker() {
    let (ours, theirs) = pair();
    // A shell instead of the worker. It would replace a background process's standard input, so the socket is passed
    // as 3.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"exec 3<&0; "$0" rank <&3 3<&- & wait"#])
        .arg(firstlight("").get_program());
    let mut worker = shell
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // It has the socket too.
    drop(shell);
    send(&ours, OPEN, SendFlags::empty()).unwrap();
    // With or without GPUs, it responds and stays.
    assert!(!hear(&ours).is_empty());
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(hear(&ours), "", "nobody has the other end any more");
}

#[test]
fn a_rank_that_is_asked_at_the_wrong_time_says_so_and_is_gone_when_it_is_let_go() {
    let (ours, theirs) = pair();
    let mut rank = firstlight("rank");
    let mut rank = rank
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    send(
        &ours,
        br#"{"Join":{"id":null,"ranks":2}}"#,
        SendFlags::empty(),
    )
    .unwrap();
    let message = hear(&ours);
    assert!(
        message.contains("Failed") && message.contains("at the wrong time"),
        "{message}"
    );
    assert!(rank.try_wait().unwrap().is_none(), "it can be looked at");
    drop(ours);
    assert_eq!(
        rank.wait().unwrap().code(),
        None,
        "it leaves without a destructor"
    );
}

/// The topmost process is not the parent, which continues.
#[test]
fn a_process_ends_with_each_of_those_above_it() {
    for command in ["rank", "partner", "worker"] {
        let (_ours, theirs) = pair();
        let mut top = Command::new("sleep").arg("60").spawn().unwrap();
        let above = format!(
            "{command} --beneath {} --beneath {}",
            top.id(),
            std::process::id()
        );
        let mut child = firstlight(&above);
        let mut child = child
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "{command}");
        top.kill().unwrap();
        top.wait().unwrap();
        assert_eq!(ends(&mut child).signal(), Some(9), "{command}");
    }
}

#[test]
fn a_process_whose_parent_was_gone_before_it_could_watch_ends_at_once() {
    let (_ours, theirs) = pair();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let mut child = firstlight(&format!(
        "rank --beneath {} --beneath {}",
        gone.id(),
        std::process::id()
    ));
    let mut child = child
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(ends(&mut child).signal(), Some(9));
    let (_ours, theirs) = pair();
    // The parent of this process is not the one that it was given.
    let mut child = firstlight("rank --beneath 1");
    let mut child = child
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(ends(&mut child).signal(), Some(9));
}

/// Waits for its end, which must come in time.
#[track_caller]
fn ends(child: &mut Child) -> ExitStatus {
    let due = Instant::now() + Duration::from_secs(2);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < due, "it lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_plan_of_a_modelled_machine_needs_no_driver() {
    let plan = Machine::modelled("switch-acs").run("p2p --plan");
    assert_eq!(plan.status, 0, "{}", plan.err);
    // ACS sends every pair up to the root port.
    assert!(
        plan.out
            .contains("each direction alone: 6 pairs of 3 GPUs in 6 rounds\n"),
        "{}",
        plan.out
    );
    assert!(
        plan.out.contains("\n  all pairs share 0000:00:02.0\n"),
        "{}",
        plan.out
    );
    assert!(
        plan.out.lines().all(|l| l.chars().count() <= 80),
        "{}",
        plan.out
    );
}

#[test]
fn the_plan_is_data_too() {
    let out = Machine::modelled("epyc-8x4090")
        .run("p2p --plan --json -")
        .out;
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["schema"], "firstlight.p2p-plan/1");
    assert_eq!(plan["ordered"]["rounds"].as_array().unwrap().len(), 56);
    assert_eq!(
        plan["unordered"]["shared"][0]["resource"],
        "the interconnect between NUMA nodes"
    );
}

#[test]
fn a_modelled_machine_proves_nothing_about_its_gpus() {
    let run = Machine::modelled("epyc-8x4090").run("p2p");
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(!run.out.contains("P2P Connectivity Matrix"), "{}", run.out);
}
