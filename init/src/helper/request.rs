//! What process 1 asks of a helper: one value of one type, which the command line carries as JSON in the word after `helper`.

use crate::disk::eligibility::AllowedDisks;
use crate::driver::start::inputs::DriverSettings;
use serde::{Deserialize, Serialize};

/// The work of one child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Helper {
    /// Copies the data partition's settings for this node to /run, and prints their names.
    FetchConfig {
        /// The data partition.
        partition: Partition,
        /// How long it may take to appear, seconds.
        wait_s: u64,
        /// Whether each file needs its signature.
        signed: bool,
    },
    /// Runs the validator with these words and the mounted data partition, which keeps the report there and sends it.
    PublishOn {
        /// The data partition.
        partition: Partition,
        /// `publish` and its arguments.
        words: Vec<String>,
    },
    /// Stores last words in the firmware.
    KeepFault(Vec<String>),
    /// Prints the records of earlier boots in the firmware's store, and copies them to this folder.
    LastBoot(String),
    /// Prints whether the firmware verifies the programs that it starts.
    SecureBoot,
    /// Prints this node's identity.
    Identify,
    /// Mounts the file systems that show the firmware's data.
    MountFirmware,
    /// Mounts a new root.
    MountRoot {
        /// As `workload.root` has it.
        root: String,
        /// The folder.
        target: String,
    },
    /// Mounts a new root from an image file.
    MountImage {
        /// The file.
        file: String,
        /// The folder.
        target: String,
    },
    /// Finds the init of a new root, or checks that it has `program`, and writes its nccl.conf.
    PrepareRoot {
        /// The folder on which it is mounted.
        new_root: String,
        /// Its first program; `None`: its init.
        program: Option<String>,
        /// The workload's variables, as `firstlight env` prints them.
        variables: String,
    },
    /// Restarts or powers off the machine.
    End(MachineEnd),
    /// Frees the firmware's framebuffers.
    ReleaseScreen,
    /// Starts the GPU driver, and sends the open GPUs over its standard input.
    LoadDriver(DriverSettings),
    /// Brings the loopback up.
    Loopback,
    /// Loads the drivers of the network cards, waits for a carrier, and prints the interface.
    FindInterface {
        /// A name or an Ethernet address; empty: any.
        card: String,
        /// How long it waits, seconds.
        timeout_s: u64,
    },
    /// Gives an interface an address and a default route.
    SetAddress {
        /// The interface.
        name: String,
        /// `ADDRESS/PREFIX`
        address: String,
        /// The default route's.
        gateway: Option<std::net::IpAddr>,
    },
    /// Gives ports link-local addresses, and leaves a child that keeps them.
    TakeLinkLocal {
        /// How long it waits for carriers and addresses, seconds.
        timeout_s: u64,
        /// Names or Ethernet addresses; none: all cards with a carrier.
        ports: Vec<String>,
    },
    /// That child.
    KeepLinkLocal {
        /// The time that is left for the addresses, milliseconds.
        limit_ms: u64,
        /// The ports.
        ports: Vec<PortInUse>,
    },
    /// Loads the modules of RDMA cards, and prints the RDMA devices.
    Rdma {
        /// Whether each interface gets a soft-RoCE device.
        soft: bool,
        /// The interfaces.
        interfaces: Vec<String>,
    },
    /// Prints the mark of an earlier boot, and where marks are kept.
    ReadMark(MarkPlace),
    /// Writes a mark.
    WriteMark {
        /// Where.
        place: MarkPlace,
        /// Its text.
        mark: String,
    },
    /// Records in the mark of this boot which part of its step begins: the word after this one, which the validator appends.
    BeginPart(MarkPlace),
    /// Removes the mark.
    ClearMark(MarkPlace),
    /// Loads the watchdog's driver, sends the open device over its standard input, and prints a description of it.
    ArmWatchdog {
        /// Whether the machine's own may be used.
        hardware: bool,
        /// Whether the kernel's may be used.
        software: bool,
        /// After how long without progress the machine is reset, seconds.
        timeout_s: u32,
    },
    /// Closes the watchdog that comes over its standard input.
    ReleaseWatchdog {
        /// Stopped or running.
        end: WatchdogEnd,
        /// Its path.
        path: String,
    },
    /// Pets the watchdog that is its standard input, once.
    PetWatchdog,
    /// Waits until killed processes have ended.
    AwaitEnd,
    /// Closes the devices that arrive over its standard input.
    CloseDevices,
    /// Removes modules of the kernel, in this order.
    UnloadModules(Vec<String>),
    /// Resets the GPUs.
    ResetGpus(ResetMethod),
    /// Writes all caches out and unmounts the writable file systems on disks.
    Unmount,
}

/// The data partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// As `report.partition` has it.
    pub place: String,
    /// The disks that it may be on.
    pub disks: AllowedDisks,
}

/// Where marks are kept if the firmware has no variables: on the data partition; `None`: nowhere.
pub type MarkPlace = Option<Partition>;

/// How the machine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineEnd {
    /// It starts again.
    Restart,
    /// It is powered off.
    PowerOff,
}

/// A port that gets a link-local address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortInUse {
    /// The interface.
    pub name: String,
    /// Whether it had no carrier: it is used only if one comes before the others have their addresses.
    pub late: bool,
}

/// How a watchdog's device is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogEnd {
    /// Stopped.
    Disarm,
    /// Running, for the workload.
    Keep,
}

/// How a GPU is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResetMethod {
    /// By itself.
    Function,
    /// With the link above it.
    Bus,
}

impl ResetMethod {
    /// The kernel's word for it (Documentation/ABI/testing/sysfs-bus-pci, `reset_method`).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Function => "flr",
            Self::Bus => "bus",
        }
    }
}

impl Helper {
    /// The command line's words after the program.
    #[must_use]
    pub fn words(&self) -> [String; 2] {
        // Text, numbers and lists of them cannot fail to be written; an empty word would be refused by the child.
        [
            WORD.to_owned(),
            serde_json::to_string(self).unwrap_or_default(),
        ]
    }

    /// The request in a command line, with the words after it.
    ///
    /// # Errors
    /// The word that is no request, and why.
    pub fn of<'a>(words: &'a [&'a str]) -> Option<Result<(Self, &'a [&'a str]), String>> {
        let [WORD, request, rest @ ..] = words else {
            return None;
        };
        Some(
            serde_json::from_str(request)
                .map(|helper| (helper, rest))
                .map_err(|e| format!("helper {request}: {e}")),
        )
    }
}

/// The word before the request.
const WORD: &str = "helper";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_out_of_its_command_line_as_it_was() {
        let partition = Partition {
            place: "LABEL=A \"b\"".to_owned(),
            disks: AllowedDisks::RemovableOrBoot,
        };
        for helper in [
            Helper::Unmount,
            Helper::FetchConfig {
                partition: partition.clone(),
                wait_s: 10,
                signed: true,
            },
            Helper::ReadMark(None),
            Helper::ReadMark(Some(partition)),
            Helper::KeepFault(vec!["a\nb".to_owned()]),
            Helper::SetAddress {
                name: "e0".to_owned(),
                address: "10.0.0.2/24".to_owned(),
                gateway: "::1".parse().ok(),
            },
        ] {
            let words = helper.words();
            let words = [words[0].as_str(), words[1].as_str(), "more"];
            assert_eq!(Helper::of(&words), Some(Ok((helper, &["more"][..]))));
        }
    }

    #[test]
    fn what_is_no_request_is_named() {
        assert_eq!(Helper::of(&[]), None);
        assert_eq!(Helper::of(&["helper"]), None);
        assert_eq!(Helper::of(&["single", "\"unmount\""]), None);
        for (word, why) in [
            ("unmount", "expected value"),
            ("\"reboot\"", "unknown variant `reboot`"),
            ("{\"fetch-config\":{}}", "missing field `partition`"),
            (
                "{\"read-mark\":{\"place\":\"LABEL=A\",\"disks\":\"every\"}}",
                "unknown variant `every`",
            ),
        ] {
            let said = Helper::of(&["helper", word]).unwrap().unwrap_err();
            assert!(said.starts_with(&format!("helper {word}: {why}")), "{said}");
        }
    }
}
