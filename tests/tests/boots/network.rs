//! Does init choose the right network card, give up in time, accept settings from a server only if their checksum or
//! signature is right, and set a wrong clock from the network if that is configured?

use harness::lab::{INTERFACE, Lab};
use harness::servers::{CORRECT_TIME, HttpReply, HttpServer, start_ntp_server};
use harness::stick::Fat;
use harness::{Boot, Booted, End};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PASS: &str = "firstlight.expect.gpus=0";
const FIRST: &str = "52:54:00:12:34:56";
const SECOND: &str = "52:54:00:12:34:57";
/// A network without any server.
const SILENT: &str = "hubport,hubid=1";

#[test]
fn the_card_that_the_machine_booted_from_is_used_and_not_the_first() {
    let boot = Boot::shipped()
        .workload("ip addr show > /run/kept/addresses; cat /etc/resolv.conf > /run/kept/dns");
    let boot = boot.append(PASS).card(SILENT, FIRST).card("user", SECOND);
    let booted = boot
        .append("firstlight.network.mode=dhcp BOOTIF=01-52-54-00-12-34-57")
        .run()
        .unwrap();
    booted.says("network   firstlight, eth1 by DHCP");
    assert!(
        booted.text("kept/addresses").contains("inet 10.0.2.15/24"),
        "{booted}"
    );
    assert!(
        booted.text("kept/dns").contains("nameserver 10.0.2.3"),
        "{booted}"
    );
}

#[test]
fn a_card_is_found_by_its_mac_and_gets_a_static_address() {
    let boot = Boot::shipped()
        .workload("ip addr show > /run/kept/addresses; cat /etc/resolv.conf > /run/kept/dns");
    let config = format!(
        "[network]\nmode = \"static\"\naddress = \"10.0.2.40/24\"\ngateway = \"10.0.2.2\"\n\
         dns = [\"10.0.2.3\"]\ninterface = \"{SECOND}\"\n"
    );
    let booted = boot
        .append(PASS)
        .card(SILENT, FIRST)
        .card("user", SECOND)
        .config(&config)
        .run()
        .unwrap();
    booted.says("network   firstlight, eth1 10.0.2.40/24");
    assert!(
        booted.text("kept/addresses").contains("inet 10.0.2.40/24"),
        "{booted}"
    );
    assert_eq!(booted.text("kept/dns"), "nameserver 10.0.2.3");
}

/// For a boot that needs no network, no answer within the deadline is only a warning.
#[test]
fn without_a_lease_the_boot_waits_until_the_deadline_and_its_verdict_does_not_change() {
    let boot = Boot::shipped()
        .workload("echo the workload ran")
        .append(PASS)
        .card(SILENT, FIRST);
    let booted = boot
        .append("firstlight.network.mode=dhcp firstlight.network.timeout_s=4")
        .run()
        .unwrap();
    booted.says("network   firstlight, warning: no network: eth0: no DHCP lease within 4 s");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.says("the workload ran");
}

fn sum(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    fs::write(&file, text).unwrap();
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

fn serve(files: Vec<(String, String)>) -> HttpServer {
    HttpServer::start(move |_, request| {
        let requested = request.line.split(' ').nth(1).unwrap_or("").to_owned();
        let found = files.iter().find(|(path, _)| *path == requested);
        found.map_or(HttpReply::Status(404, Vec::new()), |(_, text)| {
            HttpReply::Status(200, text.clone().into())
        })
    })
}

#[test]
fn a_folder_on_a_server_has_settings_for_each_node() {
    let all = "[network]\nhostname = \"any\"\n[policy]\non_pass = \"hold\"\n";
    let own = "[network]\nhostname = \"node7\"\n[expect]\ngpus = 0\n";
    let machine = "[policy]\non_pass = \"workload\"\n";
    let files = [
        ("default.toml", all),
        ("mac-525400123456.toml", own),
        ("serial-S7.toml", machine),
    ];
    let list: String = files
        .iter()
        .map(|(name, text)| format!("{}  {name}\n", sum(text)))
        .collect();
    let other = format!("{}  mac-525400123499.toml\n{list}", sum("x"));
    let mut served: Vec<_> = files
        .iter()
        .map(|(name, text)| (format!("/nodes/{name}"), (*text).to_owned()))
        .collect();
    served.push(("/nodes/SHA256SUMS".to_owned(), other.clone()));
    let server = serve(served);
    let word = format!(
        "firstlight.config={}#sha256={}",
        server.url("10.0.2.2", "/nodes/"),
        sum(&other)
    );
    let boot = Boot::shipped()
        .workload("hostname > /run/kept/name")
        .card("user", FIRST);
    let booted = boot
        .qemu(&["-smbios", "type=1,serial=S7"])
        .append(&word)
        .run()
        .unwrap();
    booted.says("some from a server");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    assert_eq!(booted.text("kept/name"), "node7");
    let requests: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| request.line)
        .collect();
    let expected = [
        "SHA256SUMS",
        "default.toml",
        "mac-525400123456.toml",
        "serial-S7.toml",
    ];
    assert_eq!(
        requests,
        expected.map(|name| format!("GET /nodes/{name} HTTP/1.1"))
    );
}

/// A stick that holds these settings.
fn stick(dir: &Path, settings: &str) -> Fat {
    let stick = Fat::new(dir, 1024).unwrap();
    let file = dir.join("file");
    fs::write(&file, settings).unwrap();
    stick.put(&file, "config.toml").unwrap();
    stick
}

/// The kernel word for a server's only layer: its URL and its checksum.
fn word(server: &HttpServer, path: &str, text: &str) -> String {
    format!(
        "firstlight.config={}#sha256={}",
        server.url("10.0.2.2", path),
        sum(text)
    )
}

/// The stick's other settings apply. The server can let the stick override it.
#[test]
fn a_server_overrides_a_stick_with_a_warning_unless_it_lets_the_stick_override_it() {
    let dir = tempfile::tempdir().unwrap();
    let own =
        "[network]\nhostname = \"node9\"\n[report]\nkeep = 7\n[policy]\non_pass = \"reboot\"\n";
    let stick = stick(dir.path(), own);
    let boot = |text: &str| {
        let server = serve(vec![("/n.toml".to_owned(), text.to_owned())]);
        let boot = Boot::shipped()
            .workload("hostname > /run/kept/name")
            .append(PASS)
            .card("user", FIRST);
        boot.append(&word(&server, "/n.toml", text))
            .stick(stick.file())
            .run()
            .unwrap()
    };
    let text = "[policy]\non_pass = \"workload\"\n";
    let booted = boot(text);
    let ignored = "warning: /run/firstlight/partition-config.toml: policy.on_pass is ignored: ";
    assert_eq!(booted.console.matches(ignored).count(), 1, "{booted}");
    assert_eq!(booted.text("kept/name"), "node9");
    booted.ended(&End::PowerOff);
    let booted = boot(&format!("[config]\ndisk_overrides_server = true\n{text}"));
    booted.never_says(ignored);
    booted.ended(&End::Reboot);
}

// Made with minisign 0.11 and a key that is only for tests.
const KEY: &str = "[config]\nkey = \"RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY\"\n";
const SIGNED: &str = "[policy]\non_pass = \"reboot\"\n";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key
RUSDbFQ9yZTA5oe5Zn58qJqOuckgHEAaCaToWZphgaq7hlsaOnSPHcEPt4OXBvOjTYoCzPukrh3y80Rn5q99p1jjxxVti+iergA=
trusted comment: a file for tests
7r1qAjb3RMRzntI6C8M4CsVWto8uRiMwZeeedGihJuh6t4Mmf1SotKjY1Y0/ma6aLFOFtY0PjbUAIMce03pABA==
";

#[test]
fn an_image_with_a_key_accepts_only_signed_settings_from_a_server() {
    let boot = |files: Vec<(String, String)>| {
        let server = serve(files);
        let boot = Boot::shipped()
            .workload("true")
            .append(PASS)
            .config(KEY)
            .card("user", FIRST);
        let boot = boot.append(&word(&server, "/n.toml", SIGNED));
        let url = server.url("10.0.2.2", "/n.toml");
        (boot, url, server)
    };
    let layer = || ("/n.toml".to_owned(), SIGNED.to_owned());
    let (signed, _, _server) = boot(vec![
        layer(),
        ("/n.toml.minisig".to_owned(), SIGNATURE.to_owned()),
    ]);
    let booted = signed.run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.ended(&End::Reboot);
    let (unsigned, url, _server) = boot(vec![layer()]);
    let booted = unsigned
        .stop_after("HOLD ", Duration::from_secs(3))
        .run()
        .unwrap();
    assert_eq!(booted.verdict().failed, ["config"], "{booted}");
    booted.says(&format!(
        "ERROR     INIT-CONFIG: {url}: {url}.minisig: answered 404"
    ));
    booted.ended(&End::StillRunning);
}

/// As on a server. A node's file overrides the stick's `config.toml`.
#[test]
fn a_stick_can_have_a_file_for_each_node() {
    let dir = tempfile::tempdir().unwrap();
    let stick = Fat::new(dir.path(), 1024).unwrap();
    stick.folder("config.d").unwrap();
    let own = "[network]\nhostname = \"node7\"\n[expect]\ngpus = 0\n";
    for (name, text) in [
        ("config.toml", "[network]\nhostname = \"any\"\n"),
        ("config.d/mac-525400123456.toml", own),
        (
            "config.d/mac-525400123499.toml",
            "[network]\nhostname = \"other\"\n",
        ),
    ] {
        let file = dir.path().join("file");
        fs::write(&file, text).unwrap();
        stick.put(&file, name).unwrap();
    }
    let boot = Boot::shipped()
        .workload("hostname > /run/kept/name")
        .card(SILENT, FIRST);
    let booted = boot.stick(stick.file()).run().unwrap();
    booted.says("some from the data partition");
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    assert_eq!(booted.text("kept/name"), "node7");
    booted.says("kept as reports/000001-");
}

#[test]
fn a_file_with_a_wrong_checksum_stops_the_boot_with_one_line() {
    let server = serve(vec![(
        "/n.toml".to_owned(),
        "[policy]\non_pass = \"reboot\"\n".to_owned(),
    )]);
    let url = server.url("10.0.2.2", "/n.toml");
    let word = format!("firstlight.config={url}#sha256={}", "0".repeat(64));
    let boot = Boot::shipped()
        .workload("echo the workload ran")
        .append(PASS)
        .card("user", FIRST);
    let booted = boot
        .append(&word)
        .stop_after("FIRSTLIGHT verdict", Duration::from_secs(3))
        .run()
        .unwrap();
    assert_eq!(booted.verdict().failed, ["config"], "{booted}");
    let line = format!("ERROR     INIT-CONFIG: kernel word firstlight.config: {url}: sha256 is ");
    assert_eq!(
        booted.lines().filter(|l| l.starts_with(&line)).count(),
        1,
        "{booted}"
    );
    booted.never_says("the workload ran");
    booted.ended(&End::StillRunning);
}

/// A machine whose hardware clock starts in 2001.
fn clock_of_2001() -> Boot {
    Boot::shipped()
        .workload("date +%Y > /run/kept/year")
        .append(PASS)
        .qemu(&["-rtc", "base=2001-02-03T04:05:06"])
}

#[track_caller]
fn year_of_the_report(booted: &Booted) -> String {
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.json("firstlight/report.json")["started"]
        .as_str()
        .unwrap()[..4]
        .to_owned()
}

#[test]
fn a_wrong_clock_is_set_before_the_report_is_dated() {
    let server = start_ntp_server("10.0.2.2", Some(CORRECT_TIME));
    let booted = clock_of_2001()
        .card("user", FIRST)
        .append(&format!("firstlight.network.time={server}"))
        .run()
        .unwrap();
    booted.says(&format!("time      clock set from {server}, moved by +"));
    booted.says("network   firstlight, eth0 by DHCP");
    let year = booted.text("kept/year");
    assert!(year.parse::<u32>().unwrap() >= 2026, "{year}");
    assert_eq!(year_of_the_report(&booted), year);
}

#[test]
fn a_time_server_that_does_not_answer_causes_one_warning() {
    let server = start_ntp_server("10.0.2.2", None);
    let booted = clock_of_2001()
        .card("user", FIRST)
        .append(&format!("firstlight.network.time={server}"))
        .run()
        .unwrap();
    let line = format!("warning: the clock was not set: {server}: no answer within 4 s");
    assert_eq!(booted.lines().filter(|l| *l == line).count(), 1, "{booted}");
    assert_eq!(
        (
            booted.text("kept/year").as_str(),
            year_of_the_report(&booted).as_str()
        ),
        ("2001", "2001")
    );
}

/// There is no server at the address that DHCP provides, and the warning names the address.
#[test]
fn dhcp_can_provide_the_time_server() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let interface = format!("--interface={INTERFACE}");
    let words = "dnsmasq --keep-in-foreground --log-facility=- --conf-file=/dev/null --user=root --pid-file= --port=0 \
        --bind-interfaces --leasefile-ro --dhcp-range=192.168.77.10,192.168.77.20 --dhcp-option=42,192.168.77.9";
    let words: Vec<_> = words
        .split_whitespace()
        .chain([interface.as_str()])
        .collect();
    let _serving = lab.run(&words).unwrap();
    let inside = lab.inside();
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    let card = format!("tap,ifname={INTERFACE},script=no,downscript=no");
    let booted = clock_of_2001()
        .wrapper(&inside)
        .card(&card, FIRST)
        .append("firstlight.network.time=dhcp")
        .run()
        .unwrap();
    booted.says("network   firstlight, eth0 by DHCP");
    booted.says("warning: the clock was not set: 192.168.77.9: ");
    assert_eq!(year_of_the_report(&booted), "2001");
}
