//! How files come back from a machine: its workload writes one archive to a small disk of its own.
//! A disk and not the serial line, because kernel messages cut into what a program prints there, and
//! because with an AMD IOMMU emulated programs reach no serial line at all.

use crate::archive::{Entry, read_tar};
use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Room for a report with its logs many times over.
const DISK_BYTES: u64 = 16 << 20;

/// By this serial number the guest knows the disk.
const SERIAL: &str = "recover";

/// Where a test's workload lies in the guest.
pub(crate) const WORKLOAD: &str = "t/workload";

/// An empty disk, and QEMU's words for it.
pub(crate) fn disk(path: &Path) -> Result<[String; 4]> {
    let create = || File::create(path)?.set_len(DISK_BYTES);
    create().map_err(Error::file("create", path))?;
    Ok([
        "-drive".into(),
        format!("if=none,id=recover,format=raw,file={}", path.display()),
        "-device".into(),
        format!("virtio-blk-pci,drive=recover,serial={SERIAL}"),
    ])
}

/// The workload: `script`, which may leave files in /run/kept, and then the way back for those and
/// for the files of /run/firstlight, less what is mounted there. Its exit status is that of `script`.
pub(crate) fn workload(script: &str) -> String {
    format!(
        "#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mkdir -p /run/kept
send_back() {{
\tstatus=$?
\tfor disk in /sys/block/vd*; do
\t\t[ \"$(cat $disk/serial)\" = {SERIAL} ] || continue
\t\tcd /run && tar -cf /dev/${{disk##*/}} $(find firstlight kept -xdev -type f) && sync
\tdone
\texit $status
}}
trap send_back EXIT
{script}
"
    )
}

/// What came back. A workload that did not get that far leaves nothing.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    if bytes.iter().take(512).all(|b| *b == 0) { Ok(Vec::new()) } else { read_tar(&bytes) }
}
