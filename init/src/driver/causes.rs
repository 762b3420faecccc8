//! Maps the kernel's error number and log lines to a code: why a driver does not start. Pure.

use super::report::{Code, Finding, Severity};
use crate::sys::kernel::error_name;

/// Words that a line must all contain, and their code. The first row that matches a line counts; more
/// specific rows come first, because a GPU that fails at one thing logs others after it.
const PATTERNS: &[(&[&str], Code)] = &[
    (&["fallen off the bus"], Code::GpuGone),
    // src/nvidia/src/kernel/gpu/{conf_compute/conf_compute.c,spdm/spdm.c,spdm/arch/hopper/spdm_certs_gh100.c} of the open modules.
    (
        &["does not support confidential compute"],
        Code::CcUnsupported,
    ),
    (
        &["confidential compute capability is not enabled"],
        Code::CcUnsupported,
    ),
    (
        &["SPDM cannot boot without proper crypto backend"],
        Code::CcUnsupported,
    ),
    (
        &["Are the LKCA modules properly loaded"],
        Code::CcUnsupported,
    ),
    (&["Can't find an IRQ"], Code::GpuNoIrq),
    (&["does not include the required GPU"], Code::GpuNoGsp),
    (&["API mismatch"], Code::DriverMismatch),
    (&["version magic"], Code::DriverVermagic),
    (&["disagrees about version of symbol"], Code::DriverVermagic),
    (&["Lockdown:", "module"], Code::DriverRefused),
    (&["Loading of", "is rejected"], Code::DriverRefused),
    (&["irmware", "gsp_", "fail"], Code::GspMissing),
    (&["RmFetchGspRmImages"], Code::GspMissing),
    (&["No firmware image found"], Code::GspMissing),
    (&["did not find valid ROM signature"], Code::GpuVbios),
    (&["failed to locate expansion ROMs"], Code::GpuVbios),
    (&["kgspExtractVbiosFromRom"], Code::GpuVbios),
    (&["RmInitAdapter failed"], Code::GpuInit),
];

/// Characters of a kernel line that a message quotes.
const QUOTED: usize = 200;

/// The code that the lines mean, if any is known, and the line that shows it.
#[must_use]
pub fn match_log_lines(lines: &[String]) -> Option<(Code, &str)> {
    PATTERNS.iter().find_map(|(words, code)| {
        let line = lines
            .iter()
            .find(|line| words.iter().all(|word| line.contains(word)))?;
        Some((*code, line.as_str()))
    })
}

/// The lines that concern one GPU: those that name it, and those about confidential computing, which concern every GPU and
/// name none. All lines if there are none of these.
#[must_use]
pub fn lines_about(address: &str, lines: &[String]) -> Vec<String> {
    let of_all = |line: &&String| {
        let of_one_line = std::slice::from_ref(*line);
        matches!(match_log_lines(of_one_line), Some((Code::CcUnsupported, _)))
    };
    let own: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(address) || of_all(line))
        .cloned()
        .collect();
    if own.is_empty() { lines.to_vec() } else { own }
}

/// The kernel's refusal of a module.
#[derive(Debug)]
pub struct ModuleRefusal<'a> {
    /// The module.
    pub module: &'a str,
    /// The error number.
    pub errno: i32,
    /// The kernel's log lines during the attempt.
    pub lines: Vec<String>,
    /// GPUs on the bus; `None` when unknown.
    pub gpus: Option<&'a [String]>,
}

impl ModuleRefusal<'_> {
    /// The finding for this refusal.
    #[must_use]
    pub fn finding(self) -> Finding {
        let name = error_name(self.errno);
        let known = match_log_lines(&self.lines);
        let no_gpu = self.gpus.is_some_and(<[String]>::is_empty);
        let code = match name.as_str() {
            "EPERM" | "ENOKEY" | "EKEYREJECTED" => Code::DriverRefused,
            "ENOEXEC" => Code::DriverVermagic,
            "ENODEV" if no_gpu => Code::DriverNoGpu,
            _ => known.map_or(Code::DriverFailed, |(code, _)| code),
        };
        let severity = if code == Code::DriverNoGpu {
            Severity::Info
        } else {
            Severity::Fail
        };
        let message = match (code, known) {
            (Code::DriverNoGpu, _) => format!("{name}: there is no NVIDIA GPU on the bus"),
            (_, Some((of, line))) if of == code => format!("{name}: {}", quoted(line)),
            _ => format!("the kernel answered {name}"),
        };
        let subject = self
            .gpus
            .and_then(|gpus| only_gpu_named(gpus, &self.lines))
            .unwrap_or(self.module);
        Finding::fail(code, subject, message)
            .as_severe_as(severity)
            .shown_by(self.lines.clone())
    }
}

/// The finding for a GPU that the driver did not start; `what` is the step that failed.
#[must_use]
pub fn gpu_finding(address: &str, what: &str, otherwise: Code, lines: Vec<String>) -> Finding {
    let known = match_log_lines(&lines);
    let code = known.map_or(otherwise, |(code, _)| code);
    let because = known.map_or_else(String::new, |(_, line)| format!(": {}", quoted(line)));
    Finding::fail(code, address, format!("{what}{because}")).shown_by(lines)
}

/// A kernel line cut to the length that a message may quote.
fn quoted(line: &str) -> String {
    let line = line.strip_prefix("kernel: ").unwrap_or(line);
    let cut: String = line.chars().take(QUOTED).collect();
    if cut.len() < line.len() {
        cut + ".."
    } else {
        cut
    }
}

/// The GPU that the lines name, if they name only one.
fn only_gpu_named<'a>(gpus: &'a [String], lines: &[String]) -> Option<&'a str> {
    let mut named = gpus
        .iter()
        .filter(|gpu| lines.iter().any(|line| line.contains(gpu.as_str())));
    let first = named.next()?;
    named.next().is_none().then_some(first.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENODEV: i32 = 19;
    const IRQ: &str = "kernel: NVRM: Can't find an IRQ for your NVIDIA card!";
    const GSP: &str = "kernel: NVRM: installed in this system is not supported by open nvidia.ko because it \
                       does not include the required GPU System Processor (GSP).";
    const GONE: &str = "kernel: NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2684) installed in this system \
                        has fallen off the bus and is not responding to commands.";

    fn refused(
        errno: i32,
        lines: &[&str],
        gpus: Option<usize>,
    ) -> (Code, Severity, String, String) {
        let all = ["0000:01:00.0".to_owned(), "0000:41:00.0".to_owned()];
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let gpus = gpus.map(|count| &all[..count]);
        let f = ModuleRefusal {
            module: "nvidia",
            errno,
            lines,
            gpus,
        }
        .finding();
        (f.code, f.severity, f.subject, f.message)
    }

    #[test]
    fn no_gpu_is_information_only_when_there_is_none() {
        let none = ["kernel: NVRM: No NVIDIA GPU found."];
        let (code, severity, subject, message) = refused(ENODEV, &none, Some(0));
        assert_eq!(
            (code, severity, subject.as_str()),
            (Code::DriverNoGpu, Severity::Info, "nvidia")
        );
        assert_eq!(message, "ENODEV: there is no NVIDIA GPU on the bus");
        for gpus in [Some(2), None] {
            let (code, severity, ..) = refused(ENODEV, &none, gpus);
            assert_eq!(
                (code, severity),
                (Code::DriverFailed, Severity::Fail),
                "{gpus:?}"
            );
        }
    }

    #[test]
    fn a_module_that_finds_no_usable_gpu_is_explained_by_the_kernels_lines() {
        let probe = "kernel: NVRM: The NVIDIA probe routine failed for 1 device(s).";
        for (lines, code, subject) in [
            (vec![probe, IRQ], Code::GpuNoIrq, "nvidia"),
            (vec![GSP, probe], Code::GpuNoGsp, "nvidia"),
            (vec![GONE, probe], Code::GpuGone, "0000:41:00.0"),
            (vec![probe], Code::DriverFailed, "nvidia"),
            (vec![], Code::DriverFailed, "nvidia"),
        ] {
            let found = refused(ENODEV, &lines, Some(2));
            assert_eq!(
                (found.0, found.1, found.2.as_str()),
                (code, Severity::Fail, subject),
                "{lines:?}"
            );
        }
        let message = refused(ENODEV, &[IRQ], Some(1)).3;
        assert_eq!(
            message,
            "ENODEV: NVRM: Can't find an IRQ for your NVIDIA card!"
        );
    }

    #[test]
    fn refusals_are_recognised_by_the_error_number_alone() {
        for (errno, code) in [
            (1, Code::DriverRefused),
            (126, Code::DriverRefused),
            (129, Code::DriverRefused),
            (8, Code::DriverVermagic),
            (12, Code::DriverFailed),
            (2, Code::DriverFailed),
        ] {
            assert_eq!(refused(errno, &[], Some(0)).0, code, "{errno}");
        }
        assert_eq!(refused(12, &[], Some(1)).3, "the kernel answered ENOMEM");
    }

    #[test]
    fn a_line_about_confidential_computing_concerns_every_gpu() {
        let line = |text: &str| text.to_owned();
        let cc = line(
            "kernel: NVRM: GPU0 confComputeConstructEngine_IMPL: CPU does not support confidential compute.",
        );
        let (own, other) = (
            line("NVRM: GPU 0000:01:00.0: RmInitAdapter failed!"),
            line("NVRM: GPU 0000:41:00.0: gone"),
        );
        let all = [cc.clone(), own.clone(), other.clone()];
        assert_eq!(lines_about("0000:01:00.0", &all), [cc.clone(), own]);
        assert_eq!(lines_about("0000:81:00.0", &all), [cc]);
        assert_eq!(
            lines_about("0000:81:00.0", &all[2..]),
            [other],
            "no line names it"
        );
    }

    #[test]
    fn a_gpu_that_does_not_open_is_explained_by_the_kernels_lines() {
        let adapter = "kernel: NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x61:0x56:1771)";
        for (line, code) in [
            (
                "kernel: nvidia 0000:01:00.0: Direct firmware load for nvidia/555.58.02/gsp_ga10x.bin failed with error -2",
                Code::GspMissing,
            ),
            (
                "kernel: nvidia 0000:01:00.0: firmware: failed to load nvidia/555.58.02/gsp_ga10x.bin (-2)",
                Code::GspMissing,
            ),
            (
                "kernel: NVRM: RmFetchGspRmImages: No firmware image found",
                Code::GspMissing,
            ),
            (
                "kernel: NVRM: GPU0 confComputeConstructEngine_IMPL: CPU does not support confidential compute.",
                Code::CcUnsupported,
            ),
            (
                "kernel: NVRM: spdmContextInit_IMPL: SPDM cannot boot without proper crypto backend!",
                Code::CcUnsupported,
            ),
            (
                "kernel: NVRM: kgspExtractVbiosFromRom_TU102: did not find valid ROM signature",
                Code::GpuVbios,
            ),
            (
                "kernel: NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
                Code::GpuGone,
            ),
            (adapter, Code::GpuInit),
        ] {
            let lines = vec![adapter.to_owned(), line.to_owned()];
            let f = gpu_finding(
                "0000:01:00.0",
                "/dev/nvidia0 does not open (EIO)",
                Code::GpuInit,
                lines,
            );
            assert_eq!(
                (f.code, f.subject.as_str()),
                (code, "0000:01:00.0"),
                "{line}"
            );
            assert!(
                f.message.starts_with("/dev/nvidia0 does not open (EIO): "),
                "{}",
                f.message
            );
        }
        let silent = gpu_finding("a", "no", Code::GpuInit, vec![]);
        assert_eq!(
            (silent.code, silent.message.as_str()),
            (Code::GpuInit, "no")
        );
    }
}
