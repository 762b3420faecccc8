//! Tags in every page of a store, kept symbolically: writing one into each of 70 thousand pages and checking them all
//! touches no page. They become content, page by page, where something else reads or writes.

use super::Store;
use crate::content::Content;
use crate::extents::{Extents, Piece};
use crate::pattern::word;
use std::collections::BTreeSet;

/// Size of a tag in bytes, and the number of writers with a slot in each page.
pub const TAG: u64 = 16;
const WRITERS: u64 = 64;

/// One writer's tags, as `fl_tag` writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// Offset of the first page in the store.
    pub at: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of the first page.
    pub first: u64,
    /// A page has `1 << shift` bytes.
    pub shift: u32,
    /// The writer's number.
    pub writer: u32,
    /// Determines the tags' positions.
    pub nonce: u64,
    /// The seed of the tags' pattern.
    pub seed: u64,
}

/// One writer's tags in a store.
#[derive(Debug, Clone)]
pub struct TagSet {
    /// The tags.
    pub tags: Tags,
    /// Pages without them, or where they became content.
    pub except: BTreeSet<u64>,
}

impl Tags {
    /// The page numbers.
    #[must_use]
    pub fn all(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.pages
    }

    /// A tag's offset in its store, or, if the store's pages were numbered from 0, in all pages.
    #[must_use]
    pub fn place(&self, page: u64) -> u64 {
        self.at + ((page - self.first) << self.shift) + self.inside(page)
    }

    /// A tag's offset in its page.
    #[must_use]
    pub fn inside(&self, page: u64) -> u64 {
        let vectors = (1 << self.shift) / TAG;
        (u64::from(word(self.nonce, page)) + u64::from(self.writer) * (vectors / WRITERS)) % vectors
            * TAG
    }

    /// A page's tag.
    #[must_use]
    pub fn content(&self, page: u64) -> Content {
        Content::pattern(self.seed, page * 4)
    }

    /// The pages that overlap a stretch of the store.
    fn within(&self, at: u64, bytes: u64) -> std::ops::Range<u64> {
        let page = |offset: u64| {
            self.first + (offset.saturating_sub(self.at) >> self.shift).min(self.pages)
        };
        let end = at + bytes;
        if end <= self.at {
            self.first..self.first
        } else {
            page(at)..(page(end - 1) + 1).min(self.all().end)
        }
    }
}

impl Store {
    /// Writes tags into it, except into some pages.
    pub fn write_tags(&mut self, tags: Tags, except: BTreeSet<u64>) {
        if self.shared.is_some() {
            for page in tags.all().filter(|page| !except.contains(page)) {
                self.put(tags.place(page), TAG, &tags.content(page));
            }
            return;
        }
        self.tag_sets.push(TagSet { tags, except });
    }

    /// The contents of a stretch of it, including tags.
    pub(super) fn with_tags(&self, at: u64, bytes: u64) -> Vec<Piece> {
        let mut over = Extents::default();
        let mut here = at;
        for (n, content) in self.content.read(at, bytes) {
            if let Some(content) = content {
                over.write(here, n, content);
            }
            here += n;
        }
        for (place, tag) in self
            .tag_sets
            .iter()
            .flat_map(|set| set.touching(at, bytes))
            .map(|(_, p, c)| (p, c))
        {
            over.write(place, TAG, tag);
        }
        over.read(at, bytes)
    }

    /// Turns the tags in a stretch that is about to change into content.
    pub(super) fn materialize_tags(&mut self, at: u64, bytes: u64) {
        if at == 0 && bytes == self.bytes {
            self.tag_sets.clear();
        }
        for set in &mut self.tag_sets {
            let hit: Vec<_> = set.touching(at, bytes).collect();
            for (page, place, tag) in hit {
                set.except.insert(page);
                self.content.write(place, TAG, tag);
            }
        }
    }
}

impl TagSet {
    /// The tags that overlap a stretch: page, offset, content.
    fn touching(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64, Content)> {
        let pages = self
            .tags
            .within(at, bytes)
            .filter(|page| !self.except.contains(page));
        let all = pages.map(|page| (page, self.tags.place(page), self.tags.content(page)));
        all.filter(move |(_, place, _)| *place < at + bytes && place + TAG > at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::bytes;

    const TAGS: Tags = Tags {
        at: 0,
        pages: 8,
        first: 3,
        shift: 16,
        writer: 2,
        nonce: 5,
        seed: 6,
    };

    fn store() -> Store {
        let mut store = Store {
            bytes: 8 << 16,
            ..Store::default()
        };
        store.put(0, 8 << 16, &Content::pattern(1, 0));
        store
    }

    #[test]
    fn symbolic_tags_read_like_written_bytes() {
        let (mut symbolic, mut written) = (store(), store());
        symbolic.write_tags(TAGS, BTreeSet::from([5]));
        for page in TAGS.all().filter(|page| *page != 5) {
            written.put(TAGS.place(page), TAG, &TAGS.content(page));
        }
        assert_eq!(
            bytes(&symbolic.pieces(0, 8 << 16)),
            bytes(&written.pieces(0, 8 << 16))
        );
        let odd = TAGS.place(6) + 3;
        for store in [&mut symbolic, &mut written] {
            store.put(odd, 5, &Content::Byte(9));
        }
        assert_eq!(
            bytes(&symbolic.pieces(0, 8 << 16)),
            bytes(&written.pieces(0, 8 << 16))
        );
        symbolic.put(0, 8 << 16, &Content::ZEROS);
        assert!(symbolic.tag_sets.is_empty());
    }
}
