//! Builds a function's configuration space as hardware would show it: header, capability chain, extended capability chain.
//! Tests make faults by changing single bytes of a good image.

/// A configuration space under construction.
#[derive(Debug, Clone)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// Offset of the pointer that will refer to the next capability of the chain.
    pointer: usize,
    previous: Option<usize>,
    /// Offset of the next extended capability.
    free: usize,
}

/// Device or port type of the PCI Express capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// A device at the end of a link.
    Endpoint = 0,
    /// Root port.
    Root = 4,
    /// A switch's upstream port.
    Upstream = 5,
    /// A switch's downstream port.
    Downstream = 6,
}

/// A link as registers and sysfs show it; speeds are codes (4 is 16 GT/s).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Current speed.
    pub speed: u8,
    /// Lanes in use.
    pub width: u8,
    /// Maximum speed.
    pub max_speed: u8,
    /// Maximum number of lanes.
    pub max_width: u8,
}

impl Link {
    /// A link that was trained to its maximum.
    pub const fn full(speed: u8, width: u8) -> Self {
        Self {
            speed,
            width,
            max_speed: speed,
            max_width: width,
        }
    }
}

const PM: usize = 0x40;
const EXPRESS: usize = 0x60;

impl ConfigSpace {
    /// A header with bus mastering and memory on and no capability.
    pub fn new(vendor: u16, device: u16, class: u32, layout: u8) -> Self {
        let mut new = Self {
            bytes: vec![0; 4096],
            pointer: 0x34,
            previous: None,
            free: 0x100,
        };
        new.put16(0x00, vendor);
        new.put16(0x02, device);
        new.put16(0x04, 0x0006);
        new.put32(0x08, (class << 8) | 0xa1);
        new.bytes[0x0e] = layout;
        new
    }

    /// Power management, then the PCI Express capability version 2.
    pub fn express(mut self, port: Port, link: Option<Link>) -> Self {
        self.capability(PM, 0x01);
        self.put16(PM + 2, 0x0003);
        self.capability(EXPRESS, 0x10);
        self.put16(EXPRESS + 2, 0x0002 | ((port as u16) << 4));
        if let Some(link) = link {
            let wide = |speed: u8, width: u8| u16::from(speed) | (u16::from(width) << 4);
            self.put32(
                EXPRESS + 0x0c,
                u32::from(wide(link.max_speed, link.max_width)),
            );
            self.put16(EXPRESS + 0x12, wide(link.speed, link.width));
            self.put32(EXPRESS + 0x2c, ((1 << link.max_speed) - 1) << 1);
        }
        self
    }

    /// The number that the firmware gave to the slot below this port; after `express`.
    pub fn slot(mut self, number: u8) -> Self {
        let flags = u16::from_le_bytes([self.bytes[EXPRESS + 2], self.bytes[EXPRESS + 3]]);
        self.put16(EXPRESS + 2, flags | 1 << 8);
        self.put32(EXPRESS + 0x14, u32::from(number) << 19);
        self
    }

    /// Access Control Services.
    pub fn acs(mut self, cap: u16, ctrl: u16) -> Self {
        let at = self.extended(0x000d, 8);
        self.put16(at + 4, cap);
        self.put16(at + 6, ctrl);
        self
    }

    /// Access Control Services as Intel's 100-series chipsets lay it out: 32-bit registers.
    pub fn acs_intel_pch(mut self, cap: u32, ctrl: u32) -> Self {
        let at = self.extended(0x000d, 12);
        self.put32(at + 4, cap);
        self.put32(at + 8, ctrl);
        self
    }

    /// Resizable BARs: index, mask of sizes (bit n is 2^(20+n) bytes), current size as n.
    pub fn rebar(mut self, bars: &[(u8, u32, u8)]) -> Self {
        let at = self.extended(0x0015, 4 + 8 * bars.len());
        for (n, (bar, sizes, current)) in bars.iter().enumerate() {
            self.put32(at + 4 + 8 * n, sizes << 4);
            let count = u32::try_from(bars.len()).expect("few BARs") << 5;
            self.put32(
                at + 8 + 8 * n,
                u32::from(*bar) | count | (u32::from(*current) << 8),
            );
        }
        self
    }

    /// Advanced error reporting, all clear.
    pub fn aer(mut self) -> Self {
        self.extended(0x0001, 0x48);
        self
    }

    /// A bridge's primary, secondary and subordinate bus.
    pub fn buses(mut self, primary: u8, secondary: u8, subordinate: u8) -> Self {
        self.bytes[0x18..0x1b].copy_from_slice(&[primary, secondary, subordinate]);
        self
    }

    /// A base address register.
    pub fn bar(mut self, index: u8, value: u32) -> Self {
        self.put32(0x10 + 4 * usize::from(index), value);
        self
    }

    /// Any 32-bit register, for faults.
    pub fn with32(mut self, at: usize, value: u32) -> Self {
        self.put32(at, value);
        self
    }

    /// Offset of the last extended capability.
    pub fn last_extended(&self) -> usize {
        self.previous.expect("an extended capability")
    }

    /// The first `len` bytes.
    pub fn truncated(mut self, len: usize) -> Vec<u8> {
        self.bytes.truncate(len);
        self.bytes
    }

    /// All 4096 bytes.
    pub fn done(self) -> Vec<u8> {
        self.bytes
    }

    fn capability(&mut self, at: usize, id: u8) {
        self.bytes[0x06] |= 0x10;
        self.bytes[self.pointer] = u8::try_from(at).expect("in the first 256 bytes");
        self.bytes[at] = id;
        self.pointer = at + 1;
    }

    /// Appends an extended capability of version 1 and returns its offset.
    fn extended(&mut self, id: u16, len: usize) -> usize {
        let at = self.free;
        if let Some(previous) = self.previous {
            let next = u32::try_from(at).expect("in 4096 bytes") << 20;
            let header = u32::from_le_bytes(
                self.bytes[previous..previous + 4]
                    .try_into()
                    .expect("4 bytes"),
            );
            self.put32(previous, header | next);
        }
        self.put32(at, u32::from(id) | (1 << 16));
        self.previous = Some(at);
        self.free = at + len.next_multiple_of(4);
        at
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}
