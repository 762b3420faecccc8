//! Confidential computing: whether this machine is a confidential guest, and what NVIDIA's module logged where a GPU does not
//! start because of its mode. The words are those of the kernel's arch/x86/mm/mem_encrypt.c and drivers/virt/coco, and of
//! src/nvidia/src/kernel/gpu/{conf_compute,spdm} in the open kernel modules of 555 to 595.

use crate::host::kmsg::Line;
use crate::root::Root;
use outcome::finding::ConfidentialCase;
use std::fmt;

/// The kind of a confidential guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guest {
    /// AMD: encrypted memory whose owner is checked.
    SevSnp,
    /// AMD: encrypted memory and registers, or memory alone.
    Sev,
    /// Intel.
    Tdx,
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SevSnp => "AMD SEV-SNP",
            Self::Sev => "AMD SEV",
            Self::Tdx => "Intel TDX",
        })
    }
}

/// The line that a kernel with memory encryption logs as a guest, and as a host with `mem_encrypt=on`.
const ACTIVE: &str = "Memory Encryption Features active: ";

/// The kind of confidential guest that this machine is, by its kernel's log, its devices and its processors' flags; `None` if
/// none of them says that it is one. The flags `sev` and `sev_snp` say nothing: a host has them too.
#[must_use]
pub fn guest(root: &Root, log: &[Line]) -> Option<Guest> {
    let active = log
        .iter()
        .find_map(|line| line.text.split_once(ACTIVE))
        .map(|(_, features)| features);
    let by_log = active.and_then(|features| match features {
        _ if features.contains("SEV-SNP") => Some(Guest::SevSnp),
        _ if features.contains("SEV") => Some(Guest::Sev),
        _ if features.contains("TDX") => Some(Guest::Tdx),
        _ => None,
    });
    let has = |path: &str| root.exists(path).is_ok_and(|exists| exists);
    let flagged = || {
        let text = root.text("proc/cpuinfo").unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| line.split(' ').any(|flag| flag == "tdx_guest"))
    };
    by_log
        .or_else(|| has("dev/sev-guest").then_some(Guest::SevSnp))
        .or_else(|| (has("dev/tdx_guest") || flagged()).then_some(Guest::Tdx))
}

/// Why a GPU does not start, by one line of the module; `None` if it is about something else.
#[must_use]
pub fn obstacle(line: &str) -> Option<ConfidentialCase> {
    let has = |words: &str| line.contains(words);
    if !has("NVRM") {
        return None;
    }
    Some(match () {
        () if has("CPU does not support confidential compute") => ConfidentialCase::MachineIsNone,
        () if has("GPU confidential compute capability is not enabled") => {
            ConfidentialCase::GpuModeOff
        }
        () if has("GPU does not support confidential compute") => ConfidentialCase::GpuIncapable,
        () if has("SPDM cannot boot without proper crypto backend")
            || has("Are the LKCA modules properly loaded") =>
        {
            ConfidentialCase::NoKernelCrypto
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn log(text: &str) -> Vec<Line> {
        vec![Line {
            seq: 1,
            at: Duration::ZERO,
            text: text.to_owned(),
        }]
    }

    #[test]
    fn a_guest_is_known_by_its_kernels_log() {
        let (_dir, none) =
            Root::written(&[("proc/cpuinfo", "flags\t\t: fpu sev sev_es sev_snp\n")]);
        for (text, kind) in [
            (
                "Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP",
                Some(Guest::SevSnp),
            ),
            (
                "Memory Encryption Features active: AMD SEV",
                Some(Guest::Sev),
            ),
            (
                "Memory Encryption Features active: Intel TDX",
                Some(Guest::Tdx),
            ),
            ("Memory Encryption Features active: AMD SME", None),
            ("tdx: TDX module initialized", None),
        ] {
            assert_eq!(guest(&none, &log(text)), kind, "{text}");
        }
    }

    #[test]
    fn a_guest_whose_log_is_gone_is_known_by_its_device_or_its_processors() {
        for (files, kind) in [
            (&[("dev/sev-guest", "c 10 123\n")][..], Guest::SevSnp),
            (&[("dev/tdx_guest", "c 10 124\n")], Guest::Tdx),
            (
                &[("proc/cpuinfo", "flags\t\t: fpu tdx_guest nopl\n")],
                Guest::Tdx,
            ),
        ] {
            let (_dir, root) = Root::written(files);
            assert_eq!(guest(&root, &[]), Some(kind));
        }
        assert_eq!(guest(&Root::new("/none"), &[]), None);
    }

    #[test]
    fn the_modules_lines_give_the_obstacle_and_lines_of_others_do_not() {
        for (line, case) in [
            (
                "NVRM: GPU0 confComputeConstructEngine_IMPL: CPU does not support confidential compute.",
                Some(ConfidentialCase::MachineIsNone),
            ),
            (
                "NVRM: confComputeConstructEngine_IMPL: GPU confidential compute capability is not enabled.",
                Some(ConfidentialCase::GpuModeOff),
            ),
            (
                "NVRM: confComputeConstructEngine_IMPL: GPU does not support confidential compute.",
                Some(ConfidentialCase::GpuIncapable),
            ),
            (
                "NVRM: spdmContextInit_IMPL: SPDM cannot boot without proper crypto backend!",
                Some(ConfidentialCase::NoKernelCrypto),
            ),
            (
                "NVRM: spdmGetCertChains: Are the LKCA modules properly loaded?",
                Some(ConfidentialCase::NoKernelCrypto),
            ),
            (
                "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x38:878)",
                None,
            ),
            ("other: CPU does not support confidential compute.", None),
        ] {
            assert_eq!(obstacle(line), case, "{line}");
        }
    }
}
