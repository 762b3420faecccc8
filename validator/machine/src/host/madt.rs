//! The processors according to the firmware: the ACPI table MADT ("APIC"). It also shows processors that the kernel
//! left out before it counted.

use crate::host::modules::absent_is_none;
use crate::root::Root;
use std::collections::BTreeSet;
use std::io;

/// Table header (36), local APIC address (4), flags (4); ACPI 6.5, 5.2.12.
const FIRST_ENTRY: usize = 44;

/// What the table says about processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Madt {
    /// How many it marks as enabled.
    pub enabled: usize,
    /// The largest APIC id of these; `None` on arm64, which has none, and where none is enabled.
    pub largest_apic_id: Option<u32>,
    /// Whether its processors are those of arm64.
    pub arm: bool,
}

/// What the table says; `None` if it is not a MADT.
#[must_use]
pub fn parse(table: &[u8]) -> Option<Madt> {
    if table.get(..4)? != b"APIC" {
        return None;
    }
    let (mut apic, mut uids) = (BTreeSet::new(), BTreeSet::new());
    let mut rest = table.get(FIRST_ENTRY..)?;
    while let [kind, length, ..] = *rest {
        let entry = rest.get(..usize::from(length)).filter(|e| e.len() >= 2)?;
        // A processor may be listed in both kinds; its APIC id counts it once. All ones means no processor.
        let (ids, id, flags) = match kind {
            0 => (
                &mut apic,
                entry
                    .get(3)
                    .map(|id| u32::from(*id))
                    .filter(|id| *id != 0xff),
                word(entry, 4)?,
            ),
            9 => (
                &mut apic,
                Some(word(entry, 4)?).filter(|id| *id != u32::MAX),
                word(entry, 8)?,
            ),
            // GICC, a processor of arm64: the flags are behind the ACPI processor's uid.
            11 => (&mut uids, Some(word(entry, 8)?), word(entry, 12)?),
            _ => (&mut apic, None, 0),
        };
        ids.extend(id.filter(|_| flags & 1 == 1));
        rest = rest.get(entry.len()..)?;
    }
    let enabled = apic.len() + uids.len();
    Some(Madt {
        enabled,
        largest_apic_id: apic.last().copied(),
        arm: !uids.is_empty(),
    })
}

fn word(entry: &[u8], at: usize) -> Option<u32> {
    entry
        .get(at..at.checked_add(4)?)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}

/// Reads the table; on a live machine only root may read it. `None` if there is no table, or if a
/// recording kept only its name: tables may contain private data.
///
/// # Errors
/// If the read fails; `InvalidData` for a damaged table.
pub fn read(root: &Root) -> io::Result<Option<Madt>> {
    let table =
        absent_is_none(root.read("sys/firmware/acpi/tables/APIC"))?.filter(|t| !t.is_empty());
    table
        .map(|table| parse(&table).ok_or_else(|| io::ErrorKind::InvalidData.into()))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled_cpus(table: &[u8]) -> Option<usize> {
        parse(table).map(|madt| madt.enabled)
    }

    fn table(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = b"APIC".to_vec();
        bytes.resize(FIRST_ENTRY, 0);
        bytes.extend(entries.concat());
        bytes
    }

    fn lapic(id: u8, enabled: u8) -> [u8; 8] {
        [0, 8, id, id, enabled, 0, 0, 0]
    }

    fn x2apic(id: u8, enabled: u8) -> [u8; 16] {
        [9, 16, 0, 0, id, 0, 0, 0, enabled, 0, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn enabled_processors_of_both_kinds_count_once() {
        let io_apic = [1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let all = table(&[
            &lapic(0, 1),
            &lapic(1, 1),
            &lapic(2, 0),
            &io_apic,
            &x2apic(1, 1),
            &x2apic(200, 1),
        ]);
        assert_eq!(enabled_cpus(&all), Some(3));
    }

    #[test]
    fn the_largest_id_is_that_of_an_enabled_processor() {
        let largest = |entries: &[&[u8]]| parse(&table(entries)).unwrap().largest_apic_id;
        assert_eq!(
            largest(&[&lapic(0, 1), &lapic(7, 1), &x2apic(200, 0)]),
            Some(7)
        );
        let mut wide = x2apic(0, 1);
        wide[5] = 1;
        assert_eq!(largest(&[&lapic(0, 1), &wide]), Some(256));
        assert_eq!(largest(&[&lapic(3, 0)]), None);
    }

    #[test]
    fn processors_of_arm64_have_no_apic_id() {
        let gicc = |uid: u8, enabled: u8| {
            let mut entry = [0; 80];
            (entry[0], entry[1], entry[8], entry[12]) = (11, 80, uid, enabled);
            entry
        };
        let madt = parse(&table(&[&gicc(0, 1), &gicc(1, 1), &gicc(2, 0)])).unwrap();
        assert_eq!(
            madt,
            Madt {
                enabled: 2,
                largest_apic_id: None,
                arm: true
            }
        );
    }

    #[test]
    fn an_id_of_all_ones_is_not_a_processor() {
        assert_eq!(
            enabled_cpus(&table(&[&lapic(0xff, 1), &lapic(0, 1)])),
            Some(1)
        );
    }

    #[test]
    fn a_damaged_table_gives_no_count() {
        assert_eq!(enabled_cpus(b"DMAR"), None);
        assert_eq!(enabled_cpus(b"APIC"), None);
        assert_eq!(enabled_cpus(&table(&[&[0, 0, 0, 0]])), None);
        assert_eq!(enabled_cpus(&table(&[&[0, 8, 1]])), None);
        assert_eq!(enabled_cpus(&table(&[&[9, 4, 1, 1]])), None);
    }
}
