use super::super::{PatternTransfer, collapse, starved};
use super::*;
use crate::schedule::Plan;
use machine::pcie::sample::{bdf, fabric};
use machine::pcie::topo::NvLinks;
use outcome::finding::{Code, Severity};
use proptest::prelude::*;

fn joined(gpus: usize, links: u32) -> Routes {
    let all: Vec<_> = (0..gpus)
        .map(|n| bdf(&format!("0000:{n:02x}:00.0")))
        .collect();
    let pairs = all
        .iter()
        .flat_map(|a| all.iter().map(|b| (*a, *b)))
        .filter(|(a, b)| a < b);
    let links: NvLinks = pairs.map(|pair| (pair, links)).collect();
    Routes::new(&fabric(Vec::new()), &all, &links).unwrap()
}

fn everyone(routes: &Routes, gb_s: f64) -> BTreeMap<Pair, f64> {
    Plan::ordered(routes)
        .rounds
        .concat()
        .into_iter()
        .map(|pair| (pair, gb_s))
        .collect()
}

/// What `pairs` should move by the links alone.
fn total(known: KnownPaths<'_>, pairs: &[Pair]) -> f64 {
    ResourceRates::new(known, &|_| None, &[])
        .expected(pairs)
        .unwrap()
        .total
}

#[track_caller]
fn near(measured: f64, expected: f64) {
    assert!(
        (measured - expected).abs() < expected * 1e-6,
        "{measured} is not {expected}"
    );
}

#[test]
fn behind_a_switch_each_gpu_sends_and_receives_what_its_own_links_carry() {
    let routes = joined(4, 18);
    let alone = everyone(&routes, 392.0);
    let none = BTreeMap::new();
    let known = KnownPaths {
        routes: &routes,
        alone: &alone,
        nvlinks: &[18; 4],
        classes: &none,
    };
    let ring: Vec<_> = (0..4).map(|n| Pair::of(n, (n + 1) % 4)).collect();
    near(total(known, &ring), 4.0 * 392.0);
    let all: Vec<_> = alone.keys().copied().collect();
    near(total(known, &all), 4.0 * 392.0);
    let to_one: Vec<_> = (1..4).map(|n| Pair::of(n, 0)).collect();
    near(total(known, &to_one), 392.0);
    let network = ResourceRates::new(known, &|_| None, &[]);
    assert_eq!(network.expected(&to_one).unwrap().limit, "GPU 0 in");
    let nothing = BTreeMap::new();
    assert!(
        ResourceRates::new(
            KnownPaths {
                alone: &nothing,
                ..known
            },
            &|_| None,
            &[]
        )
        .expected(&ring)
        .is_none()
    );
}

#[test]
fn without_a_switch_every_peer_has_separate_links() {
    let routes = joined(4, 4);
    let alone = everyone(&routes, 95.0);
    let all: Vec<_> = alone.keys().copied().collect();
    near(
        total(
            KnownPaths {
                routes: &routes,
                alone: &alone,
                nvlinks: &[12; 4],
                classes: &BTreeMap::new(),
            },
            &all,
        ),
        12.0 * 95.0,
    );
    near(
        total(
            KnownPaths {
                routes: &routes,
                alone: &alone,
                nvlinks: &[0; 4],
                classes: &BTreeMap::new(),
            },
            &all,
        ),
        4.0 * 95.0,
    );
}

/// Two GPUs on one switch, and two below other root ports.
fn uplink() -> Routes {
    use machine::pcie::model::Kind::{Downstream, RootPort, Upstream};
    use machine::pcie::sample::{device, gpu};
    let devices = vec![
        device("0000:00:01.0", RootPort, None),
        device("0000:01:00.0", Upstream, Some("0000:00:01.0")),
        device("0000:02:00.0", Downstream, Some("0000:01:00.0")),
        device("0000:02:01.0", Downstream, Some("0000:01:00.0")),
        gpu("0000:03:00.0", "0000:02:00.0"),
        gpu("0000:04:00.0", "0000:02:01.0"),
        device("0000:00:02.0", RootPort, None),
        device("0000:00:03.0", RootPort, None),
        gpu("0000:05:00.0", "0000:00:02.0"),
        gpu("0000:06:00.0", "0000:00:03.0"),
    ];
    let fabric = fabric(devices);
    Routes::new(&fabric, &fabric.gpus, &NvLinks::new()).unwrap()
}

#[test]
fn two_writers_share_their_uplink_and_a_collapse_is_found() {
    let routes = uplink();
    let alone = everyone(&routes, 37.0);
    let none = BTreeMap::new();
    let known = KnownPaths {
        routes: &routes,
        alone: &alone,
        nvlinks: &[0; 4],
        classes: &none,
    };
    let writers = [Pair::of(0, 2), Pair::of(1, 3)];
    // Of the resources between the root ports only the observed rates are known.
    let expected = |gen5: bool, moved: f64| {
        let raw = |_: Bdf| gen5.then_some(63.0);
        let others = [Pair::of(2, 3), Pair::of(3, 2)];
        let ran = [
            JointTransfers {
                pairs: &writers,
                total: moved,
            },
            JointTransfers {
                pairs: &others,
                total: 60.0,
            },
        ];
        ResourceRates::new(known, &raw, &ran)
            .expected(&writers)
            .unwrap()
    };
    near(expected(false, 36.0).total, 37.0);
    near(expected(true, 36.0).total, 50.4);
    assert!(
        expected(true, 36.0).limit.ends_with(" up"),
        "{:?}",
        expected(true, 36.0)
    );
    let judged = |gb_s, again| collapse("many-to-many", 2, (gb_s, again), &expected(false, gb_s));
    assert_eq!(judged(36.0, None), None);
    assert_eq!(judged(23.0, None).unwrap().severity, Severity::Warn);
    assert_eq!(
        judged(18.5, None).unwrap().severity,
        Severity::Fail,
        "half is a collapse"
    );
    assert_eq!(judged(18.5, Some(36.0)), None, "it was low only once");
    let finding = judged(5.4, Some(5.5)).unwrap();
    assert!(finding.is(Code::P2pCollapse));
    assert!(
        finding.message.contains(
            "2 transfers at once move 5.40 GB/s (5.50 when measured again), expected at least 25.90"
        ),
        "{finding:?}"
    );
    assert_eq!(
        judged(f64::NAN, None).unwrap().severity,
        Severity::Fail,
        "no figure is never good"
    );
}

/// The interconnect of the sockets carries what the pairs across it showed, all at once: no more is expected
/// of it when all write to all, and no less.
#[test]
fn an_unknown_resource_carries_what_was_seen_to_pass() {
    use machine::pcie::model::Kind::RootPort;
    use machine::pcie::sample::{device, gpu};
    let mut devices = Vec::new();
    for n in 0..4_u32 {
        let (port, own) = (
            format!("0000:{}0:01.0", n + 1),
            format!("0000:{}1:00.0", n + 1),
        );
        let mut all = [device(&port, RootPort, None), gpu(&own, &port)];
        all.iter_mut().for_each(|d| {
            d.root_bus = Some(format!("pci0000:{}0", n + 1));
            d.numa = Some(n / 2);
        });
        devices.extend(all);
    }
    let fabric = fabric(devices);
    let routes = Routes::new(&fabric, &fabric.gpus, &NvLinks::new()).unwrap();
    let alone = everyone(&routes, 22.0);
    let far = |pair: &Pair| usize::from(pair.from.index() / 2 != pair.to.index() / 2);
    let classes: BTreeMap<_, _> = alone.keys().map(|pair| (*pair, far(pair))).collect();
    let known = KnownPaths {
        routes: &routes,
        alone: &alone,
        nvlinks: &[0; 4],
        classes: &classes,
    };
    let across = [
        Pair::of(0, 2),
        Pair::of(1, 3),
        Pair::of(2, 0),
        Pair::of(3, 1),
    ];
    let all: Vec<_> = alone.keys().copied().collect();
    let expected = |across_gb_s, all_gb_s: f64| {
        let ran = [
            JointTransfers {
                pairs: &across,
                total: across_gb_s,
            },
            JointTransfers {
                pairs: &all,
                total: all_gb_s,
            },
        ];
        ResourceRates::new(known, &|_| None, &ran)
            .expected(&all)
            .unwrap()
    };
    // 8 of 12 transfers cross; each GPU's own link allows 4 times 22 GB/s.
    near(expected(88.0, 80.0).total, 88.0);
    near(expected(40.0, 50.0).total, 60.0);
    near(expected(40.0, 50.0).links, 88.0);
    assert_eq!(expected(40.0, 50.0).limit, "the fabric of NUMA node 0");
    let halved = collapse("all to all", 12, (30.0, None), &expected(40.0, 30.0)).unwrap();
    assert_eq!(halved.severity, Severity::Fail);
}

#[test]
fn classes_are_pairs_of_one_kind_and_speed() {
    let pair = |n| Pair::of(0, n);
    let speeds = [
        (1, 25.5),
        (2, 26.0),
        (3, 20.6),
        (4, 21.7),
        (5, 22.5),
        (6, 26.0),
    ];
    let alone: BTreeMap<_, _> = speeds.iter().map(|(n, gb_s)| (pair(*n), *gb_s)).collect();
    let found = classes(&alone, &|p| {
        if p.to == 6 {
            "PIX".to_owned()
        } else {
            "SYS".to_owned()
        }
    });
    let of = |n| found[&pair(n)];
    assert_eq!((of(3), of(1)), (of(4), of(2)));
    assert_eq!(of(4), of(5));
    let different: std::collections::BTreeSet<_> = [of(1), of(3), of(6)].into();
    assert_eq!(different.len(), 3);
}

#[test]
fn a_starved_transfer_in_its_group_is_named() {
    let share = |pair, gb_s, alone, like: &str| PatternTransfer {
        pair,
        gb_s,
        alone,
        like: like.to_owned(),
    };
    let each = |slow: f64| -> Vec<_> {
        let one = |n| {
            share(
                Pair::of(0, n),
                if n == 3 { slow } else { 12.5 },
                25.0,
                "SYS",
            )
        };
        let others = [
            share(Pair::of(1, 2), 2.0, 25.0, "PIX"),
            share(Pair::of(1, 3), 4.0, 8.0, "SYS"),
        ];
        (1..6).map(one).chain(others).collect()
    };
    assert_eq!(starved("all to all", &each(6.5)), []);
    let found = starved("all to all", &each(6.0));
    assert_eq!(
        (found.len(), &found[0].subject, found[0].severity),
        (1, &Pair::of(0, 3).into(), Severity::Warn)
    );
}

/// A promise, together with the plan: 64 GPUs in under a second (optimized).
#[test]
fn sixty_four_gpus_are_distributed_quickly() {
    let routes = joined(64, 18);
    let alone = everyone(&routes, 392.0);
    let all: Vec<_> = alone.keys().copied().collect();
    let start = std::time::Instant::now();
    near(
        total(
            KnownPaths {
                routes: &routes,
                alone: &alone,
                nvlinks: &[18; 64],
                classes: &BTreeMap::new(),
            },
            &all,
        ),
        64.0 * 392.0,
    );
    println!(
        "{} transfers distributed in {:?}",
        all.len(),
        start.elapsed()
    );
    assert!(start.elapsed().as_secs() < 50);
}

proptest! {
    /// Every transfer has a share, and no link is expected to carry more than it can.
    #[test]
    fn what_is_expected_is_possible(gpus in 2_usize..8, seed in prop::collection::vec(1.0_f64..500.0, 56)) {
        let routes = joined(gpus, 18);
        let pairs = Plan::ordered(&routes).rounds.concat();
        let alone: BTreeMap<_, _> = pairs.iter().copied().zip(seed.iter().copied()).collect();
        let nvlinks = vec![18; gpus];
        let expected = total(KnownPaths { routes: &routes, alone: &alone, nvlinks: &nvlinks, classes: &BTreeMap::new() }, &pairs);
        prop_assert!(expected > 0.0 && expected <= alone.values().sum::<f64>() + 1e-6);
        for gpu in GpuId::all(gpus) {
            let most = alone.iter().filter(|(p, _)| p.from == gpu).map(|(_, s)| *s).fold(0.0, f64::max);
            prop_assert!(expected / gpus as f64 <= most + 1e-6);
        }
    }
}
