//! Is the report still available after the machine is off: on a stick, and at a server that fails at first? What
//! happens if the stick is full or is removed during a write? Does the verdict stay the same in all these cases?

use harness::servers::{HttpReply, HttpServer};
use harness::stick::Fat;
use harness::{Boot, End};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// No GPU and none expected: PASS.
const PASS: &str = "firstlight.expect.gpus=0";
/// A built-in disk is used only with this word.
const NAMED: &str = "firstlight.report.partition=LABEL=FIRSTLIGHT";
const MAC: &str = "52:54:00:12:34:56";
/// The path of a file on the data partition while init has it mounted to publish.
const ON_STICK: &str = "/run/firstlight/partition/key";

#[test]
fn a_report_reaches_the_stick_and_a_server_that_failed_twice() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let server = HttpServer::fails_twice();
    let url = server.url("10.0.2.2", "/reports");
    let boot = Boot::shipped()
        .workload("true")
        .append(PASS)
        .card("user", MAC)
        .stick(stick.file());
    let booted = boot
        .append(&format!("firstlight.report.url={url}"))
        .run()
        .unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("network   firstlight, eth0 by DHCP");
    booted.says(&format!("post      sent to {url} at try 3"));
    assert!(
        booted
            .text("firstlight/boot.log")
            .contains("post      sent to "),
        "{booted}"
    );
    let got = server.requests();
    assert_eq!(got.len(), 3, "{booted}");
    let report = booted.find("firstlight/report.json").unwrap();
    for request in &got {
        assert_eq!(request.body, report);
        assert_eq!(request.header("firstlight-verdict"), Some("PASS"));
        assert_eq!(
            request.header("idempotency-key"),
            got[0].header("idempotency-key")
        );
    }
    let names = stick.names("reports");
    assert!(
        matches!(&names[..], [one] if one.starts_with("000001-") && one.ends_with("-PASS.json")),
        "{names:?}"
    );
    assert_eq!(
        stick.read(&format!("reports/{}", names[0])).unwrap(),
        report
    );
    assert_eq!(stick.names("spool"), [""; 0]);
    booted.ended(&End::PowerOff);
}

/// The next boot first sends the report that the unreachable server did not get, and then its own.
#[test]
fn a_report_that_could_not_be_sent_is_sent_by_the_next_boot() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let boot = |network: &str| {
        let boot = Boot::shipped()
            .workload("true")
            .append(PASS)
            .stick(stick.file())
            .card(network, MAC);
        boot.append("firstlight.network.timeout_s=4")
    };
    let lost = boot("hubport,hubid=1")
        .append("firstlight.report.url=http://10.0.2.2:9/")
        .run()
        .unwrap();
    assert_eq!(lost.verdict().verdict, "PASS", "{lost}");
    lost.says("network   firstlight, warning: no network: eth0: no DHCP lease within 4 s");
    lost.says("warning: not sent to http://10.0.2.2:9/: no network: eth0: no DHCP lease within 4 s; 1 waits in ");
    assert_eq!(stick.names("spool"), stick.names("reports"), "{lost}");
    let server = HttpServer::start(|_, _| HttpReply::Status(200, Vec::new()));
    let url = server.url("10.0.2.2", "/");
    let booted = boot("user")
        .append(&format!("firstlight.report.url={url}"))
        .run()
        .unwrap();
    booted.says(&format!("post      sent to {url}, 1 older before it"));
    let bodies: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    let reports = ["firstlight/report.json"].map(|name| booted.find(name).unwrap());
    assert_eq!(bodies.len(), 2, "{booted}");
    assert_eq!(
        (&bodies[0][..], &bodies[1][..]),
        (lost.find("firstlight/report.json").unwrap(), reports[0])
    );
    assert_eq!(
        (stick.names("spool").len(), stick.names("reports").len()),
        (0, 2)
    );
}

/// An attacker had the stick and wrote a report to it that claims a PASS.
#[test]
fn with_a_key_in_the_image_a_forged_report_on_the_stick_is_named_and_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let (forged, name) = (
        dir.path().join("forged"),
        "000001-20261120T100000Z-PASS.json",
    );
    fs::write(
        &forged,
        r#"{"schema":"firstlight.report/1","verdict":"PASS"}"#,
    )
    .unwrap();
    stick.folder("spool").unwrap();
    stick.put(&forged, &format!("spool/{name}")).unwrap();
    let server = HttpServer::start(|_, _| HttpReply::Status(200, Vec::new()));
    let url = server.url("10.0.2.2", "/");
    let boot = Boot::shipped()
        .workload("true")
        .append(PASS)
        .card("user", MAC)
        .stick(stick.file());
    let boot = boot.overlay(|files| files.file("etc/report.key", [b'k'; 32]));
    let words = format!("firstlight.report.url={url} firstlight.report.key_file=/etc/report.key");
    let booted = boot.append(&words).run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says(&format!(
        "warning: {name} from the spool is not sent: it has no MAC, set aside as {name}.unproven; "
    ));
    assert_eq!(
        stick.names("spool"),
        [format!("{name}.unproven")],
        "{booted}"
    );
    let got = server.requests();
    assert_eq!(got.len(), 1, "{booted}");
    assert_eq!(got[0].body, booted.find("firstlight/report.json").unwrap());
    let mac = stick
        .names("reports")
        .into_iter()
        .find(|name| name.ends_with(".json.hmac"))
        .unwrap();
    let mac = String::from_utf8(stick.read(&format!("reports/{mac}")).unwrap()).unwrap();
    assert_eq!(
        got[0].header("firstlight-mac"),
        Some(mac.trim_end()),
        "{booted}"
    );
}

/// Anyone who can write to the stick could replace a key on it: the report is kept on the stick, and nothing is sent.
#[test]
fn a_key_on_the_stick_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 4096).unwrap();
    let key = dir.path().join("key");
    fs::write(&key, [b'k'; 32]).unwrap();
    stick.put(&key, "key").unwrap();
    let server = HttpServer::start(|_, _| HttpReply::Status(200, Vec::new()));
    let url = server.url("10.0.2.2", "/");
    let boot = Boot::shipped()
        .workload("true")
        .append(PASS)
        .card("user", MAC)
        .stick(stick.file());
    let words = format!("firstlight.report.url={url} firstlight.report.key_file={ON_STICK}");
    let booted = boot.append(&words).run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says(&format!(
        "no report can be proven: {ON_STICK}: the key is on the partition"
    ));
    assert_eq!(
        (server.requests().len(), stick.names("reports").len()),
        (0, 1),
        "{booted}"
    );
}

#[test]
fn a_full_stick_causes_one_warning_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 512).unwrap();
    let (old, rest) = (dir.path().join("old"), dir.path().join("rest"));
    fs::write(&old, "{\"old\":true}").unwrap();
    stick.folder("reports").unwrap();
    stick.put(&old, "reports/000041-old-PASS.json").unwrap();
    // Smaller and smaller files, until none fits any more.
    let mut size = 400 << 10;
    while size >= 512 {
        fs::write(&rest, vec![b'x'; size]).unwrap();
        if stick.put(&rest, &format!("rest{size}")).is_err() {
            size /= 2;
        }
    }
    let boot = Boot::shipped()
        .workload("true")
        .append(PASS)
        .append("firstlight.report.keep=1");
    let booted = boot.stick(stick.file()).run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    assert_eq!(booted.console.matches("not kept").count(), 1, "{booted}");
    booted.says("publish   warning: not kept: reports/: no room for ");
    assert_eq!(stick.names("reports"), ["000041-old-PASS.json"]);
    assert_eq!(
        stick.read("reports/000041-old-PASS.json").unwrap(),
        b"{\"old\":true}"
    );
}

/// A file system with the default label, in its own folder; its settings reboot the machine after a PASS.
fn rebooting(dir: &Path) -> Fat {
    fs::create_dir(dir).unwrap();
    let (disk, file) = (Fat::new(dir, 4096).unwrap(), dir.join("file"));
    fs::write(&file, "[policy]\non_pass = \"reboot\"\n").unwrap();
    disk.put(&file, "config.toml").unwrap();
    disk
}

const IGNORED: &str = "(LABEL=FIRSTLIGHT) is ignored: it is neither removable, nor on USB, nor the disk booted from; \
                       firstlight.report.partition=UUID=";

#[test]
fn a_built_in_disk_with_the_default_label_is_ignored_unless_a_kernel_word_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = rebooting(&dir.path().join("disk"));
    let boot = || {
        Boot::shipped()
            .workload("true")
            .append(PASS)
            .disk(disk.file())
    };
    let booted = boot().run().unwrap();
    assert_eq!(booted.console.matches(IGNORED).count(), 1, "{booted}");
    assert!(
        booted
            .text("firstlight/boot.log")
            .contains("warning: /dev/vd"),
        "{booted}"
    );
    booted.never_says("from the data partition");
    booted.says("publish   verdict.json; the only LABEL=FIRSTLIGHT is ignored");
    assert_eq!(disk.names("reports"), [""; 0]);
    booted.ended(&End::PowerOff);
    let booted = boot().append(NAMED).run().unwrap();
    booted.never_says("is ignored");
    booted.says("some from the data partition");
    booted.says("kept as reports/000001-");
    booted.ended(&End::Reboot);
}

/// The built-in disk does not make the label ambiguous.
#[test]
fn a_stick_is_used_although_a_built_in_disk_has_the_same_label() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, stick) = (
        rebooting(&dir.path().join("disk")),
        Fat::new(dir.path(), 4096).unwrap(),
    );
    let boot = Boot::shipped()
        .workload("true")
        .append(PASS)
        .disk(disk.file());
    let booted = boot.stick(stick.file()).run().unwrap();
    assert_eq!(booted.console.matches(IGNORED).count(), 1, "{booted}");
    booted.says("kept as reports/000001-");
    assert_eq!(
        (stick.names("reports").len(), disk.names("reports").len()),
        (1, 0),
        "{booted}"
    );
    booted.ended(&End::PowerOff);
}

/// A stick that holds a report of an earlier boot.
fn stick_with_a_report(dir: &Path) -> Fat {
    let stick = Fat::new(dir, 4096).unwrap();
    let old = dir.join("old");
    fs::write(&old, "{\"old\":true}").unwrap();
    stick.folder("reports").unwrap();
    stick.put(&old, "reports/000007-old-PASS.json").unwrap();
    stick
}

/// An impatient technician may do this.
#[test]
fn a_stick_pulled_during_a_write_causes_a_warning_and_the_boot_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let stick = stick_with_a_report(dir.path());
    let file = stick.file().display().to_string();
    let drive = format!("if=none,id=slow,format=raw,file={file},throttling.bps-write=8192");
    let boot = Boot::shipped()
        .workload("echo the workload ran")
        .append(PASS);
    let usb = [
        "-drive",
        &drive,
        "-device",
        "qemu-xhci,id=usb",
        "-device",
        "usb-storage,id=stick,bus=usb.0,drive=slow",
    ];
    let boot = boot.qemu(&usb).append("firstlight.report.required=true");
    let booted = boot
        .unplug_after("decide    PASS", "stick", Duration::from_millis(1500))
        .run()
        .unwrap();
    booted.says("publish   warning: not kept: reports/: ");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("the workload ran");
    assert_eq!(
        stick.read("reports/000007-old-PASS.json").unwrap(),
        b"{\"old\":true}",
        "{booted}"
    );
}

/// The disk accepts 8 KB per second, and the machine loses its power during the write. Older reports stay intact, the
/// new one is complete or absent, and the next boot removes unfinished files and goes on.
#[test]
fn a_power_loss_during_a_write_loses_no_older_report() {
    let dir = tempfile::tempdir().unwrap();
    let stick = stick_with_a_report(dir.path());
    let before = fs::read(stick.file()).unwrap();
    let file = stick.file().display().to_string();
    let drive = format!("if=none,id=slow,format=raw,file={file},throttling.bps-write=8192");
    let slow = Boot::shipped()
        .append(PASS)
        .append("firstlight.policy.on_pass=hold")
        .append(NAMED);
    let slow = slow.qemu(&["-drive", &drive, "-device", "virtio-blk-pci,drive=slow"]);
    let cut = slow
        .stop_after("decide    PASS", Duration::from_millis(1500))
        .run()
        .unwrap();
    cut.ended(&End::StillRunning);
    cut.never_says("kept as");
    assert_ne!(
        fs::read(stick.file()).unwrap(),
        before,
        "nothing was written yet: {cut}"
    );
    assert_eq!(
        stick.read("reports/000007-old-PASS.json").unwrap(),
        b"{\"old\":true}",
        "{cut}"
    );
    let next = Boot::shipped()
        .workload("true")
        .append(PASS)
        .append(NAMED)
        .disk(stick.file())
        .run()
        .unwrap();
    next.says("kept as reports/00000");
    assert_eq!(
        stick.read("reports/000007-old-PASS.json").unwrap(),
        b"{\"old\":true}",
        "{next}"
    );
    let names = stick.names("reports");
    assert!(
        !names.iter().any(|name| name.ends_with(".part")),
        "{names:?}"
    );
    let whole = next.find("firstlight/report.json").unwrap();
    let last = names.last().unwrap();
    assert_eq!(stick.read(&format!("reports/{last}")).unwrap(), whole);
}
