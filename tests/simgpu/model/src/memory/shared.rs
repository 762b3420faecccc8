//! Memory that several processes share: its content is in a file that all of them have open, in the model's short form. The
//! library creates, locks and passes on that file.

use super::{GpuSet, Mapping, Memory, Store, StoreId};
use crate::content::{Content, Ring};
use crate::element::{DataType, ReduceOp};
use crate::extents::{Extents, Piece};
use crate::pattern::Pattern;
use crate::scenario::MemoryKind;
use crate::status::{Result, Status};
use crate::values::{ValueOrigin, Values};
use std::fmt::Debug;

/// A file that several processes share.
pub trait Backing: Debug + Send {
    /// Reads its content.
    fn load(&self) -> Vec<u8>;
    /// Replaces its content, under a lock.
    fn change(&self, f: &mut dyn FnMut(&[u8]) -> Vec<u8>);
}

/// What another process needs to know of a store to map it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreInfo {
    /// The GPU whose memory it is.
    pub gpu: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its offset in the GPU's physical memory.
    pub physical: u64,
}

impl Store {
    /// Whether it belongs to another process.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// The contents of a stretch of it.
    pub(super) fn pieces(&self, at: u64, bytes: u64) -> Vec<Piece> {
        match &self.shared {
            Some(file) => decode(&file.load()).read(at, bytes),
            None if self.tag_sets.is_empty() => self.content.read(at, bytes),
            None => self.with_tags(at, bytes),
        }
    }

    /// Writes content into a stretch of it, up to its end.
    pub fn put(&mut self, at: u64, bytes: u64, content: &Content) {
        let bytes = bytes.min(self.bytes.saturating_sub(at));
        self.materialize_tags(at, bytes);
        match &self.shared {
            Some(file) => file.change(&mut |old| {
                let mut extents = decode(old);
                extents.write(at, bytes, content.clone());
                encode(&extents)
            }),
            None => self.content.write(at, bytes, content.clone()),
        }
    }
}

impl Memory {
    /// Moves a store's content into a file.
    pub fn share(&mut self, id: StoreId, file: Box<dyn Backing>) -> Result<()> {
        let store = self.stores.get_mut(&id).ok_or(Status::INVALID_VALUE)?;
        store.materialize_tags(0, store.bytes.saturating_sub(1));
        let content = encode(&std::mem::take(&mut store.content));
        file.change(&mut |_| content.clone());
        store.shared = Some(file);
        Ok(())
    }

    /// What another process needs to know of a store.
    pub fn info(&self, id: StoreId) -> Result<StoreInfo> {
        let store = self.stores.get(&id).ok_or(Status::INVALID_VALUE)?;
        Ok(StoreInfo {
            gpu: store.gpu,
            bytes: store.bytes,
            physical: store.physical,
        })
    }

    /// The allocation that contains an address: its store, and the address's offset in it.
    pub fn allocation(&self, address: u64) -> Result<(StoreId, u64)> {
        let before = self.maps.range(..=address).next_back();
        let (start, map) = before
            .filter(|(start, m)| address < *start + m.bytes)
            .ok_or(Status::INVALID_VALUE)?;
        if map.kind == MemoryKind::Alloc {
            Ok((map.store, address - start))
        } else {
            Err(Status::INVALID_VALUE)
        }
    }

    /// Adds a store of another process. It uses none of this process's GPU memory.
    pub fn adopt(&mut self, info: StoreInfo, file: Box<dyn Backing>) -> StoreId {
        self.next += 1;
        let StoreInfo {
            gpu,
            bytes,
            physical,
        } = info;
        let shared = Some(file);
        self.stores.insert(
            self.next,
            Store {
                gpu,
                bytes,
                physical,
                shared,
                adopted: true,
                ..Store::default()
            },
        );
        self.next
    }

    /// Maps an adopted store, as an allocation.
    pub fn open(&mut self, store: StoreId) -> Result<u64> {
        let info = self.info(store)?;
        let address = self
            .windows
            .take(info.gpu, info.bytes, &self.maps)
            .ok_or(Status::OUT_OF_MEMORY)?;
        let map = Mapping {
            bytes: info.bytes,
            store,
            offset: 0,
            kind: MemoryKind::Alloc,
            access: GpuSet::NONE,
        };
        self.maps.insert(address, map);
        Ok(address)
    }
}

/// The kinds of content, each encoded as the first of its numbers.
const BYTE: u64 = 0;
const PATTERN: u64 = 1;
const RING: u64 = 2;
const BYTES: u64 = 3;
const VALUES: u64 = 4;

/// Encodes extents as bytes.
#[must_use]
pub fn encode(extents: &Extents) -> Vec<u8> {
    let mut out = Vec::new();
    for (start, bytes, content) in extents.iter() {
        let (numbers, tail) = match content {
            Content::Byte(b) => ([BYTE, u64::from(*b), 0, 0, 0], None),
            Content::Pattern(p, byte) => (
                [
                    PATTERN,
                    p.seed,
                    p.first,
                    u64::from(*byte),
                    u64::from(p.flip),
                ],
                None,
            ),
            Content::Values(v, byte) => (values(v, *byte), None),
            Content::Ring(r, at) => ([RING, r.base, r.stride, r.count, *at], None),
            Content::Bytes(..) => ([BYTES, 0, 0, 0, 0], Some((bytes, content))),
        };
        out.extend(
            [start, bytes]
                .into_iter()
                .chain(numbers)
                .flat_map(u64::to_le_bytes),
        );
        if let Some((bytes, content)) = tail {
            let mut real = vec![0; usize::try_from(bytes).unwrap_or_default()];
            content.write(&mut real);
            out.extend(real);
        }
    }
    out
}

/// Encodes values as a kind and four numbers.
fn values(v: &Values, byte: u64) -> [u64; 5] {
    let (number, more) = match v.origin {
        ValueOrigin::Rank(rank) => (u64::from(rank), 0),
        ValueOrigin::Reduced { op, ranks } => (u64::from(ranks), 1 + u64::from(op.code())),
    };
    let small = u64::from(v.r#type.code())
        | byte << 8
        | u64::from(v.powers) << 16
        | more << 24
        | number << 32;
    [
        VALUES,
        v.seed,
        v.first,
        u64::from(v.range) | u64::from(v.scale) << 32,
        small,
    ]
}

/// Decodes values.
fn to_values([seed, first, numbers, small]: [u64; 4]) -> Option<Content> {
    let low = |n: u64| u32::try_from(n & 0xffff_ffff).unwrap_or_default();
    let more = low(small >> 24 & 0xff);
    let origin = match more.checked_sub(1) {
        None => ValueOrigin::Rank(low(small >> 32)),
        Some(op) => ValueOrigin::Reduced {
            op: ReduceOp::of(op)?,
            ranks: low(small >> 32),
        },
    };
    let (range, scale, powers) = (low(numbers), low(numbers >> 32), small >> 16 & 1 == 1);
    let r#type = DataType::of(low(small & 0xff))?;
    Some(Content::Values(
        Values {
            seed,
            first,
            r#type,
            range,
            scale,
            powers,
            origin,
        },
        small >> 8 & 0xff,
    ))
}

/// Decodes extents.
#[must_use]
pub fn decode(bytes: &[u8]) -> Extents {
    let mut extents = Extents::default();
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<56>() {
        let mut numbers = head
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b));
        let mut next = || numbers.next().unwrap_or_default();
        let [start, length, kind, a, b, c, d] = std::array::from_fn(|_| next());
        rest = tail;
        let small = |n: u64| u8::try_from(n).unwrap_or_default();
        let content = match kind {
            BYTE => Content::Byte(small(a)),
            PATTERN => {
                let flip = u32::try_from(d).unwrap_or_default();
                Content::Pattern(
                    Pattern {
                        seed: a,
                        first: b,
                        flip,
                    },
                    small(c),
                )
            }
            VALUES => to_values([a, b, c, d]).unwrap_or(Content::NOISE),
            RING => Content::Ring(
                Ring {
                    base: a,
                    stride: b,
                    count: c,
                },
                d,
            ),
            _ => {
                let Some((own, others)) =
                    rest.split_at_checked(usize::try_from(length).unwrap_or_default())
                else {
                    return extents;
                };
                rest = others;
                Content::bytes(own.to_vec())
            }
        };
        extents.write(start, length, content);
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::bytes;
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Clone, Default)]
    struct File(Arc<Mutex<Vec<u8>>>);

    impl Backing for File {
        fn load(&self) -> Vec<u8> {
            self.0.lock().unwrap().clone()
        }
        fn change(&self, f: &mut dyn FnMut(&[u8]) -> Vec<u8>) {
            let mut inner = self.0.lock().unwrap();
            *inner = f(&inner);
        }
    }

    #[test]
    fn every_kind_of_content_survives_encoding() {
        let mut extents = Extents::default();
        extents.write(0, 100, Content::Byte(7));
        extents.write(100, 50, Content::pattern(3, 4).skip(2));
        extents.write(
            200,
            64,
            Content::Ring(
                Ring {
                    base: 9,
                    stride: 16,
                    count: 4,
                },
                8,
            ),
        );
        let origin = ValueOrigin::Reduced {
            op: ReduceOp::Avg,
            ranks: 7,
        };
        for (at, origin) in [(400, origin), (500, ValueOrigin::Rank(9))] {
            let own = crate::values::tests::values(DataType::Bfloat16, Some(ReduceOp::Avg), 7);
            extents.write(at, 50, Content::Values(Values { origin, ..own }, 1));
        }
        extents.write(300, 3, Content::bytes(vec![1, 2, 3]));
        let back = decode(&encode(&extents));
        assert_eq!(bytes(&back.read(0, 600)), bytes(&extents.read(0, 600)));
        assert_eq!(back.len(), extents.len());
    }

    #[test]
    fn processes_see_each_others_writes() {
        let file = File::default();
        let mut memories = [0, 1].map(|_| Memory::new(vec![8 << 20; 2]));
        let [own, other] = &mut memories;
        let address = own.alloc(1, 4096).unwrap();
        let (store, _) = own.allocation(address + 4).unwrap();
        own.stores
            .get_mut(&store)
            .unwrap()
            .put(0, 4096, &Content::pattern(1, 0));
        own.share(store, Box::new(file.clone())).unwrap();
        let adopted = other.adopt(own.info(store).unwrap(), Box::new(file));
        assert_eq!(other.free(1), 8 << 20);
        let there = other.open(adopted).unwrap();
        let seen = |memory: &Memory, address| match memory.locate(address, 4096) {
            Ok(super::super::Location::Gpu(spans)) => bytes(&memory.read(&spans, 0)),
            other => panic!("{other:?}"),
        };
        assert_eq!(seen(other, there), seen(own, address));
        other
            .stores
            .get_mut(&adopted)
            .unwrap()
            .put(8, 8, &Content::Byte(9));
        assert_eq!(seen(own, address)[8..16], [9; 8]);
        other.free_at(there).unwrap();
        assert_eq!((other.free(1), seen(own, address)[8]), (8 << 20, 9));
    }
}
