//! Page-locked host memory. It is real memory that the program under test reads and writes at any time. Of large transfers
//! only the meaning is kept and the memory is made inaccessible ("closed"); on the first access the bytes are generated. So
//! the program always sees real bytes, and a transfer that it never looks at costs nothing.

use crate::Host;
use crate::content::Content;
use crate::extents::{self, Extents, Piece, cut};

/// Granularity in which memory is closed and opened, in bytes.
pub const GRAIN: u64 = 64 << 10;
/// Smaller transfers are always real.
const SMALL: u64 = 4 * GRAIN;

/// One page-locked allocation.
#[derive(Debug, Default)]
pub struct Pinned {
    /// Its size.
    pub bytes: u64,
    /// The contents of the closed parts, by address in whole grains; nothing for open parts.
    closed: Extents,
}

impl Pinned {
    /// New memory, which is open and zero.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            closed: Extents::default(),
        }
    }

    /// The contents of `bytes` bytes from `address` on. Large open parts that were read are closed, since their contents
    /// are known now.
    pub fn read(&mut self, host: &mut dyn Host, address: u64, bytes: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut here = address;
        for (n, known) in self.closed.read(address, bytes) {
            let content = known.unwrap_or_else(|| {
                let content = Content::bytes(host.read(here, n));
                self.close(host, here, n, &content);
                content
            });
            pieces.push((n, Some(content)));
            here += n;
        }
        pieces
    }

    /// Writes `pieces` at `address`.
    pub fn write(&mut self, host: &mut dyn Host, address: u64, pieces: &[Piece]) {
        let mut here = address;
        for (n, content) in pieces {
            let content = content.clone().unwrap_or(Content::ZEROS);
            let (from, to) = self.close(host, here, *n, &content).unwrap_or((here, here));
            for (at, length) in [(here, from - here), (to, here + n - to)] {
                if length > 0 {
                    self.materialize(host, at, length);
                    host.write(
                        at,
                        &extents::bytes(&[(length, Some(content.skip(at - here)))]),
                    );
                }
            }
            here += n;
        }
    }

    /// Makes the content of these bytes, and of the grains around them, real.
    pub fn materialize(&mut self, host: &mut dyn Host, address: u64, bytes: u64) {
        let start = address / GRAIN * GRAIN;
        let end = (address + bytes).next_multiple_of(GRAIN);
        let mut here = start;
        for piece in self.closed.read(start, end - start) {
            if piece.1.is_some() {
                host.open(here, piece.0);
                host.write(
                    here,
                    &extents::bytes(&cut(std::slice::from_ref(&piece), piece.0)),
                );
            }
            here += piece.0;
        }
        self.closed.clear(start, end - start);
    }

    /// Whether an address is closed.
    #[must_use]
    pub fn is_closed(&self, address: u64) -> bool {
        matches!(self.closed.read(address, 1).as_slice(), [(_, Some(_))])
    }

    /// Closes the whole grains of a stretch if there are enough of them, and returns their address range.
    fn close(
        &mut self,
        host: &mut dyn Host,
        address: u64,
        bytes: u64,
        content: &Content,
    ) -> Option<(u64, u64)> {
        let (start, end) = (
            address.next_multiple_of(GRAIN),
            (address + bytes) / GRAIN * GRAIN,
        );
        if end < start + SMALL {
            return None;
        }
        host.close(start, end - start);
        self.closed
            .write(start, end - start, content.skip(start - address));
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Host as Map;

    const BASE: u64 = 1 << 40;

    #[test]
    fn a_large_write_is_closed_and_materialized_on_access() {
        let (mut host, mut pinned) = (Map::default(), Pinned::new(16 * GRAIN));
        let pattern = Content::pattern(5, 0);
        pinned.write(&mut host, BASE + 4, &[(10 * GRAIN, Some(pattern.clone()))]);
        assert!(
            !pinned.is_closed(BASE)
                && pinned.is_closed(BASE + GRAIN)
                && pinned.is_closed(BASE + 9 * GRAIN)
        );
        assert!(!pinned.is_closed(BASE + 10 * GRAIN));
        let all = pinned.read(&mut host, BASE + 4, 10 * GRAIN);
        let mut expected = vec![0; usize::try_from(10 * GRAIN).unwrap()];
        pattern.write(&mut expected);
        assert_eq!(extents::bytes(&all), expected);
        // The program touches a byte, and changes it.
        pinned.materialize(&mut host, BASE + 5 * GRAIN + 7, 1);
        assert!(!pinned.is_closed(BASE + 5 * GRAIN) && pinned.is_closed(BASE + 6 * GRAIN));
        let at = usize::try_from(5 * GRAIN + 3).unwrap();
        assert_eq!(host.read(BASE + 5 * GRAIN + 7, 1), expected[at..=at]);
        host.write(BASE + 5 * GRAIN + 7, &[0xaa]);
        expected[at] = 0xaa;
        assert_eq!(
            extents::bytes(&pinned.read(&mut host, BASE + 4, 10 * GRAIN)),
            expected
        );
    }

    #[test]
    fn small_transfers_are_real() {
        let (mut host, mut pinned) = (Map::default(), Pinned::new(GRAIN));
        pinned.write(&mut host, BASE, &[(4096, Some(Content::Byte(7)))]);
        assert!(!pinned.is_closed(BASE));
        assert_eq!(host.read(BASE + 4095, 2), [7, 0]);
    }

    #[test]
    fn memory_that_was_read_is_closed() {
        let (mut host, mut pinned) = (Map::default(), Pinned::new(8 * GRAIN));
        pinned.read(&mut host, BASE, 8 * GRAIN);
        assert!(pinned.is_closed(BASE));
        pinned.write(&mut host, BASE + 100, &[(4, Some(Content::Byte(1)))]);
        let bytes = extents::bytes(&pinned.read(&mut host, BASE, 200));
        assert_eq!((bytes[99], bytes[100], bytes[104]), (0, 1, 0));
    }
}
