//! What the validator reads: configuration, configuration space, the kernel's log, the driver, the image, reports, and what
//! NCCL writes.

/// The validator's configuration: files and words of any content become a configuration or a one-line error that names its
/// place.
///
/// Input: a file and, after a line of two percent signs, one word per line.
pub fn toml_validator(input: &str) {
    use firstlight::config::Config;
    use std::path::PathBuf;

    let (file, words) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let files = [(
        PathBuf::from("/etc/firstlight/config.toml"),
        file.to_owned(),
    )];
    let words: Vec<_> = words.lines().map(str::to_owned).collect();
    if let Err(error) = Config::merge(&files, &words) {
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line:?}");
        assert!(
            line.contains("config.toml") || line.contains("--set"),
            "{line:?}"
        );
    }
}

/// Configuration space from a device that may return anything: the walk terminates and stays inside, and the values that it
/// returns are in the bytes.
pub fn config_space(bytes: &[u8]) {
    use machine::pcie::config_space::{parse, rebar_control};
    use std::collections::BTreeSet;

    let bytes = &bytes[..bytes.len().min(4096)];
    let space = parse(bytes);
    assert_eq!(space.bytes, bytes.len());
    for chain in [&space.capabilities, &space.extended] {
        let places: BTreeSet<_> = chain.iter().map(|c| c.offset).collect();
        assert_eq!(places.len(), chain.len(), "a capability was visited twice");
        assert!(
            places.iter().all(|p| usize::from(*p) < bytes.len()),
            "outside of {} bytes",
            bytes.len()
        );
    }
    if let Some(acs) = &space.acs {
        let at = usize::from(acs.offset) + if acs.quirk { 8 } else { 6 };
        assert_eq!(acs.ctrl, u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    }
    for bar in 0..8 {
        let Some((at, value)) = rebar_control(bytes, bar) else {
            continue;
        };
        let at = usize::from(at);
        assert_eq!(bytes[at..at + 4], value.to_le_bytes());
        assert_eq!(value & 7, u32::from(bar), "another BAR's control register");
    }
    assert!(!space.gone || space.acs.is_none());
    for fault in &space.faults {
        assert!(!fault.to_string().contains('\n'));
    }
}

/// The kernel's log, into which every driver and program may write: parsing it terminates, and a line is never longer than
/// its record.
pub fn kmsg(bytes: &[u8]) {
    use machine::host::faults::{Scene, faults, no_room};
    use machine::host::kmsg::parse;
    use machine::host::nvidia::log;
    use machine::host::nvidia::xid::TestPhase;

    let text = String::from_utf8_lossy(bytes);
    let lines = parse(bytes);
    assert!(lines.len() <= text.lines().count());
    assert!(lines.iter().all(|line| text.contains(&line.text)));
    assert!(log::xids(&lines).len() <= lines.len() && log::bar1_peers(&lines).len() <= lines.len());
    assert!(
        log::static_maps(&lines).len() <= lines.len()
            && log::patch_fails(&lines).len() <= lines.len()
    );
    assert!(no_room(&lines).len() <= lines.len());
    for when in [TestPhase::During, TestPhase::Before] {
        assert!(
            faults(&lines, when, &Scene::default())
                .iter()
                .all(|finding| !finding.evidence.is_empty())
        );
    }
}

/// The sources of information about NVIDIA's driver: a module's file, init's account, the driver's own texts. Whatever they
/// contain, parsing them terminates, and a field is never longer than its text.
pub fn driver_evidence(bytes: &[u8]) {
    use machine::host::nvidia::{account, gpus, modinfo, params, version};
    use outcome::finding::Finding;

    let fields = modinfo::fields(bytes).unwrap_or_default();
    assert!(
        fields
            .iter()
            .all(|(name, value)| name.len() + value.len() < bytes.len())
    );
    if let Ok(account) = account::parse(bytes) {
        let findings: Vec<Finding> = account::findings(&account);
        assert_eq!(findings.len(), account.findings.len());
    }
    let text = String::from_utf8_lossy(bytes);
    let gpu = gpus::parse(&text);
    assert!(
        gpu.firmware
            .is_none_or(|v| version::is_version(&v) && text.contains(&v))
    );
    assert!(
        params::parse(&text)
            .values()
            .all(|value| text.contains(value) && contract::driver_account::same_value(value, value))
    );
}

/// The list of an image's files and the kernel's list of mounts, which a modified image may have written: parsing them
/// terminates, and the result contains nothing that is not in them.
pub fn image_list(bytes: &[u8]) {
    use machine::image::compare::{FoundFiles, compare};
    use machine::image::driver::{self, DriverImage, DriverMounts};
    use machine::image::list::parse;

    let text = String::from_utf8_lossy(bytes);
    if let Ok(mut list) = parse(&text) {
        assert_eq!(list.len(), text.lines().count());
        assert!(
            list.keys()
                .all(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."))
        );
        let carries = driver::split_off(&mut list);
        assert_eq!(carries, list.contains_key(driver::FILE));
        // On an empty machine every file is missing, and nothing is hashed.
        let missing = compare(&list, &FoundFiles::new(), |_| unreachable!()).unwrap();
        assert_eq!(missing.len(), list.len());
    }
    if let Ok(mounts) = driver::mounts(&text) {
        let device = mounts.first().map(|mount| mount.device);
        let alone = mounts.len() == 1;
        let backing = Some((driver::FILE.to_owned(), 0, 0));
        let (state, difference) = driver::judge(
            true,
            &DriverMounts {
                mounts,
                device,
                backing,
            },
        );
        assert!(state != DriverImage::Mounted || alone);
        assert_eq!(difference.is_some(), state == DriverImage::Foreign);
    }
}

/// A report from anywhere: it is rejected, or it is unchanged after being written and read again, every form of it can be
/// rendered, and init, which parses it itself, agrees with the validator.
pub fn report(bytes: &[u8]) {
    use firstlight_init::child::End;
    use firstlight_init::verdict::{Validation, judge};
    use report::from_json;
    use report::render::{junit, last_line, text};

    let Ok(report) = from_json(bytes) else { return };
    let written = serde_json::to_vec(&report).expect("a report can be written");
    assert_eq!(from_json(&written).expect("and read again"), report);

    let (whole, line) = (
        text::full_text(&report, None),
        last_line::last_line(&report),
    );
    assert!(
        whole.ends_with(&line) && line.lines().count() == 1,
        "{whole}"
    );
    assert_eq!(
        whole
            .lines()
            .filter(|line| line.starts_with("FIRSTLIGHT "))
            .count(),
        1,
        "{whole}"
    );
    assert!(
        !whole.contains(|c: char| c.is_control() && c != '\n'),
        "{whole:?}"
    );
    let _ = junit::suites(&report).expect("it is made in memory");

    let lines = vec![
        format!("VERDICT  {}   x", report.verdict),
        line.trim_end().to_owned(),
    ];
    for status in 0..4 {
        let (end, reason) = (End::Exited(status), String::new());
        let (kept, held) = (Ok(written.clone()), lines.clone());
        let validation = Validation {
            end,
            reason,
            report: kept,
            lines: held,
            seconds: 1.0,
        };
        let judgement = judge(&validation, &[]);
        if i32::from(report.verdict.exit_status()) != status {
            assert!(!judgement.has_report && !judgement.verdict.is_good());
        } else if judgement.has_report {
            assert_eq!(judgement.verdict, report.verdict);
            assert_eq!(
                judgement.announcement("here"),
                lines,
                "the validator's own lines are those of its report"
            );
        }
    }
}

/// NCCL's log, into which hosts, plugins and torn writes may put anything: parsing it terminates, and a connection without
/// a line is never proven.
pub fn nccl_log(bytes: &[u8]) {
    use firstlight::nccl::log::{ExpectedTransport, NcclLog, Pairs, Proof};

    let text = String::from_utf8_lossy(bytes);
    let log = NcclLog::read(&text);
    assert!(log.links.len() + log.rings.len() + log.warnings.len() <= text.lines().count());
    assert!(log.links.iter().all(|link| text.contains(&link.text())));
    assert_eq!(log.foreign_settings(&[]), log.settings);
    assert!(log.foreign_settings(&log.settings).is_empty());
    for pairs in [Pairs::Ring, Pairs::All] {
        let proven = |expect| matches!(log.proves(4, expect, pairs), Proof::Proven(_));
        let (p2p, none) = (
            proven(ExpectedTransport::P2p),
            proven(ExpectedTransport::NoP2p),
        );
        assert!(!(p2p && none));
        assert!(!(p2p || none) || log.transports().len() >= 4);
        assert!(
            !p2p || log
                .links
                .iter()
                .all(|link| link.transport.is_p2p() == Some(true))
        );
        assert!(
            !none
                || log
                    .links
                    .iter()
                    .all(|link| link.transport.is_p2p() == Some(false))
        );
    }
}

/// NCCL's dumps of topology and graphs, truncated or not XML at all: they are rejected with the number of an existing line,
/// or their contents can be queried.
pub fn nccl_dump(bytes: &[u8]) {
    use firstlight::nccl::dump::{BadDump, graphs, topology};

    let text = String::from_utf8_lossy(bytes);
    let placed = |bad: &BadDump| assert!(bad.line >= 1 && !bad.to_string().is_empty());
    let topology = topology(&text).inspect_err(placed);
    let graphs = graphs(&text).inspect_err(placed);
    if let Ok(topology) = &topology {
        assert!(!topology.gpus.is_empty() && graphs.is_err());
    }
    if let Ok(graphs) = graphs {
        for graph in &graphs {
            assert!(graph.gb_s.is_finite() && !graph.pattern.to_string().is_empty());
        }
    }
}
