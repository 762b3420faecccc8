//! Tags in every page of a large memory: writing and checking them. `kernels/tag.cu` describes a tag.

use super::error::GpuError;
use super::launch::{THREADS, at};
use super::stream::Stream;
use super::tally::Tally;
use crate::cuda::memory::span::Span;
use crate::pattern::word;

/// Bytes of a tag.
pub const TAG: u64 = 16;
/// The number of writers that have their own place in a page.
pub const TAG_WRITERS: u64 = 64;

/// The pages of one piece of memory, and the offsets of one round's tags in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages<'m> {
    /// The memory; only whole pages are used.
    pub span: Span<'m>,
    /// The number of its first page.
    pub first: u64,
    /// A page has `1 << shift` bytes.
    pub shift: u32,
    /// The seed of the tags' offsets within a page.
    pub nonce: u64,
}

/// One writer's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// The writer's number, below [`TAG_WRITERS`].
    pub writer: u64,
    /// The writer's pattern in this round; the tag of page n is its words 4n to 4n + 3.
    pub seed: u64,
    /// The previous pattern there; its word 0 is the first word of page 0.
    pub sentinel: u64,
}

impl Pages<'_> {
    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.span.bytes >> self.shift
    }

    /// The offset in the memory of a writer's tag in page `page`.
    #[must_use]
    pub const fn place(&self, page: u64, writer: u64) -> u64 {
        let vectors = (1_u64 << self.shift) / TAG;
        let vector = (word(self.nonce, page) as u64 + writer * (vectors / TAG_WRITERS)) % vectors;
        ((page - self.first) << self.shift) + vector * TAG
    }
}

impl Stream {
    /// Writes a tag into each of `pages`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn tag(&self, pages: &Pages<'_>, tags: &Tags) -> Result<(), GpuError> {
        let mut a = (
            pages.span.address,
            pages.count(),
            pages.first,
            pages.shift,
            writer(tags)?,
        );
        let mut b = (pages.nonce, tags.seed);
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut a.4),
            at(&raw mut b.0),
            at(&raw mut b.1),
        ];
        self.launch(
            self.kernels().tag,
            self.grid(pages.count()),
            THREADS,
            &list,
            "fl_tag",
        )
    }

    /// Counts the pages without a right tag, and adds them to `tally`, between its `begin` and `end`. With
    /// `restore` the previous content is restored where the tag is right.
    ///
    /// # Errors
    /// The driver's error.
    pub fn check_tags(
        &self,
        pages: &Pages<'_>,
        tags: &Tags,
        restore: bool,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        let mut a = (
            pages.span.address,
            pages.count(),
            pages.first,
            pages.shift,
            writer(tags)?,
        );
        let mut b = (
            pages.nonce,
            tags.seed,
            tags.sentinel,
            u32::from(restore),
            tally.place().address,
        );
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut a.4),
            at(&raw mut b.0),
            at(&raw mut b.1),
            at(&raw mut b.2),
            at(&raw mut b.3),
            at(&raw mut b.4),
        ];
        self.launch(
            self.kernels().tag_check,
            self.grid(pages.count()),
            THREADS,
            &list,
            "fl_tag_check",
        )
    }
}

fn writer(tags: &Tags) -> Result<u32, GpuError> {
    let place = u32::try_from(tags.writer)
        .ok()
        .filter(|_| tags.writer < TAG_WRITERS);
    place
        .ok_or_else(|| GpuError::Nonsense(format!("no place in a page for writer {}", tags.writer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_writer_has_its_own_place_in_each_page() {
        for shift in [16, 21] {
            let span = Span::fixture(0x1000_0000, 4 << shift);
            let pages = Pages {
                span,
                first: 7,
                shift,
                nonce: 99,
            };
            assert_eq!(pages.count(), 4);
            let places: BTreeSet<_> = (7..11)
                .flat_map(|page| (0..TAG_WRITERS).map(move |w| pages.place(page, w)))
                .collect();
            assert_eq!(places.len(), 4 * 64);
            assert!(
                places
                    .iter()
                    .all(|at| at % TAG == 0 && at + TAG <= span.bytes)
            );
        }
    }

    #[test]
    fn a_tag_has_another_offset_in_the_next_page_and_the_next_round() {
        let span = Span::fixture(0, 8 << 21);
        let at = |nonce, page| {
            Pages {
                span,
                first: 0,
                shift: 21,
                nonce,
            }
            .place(page, 0)
                % (1 << 21)
        };
        assert!(at(1, 0) != at(1, 1) && at(1, 0) != at(2, 0));
    }
}
