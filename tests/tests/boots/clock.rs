//! Does a clock that is wrong get the time from the network, where that is asked for, and does nobody wait for a server
//! that does not answer?

use harness::lab::{INTERFACE, Lab};
use harness::servers::{RIGHT, tell_time};
use harness::{Boot, Booted};

const PASS: &str = "firstlight.expect.gpus=0";
const MAC: &str = "52:54:00:12:34:56";

/// A machine whose own clock stands in 2001.
fn boot() -> Boot {
    Boot::shipped()
        .workload("date +%Y > /run/kept/year")
        .append(PASS)
        .qemu(&["-rtc", "base=2001-02-03T04:05:06"])
}

#[track_caller]
fn year_of_the_report(booted: &Booted) -> String {
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    booted.json("firstlight/report.json")["started"].as_str().unwrap()[..4].to_owned()
}

#[test]
fn a_wrong_clock_is_set_before_the_report_is_dated() {
    let server = tell_time("10.0.2.2", Some(RIGHT));
    let booted = boot().card("user", MAC).append(&format!("firstlight.network.time={server}")).run().unwrap();
    booted.says(&format!("time      clock set from {server}, moved by +"));
    booted.says("network   firstlight, eth0 by DHCP");
    let year = booted.text("kept/year");
    assert!(year.parse::<u32>().unwrap() >= 2026, "{year}");
    assert_eq!(year_of_the_report(&booted), year);
}

#[test]
fn a_server_that_does_not_answer_is_one_warning() {
    let server = tell_time("10.0.2.2", None);
    let booted = boot().card("user", MAC).append(&format!("firstlight.network.time={server}")).run().unwrap();
    let line = format!("warning: the clock was not set: {server}: no answer within 4 s");
    assert_eq!(booted.lines().filter(|l| *l == line).count(), 1, "{booted}");
    assert_eq!((booted.text("kept/year").as_str(), year_of_the_report(&booted).as_str()), ("2001", "2001"));
}

/// Nobody answers at the address that DHCP tells, and the warning names it.
#[test]
fn dhcp_may_tell_who_knows_the_time() {
    let lab = Lab::new("192.168.77.1/24").unwrap();
    let interface = format!("--interface={INTERFACE}");
    let words = "dnsmasq --keep-in-foreground --log-facility=- --conf-file=/dev/null --user=root --pid-file= --port=0 \
        --bind-interfaces --leasefile-ro --dhcp-range=192.168.77.10,192.168.77.20 --dhcp-option=42,192.168.77.9";
    let words: Vec<_> = words.split_whitespace().chain([interface.as_str()]).collect();
    let _serving = lab.run(&words).unwrap();
    let inside = lab.inside();
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    let card = format!("tap,ifname={INTERFACE},script=no,downscript=no");
    let booted =
        boot().within(&inside).card(&card, MAC).append("firstlight.network.time=dhcp").run().unwrap();
    booted.says("network   firstlight, eth0 by DHCP");
    booted.says("warning: the clock was not set: 192.168.77.9: ");
    assert_eq!(year_of_the_report(&booted), "2001");
}
