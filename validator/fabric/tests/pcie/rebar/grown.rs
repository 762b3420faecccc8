//! Checks how the pass uses the available room, and how it handles the kernel's answers: wrong ones, errors, and none.

use super::*;
use fabric::journal::KeptFinding;
use fabric::rebar::Sysfs;
use outcome::finding::Reason;

#[test]
fn with_room_every_bar1_becomes_full_and_the_journal_says_how() {
    let copy = machine();
    let done = fixed(&copy, &SimulatedKernel::new(&copy));
    assert_eq!((done.full, done.gpus), (3, 3));
    for gpu in [SWITCHED[0], SWITCHED[1], ALONE] {
        has(&copy, gpu, 32 * GIB);
        assert_eq!(
            found(&done.findings, gpu),
            [(Code::RebarResized, Severity::Info)]
        );
    }
    let journal = Journal::load(&copy.at("run/firstlight/fabric.json"), copy.root().path())
        .unwrap()
        .unwrap();
    assert_eq!(journal.bars, done.rebar);
    let kept: Vec<_> = journal
        .findings
        .into_iter()
        .filter_map(KeptFinding::into_finding)
        .collect();
    assert_eq!(kept, done.findings);
    let first = &journal.bars[0];
    assert_eq!(
        (first.before_bytes, first.after_bytes, &first.finding),
        (FIRMWARE, Some(32 * GIB), &None)
    );
    assert_eq!(
        (first.tries.len(), first.tries[0].outcome.as_deref()),
        (1, Some("done"))
    );
}

#[test]
fn a_shared_window_is_laid_out_anew_for_all() {
    let copy = machine();
    let kernel = SimulatedKernel {
        movable: false,
        ..SimulatedKernel::new(&copy)
    };
    let done = fixed(&copy, &kernel);
    SWITCHED.iter().for_each(|gpu| has(&copy, gpu, 32 * GIB));
    let asked = kernel.asked.borrow();
    let anew = ["remove 0000:00:01.0", "rescan 0000:00:01.0"];
    assert!(asked.windows(2).any(|two| two == anew), "{asked:?}");
    assert_eq!(
        done.rebar[0]
            .tries
            .iter()
            .map(|t| t.together)
            .collect::<Vec<_>>(),
        [false, true]
    );
    let spaces = files(&copy);
    assert!(spaces.contains_key("0000:03:00.1") && spaces.contains_key(CARD));
    assert!(
        spaces.values().all(|(config, _)| config[4] & 2 == 2),
        "memory decode is on again everywhere"
    );
}

#[test]
fn what_does_not_fit_steps_down_for_all_alike() {
    let copy = machine();
    let done = fixed(
        &copy,
        &SimulatedKernel {
            movable: false,
            room: 40 * GIB,
            ..SimulatedKernel::new(&copy)
        },
    );
    for gpu in SWITCHED {
        has(&copy, gpu, 16 * GIB);
        assert_eq!(
            found(&done.findings, gpu),
            [
                (Code::RebarResized, Severity::Info),
                (Code::RebarNoRoom, Severity::Warn)
            ]
        );
    }
    assert_eq!(done.full, 0);
}

#[test]
fn no_room_leaves_every_size_as_it_was() {
    let copy = machine();
    let done = fixed(
        &copy,
        &SimulatedKernel {
            movable: false,
            room: 3 * FIRMWARE,
            ..SimulatedKernel::new(&copy)
        },
    );
    for gpu in [SWITCHED[0], SWITCHED[1], ALONE] {
        has(&copy, gpu, FIRMWARE);
        assert_eq!(
            found(&done.findings, gpu),
            [(Code::RebarNoRoom, Severity::Warn)]
        );
    }
    let evidence = &done.findings[0].evidence;
    assert_eq!(
        (evidence[0].as_str(), evidence[1].as_str()),
        ("firmware left 256 MiB", "32 GiB: ENOSPC")
    );
    assert!(
        files(&copy).values().all(|(config, _)| config[4] & 2 == 2),
        "memory decode is on again everywhere"
    );
}

#[test]
fn a_register_on_a_neighbours_addresses_is_put_right() {
    let copy = machine();
    let kernel = faulty_kernel(&copy, ALONE, ResizeFault::MasksRegister);
    let done = fixed(&copy, &kernel);
    assert!(
        !kernel
            .asked
            .borrow()
            .iter()
            .any(|a| a.starts_with("remove")),
        "nothing else has to make room"
    );
    has(&copy, ALONE, FIRMWARE);
    assert_eq!(
        found(&done.findings, ALONE),
        [(Code::RebarNoRoom, Severity::Warn)]
    );
}

#[test]
fn without_the_pass_that_register_is_what_fails() {
    let copy = machine();
    SimulatedKernel::new(&copy).register(bdf(ALONE), 0x38_0000_0000);
    let wrong = sizes(&copy.fabric())[ALONE].clone().unwrap_err();
    assert_eq!(
        wrong,
        "0000:06:00.0 has 0x3800000000 in BAR1, the kernel expects 0x3820000000"
    );
    assert_eq!(
        found(&copy.fabric().findings, ALONE),
        [(Code::RebarBroken, Severity::Fail)]
    );
}

#[test]
fn a_neighbour_with_a_driver_or_a_screen_is_never_removed() {
    for spoil in [0, 1] {
        let copy = machine();
        if spoil == 0 {
            symlink(
                "../../../bus/pci/drivers/mlx5_core",
                copy.file(CARD, "driver"),
            )
            .unwrap();
        } else {
            fs::create_dir_all(copy.at("sys/class/graphics")).unwrap();
            symlink(
                format!("../../devices/pci0000:00/{CARD}/graphics/fb0"),
                copy.at("sys/class/graphics/fb0"),
            )
            .unwrap();
        }
        let kernel = SimulatedKernel {
            movable: false,
            ..SimulatedKernel::new(&copy)
        };
        let before = files(&copy);
        let done = fixed(&copy, &kernel);
        assert_eq!(
            found(&done.findings, SWITCHED[0]),
            [(Code::RebarNoRoom, Severity::Warn)]
        );
        let Some(Reason::NeighbourInUse(why)) = &done.findings[0].reason else {
            panic!("{:?}", done.findings[0])
        };
        assert!(
            why.to_string()
                .starts_with("0000:05:00.0 shares the window"),
            "{why}"
        );
        assert!(
            !kernel
                .asked
                .borrow()
                .iter()
                .any(|a| a == "remove 0000:00:01.0")
        );
        assert_eq!(files(&copy)[SWITCHED[0]], before[SWITCHED[0]]);
    }
}

#[test]
fn success_without_an_address_is_undone() {
    let copy = machine();
    let done = fixed(&copy, &faulty_kernel(&copy, ALONE, ResizeFault::NoAddress));
    has(&copy, ALONE, 32 * GIB);
    // Resized alone it had no address; after everything below its port was laid out anew it has one.
    assert_eq!(
        done.rebar[2]
            .tries
            .iter()
            .map(|t| t.together)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert!(
        done.rebar[2].tries[0]
            .outcome
            .as_ref()
            .unwrap()
            .contains("without address"),
        "{:?}",
        done.rebar[2]
    );
}

#[test]
fn success_that_the_hardware_ignored_is_undone_and_named() {
    let copy = machine();
    let done = fixed(
        &copy,
        &faulty_kernel(&copy, ALONE, ResizeFault::HardwareKeeps),
    );
    has(&copy, ALONE, FIRMWARE);
    assert_eq!(
        found(&done.findings, ALONE),
        [(Code::RebarIgnored, Severity::Warn)]
    );
}

#[test]
fn each_error_number_has_its_own_code_and_ends_the_tries() {
    for (number, code) in [
        (524, Code::RebarPreserved),
        (95, Code::RebarPreserved),
        (16, Code::RebarBusy),
        (1, Code::RebarRefused),
        (22, Code::RebarRefused),
    ] {
        let copy = machine();
        let before = files(&copy);
        let kernel = faulty_kernel(&copy, ALONE, ResizeFault::Refuses(number));
        let done = fixed(&copy, &kernel);
        assert_eq!(found(&done.findings, ALONE), [(code, Severity::Warn)]);
        assert_eq!(files(&copy)[ALONE], before[ALONE]);
        assert_eq!(
            kernel
                .asked
                .borrow()
                .iter()
                .filter(|a| a.starts_with(ALONE))
                .count(),
            1,
            "{number}"
        );
    }
}

#[test]
fn an_address_that_is_lost_for_good_is_broken() {
    let copy = machine();
    let done = fixed(&copy, &faulty_kernel(&copy, ALONE, ResizeFault::Loses));
    assert_eq!(
        found(&done.findings, ALONE),
        [(Code::RebarBroken, Severity::Fail)]
    );
    assert_eq!(
        found(&done.findings, SWITCHED[0]),
        [(Code::RebarResized, Severity::Info)],
        "the others are served"
    );
}

#[test]
fn a_function_that_does_not_come_back_is_broken_for_all_that_were_moved() {
    let copy = machine();
    let done = fixed(
        &copy,
        &SimulatedKernel {
            movable: false,
            lost: Some(bdf(CARD)),
            ..SimulatedKernel::new(&copy)
        },
    );
    for gpu in SWITCHED {
        assert_eq!(
            found(&done.findings, gpu),
            [(Code::RebarBroken, Severity::Fail)]
        );
    }
    assert!(
        done.findings[0]
            .message
            .to_string()
            .contains("0000:05:00.0 did not come back"),
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
    assert_eq!(
        found(&done.findings, ALONE),
        [(Code::RebarIgnored, Severity::Warn)]
    );
    assert_eq!(
        found(&done.findings, SWITCHED[0]),
        [(Code::RebarRefused, Severity::Warn)],
        "no such file"
    );
    assert_eq!(files(&copy), before);
}

#[test]
fn nothing_is_tried_without_a_journal() {
    let copy = machine();
    fs::write(copy.at("run"), "a file where a folder is wanted").unwrap();
    let kernel = SimulatedKernel::new(&copy);
    assert!(
        fix(
            &copy.root(),
            &kernel,
            &planned(&copy),
            &copy.at("run/firstlight/fabric.json")
        )
        .is_err()
    );
    assert!(kernel.asked.borrow().is_empty());
}
