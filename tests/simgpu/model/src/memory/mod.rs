//! The memory of all simulated GPUs and its addresses: allocations, virtual memory mappings, page-locked host memory.
//! Decides which GPU may reach what; timing is left to others.

mod pinned;
mod shared;
mod tags;
mod vmm;

pub use pinned::{GRAIN, Pinned};
pub use shared::{Backing, StoreInfo, decode, encode};
pub use tags::{TAG, TagSet, Tags};
pub use vmm::{AddressWindows, GPU_WINDOW, GRANULARITY, Handle};

use crate::content::Content;
use crate::extents::{Extents, Piece};
use crate::scenario::MemoryKind;
use crate::status::{Result, Status};
use std::collections::BTreeMap;

/// Identifies a piece of GPU memory.
pub type StoreId = u64;

/// A piece of a GPU's memory.
#[derive(Debug, Default)]
pub struct Store {
    /// The GPU whose memory it is.
    pub gpu: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its offset in the GPU's physical memory, in bytes.
    pub physical: u64,
    /// Its content.
    pub content: Extents,
    /// Tags that were written into it and are not part of its content yet.
    pub(crate) tag_sets: Vec<TagSet>,
    /// What peers wrote here that only they can see (fault `mirror`), by peer.
    pub mirrors: BTreeMap<usize, Extents>,
    /// The content if it is shared with other processes, instead of `content`.
    pub(crate) shared: Option<Box<dyn Backing>>,
    /// Whether it belongs to another process.
    pub(crate) adopted: bool,
}

/// A set of GPUs, of which there are 64 at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuSet(u64);

impl GpuSet {
    /// No GPU.
    pub const NONE: Self = Self(0);

    /// Whether a GPU is one of them.
    #[must_use]
    pub fn contains(self, gpu: usize) -> bool {
        gpu < 64 && self.0 >> gpu & 1 == 1
    }

    /// Adds or removes a GPU.
    pub fn set(&mut self, gpu: usize, within: bool) {
        let bit = if gpu < 64 { 1 << gpu } else { 0 };
        self.0 = if within { self.0 | bit } else { self.0 & !bit };
    }
}

/// An address range that maps a store.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Its size in bytes.
    pub bytes: u64,
    /// The store that it maps.
    pub store: StoreId,
    /// Offset of its first byte in the store.
    pub offset: u64,
    /// How it was made.
    pub kind: MemoryKind,
    /// The GPUs that have access to a virtual memory mapping.
    pub access: GpuSet,
}

/// A stretch of a store that an address range maps.
#[derive(Debug, Clone)]
pub struct Span {
    /// The store.
    pub store: StoreId,
    /// The GPU whose memory it is.
    pub owner: usize,
    /// Its offset in the store.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// How it was mapped.
    pub kind: MemoryKind,
    /// The GPUs that have access to a virtual memory mapping.
    pub access: GpuSet,
    /// Its offset in the owner's physical memory.
    pub physical: u64,
}

/// What an address refers to.
#[derive(Debug, Clone)]
pub enum Location {
    /// GPU memory, through one mapping or several consecutive ones.
    Gpu(Vec<Span>),
    /// Page-locked host memory.
    Pinned,
    /// Other host memory.
    Pageable,
}

/// All memory of the machine.
#[derive(Debug)]
pub struct Memory {
    /// Stores by id.
    pub stores: BTreeMap<StoreId, Store>,
    /// Mappings by first address.
    pub maps: BTreeMap<u64, Mapping>,
    /// Page-locked host memory, by address.
    pub pinned: BTreeMap<u64, Pinned>,
    /// Virtual memory management: handles and reservations.
    pub(crate) vmm: vmm::Vmm,
    windows: AddressWindows,
    used: Vec<u64>,
    capacity: Vec<u64>,
    next: StoreId,
}

/// The unit to which every allocation is rounded up.
const PAGE: u64 = 2 << 20;

impl Memory {
    /// Memory with `capacity` allocatable bytes on each GPU.
    #[must_use]
    pub fn new(capacity: Vec<u64>) -> Self {
        Self {
            stores: BTreeMap::new(),
            maps: BTreeMap::new(),
            pinned: BTreeMap::new(),
            vmm: vmm::Vmm::default(),
            windows: AddressWindows::new(capacity.len()),
            used: vec![0; capacity.len()],
            capacity,
            next: 0,
        }
    }

    /// Free bytes on a GPU.
    #[must_use]
    pub fn free(&self, gpu: usize) -> u64 {
        let all = self.capacity.get(gpu).copied().unwrap_or_default();
        all.saturating_sub(self.used.get(gpu).copied().unwrap_or_default())
    }

    /// A new store.
    pub(crate) fn add_store(&mut self, gpu: usize, bytes: u64) -> Result<StoreId> {
        let size = bytes.next_multiple_of(PAGE);
        if size > self.free(gpu) {
            return Err(Status::OUT_OF_MEMORY);
        }
        let used = self.used.get_mut(gpu).ok_or(Status::INVALID_DEVICE)?;
        *used += size;
        let physical = lowest_gap(
            self.stores.values().filter(|s| s.gpu == gpu && !s.adopted),
            size,
        );
        self.next += 1;
        self.stores.insert(
            self.next,
            Store {
                gpu,
                bytes,
                physical,
                ..Store::default()
            },
        );
        Ok(self.next)
    }

    /// Frees a store.
    pub(crate) fn drop_store(&mut self, id: StoreId) {
        if let Some(store) = self.stores.remove(&id).filter(|s| !s.adopted)
            && let Some(used) = self.used.get_mut(store.gpu)
        {
            *used = used.saturating_sub(store.bytes.next_multiple_of(PAGE));
        }
    }

    /// cuMemAlloc.
    pub fn alloc(&mut self, gpu: usize, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let store = self.add_store(gpu, bytes)?;
        let Some(address) = self.windows.take(gpu, bytes, &self.maps) else {
            self.drop_store(store);
            return Err(Status::OUT_OF_MEMORY);
        };
        let kind = MemoryKind::Alloc;
        self.maps.insert(
            address,
            Mapping {
                bytes,
                store,
                offset: 0,
                kind,
                access: GpuSet::NONE,
            },
        );
        Ok(address)
    }

    /// cuMemFree. Returns the GPU whose memory it was.
    pub fn free_at(&mut self, address: u64) -> Result<usize> {
        let mapping = self
            .maps
            .get(&address)
            .filter(|m| m.kind == MemoryKind::Alloc);
        let store = mapping.ok_or(Status::INVALID_VALUE)?.store;
        self.maps.remove(&address);
        let gpu = self.stores.get(&store).map_or(0, |s| s.gpu);
        self.drop_store(store);
        Ok(gpu)
    }

    /// Frees what was allocated on a GPU when its context is destroyed.
    pub fn forget(&mut self, gpu: usize) {
        let own = |m: &Mapping| self.stores.get(&m.store).is_some_and(|s| s.gpu == gpu);
        let gone: Vec<_> = self
            .maps
            .iter()
            .filter(|(_, m)| own(m))
            .map(|(a, m)| (*a, m.store))
            .collect();
        for (address, store) in gone {
            self.maps.remove(&address);
            self.drop_store(store);
        }
    }

    /// The store at byte `at` of a GPU's physical memory, and the offset of that byte in the store.
    #[must_use]
    pub fn at(&self, gpu: usize, at: u64) -> Option<(StoreId, u64)> {
        let here = |s: &Store| s.gpu == gpu && (s.physical..s.physical + s.bytes).contains(&at);
        self.stores
            .iter()
            .find(|(_, s)| here(s))
            .map(|(id, s)| (*id, at - s.physical))
    }

    /// What the `bytes` bytes from `address` on refer to.
    pub fn locate(&self, address: u64, bytes: u64) -> Result<Location> {
        if self.windows.contains(address) {
            return self.spans(address, bytes).map(Location::Gpu);
        }
        let before = self.pinned.range(..=address).next_back();
        let inside = before.is_some_and(|(start, p)| address + bytes <= start + p.bytes);
        Ok(if inside {
            Location::Pinned
        } else {
            Location::Pageable
        })
    }

    fn spans(&self, address: u64, bytes: u64) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        let (mut here, mut left) = (address, bytes);
        loop {
            let (start, map) = self
                .maps
                .range(..=here)
                .next_back()
                .ok_or(Status::ILLEGAL_ADDRESS)?;
            let inside = here - start;
            if inside >= map.bytes {
                return Err(Status::ILLEGAL_ADDRESS);
            }
            let store = self.stores.get(&map.store).ok_or(Status::ILLEGAL_ADDRESS)?;
            let take = left.min(map.bytes - inside);
            let offset = map.offset + inside;
            spans.push(Span {
                store: map.store,
                owner: store.gpu,
                offset,
                bytes: take,
                kind: map.kind,
                access: map.access,
                physical: store.physical + offset,
            });
            (here, left) = (here + take, left - take);
            if left == 0 {
                return Ok(spans);
            }
        }
    }

    /// The contents of `spans` as GPU `by` sees them.
    #[must_use]
    pub fn read(&self, spans: &[Span], by: usize) -> Vec<Piece> {
        let one = |span: &Span| {
            let Some(store) = self.stores.get(&span.store) else {
                return Vec::new();
            };
            let pieces = store.pieces(span.offset, span.bytes);
            match store.mirrors.get(&by) {
                Some(mirror) if by != store.gpu => {
                    overlay(&pieces, &mirror.read(span.offset, span.bytes))
                }
                _ => pieces,
            }
        };
        spans.iter().flat_map(one).collect()
    }

    /// Writes `pieces` into `spans`, until either ends.
    pub fn write(&mut self, spans: &[Span], pieces: &[Piece]) {
        let mut pieces = pieces.iter().cloned();
        let mut open: Option<Piece> = None;
        for span in spans {
            let (mut at, end) = (span.offset, span.offset + span.bytes);
            while at < end {
                let Some((n, content)) = open.take().or_else(|| pieces.next()) else {
                    return;
                };
                let take = n.min(end - at);
                self.put(span.store, at, take, content.clone());
                if n > take {
                    open = Some((n - take, content.map(|c| c.skip(take))));
                }
                at += take;
            }
        }
    }

    fn put(&mut self, store: StoreId, at: u64, bytes: u64, content: Option<Content>) {
        if let Some(store) = self.stores.get_mut(&store) {
            store.put(at, bytes, &content.unwrap_or(Content::ZEROS));
        }
    }
}

/// The lowest offset at which `bytes` bytes fit between stores or after all of them. Of a GPU's pages the model keeps only
/// their offsets.
fn lowest_gap<'a>(stores: impl Iterator<Item = &'a Store>, bytes: u64) -> u64 {
    let mut taken: Vec<_> = stores
        .map(|s| (s.physical, s.bytes.next_multiple_of(PAGE)))
        .collect();
    taken.sort_unstable();
    let mut at = 0;
    for (from, size) in taken {
        if from >= at + bytes {
            break;
        }
        at = at.max(from + size);
    }
    at
}

/// `top` laid over `bottom`; both have the same length.
fn overlay(bottom: &[Piece], top: &[Piece]) -> Vec<Piece> {
    let mut extents = Extents::default();
    let mut end = 0;
    for layer in [bottom, top] {
        let mut at = 0;
        for (n, content) in layer {
            if let Some(content) = content {
                extents.write(at, *n, content.clone());
            }
            at += n;
        }
        end = at;
    }
    extents.read(0, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn spans(memory: &Memory, address: u64, bytes: u64) -> Result<Vec<Span>> {
        match memory.locate(address, bytes)? {
            Location::Gpu(spans) => Ok(spans),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn memory_runs_out_and_is_freed() {
        let mut memory = Memory::new(vec![10 * MIB, 10 * MIB]);
        let first = memory.alloc(0, 7 * MIB).unwrap();
        assert_eq!(memory.free(0), 2 * MIB);
        assert_eq!(memory.alloc(0, 3 * MIB), Err(Status::OUT_OF_MEMORY));
        assert!(memory.alloc(1, 3 * MIB).is_ok());
        assert_eq!(memory.free_at(first), Ok(0));
        assert_eq!(memory.free_at(first), Err(Status::INVALID_VALUE));
        assert_eq!(memory.free(0), 10 * MIB);
    }

    #[test]
    fn accesses_beyond_an_allocation_fail() {
        let mut memory = Memory::new(vec![100 * MIB; 2]);
        let a = memory.alloc(0, 4096).unwrap();
        let b = memory.alloc(0, 4096).unwrap();
        assert!(a != b && spans(&memory, a, 4096).is_ok());
        for (address, bytes) in [(a, 4097), (a + 4096, 1), (b - 1, 1), (a - 1, 2)] {
            assert_eq!(
                spans(&memory, address, bytes).unwrap_err(),
                Status::ILLEGAL_ADDRESS
            );
        }
        assert!(matches!(
            memory.locate(0x5555_0000_0000, 4).unwrap(),
            Location::Pageable
        ));
    }

    #[test]
    fn addresses_are_reused() {
        let mut memory = Memory::new(vec![u64::MAX >> 10]);
        let kept = memory.alloc(0, MIB).unwrap();
        for _ in 0..100 {
            let big = memory.alloc(0, 20 << 30).unwrap();
            assert!(big > kept);
            memory.free_at(big).unwrap();
        }
    }

    #[test]
    fn adjacent_vmm_mappings_form_one_address_range() {
        let mut memory = Memory::new(vec![100 * MIB; 2]);
        let (a, b) = (
            memory.create(0, 2 * MIB).unwrap(),
            memory.create(1, 2 * MIB).unwrap(),
        );
        assert_eq!(memory.create(0, MIB), Err(Status::INVALID_VALUE));
        let address = memory.reserve(4 * MIB, 0).unwrap();
        memory.map(address, 2 * MIB, 0, a).unwrap();
        assert_eq!(
            memory.map(address, 2 * MIB, 0, b),
            Err(Status::INVALID_VALUE)
        );
        memory.map(address + 2 * MIB, 2 * MIB, 0, b).unwrap();
        memory.release(a).unwrap();
        memory.set_access(address, 4 * MIB, 1, true).unwrap();
        let all = spans(&memory, address + MIB, 2 * MIB).unwrap();
        assert_eq!(
            all.iter()
                .map(|s| (s.owner, s.offset, s.bytes))
                .collect::<Vec<_>>(),
            [(0, MIB, MIB), (1, 0, MIB)]
        );
        memory.write(&all, &[(2 * MIB, Some(Content::pattern(1, 0)))]);
        assert_eq!(memory.read(&all, 0).len(), 2);
        assert_eq!(
            memory.unreserve(address, 4 * MIB),
            Err(Status::INVALID_VALUE)
        );
        memory.unmap(address, 4 * MIB).unwrap();
        memory.unreserve(address, 4 * MIB).unwrap();
        // The released store was freed with its mapping, the other one still has a handle.
        assert_eq!((memory.free(0), memory.free(1)), (100 * MIB, 98 * MIB));
    }

    #[test]
    fn a_mirror_is_visible_only_to_its_writer() {
        let mut memory = Memory::new(vec![100 * MIB; 2]);
        let address = memory.alloc(1, 4096).unwrap();
        let stretch = spans(&memory, address, 4096).unwrap();
        memory.write(&stretch, &[(4096, Some(Content::Byte(1)))]);
        let store = memory.stores.get_mut(&stretch[0].store).unwrap();
        store
            .mirrors
            .entry(0)
            .or_default()
            .write(8, 8, Content::Byte(2));
        let seen = |by| crate::extents::bytes(&memory.read(&stretch, by));
        assert_eq!((seen(0)[7], seen(0)[8], seen(0)[16]), (1, 2, 1));
        assert!(seen(1).iter().all(|b| *b == 1));
    }
}
