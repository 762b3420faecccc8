//! Addresses of PCI functions in lines of the kernel log, as data: whole ones (`0000:41:00.0`), those without a function as
//! NVIDIA's driver writes them (`0000:41:00`), and those without a domain as IOMMUs write them (`41:00.0`). Pure.

use crate::pcie::model::Bdf;
use outcome::finding::Subject;
use std::fmt;

/// An address as a line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` where the line leaves it out.
    domain: Option<u32>,
    bus: u8,
    device: u8,
    function: Option<u8>,
}

impl From<Bdf> for Place {
    fn from(bdf: Bdf) -> Self {
        Self {
            domain: Some(bdf.domain),
            bus: bdf.bus,
            device: bdf.device,
            function: Some(bdf.function),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}",
            self.domain.unwrap_or_default(),
            self.bus,
            self.device
        )?;
        self.function
            .map_or(Ok(()), |function| write!(f, ".{function:x}"))
    }
}

impl Place {
    /// The device as the subject of a finding.
    pub(super) fn subject(self) -> Subject {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        let address = Bdf {
            domain: domain.unwrap_or_default(),
            bus,
            device,
            function: function.unwrap_or_default(),
        };
        if function.is_some() {
            Subject::Function { address }
        } else {
            Subject::Device { address }
        }
    }

    /// The address of `id` of 16 bits, as requests carry it, in the domain of `port`.
    fn of_requester(id: u16, port: Option<Self>) -> Self {
        let [bus, rest] = id.to_be_bytes();
        let domain = port.map_or(Some(0), |port| port.domain);
        Self {
            domain,
            bus,
            device: rest >> 3,
            function: Some(rest & 7),
        }
    }

    /// Whether `bdf` is this function, as far as the line gives it.
    pub(super) fn matches(self, bdf: Bdf) -> bool {
        self.shares_slot(bdf)
            && self
                .function
                .is_none_or(|function| function == bdf.function)
    }

    /// Whether `bdf` is a function of this device: all functions of a device have one link.
    pub(super) fn shares_slot(self, bdf: Bdf) -> bool {
        self.domain.is_none_or(|domain| domain == bdf.domain)
            && (self.bus, self.device) == (bdf.bus, bdf.device)
    }

    /// Whether both are of one device.
    pub(super) fn same_device(self, other: Self) -> bool {
        let domains = [self, other].map(|place| place.domain.unwrap_or_default());
        domains.first() == domains.last() && (self.bus, self.device) == (other.bus, other.device)
    }

    /// Whether both are the same function, as far as both are given.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let functions = self.function.zip(other.function);
        self.same_device(other) && functions.is_none_or(|(one, other)| one == other)
    }

    /// The same, with the parts that the line leaves out taken from `bdf`.
    pub(super) const fn in_domain_of(self, bdf: Bdf) -> Self {
        Self {
            domain: Some(bdf.domain),
            ..self
        }
    }
}

/// The addresses with a domain, in the line's order.
pub(super) fn all(text: &str) -> impl Iterator<Item = Place> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.')
        .filter_map(whole)
}

/// The first address with a domain.
pub(super) fn first(text: &str) -> Option<Place> {
    all(text).next()
}

/// The address of the device that sent an error message to a port: `.. received from 0000:41:00.0`, in older kernels
/// `.. error received: 0000:41:00.0`, `.. received: id=4100` and `.. of ID4100`.
pub(super) fn reporter(text: &str) -> Option<Place> {
    let port = first(text);
    let after = |word: &str| text.split_once(word).map(|(_, rest)| rest);
    let id = after("received: id=")
        .or_else(|| after("device of ID"))
        .and_then(|rest| rest.get(..4));
    let id = id.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let named = || {
        after("received from ")
            .or_else(|| after("received: "))
            .or_else(|| after("details for "))
    };
    id.map(|id| Place::of_requester(id, port))
        .or_else(|| first(named()?))
}

/// The address at the start of `rest`, which may lack the domain: `41:00.0] ..`, `[41:00.0]`, `0x41:0x00.0]`.
pub(super) fn requester(rest: &str) -> Option<Place> {
    let word = rest
        .trim_start_matches('[')
        .split([']', ' ', ','])
        .next()?
        .replace("0x", "");
    whole(&word).or_else(|| {
        let (bus, rest) = word.split_once(':')?;
        within(None, bus, rest)
    })
}

/// The address of NVIDIA's driver in brackets, which old versions write without `PCI:`.
pub(super) fn of_driver(gpu: &str) -> Option<Place> {
    whole(gpu.strip_prefix("PCI:").unwrap_or(gpu)).or_else(|| first(gpu))
}

fn whole(word: &str) -> Option<Place> {
    let mut parts = word.trim_matches([':', '.']).split(':');
    let (domain, bus, rest) = (parts.next()?, parts.next()?, parts.next()?);
    // A MAC address and a time have other numbers of parts and digits.
    let fits = parts.next().is_none() && (4..=8).contains(&domain.len());
    within(
        Some(u32::from_str_radix(domain, 16).ok().filter(|_| fits)?),
        bus,
        rest,
    )
}

fn within(domain: Option<u32>, bus: &str, rest: &str) -> Option<Place> {
    let (device, function) = rest
        .split_once('.')
        .map_or((rest, None), |(device, function)| (device, Some(function)));
    let byte = |text: &str, digits: usize| {
        (text.len() == digits)
            .then(|| u8::from_str_radix(text, 16).ok())
            .flatten()
    };
    let function = match function {
        Some(function) => Some(byte(function, 1).filter(|f| *f < 8)?),
        None => None,
    };
    Some(Place {
        domain,
        bus: byte(bus, 2)?,
        device: byte(device, 2).filter(|d| *d < 32)?,
        function,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(place: Option<Place>) -> String {
        place.map(|place| place.to_string()).unwrap_or_default()
    }

    #[test]
    fn addresses_are_found_with_and_without_a_function() {
        for (line, expected) in [
            (
                "pcieport 0000:00:01.1: AER: x from 0000:01:00.0",
                "0000:00:01.1",
            ),
            ("NVRM: Xid (PCI:0000:41:00): 79", "0000:41:00"),
            ("NVRM: GPU at PCI:0000:c1:00: GPU-1e5d", "0000:c1:00"),
            (
                "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 1",
                "0000:c1:00.0",
            ),
            (
                "pciehp 0000:00:1c.4:pcie004: Slot(4): Link Down",
                "0000:00:1c.4",
            ),
            ("nvme 10000:e1:00.0: PCIe Bus Error", "10000:e1:00.0"),
            (
                "event: F_TRANSLATION client: 000d:01:00.0 sid: 0x100",
                "000d:01:00.0",
            ),
            ("at 12:30:01 AM: x", ""),
            ("eth0: 52:54:00:12:34:56", ""),
            ("pci 0000:41:20.0: no such device number", ""),
            ("pci 0000:41:00.9: no such function", ""),
            ("device [10de:2684] error status/mask=00000001/00002000", ""),
            ("", ""),
        ] {
            assert_eq!(text(first(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_sender_of_an_error_message_is_not_the_port_that_received_it() {
        for (line, expected) in [
            (
                "pcieport 0000:40:01.1: AER: Corrected error message received from 0000:41:00.0",
                "0000:41:00.0",
            ),
            (
                "pcieport 0000:40:01.1: AER: Multiple Corrected error received: 0000:41:00.0",
                "0000:41:00.0",
            ),
            (
                "pcieport 0001:00:1c.4: AER: Corrected error received: id=00e4",
                "0001:00:1c.4",
            ),
            (
                "pcieport 0000:00:1c.4: AER: can't find device of ID4100",
                "0000:41:00.0",
            ),
            (
                "pcieport 0000:00:1c.4: AER: found no error details for 0000:41:00.0",
                "0000:41:00.0",
            ),
            (
                "nvidia 0000:41:00.0: AER: can't recover (no error_detected callback)",
                "",
            ),
        ] {
            assert_eq!(text(reporter(line)), expected, "{line}");
        }
    }

    #[test]
    fn an_iommu_may_leave_out_the_domain() {
        let gpu = Bdf {
            domain: 2,
            bus: 0x41,
            device: 0,
            function: 0,
        };
        for rest in [
            "41:00.0] fault addr 0x0",
            "[41:00.0] fault index 1f",
            "0x41:0x00.0] fault addr 0x0",
        ] {
            assert!(
                requester(rest).is_some_and(|place| place.matches(gpu)),
                "{rest}"
            );
        }
        assert!(requester("0000:41:00.0 domain=0x1]").is_some_and(|place| !place.matches(gpu)));
        assert_eq!(
            text(requester("41:00.0]").map(|place| place.in_domain_of(gpu))),
            "0002:41:00.0"
        );
        assert_eq!(requester("nonsense"), None);
    }
}
