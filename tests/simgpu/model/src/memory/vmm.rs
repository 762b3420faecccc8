//! Virtual memory management (cuMemCreate and so on): handles to GPU memory, reserved addresses, and mappings.

use super::{GpuSet, Mapping, Memory, StoreId};
use crate::scenario::MemoryKind;
use crate::status::{Result, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes and addresses must be multiples of this.
pub const GRANULARITY: u64 = 2 << 20;

/// Identifies memory made by cuMemCreate.
pub type Handle = u64;

/// Handles and reserved addresses.
#[derive(Debug, Default)]
pub(crate) struct Vmm {
    /// The stores by handle; a released handle is removed, its memory stays while it is mapped.
    handles: BTreeMap<Handle, StoreId>,
    /// Reserved address ranges: address and size.
    reserved: BTreeMap<u64, u64>,
    next_address: u64,
    next_handle: Handle,
}

impl Memory {
    /// cuMemCreate.
    pub fn create(&mut self, gpu: usize, bytes: u64) -> Result<Handle> {
        check_multiple(bytes)?;
        let store = self.add_store(gpu, bytes)?;
        self.vmm.next_handle += 1;
        self.vmm.handles.insert(self.vmm.next_handle, store);
        Ok(self.vmm.next_handle)
    }

    /// cuMemRelease.
    pub fn release(&mut self, handle: Handle) -> Result<()> {
        let store = self
            .vmm
            .handles
            .remove(&handle)
            .ok_or(Status::INVALID_VALUE)?;
        self.drop_if_unused(store);
        Ok(())
    }

    /// A handle to a store that another process made.
    pub fn handle_for(&mut self, store: StoreId) -> Handle {
        self.vmm.next_handle += 1;
        self.vmm.handles.insert(self.vmm.next_handle, store);
        self.vmm.next_handle
    }

    /// The store that a handle refers to.
    pub fn store_of(&self, handle: Handle) -> Result<StoreId> {
        self.vmm
            .handles
            .get(&handle)
            .copied()
            .ok_or(Status::INVALID_VALUE)
    }

    /// cuMemAddressReserve.
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Result<u64> {
        check_multiple(bytes)?;
        let align = align.max(GRANULARITY);
        if !align.is_power_of_two() {
            return Err(Status::INVALID_VALUE);
        }
        let offset = self.vmm.next_address.next_multiple_of(align);
        if offset + bytes > 64 * GPU_WINDOW {
            return Err(Status::OUT_OF_MEMORY);
        }
        self.vmm.next_address = offset + bytes + GRANULARITY;
        let address = AddressWindows::vmm_base() + offset;
        self.vmm.reserved.insert(address, bytes);
        Ok(address)
    }

    /// cuMemAddressFree.
    pub fn unreserve(&mut self, address: u64, bytes: u64) -> Result<()> {
        let whole = self.vmm.reserved.get(&address) == Some(&bytes);
        if !whole || self.maps.range(address..address + bytes).next().is_some() {
            return Err(Status::INVALID_VALUE);
        }
        self.vmm.reserved.remove(&address);
        Ok(())
    }

    /// cuMemMap.
    pub fn map(&mut self, address: u64, bytes: u64, offset: u64, handle: Handle) -> Result<()> {
        check_multiple(bytes)?;
        let store = self.store_of(handle)?;
        let size = self.stores.get(&store).map_or(0, |s| s.bytes);
        let before = self.vmm.reserved.range(..=address).next_back();
        let reserved = before.is_some_and(|(start, n)| address + bytes <= start + n);
        let taken = self.maps.range(address..address + bytes).next().is_some();
        if !reserved || taken || offset + bytes > size || !address.is_multiple_of(GRANULARITY) {
            return Err(Status::INVALID_VALUE);
        }
        let kind = MemoryKind::Vmm;
        self.maps.insert(
            address,
            Mapping {
                bytes,
                store,
                offset,
                kind,
                access: GpuSet::NONE,
            },
        );
        Ok(())
    }

    /// cuMemUnmap.
    pub fn unmap(&mut self, address: u64, bytes: u64) -> Result<()> {
        for start in self.vmm_mappings(address, bytes)? {
            if let Some(map) = self.maps.remove(&start) {
                self.drop_if_unused(map.store);
            }
        }
        Ok(())
    }

    /// For cuMemSetAccess: the GPUs whose memory the mappings in this stretch lead to.
    pub fn owners(&self, address: u64, bytes: u64) -> Result<BTreeSet<usize>> {
        let maps = self.vmm_mappings(address, bytes)?;
        let stores = maps
            .iter()
            .filter_map(|start| self.maps.get(start))
            .map(|m| m.store);
        Ok(stores
            .filter_map(|s| self.stores.get(&s))
            .map(|s| s.gpu)
            .collect())
    }

    /// cuMemSetAccess, for one GPU.
    pub fn set_access(
        &mut self,
        address: u64,
        bytes: u64,
        gpu: usize,
        allowed: bool,
    ) -> Result<()> {
        for start in self.vmm_mappings(address, bytes)? {
            if let Some(map) = self.maps.get_mut(&start) {
                map.access.set(gpu, allowed);
            }
        }
        Ok(())
    }

    /// The virtual memory mappings that together cover exactly this stretch.
    fn vmm_mappings(&self, address: u64, bytes: u64) -> Result<Vec<u64>> {
        let end = address.saturating_add(bytes);
        let maps = self
            .maps
            .range(address..end)
            .filter(|(_, m)| m.kind == MemoryKind::Vmm);
        let mut here = address;
        let mut starts = Vec::new();
        for (start, map) in maps {
            if *start != here {
                return Err(Status::INVALID_VALUE);
            }
            here += map.bytes;
            starts.push(*start);
        }
        if here == end && bytes > 0 {
            Ok(starts)
        } else {
            Err(Status::INVALID_VALUE)
        }
    }

    fn drop_if_unused(&mut self, store: StoreId) {
        let held = self.vmm.handles.values().any(|s| *s == store);
        let mapped = self.maps.values().any(|m| m.store == store);
        if !held && !mapped {
            self.drop_store(store);
        }
    }
}

fn check_multiple(bytes: u64) -> Result<()> {
    if bytes > 0 && bytes.is_multiple_of(GRANULARITY) {
        Ok(())
    } else {
        Err(Status::INVALID_VALUE)
    }
}

// The addresses of GPU memory. Every GPU has its own window, far from a program's own memory, and allocations leave a gap
// between each other, so that an overrun is noticed.

/// The first address of GPU memory.
const BASE: u64 = 0x1000_0000_0000;
/// Size of one GPU's window: 256 GiB. All windows together end well before a program's own addresses.
pub const GPU_WINDOW: u64 = 1 << 38;
/// The maximum number of GPUs. As many windows for virtual memory mappings follow theirs.
const GPUS: u64 = 64;
/// Where allocations begin in a window, and the minimum gap between them.
const STEP: u64 = 2 << 20;

/// The address windows of the GPUs, and how much of each is used.
#[derive(Debug)]
pub struct AddressWindows {
    next: Vec<u64>,
}

impl AddressWindows {
    /// Windows for `gpus` GPUs.
    pub fn new(gpus: usize) -> Self {
        Self {
            next: vec![STEP; gpus],
        }
    }

    /// Whether an address is in one of the windows.
    pub fn contains(&self, address: u64) -> bool {
        (BASE..BASE + 2 * GPUS * GPU_WINDOW).contains(&address)
    }

    /// The first address for virtual memory mappings.
    pub fn vmm_base() -> u64 {
        BASE + GPUS * GPU_WINDOW
    }

    /// Allocates an address for `bytes` bytes on a GPU.
    pub fn take(&mut self, gpu: usize, bytes: u64, maps: &BTreeMap<u64, Mapping>) -> Option<u64> {
        let base = BASE + gpu as u64 * GPU_WINDOW;
        let next = self.next.get_mut(gpu)?;
        let size = (bytes + 1).next_multiple_of(STEP);
        if *next + size > GPU_WINDOW {
            // Starts again from the beginning of the window, after what is still mapped there.
            let last = maps.range(base..base + GPU_WINDOW).next_back();
            let highest = last.map_or(STEP, |(start, m)| {
                (start + m.bytes + 1).next_multiple_of(STEP) - base
            });
            *next = if highest + size > GPU_WINDOW {
                first_gap(maps, base, size)?
            } else {
                highest
            };
        }
        let address = base + *next;
        *next += size;
        Some(address)
    }
}

/// The first gap of `size` bytes in the window at `base`.
fn first_gap(maps: &BTreeMap<u64, Mapping>, base: u64, size: u64) -> Option<u64> {
    let mut at = base + STEP;
    for (start, map) in maps.range(base..base + GPU_WINDOW) {
        if start.saturating_sub(at) >= size {
            break;
        }
        at = (start + map.bytes + 1).next_multiple_of(STEP);
    }
    (at + size <= base + GPU_WINDOW).then_some(at - base)
}
