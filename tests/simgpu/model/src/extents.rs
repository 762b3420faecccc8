//! Memory as a map of extents: a fill, copy or check of gigabytes touches as many extents as there are different contents,
//! not as many bytes.

use crate::content::Content;
use std::collections::BTreeMap;

/// Length in bytes and content of a stretch; `None` where nothing was ever written.
pub type Piece = (u64, Option<Content>);

/// The written contents by address. Extents never overlap, and neighbours that continue each other are merged.
#[derive(Debug, Clone, Default)]
pub struct Extents(BTreeMap<u64, (u64, Content)>);

impl Extents {
    /// The contents of the `bytes` bytes from `at` on, in order, without gaps.
    #[must_use]
    pub fn read(&self, at: u64, bytes: u64) -> Vec<Piece> {
        let end = at.saturating_add(bytes);
        let mut pieces = Vec::new();
        let mut here = at;
        let before = self.0.range(..at).next_back();
        for (start, (length, content)) in before.into_iter().chain(self.0.range(at..end)) {
            let (from, to) = ((*start).max(here), (start + length).min(end));
            if from >= to {
                continue;
            }
            if from > here {
                pieces.push((from - here, None));
            }
            pieces.push((to - from, Some(content.skip(from - start))));
            here = to;
        }
        if here < end {
            pieces.push((end - here, None));
        }
        pieces
    }

    /// Writes `content` over the `bytes` bytes from `at` on.
    pub fn write(&mut self, at: u64, bytes: u64, content: Content) {
        if bytes == 0 {
            return;
        }
        self.clear(at, bytes);
        let (mut start, mut length, mut content) = (at, bytes, content);
        if let Some((left, (n, before))) = self.0.range(..at).next_back()
            && left + n == at
            && before.continued_by(*n, &content)
        {
            (start, length, content) = (*left, n + length, before.clone());
        }
        let end = at + bytes;
        if let Some((n, after)) = self.0.get(&end)
            && content.continued_by(length, after)
        {
            length += n;
            self.0.remove(&end);
        }
        self.0.insert(start, (length, content));
    }

    /// Forgets the content of the `bytes` bytes from `at` on.
    pub fn clear(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let before = self
            .0
            .range(..at)
            .next_back()
            .filter(|(start, (n, _))| *start + n > at);
        let first = before.map_or(at, |(start, _)| *start);
        let hit: Vec<_> = self.0.range(first..end).map(|(start, _)| *start).collect();
        for start in hit {
            let Some((n, content)) = self.0.remove(&start) else {
                continue;
            };
            if start + n > end {
                self.0
                    .insert(end, (start + n - end, content.skip(end - start)));
            }
            if start < at {
                self.0.insert(start, (at - start, content));
            }
        }
    }

    /// Start, length and content of each extent.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &Content)> {
        self.0
            .iter()
            .map(|(start, (bytes, content))| (*start, *bytes, content))
    }

    /// How many extents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Everything after the first `bytes` bytes.
#[must_use]
pub fn after(pieces: &[Piece], bytes: u64) -> Vec<Piece> {
    let mut skip = bytes;
    let mut left = Vec::new();
    for (n, content) in pieces {
        let gone = skip.min(*n);
        if *n > gone {
            left.push((n - gone, content.as_ref().map(|c| c.skip(gone))));
        }
        skip -= gone;
    }
    left
}

/// The first `bytes` bytes of `pieces`.
#[must_use]
pub fn cut(pieces: &[Piece], bytes: u64) -> Vec<Piece> {
    let mut left = bytes;
    let mut kept = Vec::new();
    for (n, content) in pieces {
        let take = left.min(*n);
        if take > 0 {
            kept.push((take, content.clone()));
        }
        left -= take;
    }
    kept
}

/// The bytes of `pieces`; memory that was never written reads as zero.
#[must_use]
pub fn bytes(pieces: &[Piece]) -> Vec<u8> {
    let all = pieces.iter().map(|(n, _)| *n).sum::<u64>();
    let mut out = vec![0; usize::try_from(all).unwrap_or_default()];
    let mut rest = out.as_mut_slice();
    for (n, content) in pieces {
        let (now, later) = rest.split_at_mut(usize::try_from(*n).unwrap_or_default());
        if let Some(content) = content {
            content.write(now);
        }
        rest = later;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_extents_that_continue_each_other_are_merged() {
        let mut extents = Extents::default();
        extents.write(0, 4096, Content::pattern(1, 0));
        extents.write(4096, 4096, Content::pattern(1, 1024));
        assert_eq!(extents.len(), 1);
        extents.write(4096, 4, Content::Byte(0));
        assert_eq!(extents.len(), 3);
        extents.write(4096, 4, Content::pattern(1, 1024));
        assert_eq!(extents.len(), 1);
    }

    #[test]
    fn unwritten_stretches_have_no_content() {
        let mut extents = Extents::default();
        extents.write(10, 10, Content::Byte(1));
        let lengths: Vec<_> = extents
            .read(0, 30)
            .into_iter()
            .map(|(n, c)| (n, c.is_some()))
            .collect();
        assert_eq!(lengths, [(10, false), (10, true), (10, false)]);
    }

    /// Compares with a plain array of bytes.
    #[test]
    fn random_writes_read_like_real_memory() {
        let mut state = 9u64;
        let mut next = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut extents = Extents::default();
        let mut real = vec![0u8; 256];
        for _ in 0..3000 {
            let at = next(256);
            let n = next(256 - at) + 1;
            let content = match next(4) {
                0 => Content::Byte(u8::try_from(next(3)).unwrap()),
                1 => Content::pattern(next(2), at / 4),
                2 => Content::bytes((0..u8::try_from(n - 1).unwrap()).chain([7]).collect()),
                _ => Content::pattern(3, next(5)),
            };
            let (from, length) = (usize::try_from(at).unwrap(), usize::try_from(n).unwrap());
            content.write(&mut real[from..from + length]);
            extents.write(at, n, content);
            let (from, length) = (next(256), next(256));
            let length = length.min(256 - from);
            let expected =
                &real[usize::try_from(from).unwrap()..][..usize::try_from(length).unwrap()];
            assert_eq!(bytes(&extents.read(from, length)), expected);
        }
    }
}
