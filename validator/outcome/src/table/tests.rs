//! What is written is today's JSON, and what is read is written again.

use super::*;
use crate::metric::Metric;
use crate::platform::{GpuId, Pair, Rank};

fn state(gpu: usize) -> GpuState {
    let (sm, temperature) = (Some(1980.0), Some(35.0));
    let held_down_by = Some("power cap".to_owned());
    GpuState {
        gpu: GpuId::new(gpu),
        sm,
        memory: None,
        temperature,
        power: Some(121.44),
        held_down_by,
    }
}

fn call() -> CallRow {
    CallRow {
        collective: "all_reduce".to_owned(),
        bytes: 8,
        count: 2,
        data: "float".to_owned(),
        redop: "sum".to_owned(),
        out_of_place_us: 21.5,
        out_of_place_algbw: 0.0,
        out_of_place_busbw: 0.5,
        out_of_place_wrong: Some(0),
        in_place_us: 22.0,
        in_place_algbw: 0.0,
        in_place_busbw: f64::INFINITY,
        in_place_wrong: None,
    }
}

/// Every table, with the name, the headings with units and the row that a report of it has.
fn samples() -> Vec<(Table, &'static str, &'static str, Value)> {
    let text = str::to_owned;
    let some = |word: &str| Some(word.to_owned());
    let pair = Pair::of(0, 1);
    let calls = "collective|size bytes|count|type|redop|out-of-place time us|out-of-place algbw GB/s|out-of-place busbw \
        GB/s|out-of-place wrong|in-place time us|in-place algbw GB/s|in-place busbw GB/s|in-place wrong";
    let called = json!([
        "all_reduce",
        8,
        2,
        "float",
        "sum",
        21.5,
        0.0,
        0.5,
        0,
        22.0,
        0.0,
        null,
        null
    ]);
    let together = TogetherRow {
        pattern: text("ring"),
        transfers: 8,
        measured: Some(67.5),
        expected: None,
        ratio: None,
        limit: some("a link"),
        links: None,
        sum: Some(68.0),
        alone: None,
    };
    let port = PortRow {
        device: text("mlx5_0"),
        port: 1,
        state: text("ACTIVE"),
        physical: text("LinkUp"),
        layer: text("Ethernet"),
        rate: 100.0,
        lanes: 4,
        interface: some("ens1"),
        interface_state: some("up"),
        interface_mbit_s: Some(100_000),
        gid_index: Some(5),
        address: "10.0.0.1".parse().ok(),
    };
    let nics = NicPaths {
        cards: vec![text("mlx5_0"), text("mlx5_1")],
        rows: vec![NicPathRow {
            gpu: GpuWithAddress {
                gpu: GpuId::new(0),
                address: "0000:01:00.0".parse().unwrap(),
            },
            to: vec![some("PIX"), None],
            nearest: NearestCards {
                distance: some("PIX"),
                cards: some("mlx5_0"),
            },
        }],
    };
    let gpu = GpuId::new(3);
    vec![
        (
            Table::Expected(vec![ExpectedRow {
                pairs: text("56 pairs"),
                expected: text("access"),
                cuda: YesNo(true),
                nvml: text("OK"),
                because: text("x"),
            }]),
            "p2p.expected",
            "pairs|expected|CUDA|NVML|because",
            json!(["56 pairs", "access", "yes", "OK", "x"]),
        ),
        (
            Table::Pairs(vec![PairRow::new(pair, "ok")]),
            "p2p.pairs",
            "from|to|result",
            json!([0, 1, "ok"]),
        ),
        (
            Table::Integrity(vec![IntegrityRow {
                what: text("large"),
                by: text("kernel"),
                memory: text("plain"),
                smallest: None,
                largest: Some(9),
                transfers: 2,
                bytes: 18,
                ruled_out: text("100 %"),
                seed: Some(Seed(7)),
            }]),
            "tried",
            "what|by|memory|smallest B|largest B|transfers a pair|bytes a pair B|faults ruled out above|seed",
            json!([
                "large",
                "kernel",
                "plain",
                null,
                9,
                2,
                18,
                "100 %",
                "0000000000000007"
            ]),
        ),
        (
            Table::Processes(vec![ProcessesRow {
                memory: text("CUDA IPC"),
                pairs: 56,
                smallest: 1,
                largest: 9,
                transfers: 8,
                bytes: 40,
            }]),
            "tried",
            "memory|pairs|smallest B|largest B|transfers a pair|bytes a pair B",
            json!(["CUDA IPC", 56, 1, 9, 8, 40]),
        ),
        (
            Table::Reach(vec![ReachRow {
                what: text("all memory"),
                by: text("copy engine, write"),
                pairs: 56,
                smallest: 1,
                largest: 9,
                transfers: 2,
                bytes: 18,
                ruled_out: text("100 %"),
                seed: None,
            }]),
            "tried",
            "what|by|pairs|smallest B|largest B|transfers a pair|bytes a pair B|faults ruled out above|seed",
            json!([
                "all memory",
                "copy engine, write",
                56,
                1,
                9,
                2,
                18,
                "100 %",
                null
            ]),
        ),
        (
            Table::AllReduce(vec![AllReduceRow {
                gpus: GpuList(vec![GpuId::new(4), GpuId::new(5)]),
                bytes: 4096,
                kind: text("one-shot"),
                rounds: 20,
                median: Some(4.4),
            }]),
            "allreduce",
            "GPUs|size B|all-reduce|rounds|median us",
            json!(["4,5", 4096, "one-shot", 20, 4.4]),
        ),
        (
            Table::BySize(vec![BySizeRow {
                pair,
                way: text("SYS"),
                bytes: 4096,
                copy_engine: Some(2.0),
                kernel: None,
            }]),
            "bandwidth.by-size",
            "pair|way|size bytes|ce.write GB/s|sm.write GB/s",
            json!(["GPU 0 -> 1", "SYS", 4096, 2.0, null]),
        ),
        (
            Table::Spread(vec![SpreadRow {
                matrix: text("ce.write"),
                figures: 4,
                samples: 14,
                spread: 80.4,
                pair,
                slowest: 20.0,
                slow: 2,
            }]),
            "bandwidth.spread",
            "matrix|figures|samples|spread %|pair|slowest %|slow",
            json!(["ce.write", 4, 14, 80.4, "GPU 0 -> 1", 20.0, 2]),
        ),
        (
            Table::Together(vec![together]),
            "together",
            "pattern|transfers|measured GB/s|expected GB/s|ratio|limit|links GB/s|sum GB/s|alone GB/s",
            json!(["ring", 8, 67.5, null, null, "a link", null, 68.0, null]),
        ),
        (
            Table::Soak(vec![SoakRow {
                time: 1.0,
                gb_s: 99.5,
                state: state(3),
                by: text("kernels read"),
            }]),
            "soak",
            "time s|all pairs GB/s|GPU|SM MHz|memory MHz|temperature C|power W|held down by|moved by",
            json!([
                1.0,
                99.5,
                3,
                1980.0,
                null,
                35.0,
                121.44,
                "power cap",
                "kernels read"
            ]),
        ),
        (
            Table::Samples(vec![SampleRow {
                time: 1.0,
                state: state(3),
                lanes: Some(8),
            }]),
            "seconds",
            "time s|GPU|SM MHz|memory MHz|temperature C|power W|held down by|link lanes",
            json!([1.0, 3, 1980.0, null, 35.0, 121.44, "power cap", 8]),
        ),
        (
            Table::Products(vec![ProductsRow {
                gpu,
                right: 2500.0,
                rate: 250.0,
                wrong_launches: 0,
            }]),
            "products",
            "GPU|right products 10^12|rate 10^12/s|wrong launches",
            json!([3, 2500.0, 250.0, 0]),
        ),
        (
            Table::Memory(vec![MemoryRow {
                gpu,
                tested: 79.0,
                of: 80.0,
                passes: 5,
                wrong_words: 0,
            }]),
            "memory",
            "GPU|tested GiB|of GiB|passes|wrong words",
            json!([3, 79.0, 80.0, 5, 0]),
        ),
        (
            Table::Calls(CallTable::AllReduce, [call()].into()),
            "nccl.all_reduce",
            calls,
            called.clone(),
        ),
        (
            Table::Calls(CallTable::CollectivesOdd, [call()].into()),
            "nccl.collectives.odd",
            calls,
            called,
        ),
        (
            Table::Gain(vec![GainRow {
                bytes: 8,
                off_us: 30.0,
                on_us: 20.0,
                off_gb_s: 0.1,
                on_gb_s: 0.2,
                speedup: 1.5,
                spread_us: None,
            }]),
            "nccl.gain",
            "size bytes|off time us|on time us|off busbw GB/s|on busbw GB/s|speedup|spread us",
            json!([8, 30.0, 20.0, 0.1, 0.2, 1.5, null]),
        ),
        (
            Table::Transports(
                Arm::Off,
                [TransportRow {
                    from: Rank::new(0),
                    to: Rank::new(1),
                    via: text("SHM"),
                }]
                .into(),
            ),
            "nccl.transport.off",
            "from rank|to rank|via",
            json!([0, 1, "SHM"]),
        ),
        (
            Table::Graphs(
                Arm::P2p,
                [GraphRow {
                    graph: text("ring"),
                    channels: 1,
                    speed: 12.5,
                    way: text("SYS"),
                }]
                .into(),
            ),
            "nccl.graph.p2p",
            "graph|channels|speed GB/s|way",
            json!(["ring", 1, 12.5, "SYS"]),
        ),
        (
            Table::Libraries(vec![LibraryRow {
                library: None,
                version: some("2.28.9"),
                tested: YesNo(false),
            }]),
            "nccl.libraries",
            "library|version|tested",
            json!([null, "2.28.9", "no"]),
        ),
        (
            Table::Channels(vec![ChannelsRow {
                channels: Channels(None),
                used: Some(2),
                small: 36.0,
                large: 7000.0,
                gain: 1.0,
            }]),
            "nccl.channels",
            "channels|used|1 MiB us|128 MiB us|gain",
            json!(["own", 2, 36.0, 7000.0, 1.0]),
        ),
        (
            Table::Ibdev2netdev(vec![Ibdev2netdevRow {
                line: text("mlx5_0 port 1 ==> ens1 (Up)"),
            }]),
            "ibdev2netdev",
            "line",
            json!(["mlx5_0 port 1 ==> ens1 (Up)"]),
        ),
        (
            Table::Ports(vec![port]),
            "rdma ports",
            "device|port|state|physical state|link layer|rate Gb/s|lanes|interface|interface state|interface speed \
                Mb/s|RoCE v2 IPv4 GID index|RoCE v2 IPv4 address",
            json!([
                "mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet", 100.0, 4, "ens1", "up", 100_000, 5,
                "10.0.0.1"
            ]),
        ),
        (
            Table::NicPaths(Box::new(nics)),
            "GPU to network card",
            "GPU|address|mlx5_0|mlx5_1|nearest|nearest cards",
            json!([0, "0000:01:00.0", "PIX", null, "PIX", "mlx5_0"]),
        ),
        (
            Table::Gdr(vec![GdrRow {
                gpu,
                by: text("dma-buf"),
                dma_buf: true,
                peer_memory: false,
                mapped: true,
            }]),
            "GPUDirect RDMA",
            "GPU|by|dma-buf|peer memory|mapped memory",
            json!([3, "dma-buf", true, false, true]),
        ),
        (
            Table::PortBytes(vec![PortBytesRow {
                rail: 0,
                port: text("a mlx5_0:1"),
                sent: 9,
                received: 8,
            }]),
            "bytes by the ports' counters",
            "rail|port|sent B|received B",
            json!([0, "a mlx5_0:1", 9, 8]),
        ),
        (
            Table::Rates(
                RdmaMemory::Gpu,
                [RateRow {
                    rail: 1,
                    transfer: text("write"),
                    by: text("a"),
                    at: text("b"),
                    bytes: 9,
                    rate: 92.5,
                }]
                .into(),
            ),
            "RDMA, GPU memory",
            "rail|transfer|by|at|size B|rate Gb/s",
            json!([1, "write", "a", "b", 9, 92.5]),
        ),
        (
            Table::Counters(
                RdmaMemory::Host,
                [CountersRow {
                    rail: 1,
                    port: text("a"),
                    sent: 9,
                    counted: None,
                }]
                .into(),
            ),
            "RDMA, host memory: bytes by the ports' counters",
            "rail|port|sent by RDMA B|counted B",
            json!([1, "a", 9, null]),
        ),
    ]
}

/// `size bytes|via` as columns of a report: the last word is the unit if it is one.
fn columns(headings: &str) -> Vec<Value> {
    let units = [
        "B", "bytes", "us", "GB/s", "%", "s", "MHz", "C", "W", "lanes", "10^12", "10^12/s", "GiB",
        "rank", "Gb/s", "Mb/s",
    ];
    let column = |heading: &str| match heading.rsplit_once(' ') {
        Some((heading, unit)) if units.contains(&unit) => {
            json!({ "heading": heading, "unit": unit })
        }
        _ => json!({ "heading": heading, "unit": "" }),
    };
    headings.split('|').map(column).collect()
}

#[test]
fn every_table_is_written_as_reports_have_it_and_read_again() {
    for (table, name, headings, row) in samples() {
        let json = json!({ "name": name, "columns": columns(headings), "rows": [row] });
        assert_eq!(*table.json(), json);
        assert_eq!(table.name().as_deref(), Some(name));
        let read = Table::from(json.clone());
        assert!(!matches!(read, Table::Other(_)), "{name}");
        assert_eq!(
            std::mem::discriminant(&read),
            std::mem::discriminant(&table),
            "{name}"
        );
        assert_eq!(*read.json(), json);
        assert_eq!(serde_json::to_string(&read).unwrap(), json.to_string());
    }
}

#[test]
fn a_table_of_another_form_is_kept_as_it_was_read() {
    for (table, name, ..) in samples() {
        let written = table.json().into_owned();
        let with = |change: &dyn Fn(&mut Value)| {
            let mut other = written.clone();
            change(&mut other);
            let read = Table::from(other.clone());
            assert_eq!(read, Table::Other(other), "{name}");
            read
        };
        with(&|table| table["name"] = "new".into());
        with(&|table| table["later"] = true.into());
        with(&|table| table["rows"] = "none".into());
        with(&|table| table["rows"][0] = 7.into());
        with(&|table| table["columns"][0]["heading"] = "new".into());
        // A later version has one more column: what this version needs is still found.
        let later = with(&|table| {
            table["columns"]
                .as_array_mut()
                .unwrap()
                .insert(0, json!({ "heading": "new", "unit": "" }));
            table["rows"][0]
                .as_array_mut()
                .unwrap()
                .insert(0, "new".into());
        });
        if !["tried", NicPaths::TABLE].contains(&name) {
            assert_eq!(*later.known().json(), written, "{name}");
        }
    }
    for other in [
        json!(null),
        json!(7),
        json!(["of another shape"]),
        json!({}),
        json!({ "name": 7, "rows": [] }),
    ] {
        let read = Table::from(other.clone());
        assert_eq!(
            (read.name(), read.known().into_owned()),
            (None, Table::Other(other))
        );
    }
}

#[test]
fn of_an_earlier_table_the_rows_are_known_that_have_what_is_needed() {
    let columns = columns("size bytes|off time us|on time us|off busbw GB/s|on busbw GB/s|speedup");
    let rows = json!([
        [8, 30.0, 20.0, 0.1, 0.2, 1.5],
        ["x"],
        7,
        [16, 30.0, 20.0, null, 0.2, 1.5]
    ]);
    let table = Table::from(json!({ "name": "nccl.gain", "columns": columns, "rows": rows }));
    assert!(matches!(table, Table::Other(_)));
    let known = table.known();
    let Table::Gain(rows) = known.as_ref() else {
        panic!("{known:?}")
    };
    assert_eq!(
        (rows.len(), rows[0].speedup, rows[0].spread_us),
        (2, 1.5, None)
    );
    assert!(rows[1].off_gb_s.is_nan());
    // Another unit is another figure.
    let seconds = json!({ "name": "nccl.gain", "columns": columns_of_seconds(&columns), "rows": [[8, 30, 20, 1, 2, 1.5]] });
    let known = Table::from(seconds).known().into_owned();
    assert!(matches!(known, Table::Gain(rows) if rows[0].off_us.is_nan() && rows[0].on_us == 20.0));
}

fn columns_of_seconds(columns: &[Value]) -> Vec<Value> {
    let mut columns = columns.to_vec();
    columns[1]["unit"] = "s".into();
    columns
}

#[test]
fn results_of_pairs_are_found_in_all_tables() {
    let other = json!({ "name": "other", "rows": [[1, 2, "ok"]] });
    let earlier = json!({ "name": PairRow::TABLE, "rows": [[2], "x", [2, 3, 4], [1, 0, "ZEROS"]] });
    let tables = [
        other.into(),
        Table::Pairs(vec![PairRow::new(Pair::of(0, 1), "ok")]),
        earlier.into(),
    ];
    let read: Vec<_> = pair_rows(&tables).collect();
    assert_eq!(
        read,
        [
            PairRow::new(Pair::of(0, 1), "ok"),
            PairRow::new(Pair::of(1, 0), "ZEROS")
        ]
    );
    assert!(read[0].is_good() && !read[1].is_good());
}

#[test]
fn a_figure_without_its_decimal_point_is_a_figure() {
    let columns = columns("GPU|tested GiB|of GiB|passes|wrong words");
    let table =
        Table::from(json!({ "name": "memory", "columns": columns, "rows": [[3, 79, 80.5, 5, 0]] }));
    assert!(matches!(table, Table::Memory(rows) if rows[0].tested == 79.0));
}

#[test]
fn the_columns_of_speeds_by_size_are_named_as_the_matrices() {
    let named = |column: Column, metric: Metric| {
        assert_eq!(
            (column.heading, column.unit),
            (metric.name(), metric.unit())
        );
    };
    named(BySizeRow::COPY_ENGINE, Metric::CE_WRITE);
    named(BySizeRow::KERNEL, Metric::SM_WRITE);
}

#[test]
fn a_table_takes_no_more_than_any_json_value() {
    assert_eq!(size_of::<Table>(), size_of::<Value>());
}
