//! The checks of the driver image: an image whose parts do not belong together is refused with one line that names both
//! sides, and pruning removes only the GPU code of other architectures from NCCL.

use harness::driver_inputs::{DriverInputs, assert_one_error, elf};
use harness::workspace;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

fn module(version: &str, kernel: &str, compiler: &str, patch: &str) -> Vec<u8> {
    let info =
        format!("version={version}\0vermagic={kernel} SMP mod_unload \0firstlight.patch={patch}\0");
    elf(
        62,
        &[
            (".modinfo", info.as_bytes()),
            (".comment", format!("\0GCC: {compiler}\0").as_bytes()),
        ],
    )
}

/// A driver image in which all parts match, and a kernel to compare it with.
fn good_image(inputs: &DriverInputs) {
    const KERNEL: &str = "6.12.107-firstlight";
    inputs.write("kernel/modules/a.ko", module("1", KERNEL, "14.2.0", ""));
    inputs.write(
        "image/driver.toml",
        format!("version = \"570.1.2\"\npatch = \"1\"\nkernel = \"{KERNEL}\"\n"),
    );
    for name in ["nvidia", "nvidia-uvm"] {
        inputs.write(
            &format!("image/modules/{name}.ko"),
            module("570.1.2", KERNEL, "14.2.0", "1"),
        );
    }
    for name in ["libcuda", "libnvidia-ml"] {
        inputs.write(
            &format!("image/lib/{name}.so.570.1.2"),
            b"\x7fELF..\x00570.1.2\x00",
        );
        symlink(
            format!("{name}.so.570.1.2"),
            inputs.path(&format!("image/lib/{name}.so.1")),
        )
        .unwrap();
    }
    inputs.write("image/firmware/nvidia/570.1.2/gsp_ga10x.bin", "firmware");
}

#[test]
fn an_image_whose_parts_belong_together_passes() {
    let inputs = DriverInputs::new();
    good_image(&inputs);
    let output = inputs.script("check.sh", &[&inputs.path("image"), &inputs.path("kernel")]);
    assert!(output.status.success(), "{output:?}");
}

/// Each mismatch, with what its error line must name: both sides.
#[test]
fn an_image_with_a_part_that_does_not_belong_is_refused() {
    const KERNEL: &str = "6.12.107-firstlight";
    let toml = |kernel: &str| {
        format!("version = \"570.1.2\"\npatch = \"1\"\nkernel = \"{kernel}\"\n").into_bytes()
    };
    let cases: [(&str, Vec<u8>, &[&str]); 9] = [
        (
            "modules/nvidia.ko",
            module("570.1.3", KERNEL, "14.2.0", "1"),
            &["nvidia.ko", "570.1.3", "570.1.2"],
        ),
        (
            "modules/nvidia.ko",
            module("570.1.2", "6.12.90-amd64", "14.2.0", "1"),
            &["vermagic", "6.12.90-amd64", KERNEL],
        ),
        (
            "modules/nvidia-uvm.ko",
            module("570.1.2", KERNEL, "12.2.0", "1"),
            &["nvidia-uvm.ko was compiled by", "12.2.0", "14.2.0"],
        ),
        (
            "modules/nvidia.ko",
            module("570.1.2", KERNEL, "14.2.0", ""),
            &["patch level ''", "'1'"],
        ),
        (
            "modules/nvidia.ko",
            b"no module".to_vec(),
            &["nvidia.ko is not a kernel module"],
        ),
        (
            "modules/nvidia-drm.ko",
            b"x".to_vec(),
            &["the modules are", "nvidia-drm.ko"],
        ),
        (
            "lib/libcuda.so.570.1.2",
            b"\x7fELF..\x00570.1.3\x00".to_vec(),
            &["libcuda.so.570.1.2", "570.1.3", "the driver is 570.1.2"],
        ),
        (
            "lib/libnvidia-ml.so.570.1.3",
            b"\x7fELF570.1.3".to_vec(),
            &["libnvidia-ml.so.570.1.3", "570.1.2"],
        ),
        (
            "driver.toml",
            toml("6.1.0"),
            &["driver.toml is for kernel '6.1.0'", KERNEL],
        ),
    ];
    for (file, data, words) in cases {
        assert_refused(
            |inputs| drop(inputs.write(&format!("image/{file}"), data)),
            words,
        );
    }
    assert_refused(
        |b| fs::remove_file(b.path("image/lib/libcuda.so.1")).unwrap(),
        &["libcuda.so.1 is missing"],
    );
    let firmware = |b: &DriverInputs| b.path("image/firmware/nvidia/570.1.2");
    assert_refused(
        |b| fs::rename(firmware(b), b.path("image/firmware/nvidia/550.1")).unwrap(),
        &["GSP", "550.1", "570.1.2"],
    );
    assert_refused(
        |b| fs::remove_dir_all(b.path("image/firmware")).unwrap(),
        &["GSP", "[]", "570.1.2"],
    );
    assert_refused(
        |b| fs::remove_dir_all(firmware(b)).unwrap(),
        &["GSP", "[]", "570.1.2"],
    );
}

/// Asserts that a good image that `spoil` has changed gives one error line with these words.
fn assert_refused(spoil: impl FnOnce(&DriverInputs), words: &[&str]) {
    let inputs = DriverInputs::new();
    good_image(&inputs);
    spoil(&inputs);
    assert_one_error(
        &inputs.script("check.sh", &[&inputs.path("image"), &inputs.path("kernel")]),
        words,
    );
}

/// A container of GPU code: a header, then (kind, architecture, payload) for each entry.
fn fatbin(entries: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, arch, payload) in entries {
        let mut header = vec![0; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64_u32.to_le_bytes());
        header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        body.extend(header);
        body.extend(*payload);
    }
    [
        &[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0][..],
        &(body.len() as u64).to_le_bytes(),
        &body,
    ]
    .concat()
}

fn prune(inputs: &DriverInputs) -> Output {
    let tools = workspace().join("image/in-tools.sh");
    let bind = |from: PathBuf, to: &str| format!("{}:/build/{to}", from.display());
    Command::new(tools)
        .args([
            "tools",
            "--bind",
            &bind(workspace().join("image/driver"), "scripts"),
        ])
        .args(["--bind", &bind(inputs.path("gpu"), "gpu")])
        .args([
            "python3",
            "-B",
            "scripts/prune.py",
            "gpu/from",
            "gpu/to",
            "8.0",
            "8.9",
            "9.0",
        ])
        .env("FIRSTLIGHT_CACHE", inputs.path("cache"))
        .output()
        .unwrap()
}

#[test]
fn pruning_zeros_other_architectures_and_touches_nothing_else() {
    let inputs = DriverInputs::new();
    let entries: [(u16, u32, &[u8]); 5] = [
        (2, 52, b"stub"),
        (2, 70, b"seventy."),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, b"ptx90.."),
    ];
    let library = [
        b"library".as_slice(),
        &fatbin(&entries),
        b"more",
        &fatbin(&entries[1..]),
        b"end",
    ]
    .concat();
    inputs.write("gpu/from", &library);
    let output = prune(&inputs);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("dropped  sm_70") && text.contains("dropped  PTX compute_90"),
        "{text}"
    );
    let zeroed = [
        (2, 52, b"stub".as_slice()),
        (2, 70, &[0; 8]),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, &[0; 7]),
    ];
    let wanted = [
        b"library".as_slice(),
        &fatbin(&zeroed),
        b"more",
        &fatbin(&zeroed[1..]),
        b"end",
    ]
    .concat();
    assert_eq!(fs::read(inputs.path("gpu/to")).unwrap(), wanted);
}

#[test]
fn pruning_that_drops_nothing_or_lacks_code_that_it_must_keep_is_an_error() {
    for library in [
        b"no container in it".to_vec(),
        fatbin(&[(2, 80, b"a"), (2, 90, b"b")]),
        fatbin(&[(2, 70, b"a"), (2, 80, b"b")]),
        // code for 8.6, which a GPU of 8.0 cannot run
        fatbin(&[(2, 70, b"a"), (2, 86, b"b"), (2, 90, b"c")]),
        // PTX alone
        fatbin(&[(1, 80, b"a"), (2, 90, b"b")]),
        fatbin(&[(2, 70, b"a"), (9, 80, b"b"), (2, 90, b"c")]),
    ] {
        let inputs = DriverInputs::new();
        inputs.write("gpu/from", &library);
        assert_one_error(&prune(&inputs), &["gpu/from"]);
        assert!(!inputs.path("gpu/to").exists());
    }
}
