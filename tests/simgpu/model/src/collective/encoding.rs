//! Encodings: a rank's part as the bytes that are sent to another process, and a call as the numbers that NCCL's library
//! passes to CUDA's.

use super::{Call, Collective, Contribution, Path};
use crate::content::Content;
use crate::element::{DataType, ReduceOp};
use crate::extents::{Extents, Piece};
use crate::memory::{decode, encode};

/// Real bytes are sent up to this size; longer stretches are sent as noise, which only checks in other processes notice.
const MAX_REAL_BYTES: u64 = 64 << 10;

impl Collective {
    fn numbers(self) -> [u64; 4] {
        let of = |t: DataType, op: ReduceOp| (u64::from(t.code()), u64::from(op.code()));
        let reducing = |what, (t, op), root: usize| [what, t, op, root as u64];
        match self {
            Self::AllReduce(t, op) => reducing(0, of(t, op), 0),
            Self::AllGather => [1, 0, 0, 0],
            Self::ReduceScatter(t, op) => reducing(2, of(t, op), 0),
            Self::Broadcast(root) => [3, 0, 0, root as u64],
            Self::Reduce(t, op, root) => reducing(4, of(t, op), root),
            Self::Exchange => [5, 0, 0, 0],
        }
    }
}

impl Call {
    /// Encodes to bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let path = u64::from(self.path.number());
        let head = [
            self.comm,
            self.number,
            self.rank as u64,
            u64::from(self.in_place),
            path,
        ];
        let mut numbers: Vec<u64> = head.into_iter().chain(self.collective.numbers()).collect();
        numbers.extend([u64::from(self.channels), u64::from(self.how)]);
        for list in [&self.send, &self.receive] {
            numbers.push(list.len() as u64);
            numbers.extend(
                list.iter()
                    .flat_map(|(peer, address, bytes)| [*peer as u64, *address, *bytes]),
            );
        }
        numbers.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes from bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (comm, number, rank) = (reader.next()?, reader.next()?, reader.index()?);
        let (in_place, path) = (
            reader.next()? != 0,
            Path::of(u32::try_from(reader.next()?).ok()?),
        );
        let (collective, channels) = (reader.collective()?, u32::try_from(reader.next()?).ok()?);
        let how = u32::try_from(reader.next()?).ok()?;
        let (send, receive) = (reader.list()?, reader.list()?);
        Some(Self {
            comm,
            number,
            rank,
            collective,
            send,
            receive,
            in_place,
            path,
            channels,
            how,
        })
    }
}

impl Contribution {
    /// Encodes to bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |n: u64| out.extend(n.to_le_bytes());
        self.collective.numbers().into_iter().for_each(&mut put);
        put(u64::from(self.in_place));
        put(u64::from(self.follows));
        put(u64::from(self.alike));
        put(u64::from(self.how));
        put(self.gpu as u64);
        put(self.wanted.len() as u64);
        for (from, bytes) in &self.wanted {
            put(*from as u64);
            put(*bytes);
        }
        for (to, pieces) in &self.sent {
            let all: u64 = pieces.iter().map(|(n, _)| n).sum();
            let content = encode(&as_extents(pieces));
            for n in [*to as u64, all, content.len() as u64] {
                out.extend(n.to_le_bytes());
            }
            out.extend(content);
        }
        out
    }

    /// Decodes from bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let collective = reader.collective()?;
        let [in_place, follows, alike] = [
            reader.next()? != 0,
            reader.next()? != 0,
            reader.next()? != 0,
        ];
        let how = u32::try_from(reader.next()?).ok()?;
        let (gpu, wants) = (reader.index()?, reader.next()?);
        let mut wanted = Vec::new();
        for _ in 0..wants {
            wanted.push((reader.index()?, reader.next()?));
        }
        let mut sent = Vec::new();
        while !reader.0.is_empty() {
            let (to, all, length) = (reader.index()?, reader.next()?, reader.index()?);
            let (own, others) = reader.0.split_at_checked(length)?;
            reader = Reader(others);
            sent.push((to, decode(own).read(0, all)));
        }
        Some(Self {
            collective,
            in_place,
            sent,
            wanted,
            gpu,
            follows,
            alike,
            how,
        })
    }
}

/// A reader of consecutive numbers.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn next(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk::<8>()?;
        self.0 = tail;
        Some(u64::from_le_bytes(*head))
    }

    fn index(&mut self) -> Option<usize> {
        usize::try_from(self.next()?).ok()
    }

    fn list(&mut self) -> Option<Vec<(usize, u64, u64)>> {
        let count = self.next()?;
        (0..count)
            .map(|_| Some((self.index()?, self.next()?, self.next()?)))
            .collect()
    }

    fn collective(&mut self) -> Option<Collective> {
        let small = |n: u64| u32::try_from(n).ok();
        let [what, r#type, op] = [self.next()?, self.next()?, self.next()?];
        let (t, o) = (
            small(r#type).and_then(DataType::of),
            small(op).and_then(ReduceOp::of),
        );
        let root = self.index()?;
        Some(match what {
            0 => Collective::AllReduce(t?, o?),
            1 => Collective::AllGather,
            2 => Collective::ReduceScatter(t?, o?),
            3 => Collective::Broadcast(root),
            4 => Collective::Reduce(t?, o?, root),
            _ => Collective::Exchange,
        })
    }
}

fn as_extents(pieces: &[Piece]) -> Extents {
    let mut extents = Extents::default();
    let mut at = 0;
    for (n, content) in pieces {
        let content = match content {
            Some(Content::Bytes(..)) if *n > MAX_REAL_BYTES => Some(Content::NOISE),
            other => other.clone(),
        };
        if let Some(content) = content {
            extents.write(at, *n, content);
        }
        at += n;
    }
    extents
}
