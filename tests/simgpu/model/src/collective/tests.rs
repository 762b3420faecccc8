use super::*;
use crate::content::Content;
use crate::element::{DataType, ReduceOp};
use crate::extents::bytes;
use crate::scenario::{Program, Scenario};
use crate::values::{ValueOrigin, Values};

const TYPES: [DataType; 5] = [
    DataType::Int32,
    DataType::Half,
    DataType::Float,
    DataType::Double,
    DataType::Bfloat16,
];
const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg];

fn values(kind: DataType, op: Option<ReduceOp>, ranks: usize, rank: usize) -> Values {
    let rank = u32::try_from(rank).unwrap();
    let ranks = u32::try_from(ranks).unwrap();
    Values {
        origin: ValueOrigin::Rank(rank),
        ..crate::values::tests::values(kind, op, ranks)
    }
}

fn piece(content: Content, n: u64) -> Vec<Piece> {
    vec![(n, Some(content))]
}

fn contribution(
    collective: Collective,
    sent: Vec<(usize, Vec<Piece>)>,
    wanted: Vec<(usize, u64)>,
    gpu: usize,
) -> Contribution {
    Contribution {
        collective,
        in_place: false,
        sent,
        wanted,
        gpu,
        follows: false,
        alike: true,
        how: 0,
    }
}

/// `count` elements of each rank, sent as `collective` requires.
fn parts(
    collective: Collective,
    kind: DataType,
    op: Option<ReduceOp>,
    ranks: usize,
    count: u64,
) -> Vec<Contribution> {
    let n = count * kind.bytes();
    let one = |r| {
        let sent = piece(Content::Values(values(kind, op, ranks, r), 0), n);
        contribution(collective, vec![(0, sent)], vec![(0, n)], r)
    };
    (0..ranks).map(one).collect()
}

/// The bytes that follow from the definition of a collective, element by element.
fn by_definition(
    collective: Collective,
    kind: DataType,
    ranks: usize,
    count: u64,
    rank: usize,
    op: Option<ReduceOp>,
) -> Vec<u8> {
    let own = |r| values(kind, op, ranks, r);
    let size = usize::try_from(kind.bytes()).unwrap();
    let element = |bits: u64| bits.to_le_bytes()[..size].to_vec();
    let reduced = |k, op: ReduceOp| {
        let all: Vec<_> = (0..ranks).map(|r| own(r).at(k)).collect();
        element(op.reduce(kind, &all))
    };
    match collective {
        Collective::AllReduce(_, op) | Collective::Reduce(_, op, _) => {
            (0..count).flat_map(|k| reduced(k, op)).collect()
        }
        Collective::AllGather => (0..ranks)
            .flat_map(|r| (0..count).flat_map(move |k| element(own(r).at(k))))
            .collect(),
        Collective::Broadcast(root) => (0..count).flat_map(|k| element(own(root).at(k))).collect(),
        Collective::ReduceScatter(_, op) => {
            let part = count / ranks as u64;
            (rank as u64 * part..(rank as u64 + 1) * part)
                .flat_map(|k| reduced(k, op))
                .collect()
        }
        Collective::Exchange => Vec::new(),
    }
}

#[test]
fn each_collective_equals_its_definition() {
    for kind in TYPES {
        for ranks in [2, 3, 8] {
            let count = 6 * ranks as u64;
            let reducing = OPS.into_iter().flat_map(|op| {
                [
                    Collective::AllReduce(kind, op),
                    Collective::ReduceScatter(kind, op),
                    Collective::Reduce(kind, op, 1),
                ]
                .map(|collective| (collective, Some(op)))
            });
            for (collective, op) in reducing.chain([
                (Collective::AllGather, None),
                (Collective::Broadcast(1), None),
            ]) {
                let parts = parts(collective, kind, op, ranks, count);
                assert!(agree(&parts));
                let all: Vec<_> = (0..ranks).collect();
                for (rank, got) in results(&parts, &all).into_iter().enumerate() {
                    assert_eq!(
                        bytes(&got[0]),
                        by_definition(collective, kind, ranks, count, rank, op),
                        "{collective:?} {ranks} {rank}"
                    );
                }
            }
        }
    }
}

/// Each rank sends a different part to each rank that receives from it.
fn exchange(ranks: usize, bytes: u64, from: impl Fn(usize) -> Vec<usize>) -> Vec<Contribution> {
    let to = |rank: usize| {
        (0..ranks)
            .filter(|r| from(*r).contains(&rank))
            .collect::<Vec<_>>()
    };
    let one = |rank| {
        let part = |to| {
            let first = to as u64 * bytes / 4;
            (
                to,
                piece(
                    Content::Values(
                        Values {
                            first,
                            ..values(DataType::Float, None, ranks, rank)
                        },
                        0,
                    ),
                    bytes,
                ),
            )
        };
        let sent = to(rank).into_iter().map(part).collect();
        contribution(
            Collective::Exchange,
            sent,
            from(rank).into_iter().map(|r| (r, bytes)).collect(),
            rank,
        )
    };
    (0..ranks).map(one).collect()
}

#[test]
fn sends_and_receives_map_to_nccl_tests_programs() {
    let n = 4_usize;
    let all = |_| (0..n).collect::<Vec<_>>();
    let root = |r| if r == 1 { (0..n).collect() } else { Vec::new() };
    for (parts, program, bytes) in [
        (exchange(n, 64, all), Program::Alltoall, 256),
        (
            exchange(n, 64, |r| vec![(r + n - 1) % n]),
            Program::Sendrecv,
            64,
        ),
        (exchange(n, 64, root), Program::Gather, 256),
        (exchange(n, 64, |_| vec![1]), Program::Scatter, 256),
    ] {
        assert_eq!(nccl_tests_shape(&parts), (program, bytes));
        assert!(agree(&parts));
        let ranks: Vec<_> = (0..n).collect();
        for (rank, got) in results(&parts, &ranks).into_iter().enumerate() {
            for (pieces, (from, _)) in got.iter().zip(&parts[rank].wanted) {
                let sent = parts[*from]
                    .sent
                    .iter()
                    .find(|(to, _)| *to == rank)
                    .unwrap();
                assert_eq!(bytes_of(pieces), bytes_of(&sent.1));
            }
        }
    }
}

fn bytes_of(pieces: &[Piece]) -> Vec<u8> {
    bytes(pieces)
}

#[test]
fn a_receive_without_a_matching_send_does_not_agree() {
    let mut parts = exchange(3, 64, |r| vec![(r + 2) % 3]);
    parts[0].sent.clear();
    assert!(!agree(&parts));
    let mut sizes = parts_of_two_sizes();
    assert!(!agree(&sizes));
    sizes.pop();
    assert!(agree(&sizes));
}

fn parts_of_two_sizes() -> Vec<Contribution> {
    let collective = Collective::AllReduce(DataType::Float, ReduceOp::Sum);
    let mut all = parts(collective, DataType::Float, None, 2, 8);
    all[1].sent[0].1 = piece(Content::ZEROS, 64);
    all
}

#[test]
fn an_encoded_contribution_decodes_unchanged() {
    let collective = Collective::Reduce(DataType::Half, ReduceOp::Avg, 3);
    let pieces = vec![
        (
            10,
            Some(Content::Values(
                values(DataType::Half, Some(ReduceOp::Avg), 4, 2),
                0,
            )),
        ),
        (6, None),
        (4, Some(Content::bytes(vec![1, 2, 3, 4]))),
    ];
    let part = Contribution {
        in_place: true,
        ..contribution(
            collective,
            vec![(1, pieces.clone()), (2, Vec::new())],
            vec![(3, 20)],
            7,
        )
    };
    let back = Contribution::decode(&part.encode()).unwrap();
    assert_eq!(
        (back.collective, back.in_place, back.gpu, &back.wanted),
        (collective, true, 7, &part.wanted)
    );
    assert_eq!(back.sent.len(), 2);
    assert_eq!(bytes(&back.sent[0].1), bytes(&pieces));
    assert!(Contribution::decode(&part.encode()[..50]).is_none());
}

#[test]
fn large_collectives_are_computed_symbolically() {
    let began = std::time::Instant::now();
    for _ in 0..100 {
        for collective in [
            Collective::AllReduce(DataType::Float, ReduceOp::Sum),
            Collective::AllGather,
            Collective::ReduceScatter(DataType::Float, ReduceOp::Max),
        ] {
            let parts = parts(collective, DataType::Float, None, 8, 32 << 20);
            let got = results(&parts, &[0, 7]);
            assert!(
                got[1][0]
                    .iter()
                    .all(|(_, c)| matches!(c, Some(Content::Values(..))))
            );
        }
    }
    assert!(began.elapsed().as_secs() < 50, "{:?}", began.elapsed());
}

fn scenario(name: &str, more: &str) -> Scenario {
    Scenario::parse(&crate::scenario::tests::machine(name, more)).unwrap()
}

fn us(scenario: &Scenario, parts: &[Contribution], path: Path) -> f64 {
    scenario.collective_ns(1, parts, path, scenario.nccl.channels) / 1e3
}

fn all_reduce(ranks: usize, bytes: u64, in_place: bool) -> Vec<Contribution> {
    let collective = Collective::AllReduce(DataType::Float, ReduceOp::Sum);
    let part = |gpu| Contribution {
        in_place,
        ..contribution(
            collective,
            vec![(0, piece(Content::ZEROS, bytes))],
            vec![(0, bytes)],
            gpu,
        )
    };
    (0..ranks).map(part).collect()
}

/// Checks both recorded tables of 8 RTX 4090, to all printed digits.
#[test]
fn the_reference_machines_tables_are_reproduced() {
    let scenario = scenario("epyc-8x4090", "");
    let tables = include_str!("../../../machines/tables/epyc-8x4090.all_reduce.txt");
    // Each table begins with a comment line; the first one is without peer access.
    for (path, text) in [Path::Shm, Path::P2p]
        .into_iter()
        .zip(tables.split("# ").skip(1))
    {
        let mut rows = 0;
        for row in text.lines().skip(1) {
            let fields: Vec<_> = row.split_whitespace().collect();
            let bytes: u64 = fields[0].parse().unwrap();
            for (in_place, printed) in [(false, &fields[1..4]), (true, &fields[4..7])] {
                let us = us(&scenario, &all_reduce(8, bytes, in_place), path);
                let decimals = printed[0].split_once('.').map_or(0, |(_, d)| d.len());
                let rate = bytes as f64 / 1e3 / us;
                let shown = [
                    format!("{us:.decimals$}"),
                    format!("{rate:.2}"),
                    format!("{:.2}", rate * 1.75),
                ];
                assert_eq!(shown, *printed, "{path:?} {bytes} {in_place}");
            }
            rows += 1;
        }
        assert_eq!(rows, 25);
    }
}

#[test]
fn other_numbers_of_gpus_keep_the_bus_bandwidth() {
    let scenario = scenario("epyc-8x4090", "");
    let bytes = 128 << 20;
    let of = |ranks: usize| {
        let n = u32::try_from(ranks).unwrap();
        bytes as f64 / 1e3 / us(&scenario, &all_reduce(ranks, bytes, false), Path::P2p)
            * Program::AllReduce.factor(n)
    };
    assert!(
        (of(8) - 20.64).abs() < 0.01
            && (of(2) - of(8)).abs() < 1e-6
            && (of(5) - of(8)).abs() < 1e-6
    );
    let half = parts(Collective::Broadcast(0), DataType::Half, None, 8, bytes / 2);
    let float = parts(
        Collective::Broadcast(0),
        DataType::Float,
        None,
        8,
        bytes / 4,
    );
    let [half, float] = [half, float].map(|p| us(&scenario, &p, Path::P2p));
    assert!((half - float).abs() < 1e-9 && (bytes as f64 / 1e3 / half - 20.64).abs() < 0.01);
}

#[test]
fn a_slow_pair_slows_its_ring_and_a_slow_rank_slows_every_collective() {
    let bytes = 128 << 20;
    let time = |more: &str, path| {
        us(
            &scenario("epyc-8x4090", more),
            &all_reduce(8, bytes, false),
            path,
        )
    };
    let (p2p, shm) = (time("", Path::P2p), time("", Path::Shm));
    let pair = "[[fault]]\nkind = \"slow\"\npair = [2, 3]\nrate = 0.5\n";
    assert!((time(pair, Path::P2p) / p2p - 2.0).abs() < 0.01);
    assert!((time(pair, Path::Shm) - shm).abs() < 1e-9);
    let off_ring = "[[fault]]\nkind = \"slow\"\npair = [3, 2]\nrate = 0.5\n";
    assert!((time(off_ring, Path::P2p) - p2p).abs() < 1e-9);
    let narrow = "[[fault]]\nkind = \"narrow\"\ngpu = 1\nwidth = 4\nrate = 0.25\n";
    assert!(time(narrow, Path::P2p) / p2p > 3.9 && time(narrow, Path::Shm) / shm > 3.9);
    let rank = "[[fault]]\nkind = \"nccl-slow\"\ngpu = 6\nrate = 0.25\n";
    assert!((time(rank, Path::P2p) / p2p - 4.0).abs() < 1e-6);
    let three = us(
        &scenario("epyc-8x4090", rank),
        &all_reduce(3, bytes, false),
        Path::P2p,
    );
    assert!(
        (three
            - us(
                &scenario("epyc-8x4090", ""),
                &all_reduce(3, bytes, false),
                Path::P2p
            ))
        .abs()
            < 1e-9
    );
}

#[test]
fn few_channels_and_the_network_are_slower() {
    let scenario = scenario("epyc-8x4090", "");
    let parts = all_reduce(8, 128 << 20, false);
    let with = |channels| scenario.collective_ns(1, &parts, Path::P2p, channels);
    assert!(with(1) > with(2) && with(2) > with(4) && (with(8) - with(4)).abs() < 1e-6);
    assert!(us(&scenario, &parts, Path::Net) > us(&scenario, &parts, Path::Shm));
}
