//! Opens the GPUs and sends the open descriptors to process 1, which keeps them: the driver shuts down a
//! GPU that no process has open, and every program would wait for its start again. An open can take seconds
//! and can hang; therefore a child does it and sends each descriptor as soon as it is open.

use crate::driver::causes::gpu_finding;
use crate::driver::kernel_lines::LogCursor;
use crate::driver::report::{Code, Finding};
use crate::sys::descriptors::send;
use crate::sys::devices::open_device;
use crate::sys::kernel::error_name;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The result of opening the GPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenedGpus {
    /// Nodes of the GPUs that process 1 has now.
    pub(super) nodes: Vec<String>,
    /// The failures.
    pub(super) findings: Vec<Finding>,
}

/// Opens /dev/nvidiactl and each GPU's node (address, path) below `root`, one after the other, because the
/// driver starts one GPU at a time. `say` is called with each next step.
pub(super) fn open_all(
    root: &Path,
    gpus: &[(String, String)],
    socket: Option<BorrowedFd<'_>>,
    log: &mut LogCursor,
    say: &mut dyn FnMut(&str),
) -> OpenedGpus {
    let mut held = OpenedGpus::default();
    let control = "/dev/nvidiactl";
    say(&format!("opening {control}"));
    if let Err(e) = open_and_send(root, control, socket) {
        let what = format!("{control} does not open ({})", name(&e));
        held.findings.push(
            Finding::fail(Code::NodesMissing, control, what).shown_by(log.evidence("nvidia")),
        );
        return held;
    }
    for (address, path) in gpus {
        say(&format!("opening {path} ({address})"));
        match open_and_send(root, path, socket) {
            Ok(()) => held.nodes.push(path.clone()),
            Err(e) => {
                let what = format!("{path} does not open ({})", name(&e));
                held.findings.push(gpu_finding(
                    address,
                    &what,
                    Code::GpuInit,
                    log.evidence("nvidia"),
                ));
            }
        }
    }
    held
}

fn open_and_send(root: &Path, path: &str, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let device = open_device(&root.join(path.trim_start_matches('/')))?;
    socket.map_or(Ok(()), |socket| send(socket, device.as_fd()))
}

fn name(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), error_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::descriptors::{pair, receive_all};
    use crate::sys::devices::make_character_device;
    use std::fs;
    use std::io::Write;

    /// A machine whose nvidiactl and nvidia0 are /dev/null; nvidia1 is a device that does not exist.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dev")).unwrap();
        for (name, minor) in [("nvidiactl", 3), ("nvidia0", 3), ("nvidia1", 250)] {
            make_character_device(&root.path().join("dev").join(name), 1, minor, 0o666).unwrap();
        }
        fs::write(root.path().join("kmsg"), "").unwrap();
        root
    }

    fn gpu(number: u32) -> (String, String) {
        (
            format!("0000:0{number}:00.0"),
            format!("/dev/nvidia{number}"),
        )
    }

    #[test]
    fn open_devices_go_to_the_keeper_and_failures_are_explained() {
        let root = machine();
        let (ours, theirs) = pair().unwrap();
        let mut log = LogCursor::at_end(&root.path().join("kmsg"));
        let mut said = Vec::new();
        let mut say = |line: &str| {
            said.push(line.to_owned());
            if line.contains("nvidia1") {
                let mut log = fs::File::options()
                    .append(true)
                    .open(root.path().join("kmsg"))
                    .unwrap();
                log.write_all(b"4,1,1,-;NVRM: RmFetchGspRmImages: No firmware image found\n")
                    .unwrap();
            }
        };
        let held = open_all(
            root.path(),
            &[gpu(0), gpu(1)],
            Some(theirs.as_fd()),
            &mut log,
            &mut say,
        );
        assert_eq!(held.nodes, ["/dev/nvidia0"]);
        assert_eq!(said[2], "opening /dev/nvidia1 (0000:01:00.0)");
        let [finding] = held.findings.as_slice() else {
            panic!("{:?}", held.findings)
        };
        assert_eq!(
            (finding.code, finding.subject.as_str()),
            (Code::GspMissing, "0000:01:00.0")
        );
        assert!(
            finding
                .message
                .starts_with("/dev/nvidia1 does not open (ENXIO): NVRM: Rm"),
            "{}",
            finding.message
        );
        assert_eq!(finding.evidence.len(), 1);
        assert_eq!(receive_all(ours.as_fd()).len(), 2);
    }

    #[test]
    fn without_the_control_device_no_gpu_is_tried() {
        let root = machine();
        fs::remove_file(root.path().join("dev/nvidiactl")).unwrap();
        let mut log = LogCursor::at_end(&root.path().join("kmsg"));
        let held = open_all(root.path(), &[gpu(0)], None, &mut log, &mut |_| {});
        assert_eq!((held.nodes.len(), held.findings.len()), (0, 1));
        assert_eq!(
            held.findings[0].message,
            "/dev/nvidiactl does not open (ENOENT)"
        );
    }

    #[test]
    fn a_gpu_without_a_keeper_is_not_held() {
        let root = machine();
        let (ours, theirs) = pair().unwrap();
        drop(ours);
        let mut log = LogCursor::at_end(&root.path().join("kmsg"));
        let held = open_all(
            root.path(),
            &[gpu(0)],
            Some(theirs.as_fd()),
            &mut log,
            &mut |_| {},
        );
        assert_eq!((held.nodes.len(), held.findings.len()), (0, 1));
    }
}
