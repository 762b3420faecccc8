//! Secure Boot, and the file systems that setup writes to.

use crate::state::{Boot, SecureBoot};
use machine::root::Root;
use rustix::fs::{StatVfsMountFlags, statvfs};

const EFI: &str = "sys/firmware/efi";
const SECURE_BOOT: &str = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// The list of enrolled keys, as shim hands it to the kernel.
const LISTS: &[&str] = &[
    "efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23",
    "mok-variables/MokListRT",
];
/// Where DKMS, and on Ubuntu shim's package, keep the certificate with which modules are signed.
const CERTIFICATES: &[&str] = &["var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub"];
/// Folders that setup writes to.
const WRITTEN: &[&str] = &["etc", "usr", "boot"];

pub(super) fn secure_boot(root: &Root) -> SecureBoot {
    let on = match root.exists(EFI) {
        Ok(false) => Some(false),
        // Four bytes of attributes, then the value.
        _ => root
            .read(format!("{EFI}/efivars/{SECURE_BOOT}"))
            .ok()
            .and_then(|bytes| Some(*bytes.get(4)? == 1)),
    };
    let found = CERTIFICATES
        .iter()
        .find_map(|path| Some((*path, root.read(path).ok()?)));
    let lists: Vec<_> = LISTS
        .iter()
        .filter_map(|list| root.read(format!("{EFI}/{list}")).ok())
        .collect();
    let holds = |certificate: &[u8]| {
        let within = |list: &Vec<u8>| {
            list.windows(certificate.len())
                .any(|part| part == certificate)
        };
        !certificate.is_empty() && lists.iter().any(within)
    };
    SecureBoot {
        on,
        enrolled: found
            .as_ref()
            .is_some_and(|(_, certificate)| holds(certificate)),
        certificate: found.map(|(path, _)| format!("/{path}")),
    }
}

pub(super) fn read(root: &Root) -> Boot {
    let stat = |path: &str| root.place(path).ok().and_then(|place| statvfs(place).ok());
    let names = root.names("boot").unwrap_or_default();
    let first = names
        .iter()
        .filter_map(|name| name.to_str())
        .filter(|name| name.starts_with("init"));
    let sizes = first
        .filter_map(|name| u64::try_from(root.stat(format!("boot/{name}")).ok()?.st_size).ok());
    let read_only = WRITTEN.iter().filter(|path| {
        stat(path).is_some_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
    });
    Boot {
        free_bytes: stat("boot").map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
        largest_initrd_bytes: sizes.max().unwrap_or(0),
        read_only: read_only.map(|path| format!("/{path}")).collect(),
    }
}
