//! What process 1 reads: the command line, its configuration, lists of modules, module files, disks, the driver.

/// The kernel's command line, which a boot medium may fill with anything: both parsers of it terminate, and neither returns
/// text that is not in the line.
pub fn cmdline(line: &str) {
    for word in firstlight_init::config::cmdline::words(line) {
        assert!(line.contains(&word.name), "{word:?}");
        assert!(word.value.is_none_or(|value| line.contains(&value)));
    }
    let _source = firstlight_init::config::remote::RemoteSource::parse(line);
    let _mac = firstlight_init::config::mac::Mac::from_bootif(line);
    let plain = line.replace('"', "");
    for word in machine::host::cmdline::words(line) {
        assert!(plain.contains(&word.key), "{word:?}");
        assert!(word.value.is_none_or(|value| plain.contains(&value)));
    }
}

/// init's configuration: a file and kernel words of any content become a configuration or one-line errors that name their
/// place.
///
/// Input: a file and, after a line of two percent signs, the command line.
pub fn toml_init(input: &str) {
    use firstlight_init::config::{ConfigFile, LayerSource, build, cmdline};

    let (file, line) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let path = "/etc/firstlight/config.toml".to_owned();
    let file = ConfigFile {
        source: LayerSource::Image,
        path,
        text: file.to_owned(),
    };
    if let Err(refused) = build(&[file], &cmdline::words(line)) {
        assert!(!refused.errors.is_empty());
        for error in refused.errors {
            let line = error.to_string();
            assert!(!line.contains('\n'), "{line:?}");
            assert!(
                line.contains("config.toml") || line.contains("kernel word"),
                "{line:?}"
            );
        }
    }
}

/// modules.dep, modules.builtin and modules.alias: a load order contains each file once, and a malicious pattern takes no
/// exponential time.
///
/// Input: the three files, separated by lines of two percent signs.
pub fn modules_dep(input: &str) {
    use firstlight_init::modules::alias::{matches, modules_for};
    use firstlight_init::modules::deps::{ModuleDeps, builtin, module_name};
    use std::collections::BTreeSet;

    let (dep, rest) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let (built_in, wanted) = rest.split_once("\n%%\n").unwrap_or(("", rest));
    let modules: Vec<_> = wanted.split_whitespace().map(str::to_owned).collect();
    if let Ok(order) = ModuleDeps::parse(dep).order(&modules, &builtin(built_in)) {
        let once: BTreeSet<_> = order.iter().collect();
        assert_eq!(once.len(), order.len(), "{order:?}");
        assert!(order.iter().all(|file| dep.contains(file.as_str())));
    }
    assert!(!module_name(wanted).contains('/'));
    let _ = matches(dep, wanted);
    let modules = modules_for(dep, wanted);
    assert!(modules.iter().all(|module| dep.contains(module.as_str())));
}

/// A module's file from an untrusted medium: the section is found or rejected without reading outside of the file, and the
/// text that is read is in the file.
pub fn modinfo(file: &[u8]) {
    use contract::elf::section_of;
    use firstlight_init::driver::modinfo::Modinfo;

    if let Ok(found) = section_of(file, b".modinfo") {
        assert!(found.len() <= file.len());
        let info = Modinfo::parse(&found);
        for key in ["version", "vermagic", "srcversion", "firstlight.patch"] {
            assert!(
                info.get(key)
                    .is_none_or(|value| !value.contains(['\n', '\0']))
            );
        }
    }
    let info = Modinfo::parse(file);
    assert!(info.depends().iter().all(|name| !name.contains(',')));
}

/// The first bytes of any disk that is plugged in, its partition table, the firmware's variable about the boot disk, and a
/// signature next to a file: parsing them never reads outside of them, and no bytes are a valid signature.
pub fn superblock(bytes: &[u8]) {
    use firstlight_init::config::signature::check;
    use firstlight_init::disk::eligibility::part_uuid;
    use firstlight_init::disk::gpt;
    use firstlight_init::disk::superblock::{probe, vfat_root, vfat_root_label};
    /// A public key; the secret key was deleted.
    const KEY: &str = "RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY";

    let _ = probe(bytes);
    let _ = vfat_root(bytes);
    let _ = vfat_root_label(bytes);
    let (header, table) = bytes.split_at_checked(gpt::HEADER).unwrap_or((bytes, &[]));
    let _ = gpt::entries(header, 4096).map(|entries| entries.contains(table, ""));
    assert!(part_uuid(bytes).is_none_or(|uuid| uuid.len() == 36));
    assert!(check(KEY, b"", &String::from_utf8_lossy(bytes)).is_err());
}

/// The texts of a driver and its image: the description, the parameters' list, /proc/devices, a GPU's information, and the
/// kernel's lines. Parsing terminates, and returns nothing that is not in them.
pub fn driver_files(bytes: &[u8]) {
    use firstlight_init::driver::causes::match_log_lines;
    use firstlight_init::driver::hardware::Gpu;
    use firstlight_init::driver::nodes::{Reported, majors, number, plan};
    use firstlight_init::driver::parameters::module_parameters;
    use firstlight_init::driver::{description, in_force, kernel_lines};
    use std::collections::BTreeMap;

    let text = String::from_utf8_lossy(bytes);
    match description::parse(&text) {
        Ok(read) => {
            let gpu = |at: u16| Gpu {
                address: format!("0000:{at:02x}:00.0"),
                device: 0x2684 + at,
                is_without_display: at > 1,
            };
            let gpus: Vec<_> = (0..3).map(gpu).collect();
            let configured = BTreeMap::from([("nvidia".to_owned(), text.clone().into_owned())]);
            for configured in [BTreeMap::new(), configured] {
                let (given, findings) =
                    module_parameters("nvidia", Some(&read), &gpus, &configured);
                let mut names: Vec<_> = given.0.iter().map(|word| &word.name).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), given.0.len(), "a parameter is given twice");
                assert!(findings.len() <= (read.family.len() + 1) * text.len());
            }
        }
        Err(why) => assert!(!why.contains('\n'), "{why:?}"),
    }
    let params = in_force::parse(&text);
    assert!(params.keys().all(|name| text.contains(name.as_str())));
    let reported = Reported {
        majors: majors(&text),
        params,
        gpus: [("a".to_owned(), number(&text, "Device Minor"))].into(),
        ..Reported::default()
    };
    let (nodes, without) = plan(&reported, true);
    assert!(
        nodes
            .iter()
            .all(|planned| planned.node.path.starts_with("/dev/nvidia"))
    );
    assert!(without.len() <= 2);
    let lines = kernel_lines::parse(bytes);
    let shown = kernel_lines::about_driver(&lines, "nvidia");
    assert!(
        shown.len() <= 25
            && shown
                .iter()
                .all(|line| line.chars().count() <= 308 && !line.contains('\n'))
    );
    if let Some((_, line)) = match_log_lines(&shown) {
        assert!(shown.iter().any(|shown| shown == line));
    }
    let _ = kernel_lines::initrd_unpack_time(&lines);
}

/// Ethernet frames: ARP packets, each preceded by a byte for the port and the time since the previous one, never lead to
/// two ports with one address, nor to a route to an address that is not link-local.
pub fn arp(bytes: &[u8]) {
    use firstlight_init::config::mac::Mac;
    use firstlight_init::link_local::{PortAction, Ports, arp};
    use std::time::{Duration, Instant};

    let macs = [Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2])];
    let (mut ports, mut now) = (Ports::new(&macs), Instant::now());
    let mut actions: Vec<_> = (0..macs.len())
        .flat_map(|at| ports.set_carrier(at, true, now))
        .collect();
    for record in bytes.chunks(1 + arp::FRAME) {
        let Some((first, frame)) = record.split_first() else {
            continue;
        };
        now += Duration::from_millis(u64::from(first >> 1) * 20);
        actions.extend(ports.tick(now));
        if let Some(packet) = arp::parse(frame) {
            actions.extend(ports.receive(usize::from(first & 1), &packet, now));
        }
        let own: Vec<_> = ports.addresses().flatten().collect();
        assert!(own.len() < 2 || own[0] != own[1], "{own:?}");
    }
    for action in actions {
        if let PortAction::SetRoute(_, own, peer) = action {
            assert!(
                arp::is_usable(own) && arp::is_usable(peer) && own != peer,
                "{own} {peer}"
            );
        }
    }
}
