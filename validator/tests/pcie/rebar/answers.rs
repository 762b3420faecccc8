//! What does the pass make of the kernel's answers: false ones, errors, and none?

use super::*;
use firstlight::fabric::rebar::Sysfs;

#[test]
fn success_without_an_address_is_undone() {
    let copy = machine();
    let done = fixed(&copy, &lying(&copy, ALONE, Lie::NoAddress));
    has(&copy, ALONE, 32 * GIB);
    // Alone it had no address; with everything below its port laid out anew it has.
    assert_eq!(done.rebar[2].tries.iter().map(|t| t.together).collect::<Vec<_>>(), [false, true]);
    assert!(
        done.rebar[2].tries[0].outcome.as_ref().unwrap().contains("without address"),
        "{:?}",
        done.rebar[2]
    );
}

#[test]
fn success_that_the_hardware_ignored_is_undone_and_named() {
    let copy = machine();
    let done = fixed(&copy, &lying(&copy, ALONE, Lie::HardwareKeeps));
    has(&copy, ALONE, FIRMWARE);
    assert_eq!(said(&done.findings, ALONE), [("REBAR-IGNORED".into(), Severity::Warn)]);
}

#[test]
fn each_error_number_has_its_own_code_and_ends_the_tries() {
    for (number, code) in [
        (524, "REBAR-PRESERVED"),
        (95, "REBAR-PRESERVED"),
        (16, "REBAR-BUSY"),
        (1, "REBAR-REFUSED"),
        (22, "REBAR-REFUSED"),
    ] {
        let copy = machine();
        let before = files(&copy);
        let kernel = lying(&copy, ALONE, Lie::Refuses(number));
        let done = fixed(&copy, &kernel);
        assert_eq!(said(&done.findings, ALONE), [(code.to_owned(), Severity::Warn)]);
        assert_eq!(files(&copy)[ALONE], before[ALONE]);
        assert_eq!(kernel.asked.borrow().iter().filter(|a| a.starts_with(ALONE)).count(), 1, "{number}");
    }
}

#[test]
fn an_address_that_is_lost_for_good_is_broken() {
    let copy = machine();
    let done = fixed(&copy, &lying(&copy, ALONE, Lie::Loses));
    assert_eq!(said(&done.findings, ALONE), [("REBAR-BROKEN".into(), Severity::Fail)]);
    assert_eq!(
        said(&done.findings, SWITCHED[0]),
        [("REBAR-RESIZED".into(), Severity::Info)],
        "the others are served"
    );
}

#[test]
fn a_function_that_does_not_come_back_is_broken_for_all_that_were_moved() {
    let copy = machine();
    let done = fixed(&copy, &Simulated { movable: false, lost: Some(bdf(CARD)), ..Simulated::new(&copy) });
    for gpu in SWITCHED {
        assert_eq!(said(&done.findings, gpu), [("REBAR-BROKEN".into(), Severity::Fail)]);
    }
    assert!(
        done.findings[0].message.contains("0000:05:00.0 did not come back"),
        "{}",
        done.findings[0].message
    );
}

#[test]
fn a_folder_has_no_kernel_and_the_pass_says_so() {
    let copy = machine();
    fs::write(copy.file(ALONE, "resource1_resize"), "000000000000ffc0\n").unwrap();
    let before = files(&copy);
    let done = fixed(&copy, &Sysfs(&copy.root()));
    assert_eq!(said(&done.findings, ALONE), [("REBAR-IGNORED".into(), Severity::Warn)]);
    assert_eq!(said(&done.findings, SWITCHED[0]), [("REBAR-REFUSED".into(), Severity::Warn)], "no such file");
    assert_eq!(files(&copy), before);
}

#[test]
fn nothing_is_tried_without_a_journal() {
    let copy = machine();
    fs::write(copy.at("run"), "a file where a folder is wanted").unwrap();
    let kernel = Simulated::new(&copy);
    assert!(fix(&copy.root(), &kernel, &planned(&copy), &copy.at("run/firstlight/fabric.json")).is_err());
    assert!(kernel.asked.borrow().is_empty());
}
