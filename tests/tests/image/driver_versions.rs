//! `./run driver-look --all`, tested on a small git repository that is made here: what each version gives, and that nothing is
//! written where a version cannot be read. The tools trees must exist (`./run image`).

use harness::driver_inputs::{DriverInputs, REGISTRY, assert_one_error};
use harness::workspace;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The chips of the made-up trees, and their indices.
const CHIPS: &[&str] = &[
    "GA102", "GA103", "GA104", "GA106", "GA107", "AD102", "AD103", "AD104", "AD106", "AD107",
    "GH100", "GB100", "GB102", "GB202", "GB203", "GB205", "GB206", "GB207",
];
/// The position of GH100; it and the chips behind it have the methods.
const GH100: usize = 10;
const PAGE: &str = "above\n<!-- versions -->\n<!-- /versions -->\nbelow\n";

fn table(method: &str) -> String {
    let mask = (GH100..CHIPS.len()).fold(0_u32, |mask, bit| mask | 1 << bit);
    format!(
        "    // {method} -- halified (2 hals) body\n    if (( ((chipHal_HalVarIdx >> 5) == 0UL) && ((1UL << (chipHal_HalVarIdx & 0x1f)) & \
         0x{mask:08x}UL) )) /* ChipHal: {} */ \n    {{\n        pThis->__{method}__ = &{method}_GH100;\n    }}\n    // default\n    else\n    \
         {{\n        pThis->__{method}__ = &{method}_none;\n    }}\n\n",
        CHIPS[GH100..].join(" | ")
    )
}

/// A repository, and the folder with a page that the result is written to.
struct Repository(DriverInputs);

impl Repository {
    fn new() -> Self {
        let made = Self(DriverInputs::new());
        made.0.write("to/docs/driver-versions.md", PAGE);
        fs::create_dir_all(made.0.path("to/image/driver/description")).unwrap();
        fs::create_dir_all(made.0.path("git")).unwrap();
        made.git(&["init", "-q"]);
        made
    }

    fn git(&self, words: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(self.0.path("git"))
            .args(["-c", "user.name=x", "-c", "user.email=x@localhost"])
            .args(words);
        assert!(git.status().unwrap().success(), "{words:?}");
    }

    /// A tag with a tree in which the edits fit, with one change to one file.
    fn version(&self, tag: &str, file: &str, change: impl Fn(String) -> String) {
        let edits = workspace().join("image/driver/edits/bar1/edits.toml");
        let edits: toml::Table = toml::from_str(&fs::read_to_string(edits).unwrap()).unwrap();
        let tables = |file: &str| -> String {
            let binds = edits["bind"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|bind| bind["file"].as_str() == Some(file));
            binds
                .flat_map(|bind| bind["methods"].as_array().unwrap())
                .map(|m| table(m.as_str().unwrap()))
                .collect()
        };
        let branch = |(at, name): (usize, &&str)| {
            format!(
                "    // {name}\n    if(arch == 0x1A && impl == 0x{at:X})\n    {{\n        pChipHal->__nvoc_HalVarIdx = {at};\n    }}\n"
            )
        };
        let chips: String = CHIPS.iter().enumerate().map(branch).collect();
        let keys = "#define T \"RMPcieP2PType\"\n#define T_BAR1 1\n#define S \"RMForceStaticBar1\"\n#define S_ENABLE 1\n";
        let (bus, dma) = (
            "src/nvidia/generated/g_kern_bus_nvoc.c",
            "src/nvidia/generated/g_virt_mem_allocator_nvoc.c",
        );
        for (path, text) in [
            ("version.mk", format!("NVIDIA_VERSION = {tag}\n")),
            (
                "src/nvidia/interface/nvrm_registry.h",
                REGISTRY.to_owned() + keys,
            ),
            ("src/nvidia/generated/g_chips2halspec_nvoc.c", chips),
            (bus, tables(bus)),
            (dma, tables(dma)),
            (
                "kernel-open/nvidia/nv-pci.c",
                "r = pci_resize_resource(a, b, c);\n".to_owned(),
            ),
            (
                "kernel-open/nvidia/nvidia-sources.Kbuild",
                "NVIDIA_SOURCES += nv.c\n".to_owned(),
            ),
            ("src/nvidia/srcs.mk", "SRCS += x.c\n".to_owned()),
            (
                "src/nvidia/src/kernel/platform/p2p/p2p_caps.c",
                "int\np2pGetCapsStatus(int a)\n{\n}\n".to_owned(),
            ),
            (
                "src/nvidia/src/kernel/gpu/bus/arch/turing/kern_bus_tu102.c",
                "int\nkbusIsStaticBar1Supported_TU102(int a)\n{\n}\n".to_owned(),
            ),
            (
                "kernel-open/nvidia-uvm/nvidia-uvm-sources.Kbuild",
                "NVIDIA_UVM_SOURCES += x.c\n".to_owned(),
            ),
            (
                "kernel-open/nvidia-uvm/uvm_va_space.c",
                format!(
                    "int enable_peers(int a)\n{{\n{}}}\n",
                    "    processor_mask_array_set(a);\n".repeat(12)
                ),
            ),
            (
                "src/nvidia/src/kernel/rmapi/nv_gpu_ops.c",
                "void _nvGpuOpsEncodeBar1P2PAddrs(void);\n".to_owned(),
            ),
        ] {
            self.0.write(
                &format!("git/{path}"),
                if path == file { change(text) } else { text },
            );
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", tag]);
        self.git(&["tag", tag]);
    }

    fn look(&self) -> Output {
        self.0.script(
            "look.sh",
            &[
                Path::new("--all"),
                &self.0.path("git/.git"),
                &self.0.path("to"),
            ],
        )
    }

    fn page(&self) -> String {
        fs::read_to_string(self.0.path("to/docs/driver-versions.md")).unwrap()
    }

    fn seen(&self) -> Option<String> {
        fs::read_to_string(self.0.path("to/image/driver/description/seen.toml")).ok()
    }
}

const BUS: &str = "src/nvidia/generated/g_kern_bus_nvoc.c";
const OPS: &str = "src/nvidia/src/kernel/rmapi/nv_gpu_ops.c";

#[test]
fn each_version_has_what_its_own_files_give() {
    let made = Repository::new();
    for tag in ["549.1", "565.77", "580.1", "580.2"] {
        made.version(tag, "", |text| text);
    }
    made.version("580.10", OPS, |_| String::new());
    made.version("590.1", BUS, |text| text.replace(" | GB203", ""));
    made.version("590.2", "src/nvidia/interface/nvrm_registry.h", |_| {
        REGISTRY.to_owned()
    });
    made.git(&["tag", "not-a-version"]);
    let output = made.look();
    assert!(output.status.success(), "{output:?}");
    let page = made.page();
    assert!(
        page.starts_with("above\n<!-- versions -->\n6 versions, looked at on 20")
            && page.ends_with("below\n"),
        "{page}"
    );
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| 5"))
        .collect();
    let none = "no: from 580 on";
    let bad = "kbusCreateP2PMapping: the masks hold";
    assert_eq!(rows.len(), 5, "{page}");
    let old = "no: our changes are for 580 and newer";
    assert_eq!(
        rows[0],
        format!("| 565.77 | {none} | {old} | {none} | no: from 570 on | for 580 and newer |")
    );
    assert_eq!(
        rows[1],
        "| 580.1, 580.2 | our edits | our edits | its own, with keys | its own | fit |"
    );
    assert_eq!(
        rows[2],
        "| 580.10 | our edits | our edits | no: no page entries of BAR1 peers | its own | fit |"
    );
    assert!(
        rows[3].starts_with("| 590.1 | no: ") && rows[3].matches(bad).count() == 4,
        "{}",
        rows[3]
    );
    assert!(
        rows[4].contains("has no key RMPcieP2PType") && rows[4].ends_with("| its own | fit |"),
        "{}",
        rows[4]
    );
    let seen: toml::Table = toml::from_str(&made.seen().unwrap()).unwrap();
    let seen: Vec<_> = seen["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    assert_eq!(
        seen,
        ["565.77", "580.1", "580.2", "580.10", "590.1", "590.2"]
    );
}

#[test]
fn where_a_version_cannot_be_read_nothing_is_written() {
    let refused = |made: &Repository, words: &[&str]| {
        assert_one_error(&made.look(), words);
        assert_eq!((made.page().as_str(), made.seen()), (PAGE, None));
    };
    let made = Repository::new();
    made.version("549.1", "", |text| text);
    refused(&made, &["has no tag of a version from 550 on"]);
    made.version("580.1", "", |text| text);
    made.git(&["rm", "-q", OPS]);
    made.git(&["commit", "-qm", "x"]);
    made.git(&["tag", "580.2"]);
    refused(&made, &["580.2", "nv_gpu_ops.c"]);

    let renamed = Repository::new();
    renamed.version("580.1", "version.mk", |_| {
        "NVIDIA_VERSION = 580.2\n".to_owned()
    });
    refused(&renamed, &["the tag 580.1 has the tree of 580.2"]);
    let none = Repository::new();
    fs::remove_dir_all(none.0.path("git/.git")).unwrap();
    refused(&none, &["is not a git directory"]);
}
