//! The paths that init, the validator and the workload agree on.

/// The folder that a boot writes and the workload reads.
pub const RUN: &str = "/run/firstlight";
/// The validator's report.
pub const REPORT: &str = "/run/firstlight/report.json";
/// The report of the tests over several nodes.
pub const NODES: &str = "/run/firstlight/nodes.json";
/// init's verdict, `firstlight.verdict/1`.
pub const VERDICT: &str = "/run/firstlight/verdict.json";
/// NAME=value lines for the workload.
pub const ENV: &str = "/run/firstlight/env";
/// The folder of the files about GPU pairs that vLLM reads.
pub const VLLM: &str = "/run/firstlight/vllm";
/// Exists after PASS and DEGRADED only.
pub const VALIDATED: &str = "/run/firstlight/validated";
/// The journal of the fabric pass: what it changed, for `firstlight fabric restore`.
pub const JOURNAL: &str = "/run/firstlight/fabric.json";
/// The result of the fabric pass, `firstlight.fix/1`.
pub const FABRIC_FIX: &str = "/run/firstlight/fabric-fix.json";
/// The result of the driver's start, `firstlight.driver/1`.
pub const DRIVER: &str = "/run/firstlight/driver.json";
/// The same while the driver is being started; removed when it is done.
pub const DRIVER_DRAFT: &str = "/run/firstlight/.driver-draft.json";
/// What was done to recover GPUs, `firstlight.recovery/1`.
pub const RECOVERY: &str = "/run/firstlight/recovery.json";
/// The report of the tests after a recovery.
pub const RECOVERY_REPORT: &str = "/run/firstlight/recovery-report.json";
/// Where the driver image is mounted.
pub const DRIVER_AT: &str = "/run/firstlight/driver";
/// The driver image: modules, libraries and firmware in one file.
pub const DRIVER_IMAGE: &str = "/usr/lib/firstlight/driver.squashfs";
/// Every console line of this boot.
pub const BOOT_LOG: &str = "/run/firstlight/boot.log";
/// A copy of the data partition's config.toml.
pub const PARTITION_CONFIG: &str = "/run/firstlight/partition-config.toml";
/// Copies of the files in its config.d for this node.
pub const PARTITION_CONFIG_D: &str = "/run/firstlight/partition-config.d";
/// Layers that the kernel word `firstlight.config=` names.
pub const REMOTE_CONFIG_D: &str = "/run/firstlight/remote-config.d";
/// A root fetched from a server, in its own file system in memory.
pub const FETCHED_ROOT: &str = "/run/firstlight/root/fetched/image";
/// The time servers from DHCP, separated by blanks.
pub const TIME_SERVERS: &str = "/run/firstlight/time-servers";
/// Copies of the firmware store's records of earlier boots.
pub const LAST_BOOT: &str = "/run/firstlight/last-boot";
/// The kernel's view of that store.
pub const PSTORE: &str = "/sys/fs/pstore";
/// Exists if the firmware is EFI.
pub const EFI: &str = "/sys/firmware/efi";
/// The firmware's variables, one file each.
pub const EFI_VARIABLES: &str = "/sys/firmware/efi/efivars";
/// The image's description of itself.
pub const IMAGE: &str = "/etc/firstlight/image.json";
/// The first configuration layer.
pub const CONFIG: &str = "/etc/firstlight/config.toml";
/// The folder of the second layer.
pub const CONFIG_D: &str = "/etc/firstlight/config.d";
/// The file that lists name servers.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";
/// NCCL's own configuration.
pub const NCCL_CONF: &str = "/etc/nccl.conf";
/// The validator.
pub const VALIDATOR: &str = "/usr/bin/firstlight";
/// Shell and DHCP client.
pub const BUSYBOX: &str = "/usr/bin/busybox";
/// The script that udhcpc runs to apply a lease.
pub const DHCP_SCRIPT: &str = "/usr/lib/firstlight/udhcpc.script";
/// The console of the workload and of a shell.
pub const CONSOLE: &str = "/dev/console";
/// The machine's own screen.
pub const SCREEN: &str = "/dev/tty0";
/// Where a new root is mounted before it becomes `/`.
pub const NEW_ROOT: &str = "/newroot";
