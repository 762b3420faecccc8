//! Two machines connected by two cables: do they find each other, test each rail, and notice a lost cable or machine?

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, Booted, CABLES, End};
use std::time::{Duration, Instant};

/// Far beyond the 10 s after which a machine that does not answer counts as lost.
const NOTICED: Duration = Duration::from_secs(60);

/// The program with the settings of the boot.
const FIRSTLIGHT: &str = "firstlight --config /etc/firstlight/config.d/30-simulated.toml --config /etc/firstlight/config.d/50-test.toml";

/// No address is configured: each port chooses one, and each gets a software RoCE device.
const SETTINGS: &str = r#"
[network]
mode = "link-local"
soft_roce = true
timeout_s = 60
[nodes]
token = "a token of the simulation"
rendezvous = "mdns"
timeout_s = 120
"#;

/// A machine with two simulated GPUs and two ports. The ports, their addresses and RDMA devices belong to the guest:
/// the recorded machine describes only its GPUs and does not replace libibverbs.
fn node(settings: &str, script: &str) -> Boot {
    let scenario = "on = \"epyc-8x4090\"\n[nccl]\nhca = \"host\"\n"
        .parse()
        .unwrap();
    let files = overlay(&Scenario::of(scenario).unwrap().gpus(2)).unwrap();
    let config = format!("{SETTINGS}{settings}");
    let boot = Boot::shipped()
        .memory(1024)
        .overlay(|_| files)
        .config(&config)
        .workload(script);
    let words = "firstlight.validate.level=quick firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff";
    boot.append(words)
}

/// Runs instead of the program. Before the nodes meet, it records the entries of the first port's IPv4 address in its GID
/// table before and after it moves, and the bytes that each port has sent. To move the address, it removes it and adds it again
/// after another one.
const MOVES: &str = r#"
places() { grep -l ':ffff:a9fe:' /sys/class/infiniband/rxe0/ports/1/gids/*; }
case " $* " in *" nodes "*)
    {
        echo "PLACES before $(places)"
        if [ $MOVES = yes ]; then
            own=$(ip -4 -o addr show dev eth0 | awk '{print $4}') peer=$(ip route show dev eth0 | awk '{print $1}')
            ip addr add 169.254.99.1/32 dev eth0 && ip addr del $own dev eth0 && ip addr add 169.254.99.2/32 dev eth0
            ip addr add $own dev eth0 && ip addr del 169.254.99.1/32 dev eth0 && ip addr del 169.254.99.2/32 dev eth0
            ip route add $peer dev eth0 src ${own%/*} || exit
            sleep 1
        fi
        echo "PLACES after $(places)"
    } > /run/places
    cat /sys/class/net/eth[01]/statistics/tx_bytes > /run/sent ;;
esac
exec /t/firstlight "$@""#;

/// Prints what was recorded, and the bytes that each port has sent since.
const RAILS: &str = r#"
echo "PORTS $NCCL_IB_HCA $NCCL_SOCKET_IFNAME"
cat /run/places
set -- $(cat /run/sent /sys/class/net/eth[01]/statistics/tx_bytes)
echo "RAILS $(($3 - $1)) $(($4 - $2))""#;

#[test]
fn two_machines_pass_over_two_cables_and_each_rail_carries_its_share() {
    let boots = ["no", "yes"].map(|moves| {
        node("size = 2\n", RAILS)
            .validator(&format!("MOVES={moves}\n{MOVES}"))
            .unwrap()
    });
    let both = Boot::cabled(boots, &[[0, 0], [1, 1]])
        .unwrap()
        .map(|running| running.finish().unwrap());
    let mut names = Vec::new();
    for booted in &both {
        assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
        let last = booted
            .lines()
            .find(|line| line.starts_with("FIRSTLIGHT ") && line.contains("scope=machine"));
        assert!(last.unwrap().ends_with(" nodes=PASS"), "{booted}");
        let stage = &booted.json("firstlight/verdict.json")["nodes"];
        assert_eq!(
            (stage["verdict"].as_str(), stage["exit_status"].as_i64()),
            (Some("PASS"), Some(0)),
            "{booted}"
        );
        names.push(stage["nodes"].clone());
        // The stage's rows fit an 80-column console, however long the names of the tests are.
        assert!(
            booted
                .lines()
                .filter(|line| line.starts_with("  PASS "))
                .all(|line| line.len() <= 80),
            "{booted}"
        );
        assert_shared(booted);
        let ports = booted.lines().find_map(|line| line.strip_prefix("PORTS "));
        let ports = ports.unwrap_or_else(|| panic!("{booted}"));
        assert!(
            ["eth0", "eth1"]
                .map(|port| format!("=rxe0:1,rxe1:1 ={port}"))
                .contains(&ports.to_owned()),
            "{ports}"
        );
        // Their tables are wider than a console.
        assert!(
            !booted
                .lines()
                .any(|line| line.trim_start().starts_with('#')),
            "{booted}"
        );
        booted.says("workload  /t/workload exited with status 0");
        booted.ended(&End::PowerOff);
    }
    // Both machines have the same name; their addresses distinguish them.
    let [one, other] = names[0].as_array().unwrap().as_slice() else {
        panic!("{}", names[0])
    };
    assert!(
        one != other && one.as_str().unwrap().starts_with("Simulated ("),
        "{one} {other}"
    );
    assert_eq!(names[0], names[1]);
    // Only the leading machine prints these rows. The kernel's rdma_rxe and the image's libibverbs are not simulated.
    let either_says = |text: &str| both.iter().any(|booted| booted.console.contains(text));
    for text in [
        "PASS   nodes-nccl-socket",
        "N/A    nodes-nccl-rails",
        "N/A    nodes-ports",
        "PASS   rdma-host       2 pairs of ports, host memory",
    ] {
        assert!(either_says(text), "{text}\n{}\n{}", both[0], both[1]);
    }
    let in_either_log = |text: &str| {
        both.iter()
            .any(|booted| booted.text("firstlight/boot.log").contains(text))
    };
    assert!(
        in_either_log(" rxe1:1; MTU 4096"),
        "{}\n{}",
        both[0],
        both[1]
    );
    let places = both.each_ref().map(|booted| {
        let at = |when: &str| {
            let line = booted
                .lines()
                .find_map(|line| line.strip_prefix(&format!("PLACES {when} ")));
            line.unwrap_or_else(|| panic!("{booted}")).to_owned()
        };
        (at("before"), at("after"))
    });
    assert_eq!(places[0].0, places[0].1);
    assert_ne!(places[1].0, places[1].1, "the address has not moved");
}

/// Fails the test unless each of the two ports sent more than a third of a run's bytes, and more than 1 MB.
#[track_caller]
fn assert_shared(booted: &Booted) {
    let bytes = booted
        .lines()
        .find_map(|line| line.strip_prefix("RAILS "))
        .unwrap_or_else(|| panic!("{booted}"));
    let bytes: Vec<u64> = bytes.split(' ').map(|n| n.parse().unwrap()).collect();
    let (least, all) = (bytes.iter().min().unwrap(), bytes.iter().sum::<u64>());
    assert!(
        bytes.len() == 2 && *least > all / 3 && *least > 1_000_000,
        "{bytes:?}\n{booted}"
    );
}

/// The runs of a machine whose cables are swapped: each port 0 is connected to port 1 of the other machine. The
/// rendezvous address is in a network that only the first cable has.
const RUNS: &str = r#"
ip addr add 10.9.0.$N/24 dev eth$((N - 1))
run() { name=$1; shift; echo "RUN $name"; $F "$@" --size 2 --rendezvous 10.9.0.1:29517 --name $NAME; echo "ENDED $name $?"; }
run swapped rdma
run pulled nodes
run absent nodes --meeting-timeout 10
run killed nodes --meeting-timeout 60
exit 0"#;

/// Part of the first row of an NCCL table, which the machine that leads prints.
const ROW: &str = " float ";

#[test]
fn swapped_and_pulled_cables_and_a_machine_that_loses_power_are_named_in_time() {
    let boots = [(1, "left"), (2, "right")].map(|(n, name)| {
        node("", &format!("F='{FIRSTLIGHT}' N={n} NAME={name}\n{RUNS}")).mostly_waits()
    });
    let [mut left, mut right] = Boot::cabled(boots, &[[0, 1], [1, 0]]).unwrap();
    for running in [&mut left, &mut right] {
        running.until("RUN pulled").unwrap();
    }
    left.until(ROW).unwrap();
    left.link(CABLES[0], false).unwrap();
    let pulled = Instant::now();
    for (running, other) in [(&mut left, "right"), (&mut right, "left")] {
        running
            .until(&format!("NODES-LOST         {other}"))
            .unwrap();
        running.until("ENDED pulled 2").unwrap();
        println!(
            "pulled: the run ended after {:?} and named {other}",
            pulled.elapsed()
        );
        assert!(pulled.elapsed() < NOTICED, "{:?}", pulled.elapsed());
    }
    for running in [&mut left, &mut right] {
        running.until("ENDED absent 2").unwrap();
    }
    left.link(CABLES[0], true).unwrap();
    left.until("RUN killed").unwrap();
    left.until(ROW).unwrap();
    right.cut();
    let cut = Instant::now();
    left.until("ENDED killed 2").unwrap();
    println!("killed: the remaining run ended after {:?}", cut.elapsed());
    assert!(cut.elapsed() < NOTICED, "{:?}", cut.elapsed());
    let left = left.finish().unwrap();
    left.ended(&End::PowerOff);
    let runs: Vec<_> = left.console.split("RUN ").skip(1).collect();
    let says = |run: &str, texts: &[&str]| {
        let output = runs
            .iter()
            .find(|output| output.starts_with(run))
            .unwrap_or_else(|| panic!("{left}"));
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        texts
            .iter()
            .for_each(|text| assert!(output.contains(text), "{run}: {text}\n{left}"));
    };
    says(
        "swapped",
        &[
            "RDMA-ERROR",
            "left rxe0:1 and right rxe0:1",
            "left rxe1:1 and right rxe1:1",
        ],
    );
    says(
        "pulled",
        &["NODES-LOST", "node right", "its machine does not answer"],
    );
    says("absent", &["NODES-ABSENT"]);
    says("killed", &["NODES-LOST", "node right"]);
}
