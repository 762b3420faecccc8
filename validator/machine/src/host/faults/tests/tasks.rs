//! Hung tasks: those that wait for a disk or another driver, and those that may wait for a GPU.

use super::log;
use crate::host::faults::{Scene, faults};
use crate::host::nvidia::xid::TestPhase;
use outcome::finding::Severity::{self, Fail, Info};

#[track_caller]
fn expect(lines: &[&str], severity: Severity) {
    let found = faults(&log(lines), TestPhase::During, &Scene::default());
    let [finding] = &found[..] else {
        panic!("one: {found:?}")
    };
    assert_eq!(
        (finding.code.as_str(), finding.severity),
        ("KERNEL-FAULT", severity),
        "{lines:?}"
    );
    assert_eq!(
        faults(&log(lines), TestPhase::Before, &Scene::default()),
        []
    );
}

#[test]
fn a_task_that_waits_for_a_disk_is_information() {
    for name in [
        "jbd2/sda1-8:345",
        "md0_raid5:411",
        "xfsaild/dm-0:77",
        "btrfs-transacti:9",
        "txg_sync:1204",
        "kswapd0:90",
    ] {
        expect(
            &[&format!(
                "INFO: task {name} blocked for more than 120 seconds."
            )],
            Info,
        );
    }
    expect(
        &["INFO: task umount:3 blocked in I/O wait for more than 122 seconds."],
        Info,
    );
    for stack in [
        " io_schedule+0x46/0x80",
        "Workqueue: writeback wb_workfn (flush-8:0)",
        " ? ext4_lookup+0x1/0x2",
    ] {
        expect(
            &[
                "INFO: task kworker/u8:2:123 blocked for more than 120 seconds.",
                "Call Trace:",
                stack,
            ],
            Info,
        );
    }
}

#[test]
fn a_task_that_waits_for_another_driver_is_information() {
    let stack = [
        " <TASK>",
        " __schedule+0x2eb/0x8d0",
        " amdgpu_device_gpu_recover+0x1f0/0xa80 [amdgpu]",
        " </TASK>",
    ];
    expect(
        &[
            &["INFO: task Xorg:1234 blocked for more than 120 seconds."],
            &stack[..],
        ]
        .concat(),
        Info,
    );
}

#[test]
fn our_own_tasks_and_those_of_nvidias_driver_fail_and_so_do_unknown_ones() {
    for name in [
        "firstlight:812",
        "nvidia-smi:77",
        "nv_queue:340",
        "UVM global queue:341",
        "python3:5000",
        "kworker/3:1:60",
    ] {
        expect(
            &[&format!(
                "INFO: task {name} blocked for more than 120 seconds."
            )],
            Fail,
        );
    }
    let of_driver = " uvm_ioctl+0x1f0/0xa80 [nvidia_uvm]";
    for name in ["python3:5000", "jbd2/sda1-8:345", "systemd-udevd:400"] {
        expect(
            &[
                &format!("INFO: task {name} blocked for more than 120 seconds."),
                " io_schedule+0x46/0x80",
                of_driver,
            ],
            Fail,
        );
    }
    for stack in [
        " bnxt_re_destroy_qp+0x1f0/0xa80 [bnxt_re]",
        " irdma_sc_poll+0x1/0x2 [irdma]",
        " mlx5_cmd_exec+0x1/0x2 [mlx5_core]",
    ] {
        expect(
            &[
                "INFO: task kworker/u8:2:123 blocked for more than 120 seconds.",
                stack,
            ],
            Fail,
        );
    }
    // A worker that waits for memory.
    expect(
        &[
            "INFO: task firstlight:812 blocked for more than 120 seconds.",
            " folio_wait_bit+0x1/0x2",
        ],
        Fail,
    );
}

#[test]
fn the_stack_of_the_next_task_is_not_that_of_this_one() {
    let found = faults(
        &log(&[
            "INFO: task jbd2/sda1-8:345 blocked for more than 120 seconds.",
            " jbd2_journal_commit_transaction+0x1/0x2 [jbd2]",
            "INFO: task firstlight:812 blocked for more than 120 seconds.",
            " os_acquire_mutex+0x1/0x2 [nvidia]",
        ]),
        TestPhase::During,
        &Scene::default(),
    );
    assert_eq!(
        found.iter().map(|f| f.severity).collect::<Vec<_>>(),
        [Info, Fail]
    );
}
