//! The driver's report as the boot leaves it, with and without a driver.

use super::CONFIG;
use super::namespace::{Down, Machine, PASS, json};
use serde_json::json;

#[test]
fn a_missing_driver_module_is_in_the_report_that_the_validator_judges() {
    let m = Machine::new(PASS, CONFIG)
        .cmdline("firstlight.driver.load=true firstlight.driver.modules=nvidai")
        .workload("exit 0");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(console.contains("driver    nvidai: not loaded, DRIVER-MISSING"), "{console}");
    let driver = json(&m, "driver.json");
    assert_eq!((&driver["schema"], &driver["load"]), (&json!("firstlight.driver/1"), &json!(true)));
    assert_eq!((&driver["image"], &driver["held"]), (&json!(null), &json!([])));
    assert_eq!(driver["modules"][0]["outcome"], json!("not-tried"));
    let finding = &driver["findings"][0];
    assert_eq!((&finding["code"], &finding["subject"]), (&json!("DRIVER-MISSING"), &json!("nvidai")));
    let message = finding["message"].as_str().unwrap();
    assert!(message.starts_with("no driver image; "), "{message}");
}

#[test]
fn without_a_driver_there_is_a_report_all_the_same() {
    let (_, m, console) = Machine::new(PASS, CONFIG).workload("exit 0").boot().down();
    assert!(console.contains("driver    driver.load = false: nothing loaded "), "{console}");
    let driver = json(&m, "driver.json");
    assert_eq!((&driver["load"], &driver["modules"]), (&json!(false), &json!([])));
}

#[test]
fn a_damaged_driver_image_is_named() {
    let m = Machine::new(PASS, CONFIG).program("usr/lib/firstlight/driver.squashfs", "damaged");
    let (_, m, console) = m.workload("exit 0").boot().down();
    assert!(console.contains("nothing loaded, DRIVER-MISSING "), "{console}");
    let message = json(&m, "driver.json")["findings"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("driver.squashfs: holds no known file system"), "{message}");
}

#[test]
fn a_driver_that_hangs_is_given_up_and_the_boot_goes_on_to_an_error() {
    // Opening a pipe without a writer waits forever.
    let m = Machine::new(PASS, CONFIG)
        .cmdline("firstlight.driver.load=true firstlight.driver.timeout_s=1")
        .pipe("usr/lib/firstlight/driver.squashfs");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    let driver = json(&m, "driver.json");
    let finding = &driver["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&json!("DRIVER-TIMEOUT"), &json!("error")));
    let cause = json(&m, "verdict.json")["cause"].as_str().unwrap().to_owned();
    assert!(cause.starts_with("driver: the driver's start did not end within "), "{cause}");
    assert!(cause.ends_with("while mounting the driver image"), "{cause}");
    assert_eq!(json(&m, "verdict.json")["failed"], json!(["driver"]));
}
