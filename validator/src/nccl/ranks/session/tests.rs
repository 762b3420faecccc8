//! Arms whose processes are shell scripts: `dd` reads one packet, `printf` sends one.

use super::*;
use crate::nccl::ranks::messages::Done;
use crate::nccl::ranks::watch::calls_time_limit;
use crate::nccl::ranks::{Arm, Device, Form};
use crate::nccl::{FirstWrong, Timed, Wrongs};
use gpu::{Collective, DataType, RedOp};
use machine::{GpuId, Rank};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread;

const SOON: Duration = Duration::from_secs(20);

fn setup(processes: usize) -> Setup {
    let (arm, gpus) = (
        Arm::P2p,
        (4..4 + processes.max(2)).map(GpuId::new).collect(),
    );
    Setup {
        arm,
        processes: processes > 0,
        gpus,
        nvls: false,
        channels: None,
        most_bytes: 1 << 10,
        room: 1 << 12,
        library_path: Vec::new(),
        library: None,
        part: None,
    }
}

const ROW: RowAsk = RowAsk {
    collective: Collective::AllReduce,
    bytes: 1024,
    data: DataType::Float,
    op: RedOp::Sum,
    root: Rank::FIRST,
    iterations: 2,
    warmups: 1,
    check: true,
    odd: false,
    form: Form::Plain,
};

/// Reads the next packet and prints it, so that the test can read it.
const HEAR: &str = "dd bs=65536 count=1 2>/dev/null <&0; echo";

fn say(answer: &Answer) -> String {
    format!("printf %s '{}' >&0", serde_json::to_string(answer).unwrap())
}

fn device(rank: usize) -> Device {
    let bdf = format!("0000:0{rank}:00.0").parse().unwrap();
    Device {
        rank: rank.into(),
        pid: 70,
        ordinal: GpuId::new(4 + rank),
        bdf,
        name: "NVIDIA Something".to_owned(),
    }
}

fn opened(ranks: std::ops::Range<usize>) -> Answer {
    Answer::Opened(Opened {
        nccl: 22907,
        library: None,
        devices: ranks.map(device).collect(),
        room: 1 << 11,
        id: None,
    })
}

fn done(us: f64, first: Option<FirstWrong>) -> Answer {
    let wrong = Wrongs {
        count: u64::from(first.is_some()),
        looked: 256,
        calls: 2,
        first,
        ..Wrongs::default()
    };
    let timed = |us, wrong| Timed { us, wrong };
    Answer::Row(Box::new(Done {
        out_of_place: timed(us, Some(wrong)),
        in_place: timed(us + 1.0, None),
    }))
}

fn failed(kind: TroubleKind, text: &str) -> Answer {
    Answer::Failed(Fault {
        rank: None,
        kind,
        text: text.to_owned(),
    })
}

/// An arm in which each process runs its script.
fn arm(setup: &Setup, scripts: &[String]) -> Ranks {
    let next = Cell::new(0);
    let command = || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &scripts[next.get()]]);
        next.set(next.get() + 1);
        Ok(command)
    };
    Ranks::launch(setup, &command).unwrap()
}

/// Starts with `begin`, joins, and then runs `then`.
fn joined(setup: &Setup, begin: &str, then: &[&str]) -> Ranks {
    let ranks = setup.gpus.len();
    let script = |rank: usize| {
        let own = if setup.processes {
            rank..rank + 1
        } else {
            0..ranks
        };
        let then = then.get(rank).copied().unwrap_or("exec sleep 60");
        [
            begin,
            "echo $$",
            HEAR,
            &say(&opened(own)),
            HEAR,
            &say(&Answer::Joined),
            then,
        ]
        .join("\n")
    };
    let scripts: Vec<_> = (0..if setup.processes { ranks } else { 1 })
        .map(script)
        .collect();
    let mut ranks = arm(setup, &scripts);
    ranks.join(SOON).unwrap();
    ranks
}

/// The processes' ids, which each has printed first.
fn pids(ranks: &Ranks) -> Vec<String> {
    let outputs = ranks.processes.output();
    outputs
        .iter()
        .map(|text| text.lines().next().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn assert_gone(pids: &[String]) {
    assert!(!pids.is_empty());
    for pid in pids {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} lives");
    }
}

#[test]
fn an_arm_of_one_process_starts_does_a_row_and_returns_nccls_output() {
    let setup = setup(0);
    let then = format!(
        "echo '<system/>' > $NCCL_TOPO_DUMP_FILE; {HEAR}; {}; env",
        say(&done(5.0, None))
    );
    let mut ranks = joined(&setup, "", &[&then]);
    let started = ranks.join(SOON).unwrap();
    assert_eq!((started.nccl, &started.devices[1]), (22907, &device(1)));
    assert!(started.seconds > 0.0);
    let row = ranks.row(&ROW).unwrap();
    assert_eq!(
        (row.bytes, row.count, row.ranks, row.op, row.root),
        (1024, 256, 2, Some(RedOp::Sum), None)
    );
    assert_eq!((row.out_of_place.us, row.in_place.us), (5.0, 6.0));
    assert_eq!(ranks.topology().as_deref(), Some("<system/>\n"));
    assert_eq!(ranks.graph(), None);
    assert!(ranks.processes.end(), "it exits by itself");
    let said = ranks.output();
    assert!(
        said.contains(r#"{"Open":{"gpus":[4,5],"first":0,"most_bytes":1024,"room":4096,"id":false,"library":null}}"#),
        "{said}"
    );
    assert!(
        said.contains(r#"{"Join":{"id":null,"ranks":2}}"#) && said.contains(r#""seeds":["#),
        "{said}"
    );
    for (name, value) in ranks.environment() {
        assert!(
            said.lines().any(|line| line == format!("{name}={value}")),
            "{name} in {said}"
        );
    }
    assert!(
        !said.contains("CARGO"),
        "nothing else of ours is in its environment: {said}"
    );
}

#[test]
fn several_processes_times_are_averaged_and_their_wrong_elements_added_up() {
    let wrong = |rank: usize| FirstWrong {
        rank: rank.into(),
        call: 1,
        element: 7,
        found: "0".to_owned(),
        expected: "9".to_owned(),
    };
    let answers = [
        done(3.0, None),
        done(6.0, Some(wrong(1))),
        done(9.0, Some(wrong(2))),
    ];
    let then = answers.map(|answer| format!("{HEAR}; {}", say(&answer)));
    let mut ranks = joined(&setup(3), "", &then.each_ref().map(String::as_str));
    let row = ranks.row(&ROW).unwrap();
    assert_eq!((row.out_of_place.us, row.in_place.us), (6.0, 7.0));
    let sum = Wrongs {
        count: 2,
        looked: 768,
        calls: 2,
        first: Some(wrong(1)),
        ..Wrongs::default()
    };
    assert_eq!(
        (row.out_of_place.wrong, row.in_place.wrong),
        (Some(sum), None)
    );
    let outputs = ranks.processes.output();
    for (rank, said) in outputs.iter().enumerate() {
        let (gpu, id) = (4 + rank, rank == 0);
        let open = format!(
            r#"{{"Open":{{"gpus":[{gpu}],"first":{rank},"most_bytes":1024,"room":4096,"id":{id},"library":null}}}}"#
        );
        assert!(said.contains(&open), "{said}");
    }
}

#[test]
fn a_dead_process_is_reported_with_nccls_last_lines_and_stops_the_others() {
    let dies = format!("{HEAR}; echo 'vm:1:1 [1] NCCL WARN Cuda failure'; kill -SEGV $$");
    let mut ranks = joined(&setup(3), "", &["exec sleep 60", &dies, "exec sleep 60"]);
    let pids = pids(&ranks);
    let start = Instant::now();
    let trouble = ranks.row(&ROW).unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        (trouble.rank, trouble.kind),
        (Some(1.into()), TroubleKind::Died)
    );
    let text = "all_reduce of 1024 bytes of float, sum: rank 1 died: signal: 11 (SIGSEGV)";
    assert!(trouble.text.starts_with(text), "{trouble}");
    assert_eq!(trouble.diagnosis[0], "vm:1:1 [1] NCCL WARN Cuda failure");
    assert_gone(&pids);
    assert!(
        ranks.output().contains("Cuda failure"),
        "the output can still be read"
    );
    assert!(ranks.row(&ROW).unwrap_err().text.contains("gone"));
}

#[test]
fn while_ranks_hang_nccl_is_asked_for_its_state_and_the_silent_rank_is_named() {
    let waits = failed(TroubleKind::Hang, "no end within 10.0 s at rank 0");
    // After its report it waits until it is released.
    let waits = format!("{HEAR}; {}; {HEAR}; echo let go", say(&waits));
    let mut ranks = joined(&setup(2), "", &[&waits, "exec sleep 60"]);
    let pids = pids(&ranks);
    let (at, lived) = (
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        pids.clone(),
    );
    ranks.ras = Some(at.local_addr().unwrap());
    let nccl = thread::spawn(move || {
        let mut say = at.accept().unwrap().0;
        let mut hear = BufReader::new(say.try_clone().unwrap());
        for answer in ["SERVER PROTOCOL 2\n", "OK\n", "rank 1: in launch 7\n"] {
            hear.read_line(&mut String::new()).unwrap();
            say.write_all(answer.as_bytes()).unwrap();
        }
        lived
            .iter()
            .all(|pid| Path::new("/proc").join(pid).exists())
    });
    let start = Instant::now();
    let trouble = ranks.row(&ROW).unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    assert!(nccl.join().unwrap(), "it is asked while they live");
    assert_eq!(
        (trouble.rank, trouble.kind),
        (Some(1.into()), TroubleKind::Hang)
    );
    assert!(
        trouble.text.contains("rank 1 does not answer within "),
        "{trouble}"
    );
    let patient = format!(
        "within {:.1} s",
        (calls_time_limit(1024, 8) + REPORT_MARGIN).as_secs_f64()
    );
    assert!(
        !trouble.text.contains(&patient),
        "it was not waited for that long: {trouble}"
    );
    assert!(
        trouble.text.contains("no end within 10.0 s at rank 0"),
        "{trouble}"
    );
    assert_eq!(trouble.diagnosis[0], "rank 1: in launch 7");
    assert!(
        ranks.output().contains("let go"),
        "one that answers may abort its communicator"
    );
    assert_gone(&pids);
}

#[test]
fn an_arm_that_does_not_start_in_time_is_a_hang_with_its_stage() {
    let mut ranks = arm(&setup(0), &["echo $$; exec sleep 60".to_owned()]);
    let due = Instant::now() + SOON;
    while ranks.output().is_empty() && Instant::now() < due {
        thread::sleep(Duration::from_millis(5));
    }
    let pids = pids(&ranks);
    let trouble = ranks.join(Duration::from_millis(200)).unwrap_err();
    assert_eq!((trouble.rank, trouble.kind), (None, TroubleKind::Hang));
    let text = "starting CUDA: the process of all ranks does not answer within 0.2 s";
    assert_eq!(trouble.text, text);
    assert!(
        trouble.diagnosis[0].contains("RAS"),
        "{:?}",
        trouble.diagnosis
    );
    assert_gone(&pids);
}

#[test]
fn a_missing_transport_is_reported_in_nccls_words() {
    let line =
        "vm:1:1 [0] transport.cc:40 NCCL WARN No transport found for rank 0[60] -> rank 1[70]";
    let fails = say(&failed(TroubleKind::Nccl(2), "ncclAllReduce returned 2"));
    let mut ranks = joined(
        &setup(0),
        "",
        &[&format!("{HEAR}; echo '{line}'; {fails}; {HEAR}")],
    );
    let trouble = ranks.row(&ROW).unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::NoTransport);
    let end = "ncclAllReduce returned 2: No transport found for rank 0[60] -> rank 1[70]";
    assert!(trouble.text.ends_with(end), "{trouble}");
    assert_eq!(trouble.diagnosis[0], line);
}

#[test]
fn a_row_without_elements_sends_no_request() {
    // A process that was asked would not answer.
    let mut ranks = joined(&setup(0), "", &[]);
    let none = RowAsk {
        collective: Collective::Alltoall,
        bytes: 16,
        ..ROW
    };
    let row = ranks.row(&none).unwrap();
    assert_eq!((row.bytes, row.count, row.out_of_place.us), (0, 0, 0.0));
    assert_eq!(
        (row.out_of_place.wrong, row.in_place.wrong),
        (Some(Wrongs::default()), None)
    );
    let none = RowAsk {
        collective: Collective::AllGather,
        check: false,
        ..none
    };
    assert_eq!(ranks.row(&none).unwrap().out_of_place.wrong, None);
    ranks.processes.end_after(&[]);
}

#[test]
fn invalid_requests_are_refused_and_the_arm_continues() {
    let then = format!("{HEAR}; {}", say(&done(1.0, None)));
    let mut ranks = joined(&setup(0), "", &[&then]);
    for (ask, why) in [
        (RowAsk { bytes: 4096, ..ROW }, "the buffers hold 2048 bytes"),
        (
            RowAsk {
                collective: Collective::Broadcast,
                root: 2.into(),
                ..ROW
            },
            "there is no rank 2 among 2",
        ),
    ] {
        let trouble = ranks.row(&ask).unwrap_err();
        assert_eq!(trouble.kind, TroubleKind::Broken);
        assert!(trouble.text.contains(why), "{trouble}");
    }
    assert!(ranks.row(&ROW).is_ok());
}

#[test]
fn an_answer_that_does_not_match_stops_the_arm() {
    let mut ranks = joined(
        &setup(0),
        "",
        &[&format!("{HEAR}; {}; {HEAR}", say(&Answer::Joined))],
    );
    let pids = pids(&ranks);
    let trouble = ranks.row(&ROW).unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Broken);
    assert!(
        trouble.text.contains("does not match the request"),
        "{trouble}"
    );
    assert_gone(&pids);
}

#[test]
fn a_dropped_arm_stops_in_bounded_time() {
    // It does not read its socket, and only SIGKILL stops it.
    let ranks = joined(
        &setup(2),
        "trap '' TERM HUP",
        &["exec sleep 60", "exec sleep 60"],
    );
    let pids = pids(&ranks);
    let start = Instant::now();
    drop(ranks);
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    assert_gone(&pids);
}

#[test]
fn arms_start_in_parallel_and_share_nothing() {
    let first = arm(&setup(0), &["exec sleep 60".to_owned()]);
    let dumps = [first.topology.path(), first.graph.path()].join(" -o -e ");
    let own = "test -e $NCCL_TOPO_DUMP_FILE -a -e $NCCL_GRAPH_DUMP_FILE && echo own";
    let script = format!("test -e {dumps} && echo of another; {own}; echo done; exec sleep 60");
    let second = arm(
        &Setup {
            arm: Arm::Off,
            ..setup(0)
        },
        &[script],
    );
    let due = Instant::now() + SOON;
    while !second.output().contains("done") && Instant::now() < due {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(second.output(), "own\ndone\n");
    assert_ne!(first.environment(), second.environment());
    for mut arm in [first, second] {
        arm.processes.end_after(&[]);
    }
}

#[test]
fn an_arm_without_gpus_or_without_a_program_is_not_started() {
    let none = Setup {
        gpus: Vec::new(),
        ..setup(0)
    };
    assert_eq!(Ranks::start(&none).unwrap_err().kind, TroubleKind::Broken);
    let missing = || Ok(Command::new("/nowhere/rank"));
    let trouble = Ranks::launch(&setup(2), &missing).unwrap_err();
    assert!(trouble.text.contains("cannot be started"), "{trouble}");
}

#[test]
fn processes_make_the_communicator_before_anybody_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("open");
    let wait = format!("while ! [ -e '{}' ]; do sleep 0.01; done", gate.display());
    let script = |rank: usize| {
        [
            if rank == 1 { wait.as_str() } else { "" },
            HEAR,
            &say(&opened(rank..rank + 1)),
            HEAR,
            &say(&Answer::Joined),
            "exec sleep 60",
        ]
        .join("\n")
    };
    let mut ranks = arm(&setup(2), &[script(0), script(1)]);
    ranks.advance().unwrap();
    assert!(ranks.opened.is_none(), "one has not started CUDA yet");
    std::fs::write(gate, "").unwrap();
    let asked = |ranks: &Ranks| {
        let outputs = ranks.processes.output();
        outputs.iter().all(|text| text.contains("Join"))
    };
    let due = Instant::now() + SOON;
    while !asked(&ranks) && Instant::now() < due {
        ranks.advance().unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    assert!(asked(&ranks), "{:?}", ranks.processes.output());
    assert!(ranks.is_starting() && ranks.age() > Duration::ZERO);
    assert_eq!(ranks.join(SOON).unwrap().devices.len(), 2);
    assert!(!ranks.is_starting());
    // It is asked once.
    ranks.advance().unwrap();
    assert_eq!(ranks.output().matches("Join").count(), 2);
}

#[test]
fn an_arm_that_may_exit_before_it_has_started_is_not_waited_for() {
    let mut ranks = arm(&setup(0), &["exec cat >&0".to_owned()]);
    assert!(ranks.is_starting());
    ranks.release();
    assert!(!ranks.is_starting());
}

#[test]
fn an_arm_that_must_fail_sees_the_first_gpus_of_those_that_are_shown() {
    let shown = |arm, given: Option<&str>| {
        let setup = Setup { arm, ..setup(0) };
        visible_gpus(&setup, given.map(str::to_owned))
    };
    assert_eq!(shown(Arm::P2p, None), None);
    assert_eq!(shown(Arm::P2p, Some("0,2,5")).as_deref(), Some("0,2,5"));
    assert_eq!(shown(Arm::Withheld, None).as_deref(), Some("4,5"));
    let given = Some("GPU-a,GPU-b,GPU-c");
    assert_eq!(shown(Arm::Withheld, given).as_deref(), Some("GPU-a,GPU-b"));
}

#[test]
fn a_process_that_dies_while_nobody_waits_is_an_error() {
    let script = |end: &str| [HEAR, end].join("\n");
    let mut ranks = arm(&setup(2), &[script("exit 3"), script("exit 3")]);
    let due = Instant::now() + SOON;
    let trouble = loop {
        match ranks.advance() {
            Err(trouble) => break trouble,
            Ok(()) => assert!(Instant::now() < due, "nothing was noticed"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(trouble.text.contains("starting CUDA"), "{trouble:?}");
    assert!(ranks.join(SOON).is_err());
}
