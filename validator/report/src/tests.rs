//! Baselines, comparisons and fleets of small reports.

use super::baseline::{Baseline, KEYS, baseline};
use super::drift::{Drift, as_test, drift};
use super::figures::{figures, is_worse};
use super::fleet::Fleet;
use super::summary::Summary;
use super::*;
use crate::render::fixture::call;
use outcome::finding::{Code, Severity, Subject};
use outcome::platform::Host;
use outcome::table::{CallRow, CallTable};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A report of two GPUs: the speeds between them, times of NCCL's all-reduce, and peer access.
fn report(gb_s: [f64; 2], us: f64) -> Report {
    let matrix = |name: &str, unit: &str, values: [[Option<f64>; 2]; 2]| json!({ "name": name, "unit": unit, "rows": ["0", "1"], "columns": ["0", "1"], "values": values });
    let test = |id: &str, matrices: Value, tables: Value| {
        json!({ "id": id, "title": "", "proves": "", "level": "quick",
        "outcome": "pass", "seconds": 0.0, "summary": "fine", "findings": [], "matrices": matrices, "tables": tables, "log_tail": [] })
    };
    let call = |bytes, us, gb_s| CallRow {
        out_of_place_us: us,
        out_of_place_busbw: gb_s,
        ..call("all_reduce", bytes)
    };
    let nccl = Table::Calls(
        CallTable::AllReduce,
        [call(1024, us, 0.0), call(1 << 27, 7000.0, gb_s[0])].into(),
    );
    let access = matrix("p2p.connectivity", "1", [[Some(1.0); 2]; 2]);
    let speeds = matrix(
        "sample.uni.on",
        "GB/s",
        [[Some(900.0), Some(gb_s[0])], [Some(gb_s[1]), Some(900.0)]],
    );
    let times = matrix("sample.latency.on.cpu", "us", [[Some(9.0); 2]; 2]);
    let (none, mut tests) = (json!([]), vec![test("cuda", json!([]), json!([]))]);
    tests.push(test("p2p-capability", json!([access]), none.clone()));
    tests.push(test("p2p-integrity", none.clone(), none.clone()));
    tests.push(test("p2p-bandwidth", json!([speeds, times]), none.clone()));
    tests.push(test("nccl-allreduce", none, json!([nccl])));
    let gpu = |n: usize| {
        json!({ "bdf": format!("0000:{n}1:00.0"), "device": "0x2684", "name": "NVIDIA X", "uuid": format!("GPU-{n}"),
        "vbios": "1.0", "bar1_bytes": 1_u64 << 35, "numa": 0, "driver": "nvidia", "link": null })
    };
    let report = json!({ "schema": SCHEMA, "verdict": "PASS", "scope": "machine", "covers": "", "level": "standard", "root": "/",
        "started": "2026-11-20T12:00:00Z", "seconds": 1.0, "appliance": null,
        "machine": { "dmi": { "bios_version": "F1" }, "host": "node1", "machine_id": "a1", "kernel": "6.12", "cmdline": "iommu=off quiet",
            "fingerprint": "00", "bound_to": { "driver": "555", "module_srcversion": null, "module_build_id": null, "kernel": null,
                "cmdline": null, "gpus": null, "acs": null, "iommu": "off" } },
        "driver": { "module": "555", "userspace": "555", "gsp": "555", "nccl": "2.22", "cuda": "12.5" },
        "gpus": [gpu(0), gpu(1)], "fabric": null, "tests": tests, "effects": {}, "workload_env": {}, "workload_reasons": {} });
    from_json(report.to_string().as_bytes()).unwrap()
}

fn good() -> Report {
    report([26.0, 25.0], 20.0)
}

fn compared(with: &Report) -> Drift {
    drift(&baseline(&[good()]).unwrap(), with).unwrap()
}

/// Code, severity and message of the findings.
fn found(drift: &Drift) -> Vec<(&str, Severity, &str)> {
    drift
        .test
        .findings
        .iter()
        .map(|f| (f.code.as_str(), f.severity, f.message.as_str()))
        .collect()
}

#[test]
fn figures_are_those_of_gpus_with_a_unit_that_can_be_compared() {
    let all = figures(&good());
    let names: Vec<_> = all
        .iter()
        .map(|(name, series)| (name.as_str(), series.cells.len()))
        .collect();
    let expected = [
        ("nccl-allreduce/nccl.all_reduce/out-of-place busbw", 1),
        ("nccl-allreduce/nccl.all_reduce/out-of-place time", 1),
        ("p2p-bandwidth/sample.uni.on", 4),
        ("p2p-capability/p2p.connectivity", 4),
    ];
    assert_eq!(names, expected);
    let time = &all["nccl-allreduce/nccl.all_reduce/out-of-place time"].cells;
    assert_eq!(time, &[("all_reduce 1024 float sum".to_owned(), 20.0)]);
    // A figure of 0 was not measured.
    assert_eq!(
        figures(&report([0.0, 25.0], 20.0))["p2p-bandwidth/sample.uni.on"]
            .cells
            .len(),
        3
    );
}

#[test]
fn a_slower_pair_is_drift_with_both_numbers_and_a_faster_one_is_a_note() {
    let slow = compared(&report([20.0, 25.0], 20.0));
    assert_eq!(slow.verdict, Verdict::Degraded);
    let message = "p2p-bandwidth/sample.uni.on 0 -> 1: 20.00 GB/s, baseline 26.00 GB/s +-4.0 %, expected at least 25.00 GB/s";
    assert!(
        found(&slow).contains(&("BASELINE-DRIFT", Severity::Warn, message)),
        "{:?}",
        found(&slow)
    );
    assert_eq!((slow.compared, slow.changes.len()), (10, 0));
    let fast = compared(&report([30.0, 25.0], 10.0));
    assert_eq!(fast.verdict, Verdict::Pass);
    assert!(
        found(&fast)
            .iter()
            .all(|(code, severity, _)| *code == "BASELINE-DRIFT" && *severity == Severity::Info)
    );
    assert_eq!(found(&fast).len(), 3);
}

#[test]
fn a_missing_figure_is_an_error_and_lost_access_a_failure() {
    let mut lacking = good();
    lacking.tests[3].matrices[0].values[0][1] = None;
    let said = compared(&lacking);
    assert_eq!(said.verdict, Verdict::Error);
    assert_eq!(found(&said)[0].0, "BASELINE-MISSING");
    assert!(
        found(&said)[0]
            .2
            .contains("1 of 4 figures were not measured, the first is 0 -> 1, expected 26.00 GB/s")
    );
    lacking.tests.remove(3);
    let said = compared(&lacking);
    assert!(
        said.test.findings[0].evidence[0].contains("no test p2p-bandwidth"),
        "{:?}",
        said.test.findings[0]
    );
    let mut lost = good();
    lost.tests[1].matrices[0].values[0][1] = Some(0.0);
    let said = compared(&lost);
    assert_eq!(
        (said.verdict, found(&said)[0].1),
        (Verdict::Fail, Severity::Fail)
    );
}

#[test]
fn changes_are_listed_and_a_worse_verdict_counts() {
    let mut other = good();
    other.driver.module = Some("570".into());
    other.gpus[1].vbios = None;
    other.machine.cmdline = Some("iommu=pt quiet".into());
    let said = compared(&other);
    assert_eq!(said.verdict, Verdict::Pass);
    let changes: Vec<_> = said.changes.iter().map(ToString::to_string).collect();
    let expected = [
        "cmdline.iommu: pt, baseline off",
        "driver.module: 570, baseline 555",
        "gpu.1.vbios: none, baseline 1.0",
    ];
    assert_eq!(changes, expected);
    let worse = Code::LinkNarrow.finding(Severity::Warn, Subject::Machine, "x4");
    other.push(TestEntry::for_run(
        "links",
        "",
        "",
        Level::Quick,
        &worse,
        &Host::default(),
    ));
    other.explain();
    let said = compared(&other);
    assert_eq!(said.verdict, Verdict::Degraded);
    let message = "the verdict is DEGRADED, baseline PASS: LINK-NARROW";
    assert_eq!(
        found(&said)[0],
        ("BASELINE-CHANGED", Severity::Warn, message)
    );
    // A baseline that is DEGRADED itself expects no better.
    assert_eq!(
        drift(&baseline(&[other.clone()]).unwrap(), &other)
            .unwrap()
            .verdict,
        Verdict::Pass
    );
}

#[test]
fn other_machines_lower_levels_and_bad_reports_are_refused() {
    let known = baseline(&[good()]).unwrap();
    let mut other = good();
    other.gpus.truncate(1);
    let why = drift(&known, &other).unwrap_err();
    assert_eq!(
        why,
        "the baseline is of another kind of machine: it has 2 x NVIDIA X, the report 1 x NVIDIA X"
    );
    assert!(
        baseline(&[good(), other])
            .unwrap_err()
            .contains("same GPUs and level")
    );
    let quick = Report {
        level: Level::Quick,
        ..good()
    };
    assert!(
        drift(&known, &quick)
            .unwrap_err()
            .contains("level quick, but the baseline of level standard")
    );
    assert!(
        drift(
            &known,
            &Report {
                level: Level::Full,
                ..good()
            }
        )
        .is_ok()
    );
    let failed = Report {
        verdict: Verdict::Fail,
        ..good()
    };
    assert_eq!(
        baseline(&[failed]).unwrap_err(),
        "the verdict is FAIL, allowed in a baseline: PASS, DEGRADED"
    );
    let part = Report {
        scope: outcome::scope::Scope::Fabric,
        ..good()
    };
    assert!(
        baseline(&[part])
            .unwrap_err()
            .starts_with("the scope is fabric")
    );
    assert!(
        baseline(&[Report {
            tests: vec![],
            ..good()
        }])
        .unwrap_err()
        .contains("no figure")
    );
    assert!(baseline(&[]).is_err());
    // Inside a run the same is an error with a cause, and never a pass.
    for bad in [
        as_test(Err("no file".into()), &good()),
        as_test(Ok(known), &quick),
    ] {
        assert_eq!(
            (bad.outcome, bad.findings[0].code.as_str()),
            (Outcome::Error, "BASELINE-MISSING")
        );
    }
}

#[test]
fn several_reports_measure_the_noise() {
    let all = [
        report([26.0, 25.0], 20.0),
        report([25.0, 25.0], 20.0),
        report([27.0, 25.0], 30.0),
    ];
    let mut all = all.to_vec();
    all[2].machine.host = Some("node2".into());
    let made = baseline(&all).unwrap();
    let speeds = &made.figures["p2p-bandwidth/sample.uni.on"].cells;
    assert_eq!(speeds["0 -> 1"].value, 26.0);
    assert!((speeds["0 -> 1"].tolerance - 4.0 / 26.0).abs() < 1e-9);
    // Half of the tolerance of its kind if nothing scattered.
    assert_eq!(speeds["1 -> 0"].tolerance, 0.02);
    assert!(
        made.noise.contains("3 reports") && made.varying.contains("machine.host"),
        "{made:?}"
    );
    assert!(!made.facts.contains_key("machine.host"));
    assert_eq!(
        made.figures["nccl-allreduce/nccl.all_reduce/out-of-place time"].cells["all_reduce 1024 float sum"].tolerance,
        1.0
    );
    all[1].tests[3].matrices[0].values[0][1] = None;
    assert_eq!(baseline(&all).unwrap().left_out, 1);
    all[1].tests[1].matrices[0].values[0][1] = Some(0.0);
    assert!(
        baseline(&all)
            .unwrap_err()
            .contains("1 in some reports, 0 in others")
    );
}

#[test]
fn a_damaged_baseline_is_refused_with_what_is_allowed() {
    let good = serde_json::to_value(baseline(&[good()]).unwrap()).unwrap();
    let text = good.to_string();
    assert_eq!(
        serde_json::to_value(Baseline::from_json(text.as_bytes()).unwrap()).unwrap(),
        good
    );
    let changed = |pointer: &str, to: Value| {
        let mut value = good.clone();
        *value.pointer_mut(pointer).unwrap() = to;
        Baseline::from_json(value.to_string().as_bytes()).unwrap_err()
    };
    let cell = "/figures/p2p-bandwidth~1sample.uni.on/cells/0 -> 1";
    for (pointer, to, why) in [
        (
            "/schema".to_owned(),
            json!("firstlight.baseline/2"),
            "allowed: \"firstlight.baseline/1\"",
        ),
        (
            "/verdict".to_owned(),
            json!("FAIL"),
            "allowed in a baseline: PASS, DEGRADED",
        ),
        ("/figures".to_owned(), json!({}), "at least one"),
        (
            "/figures/p2p-bandwidth~1sample.uni.on/unit".to_owned(),
            json!("km"),
            "allowed: GB/s",
        ),
        (format!("{cell}/value"), json!(0.0), "a positive figure"),
        (format!("{cell}/value"), json!(-1.0), "a positive figure"),
        (format!("{cell}/value"), json!(null), "invalid type"),
        (
            format!("{cell}/tolerance"),
            json!(1.5),
            "a tolerance of 0 to 1",
        ),
        (
            format!("{cell}/tolerance"),
            json!(-0.1),
            "a tolerance of 0 to 1",
        ),
    ] {
        let said = changed(&pointer, to);
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{pointer}: {said}"
        );
    }
    assert_eq!(
        good.as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect::<BTreeSet<_>>(),
        BTreeSet::from(KEYS)
    );
    for (text, why) in [
        (text.chars().take(text.len() / 2).collect(), "not JSON"),
        (text.replace("26.0", "NaN"), "not JSON"),
        (text.replace("26.0", "1e999"), "not JSON"),
        (
            text.replacen('{', "{\"level\":\"quick\",", 1),
            "duplicate key",
        ),
    ] {
        let said = Baseline::from_json(text.as_bytes()).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

proptest! {
    #[test]
    fn an_equal_report_never_drifts_and_a_figure_beyond_the_tolerance_always_does(
        speeds in [0.001..5000.0_f64, 0.001..5000.0], us in 0.1..1e6_f64, part in 0.0..0.999_f64
    ) {
        let known = baseline(&[report(speeds, us)]).unwrap();
        prop_assert_eq!(drift(&known, &report(speeds, us)).unwrap().verdict, Verdict::Pass);
        // Within the tolerance of 4 %, and beyond it.
        let within = report([speeds[0] / 1.039, speeds[1] * 1.039], us);
        prop_assert_eq!(drift(&known, &within).unwrap().verdict, Verdict::Pass);
        let beyond = report([speeds[0], speeds[1] / 1.041 * part.max(0.001)], us);
        prop_assert_eq!(drift(&known, &beyond).unwrap().verdict, Verdict::Degraded);
        let slower = report(speeds, us * (1.201 + part));
        prop_assert_eq!(drift(&known, &slower).unwrap().verdict, Verdict::Degraded);
    }

    #[test]
    fn worse_one_way_is_better_the_other_way(a in 1e-6..1e6_f64, b in 1e-6..1e6_f64, tolerance in 0.0..1.0_f64) {
        prop_assert_eq!(is_worse(a, b, tolerance, true), is_worse(b, a, tolerance, false));
        prop_assert!(!(is_worse(a, b, tolerance, true) && is_worse(b, a, tolerance, true)));
        prop_assert!(!is_worse(a, a, tolerance, true) && !is_worse(a, a, tolerance, false));
    }
}

fn named(host: &str, change: impl Fn(&mut Report)) -> (String, Result<Summary, String>) {
    let mut report = good();
    (report.machine.host, report.machine.machine_id) = (Some(host.into()), Some(host.into()));
    change(&mut report);
    (format!("{host}.json"), Ok(Summary::of(&report)))
}

#[test]
fn what_differs_from_most_machines_and_what_is_slower_is_marked() {
    let mut all: Vec<_> = ["n1", "n2", "n3"].map(|host| named(host, |_| {})).into();
    all.push(named("n4", |r| r.driver.module = Some("570".into())));
    all.push(named("n5", |r| {
        r.tests[3].matrices[0].values[1][0] = Some(12.0);
    }));
    all.push(named("n6", |r| r.gpus.truncate(1)));
    all.push(named("n7", |r| r.verdict = Verdict::Fail));
    all.push(("broken.json".into(), Err("not JSON".into())));
    let fleet = Fleet::of(all);
    assert_eq!(
        (fleet.unread(), fleet.machines.len(), fleet.sweeps.len()),
        (1, 8, 0)
    );
    assert_eq!(fleet.machines[0].error.as_deref(), Some("not JSON"));
    assert_eq!(
        (
            fleet.machines[1].file.as_str(),
            fleet.machines[2].file.as_str()
        ),
        ("n7.json", "n1.json")
    );
    let of = |host: &str| {
        fleet
            .machines
            .iter()
            .find(|m| m.file == format!("{host}.json"))
            .unwrap()
    };
    assert_eq!(
        of("n4").differs,
        [("driver".to_owned(), "570".to_owned(), "555".to_owned())]
    );
    assert_eq!(
        of("n5").outliers,
        [("p2p-bandwidth/sample.uni.on".to_owned(), 12.0, 25.0)]
    );
    let unmarked = |m: &fleet::Machine| m.differs.is_empty() && m.outliers.is_empty();
    // A machine of another kind is compared with none of these.
    assert!(
        ["n1", "n2", "n3", "n6"]
            .iter()
            .all(|host| unmarked(of(host)))
    );
    assert_eq!(
        of("n1").summary.as_ref().unwrap().pairs(),
        Some((25.0, 25.5))
    );
    assert_eq!(of("n1").summary.as_ref().unwrap().nccl(), Some(26.0));
}

#[test]
fn reads_count_for_the_slowest_pair() {
    let mut slow = good();
    assert_eq!(slow.slowest_pair(), Some(25.0));
    let mut reads = slow.tests[3].matrices[0].clone();
    reads.name = "ce.read".into();
    reads.values[0] = vec![Some(900.0), Some(8.5)];
    slow.tests[3].matrices.push(reads);
    // Without peer access it is another path.
    let mut off = slow.tests[3].matrices[0].clone();
    off.name = "sample.uni.off".into();
    off.values[0][1] = Some(3.0);
    slow.tests[3].matrices.push(off);
    assert_eq!(slow.slowest_pair(), Some(8.5));
    assert_eq!(Summary::of(&slow).pairs(), Some((8.5, 25.5)));
    slow.tests.clear();
    assert_eq!(
        (slow.slowest_pair(), Summary::of(&slow).pairs()),
        (None, None)
    );
}

#[test]
fn a_comparison_is_worst_first_and_has_a_sum() {
    let mut all: Vec<_> = ["n1", "n2"].map(|host| named(host, |_| {})).into();
    all.push(named("n3", |r| r.verdict = Verdict::Degraded));
    all.push(named("n4", |r| r.verdict = Verdict::Fail));
    all.push(("broken.json".into(), Err("not JSON".into())));
    let fleet = Fleet::of(all);
    let sum = "5 files: 1 could not be read, 1 FAIL, 1 DEGRADED, 2 PASS";
    let text = render::fleet::fleet(&fleet);
    assert!(text.ends_with(&format!("\n{sum}\n")), "{text}");
    let page = render::html::fleet(&fleet).unwrap();
    assert!(
        page.contains("<h1>3 of 5 reports do not pass</h1>")
            && page.contains(&format!("<p>{sum}</p>")),
        "{page}"
    );
    for shown in [text, page] {
        let places = ["broken.json", "n4", "n3", "n1", "n2"].map(|name| shown.find(name).unwrap());
        assert!(places.is_sorted(), "{places:?}: {shown}");
    }
    let one = Fleet::of(vec![named("n1", |_| {})]);
    assert!(
        render::html::fleet(&one)
            .unwrap()
            .contains("<h1>1 report passes</h1>")
    );
}

#[test]
fn boots_of_one_machine_with_several_iommu_settings_are_a_sweep() {
    let boot = |words: &str, mode: &str, gb_s: f64| {
        let mut r = report([gb_s, gb_s], 20.0);
        r.machine.cmdline = Some(words.into());
        r.machine.bound_to.iommu = serde_json::from_value(json!(mode)).unwrap();
        (format!("{mode}.json"), Ok(Summary::of(&r)))
    };
    let other = named("n2", |_| {});
    let all = vec![
        boot("iommu=off", "off", 26.0),
        boot("quiet", "translated", 13.0),
        boot("iommu=pt", "identity", 26.0),
        other,
    ];
    let fleet = Fleet::of(all);
    let settings = &fleet.sweeps[0].settings;
    assert_eq!(fleet.sweeps.len(), 1);
    let costs: Vec<_> = settings
        .iter()
        .map(|s| (s.setting.as_str(), s.figures[summary::PAIRS].1))
        .collect();
    assert_eq!(
        costs,
        [
            ("identity (iommu=pt)", 1.0),
            ("off (iommu=off)", 1.0),
            ("translated", 0.5)
        ]
    );
}

#[test]
fn what_a_later_version_adds_does_not_make_a_report_unreadable() {
    let mut written = report([26.0, 25.0], 20.0);
    let finding = Code::P2pSlow.finding(Severity::Info, outcome::platform::Pair::of(0, 1), "slow");
    let finding = FindingEntry {
        represents: vec![outcome::platform::Pair::of(1, 0).into()],
        ..FindingEntry::of(&finding, &Host::default())
    };
    written.tests[0].findings.push(finding);
    let read = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(&written).unwrap();
        change(&mut value);
        from_json(value.to_string().as_bytes())
    };
    let finding =
        |value: &mut Value, key: &str, with: Value| value["tests"][0]["findings"][0][key] = with;
    let first = |report: Report| report.tests[0].findings[0].clone();
    let mut unread = written.clone();
    unread.machine.platform = Host::default();
    // The kind of machine, with a vendor, an environment and a loader that this version does not know.
    for (key, with) in [
        ("vendor", json!("new-maker")),
        ("environment", json!({ "guest": "new-hypervisor" })),
        (
            "system",
            json!({ "installed": ["new-distribution", "new-loader"] }),
        ),
        ("kernel", json!(7)),
    ] {
        let report = read(&|value| value["machine"]["platform"][key] = with.clone()).unwrap();
        assert_eq!(report.machine, unread.machine, "{key}");
    }
    assert_eq!(
        read(&|value| value["machine"]["platform"] = json!("x"))
            .unwrap()
            .machine,
        unread.machine
    );
    // A subject of a new kind, and one that is none: the text says it.
    let new_kind = json!({ "kind": "new-kind", "things": [1, 2] });
    let report = read(&|value| finding(value, "about", new_kind.clone())).unwrap();
    assert_eq!(first(report).about(), &Subject::Unknown);
    for malformed in [
        json!("x"),
        json!({ "kind": "pairs" }),
        json!({ "kind": "pairs", "pairs": "0" }),
        json!([]),
        json!(null),
    ] {
        let report = read(&|value| finding(value, "about", malformed.clone())).unwrap();
        assert_eq!(
            first(report).about(),
            &Subject::from(outcome::platform::Pair::of(0, 1)),
            "{malformed}"
        );
    }
    let known = json!({ "kind": "machine" });
    let report = read(&|value| {
        finding(
            value,
            "represents",
            json!([known, new_kind, { "no": "kind" }, 1]),
        );
    })
    .unwrap();
    assert_eq!(
        first(report).represents,
        [Subject::Machine, Subject::Unknown]
    );
    assert_eq!(
        first(read(&|value| finding(value, "represents", json!("x"))).unwrap()).represents,
        Vec::<Subject>::new()
    );
    assert_eq!(
        first(read(&|value| finding(value, "clause", json!(1))).unwrap()).clause,
        None
    );
    assert_eq!(
        first(read(&|value| finding(value, "recovery", json!("new-action"))).unwrap()).recovery,
        None
    );
    // Everything else is read strictly.
    for (key, with) in [
        ("severity", json!("new-severity")),
        ("subject", json!(1)),
        ("evidence", json!("x")),
    ] {
        assert!(
            matches!(
                read(&|value| finding(value, key, with.clone())),
                Err(ReportError::Shape(_))
            ),
            "{key}"
        );
    }
}

/// Every part of a JSON value that is an object.
fn objects(value: &Value) -> Vec<&serde_json::Map<String, Value>> {
    match value {
        Value::Object(map) => std::iter::once(map)
            .chain(map.values().flat_map(objects))
            .collect(),
        Value::Array(all) => all.iter().flat_map(objects).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_schema_bounds_integers_and_has_no_format_that_strict_validators_refuse() {
    let schema = super::schema();
    let all = objects(&schema);
    let integers = |map: &&&serde_json::Map<String, Value>| {
        map.get("type")
            .is_some_and(|t| t.to_string().contains("integer"))
    };
    let integers: Vec<_> = all.iter().filter(integers).collect();
    assert!(
        integers.len() > 20,
        "the search finds {} integers",
        integers.len()
    );
    for integer in integers {
        assert!(
            integer.get("minimum").is_some_and(Value::is_number),
            "{integer:?}"
        );
        assert!(
            integer.get("maximum").is_some_and(Value::is_number),
            "{integer:?}"
        );
    }
    let formats: Vec<_> = all
        .iter()
        .filter_map(|map| map.get("format")?.as_str())
        .collect();
    assert_eq!(formats, [""; 0]);
}
