use super::*;
use crate::floors::gain::gains;
use crate::nccl::{Placement, Timed, Wrongs};
use gpu::{Collective, DataType, RedOp};
use report::render::gain::gain_table;
use std::fs;
use std::path::Path;

/// nccl-tests' outputs on four H200, each with its collective.
const FILES: [(&str, Collective); 8] = [
    ("all_gather_perf", Collective::AllGather),
    ("all_reduce_perf", Collective::AllReduce),
    ("all_reduce_perf.NCCL_P2P_DISABLE", Collective::AllReduce),
    ("alltoall_perf", Collective::Alltoall),
    ("broadcast_perf", Collective::Broadcast),
    ("reduce_perf", Collective::Reduce),
    ("reduce_scatter_perf", Collective::ReduceScatter),
    ("sendrecv_perf", Collective::Sendrecv),
];

fn peer(name: &str) -> String {
    let (program, arm) = name
        .split_once('.')
        .map_or((name, ""), |(program, _)| (program, ".NCCL_P2P_DISABLE"));
    let path = format!("../tests/data/peers/h200-4/nccl-tests{arm}.txt");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let first = "# nccl-tests version";
    let output = text
        .split(first)
        .find(|output| output.contains(&format!("starting: {program}\n")))
        .unwrap();
    format!("{first}{output}")
}

/// A time that gives all three printed figures exactly: the figures are rounded, and so is the printed time.
fn exact(collective: Collective, bytes: u64, printed: [&str; 3]) -> f64 {
    let [us, algbw, busbw] = printed.map(|text| text.parse::<f64>().unwrap());
    let (mut least, mut most) = (us - 0.005, us + 0.005);
    let amount = bytes as f64 / 1e3;
    for (figure, amount) in [(algbw, amount), (busbw, amount * collective.bus_factor(4))] {
        if amount > 0.0 {
            least = least.max(amount / (figure + 0.005));
            most = if figure > 0.005 {
                most.min(amount / (figure - 0.005))
            } else {
                most
            };
        }
    }
    assert!(least <= most, "{collective} {bytes}: {printed:?}");
    f64::midpoint(least, most)
}

fn read(collective: Collective, line: &str) -> Row {
    let words: Vec<_> = line.split_whitespace().collect();
    let [
        bytes,
        count,
        data,
        op,
        root,
        out_us,
        out_alg,
        out_bus,
        out_wrong,
        us,
        alg,
        bus,
        wrong,
    ] = words[..]
    else {
        panic!("{line}");
    };
    let bytes = bytes.parse().unwrap();
    let timed = |printed, wrong: &str| {
        let wrong = wrong.parse().ok().map(|count| Wrongs {
            count,
            ..Wrongs::default()
        });
        Timed {
            us: exact(collective, bytes, printed),
            wrong,
        }
    };
    assert_eq!(collective.names_op(), op == "sum");
    Row {
        collective,
        bytes,
        count: count.parse().unwrap(),
        data: data.parse::<DataType>().unwrap(),
        op: collective.names_op().then_some(RedOp::Sum),
        root: root.parse().ok().map(Rank::new),
        ranks: 4,
        out_of_place: timed([out_us, out_alg, out_bus], out_wrong),
        in_place: timed([us, alg, bus], wrong),
    }
}

fn rows(collective: Collective, text: &str) -> Vec<Row> {
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|l| read(collective, l))
        .collect()
}

/// The devices of the reference; its lines name their process.
fn devices(text: &str) -> Vec<Device> {
    let lines = text.lines().filter(|l| l.starts_with("#  Rank"));
    let pid = |line: &str| line.split_whitespace().nth(6).unwrap().parse().unwrap();
    let device = |(rank, line): (usize, &str)| Device {
        rank: rank.into(),
        pid: pid(line),
        host: "vm".to_owned(),
        ordinal: GpuId::new(rank),
        bdf: format!("0000:00:{:02x}.0", rank + 6).parse().unwrap(),
        name: "NVIDIA H200".to_owned(),
    };
    lines.enumerate().map(device).collect()
}

/// All lines except the first and the average, which come from unrounded figures.
fn comparable(text: &str) -> Vec<&str> {
    let lines = text.split('\n').skip(1);
    lines
        .filter(|line| !line.starts_with("# Avg bus bandwidth"))
        .collect()
}

fn average_of(text: &str) -> f64 {
    let line = text
        .lines()
        .find(|l| l.starts_with("# Avg bus bandwidth"))
        .unwrap();
    assert!(line.ends_with(' '), "{line:?}");
    line.split(':').nth(1).unwrap().trim().parse().unwrap()
}

#[test]
fn the_tables_of_nccl_tests_are_rendered_byte_for_byte() {
    for (name, collective) in FILES {
        let peer = peer(name);
        let rows = rows(collective, &peer);
        assert_eq!(rows.len(), 25, "{name}");
        let (sweep, devices) = (Sweep::standard(collective), devices(&peer));
        let about = RunInfo {
            version: "0.1.0",
            library: 22907,
            sweep: &sweep,
            gpus: 4,
            devices: &devices,
        };
        let mut ours = head(&about) + &columns();
        rows.iter().for_each(|r| ours += &row(r));
        ours += &tail(collective, &rows);
        let (ours_lines, peers_lines) = (comparable(&ours), comparable(&peer));
        assert_eq!(ours_lines.len(), peers_lines.len(), "{name}");
        for (ours, peers) in ours_lines.iter().zip(peers_lines) {
            assert_eq!(*ours, peers, "{name}");
        }
        assert!(
            (average_of(&ours) / average_of(&peer) - 1.0).abs() < 1e-3,
            "{name}"
        );
        assert!(
            ours.starts_with("# firstlight version 0.1.0 nccl-headers=none nccl-library=22907\n")
        );
    }
}

fn one(us: f64, wrong: Option<u64>) -> Row {
    let timed = |wrong: Option<u64>| Timed {
        us,
        wrong: wrong.map(|count| Wrongs {
            count,
            ..Wrongs::default()
        }),
    };
    Row {
        collective: Collective::Gather,
        bytes: 64,
        count: 4,
        data: DataType::Bfloat16,
        op: None,
        root: Some(3.into()),
        ranks: 4,
        out_of_place: timed(wrong),
        in_place: timed(None),
    }
}

#[test]
fn wrong_elements_and_unchecked_rows_are_shown() {
    let line = row(&one(12_345.0, Some(1_234_567)));
    let expected = "          64             4  bfloat16    none       3  12345.0    0.00    0.00  1.23457e+06  12345.0    0.00    0.00    N/A\n";
    assert_eq!(line, expected);
    let end = tail(Collective::Gather, &[one(1.0, Some(2)), one(1.0, Some(0))]);
    assert!(
        end.starts_with("# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 0.048 \n#\n"),
        "{end}"
    );
    assert!(
        end.ends_with("# Collective test concluded: gather_perf\n#\n\n"),
        "{end}"
    );
}

#[test]
fn sendrecv_names_the_requested_reduction() {
    let of = |collective, op| {
        row(&Row {
            collective,
            op,
            ..one(1.0, None)
        })
    };
    assert!(of(Collective::Sendrecv, Some(RedOp::Max)).contains("  bfloat16     max  "));
    assert!(of(Collective::Scatter, None).contains("  bfloat16    none  "));
}

#[test]
fn processes_are_listed_with_their_own_numbers() {
    let device = |rank: usize| Device {
        rank: rank.into(),
        pid: 1000 + u32::try_from(rank).unwrap(),
        host: "a-long-host-name".to_owned(),
        ordinal: GpuId::new(rank),
        bdf: "10000:c1:00.0".parse().unwrap(),
        name: "NVIDIA GeForce RTX 4090".to_owned(),
    };
    let sweep = Sweep {
        factor: 1,
        check: false,
        ..Sweep::standard(Collective::Reduce)
    };
    let devices = [device(0), device(11)];
    let text = head(&RunInfo {
        version: "0.1.0",
        library: 21903,
        sweep: &sweep,
        gpus: 1,
        devices: &devices,
    });
    assert!(text.contains(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 1048576(bytes) warmup iters: 1 "
    ));
    assert!(text.contains("validation: 0 graph: 0"));
    let line = "#  Rank 11 Group  0 Pid   1011 on a-long-host-name device 11 [10000:c1:00] NVIDIA GeForce RTX 4090\n";
    assert!(text.ends_with(line), "{text}");
}

#[test]
fn json_has_the_keys_of_nccl_tests() {
    let sweep = Sweep::standard(Collective::Gather);
    let devices = devices(&peer("all_reduce_perf"));
    let about = RunInfo {
        version: "0.1.0",
        library: 22907,
        sweep: &sweep,
        gpus: 4,
        devices: &devices,
    };
    let args = ["firstlight".to_owned(), "nccl".to_owned()];
    let environment = [("NCCL_P2P_LEVEL".to_owned(), "SYS".to_owned())];
    let run = RunMetadata {
        start: "2026-11-20 10:24:45",
        end: "2026-11-20 10:24:46",
        args: &args,
        environment: &environment,
        errors: &[],
    };
    let value = json(&about, &[one(64.0, Some(1))], &run);
    assert_eq!(value["config"]["ngpus"], 4);
    assert_eq!(
        (
            &value["config"]["step_factor"],
            value["config"].get("step_bytes")
        ),
        (&2.into(), None)
    );
    assert_eq!(value["config"]["devices"][3]["device_hex"], "0000:00:09");
    assert_eq!(
        (&value["env"][0], &value["args"][1]),
        (&"NCCL_P2P_LEVEL=SYS".into(), &"nccl".into())
    );
    let result = &value["results"][0];
    assert_eq!(
        (&result["size"], &result["redop"], &result["root"]),
        (&64.into(), &"none".into(), &"     3".into())
    );
    assert_eq!(
        (
            &result["out_of_place"]["time"],
            &result["out_of_place"]["nwrong"]
        ),
        (&64.0.into(), &1.into())
    );
    assert!((result["out_of_place"]["bus_bw"].as_f64().unwrap() - 0.000_75).abs() < 1e-9);
    assert!(result["in_place"]["nwrong"].is_null());
    assert_eq!(
        (
            &value["out_of_bounds"]["count"],
            &value["out_of_bounds"]["okay"]
        ),
        (&1.into(), &"false".into())
    );
    assert_eq!(value["average_bus_bandwidth"]["okay"], "unchecked");
    let nothing = json(&about, &[], &run);
    assert_eq!(nothing["results"], serde_json::json!([]));
    assert!(
        nothing.get("out_of_bounds").is_none() && nothing.get("average_bus_bandwidth").is_none()
    );
}

#[test]
fn the_gain_fits_a_console() {
    let arm = |name| rows(Collective::AllReduce, &peer(name));
    let (off, on) = (
        arm("all_reduce_perf.NCCL_P2P_DISABLE"),
        arm("all_reduce_perf"),
    );
    let gains = gains(&[off], &[on], Placement::OutOfPlace).unwrap();
    let text = gain_table("all_reduce", "SHM", "P2P/direct pointer", &gains);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 27);
    assert_eq!(
        lines[0],
        "all_reduce, busbw in GB/s   off: SHM   on: P2P/direct pointer"
    );
    assert_eq!(lines[1], "      size    P2P off     P2P on      gain");
    assert_eq!(lines[2], "       8 B       0.00       0.00      -1 %");
    assert_eq!(lines[26], "   128 MiB      26.84     328.82   +1125 %");
    let long = gain_table(
        "all_reduce",
        "SHM and NET",
        &"P2P/CUMEM and ".repeat(9),
        &gains,
    );
    assert!(
        text.lines()
            .chain(long.lines())
            .all(|l| l.chars().count() <= 80)
    );
    assert!(long.lines().next().unwrap().ends_with(".."));
}
