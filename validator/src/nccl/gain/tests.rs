use super::*;
use crate::gpu::{Collective, DataType, RedOp};

/// Size, and the times on record of eight RTX 4090: out of place off, on; in place off, on.
const DOCUMENT: [(u64, [f64; 4]); 8] = [
    (8, [38.83, 38.82, 40.43, 38.16]),
    (131_072, [67.27, 72.03, 54.86, 71.50]),
    (1 << 20, [222.8, 216.1, 226.1, 217.2]),
    (4 << 20, [580.8, 478.7, 592.0, 480.1]),
    (16 << 20, [1972.8, 1472.8, 1979.5, 1472.1]),
    (32 << 20, [3905.6, 2870.3, 3919.0, 2866.4]),
    (64 << 20, [7907.1, 5705.0, 7905.3, 5695.6]),
    (128 << 20, [16253.0, 11382.0, 16227.0, 11380.0]),
];

fn row(bytes: u64, us: f64, in_place_us: f64) -> Row {
    Row {
        collective: Collective::AllReduce,
        bytes,
        count: bytes / 4,
        data: DataType::Float,
        op: Some(RedOp::Sum),
        root: None,
        ranks: 8,
        out_of_place: Timed { us, wrong: None },
        in_place: Timed { us: in_place_us, wrong: None },
    }
}

fn arms() -> (Vec<Row>, Vec<Row>) {
    let arm = |n: usize| DOCUMENT.iter().map(|(bytes, us)| row(*bytes, us[n], us[n + 2])).collect();
    (arm(0), arm(1))
}

fn at(gains: &[Gain], bytes: u64) -> Gain {
    *gains.iter().find(|g| g.bytes == bytes).unwrap()
}

#[test]
fn the_gains_match_the_recorded_ones() {
    let (off, on) = arms();
    let gains = gains(&[off], &[on], Placement::OutOfPlace).unwrap();
    let known =
        [(8, 1.00), (131_072, 0.93), (4 << 20, 1.21), (16 << 20, 1.34), (64 << 20, 1.39), (128 << 20, 1.43)];
    for (bytes, speedup) in known {
        let gain = at(&gains, bytes);
        assert!((gain.speedup - speedup).abs() < 0.005, "{gain:?}");
    }
    let largest = at(&gains, 128 << 20);
    assert!((largest.off_gb_s - 14.45).abs() < 0.01 && (largest.on_gb_s - 20.64).abs() < 0.01, "{largest:?}");
    assert_eq!(headline(&gains).as_deref(), Some("P2P: +43 % at 128 MiB"));
}

#[test]
fn in_place_is_counted_separately() {
    let (off, on) = arms();
    let gains = gains(&[off], &[on], Placement::InPlace).unwrap();
    assert!((at(&gains, 131_072).speedup - 0.77).abs() < 0.005);
}

#[test]
fn effects_are_named_by_their_size() {
    let (off, on) = arms();
    let gains = gains(&[off], &[on], Placement::OutOfPlace).unwrap();
    let effects = effects(&gains);
    let names: Vec<_> = effects.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["p2p_speedup_8", "p2p_speedup_128K", "p2p_speedup_1M"]);
    assert_eq!(names[7], "p2p_speedup_128M");
    assert_eq!(effects[7].1, at(&gains, 128 << 20).speedup);
}

#[test]
fn slower_counts_only_at_large_sizes_and_in_every_pairing() {
    let sweep = |large: f64, small: f64| vec![row(1 << 20, small, 1.0), row(8 << 20, large, 1.0)];
    let slower_sizes = |on: [f64; 2]| {
        let off = [sweep(100.0, 10.0), sweep(104.0, 10.0)];
        let on = on.map(|us| sweep(us, 20.0));
        let gains = gains(&off, &on, Placement::OutOfPlace).unwrap();
        slower(&gains).iter().map(|g| g.bytes).collect::<Vec<_>>()
    };
    assert_eq!(slower_sizes([110.0, 112.0]), [8 << 20]);
    assert_eq!(slower_sizes([105.0, 150.0]), [0; 0]);
    assert_eq!(slower_sizes([90.0, 80.0]), [0; 0]);
}

#[test]
fn sweeps_are_represented_by_their_median() {
    let sweep = |us: f64| vec![row(1 << 20, us, 1.0)];
    let off = [sweep(100.0), sweep(110.0)];
    let on = [sweep(70.0), sweep(70.0), sweep(900.0)];
    let gains = gains(&off, &on, Placement::OutOfPlace).unwrap();
    assert_eq!((gains[0].off_us, gains[0].on_us, gains[0].speedup), (105.0, 70.0, 1.5));
    assert_eq!(headline(&gains).as_deref(), Some("P2P: +50 % at 1 MiB"));
    assert_eq!([percent(0.93), percent(0.999), percent(1.001)], ["-7 %", "+0 %", "+0 %"]);
}

#[test]
fn a_size_missing_in_an_arm_is_an_error() {
    let (off, on) = arms();
    let short = on[..7].to_vec();
    let error = gains(std::slice::from_ref(&off), &[on, short], Placement::OutOfPlace).unwrap_err();
    assert_eq!(error.to_string(), "128 MiB: not measured in every sweep of the arm with P2P");
    let more = gains(&[off[..7].to_vec()], std::slice::from_ref(&off), Placement::OutOfPlace).unwrap_err();
    assert_eq!(more.to_string(), "128 MiB: not measured in every sweep of the arm without P2P");
    let none = gains(&[off], &[], Placement::OutOfPlace).unwrap_err();
    assert_eq!(none.to_string(), "the arm with P2P was not measured");
    let zero =
        gains(&[vec![row(8, 0.0, 1.0)]], &[vec![row(8, 1.0, 1.0)]], Placement::OutOfPlace).unwrap_err();
    assert_eq!(zero.to_string(), "8 B: a time of 0 us in the arm without P2P");
    assert_eq!(headline(&[]), None);
}

#[test]
fn rows_that_move_nothing_have_no_gain() {
    let sweep = || vec![row(0, 0.6, 0.6), row(0, 0.6, 0.6), row(64, 20.0, 20.0)];
    let gains = gains(&[sweep()], &[sweep()], Placement::OutOfPlace).unwrap();
    assert_eq!(gains.iter().map(|g| g.bytes).collect::<Vec<_>>(), [64]);
}
