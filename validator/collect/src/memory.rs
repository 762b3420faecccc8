//! How much memory requests may take together, in bytes, whatever the number of processors and of connections. Who needs
//! more waits for it; who holds some while others wait must make use of it.

use crate::refusal::{Refusal, RefusalReason};
use report::MOST_MEMORY;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The unit of permits.
const KIB: usize = 1 << 10;
/// What every connection has for the body of its request without asking.
pub(crate) const FREE: usize = 16 * KIB;
/// Bodies up to this size have memory of their own, so that large ones cannot keep them away.
const SMALL: usize = 512 * KIB;
/// How long a body may take its time although others wait for memory, and the bytes per second that it must bring then.
const GRACE: Duration = Duration::from_millis(500);
const RATE: f64 = 256.0 * 1024.0;

/// Memory of one kind.
#[derive(Debug)]
struct Pool {
    free: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
}

impl Pool {
    fn new(bytes: usize) -> Arc<Self> {
        let all = (bytes / KIB).max(1);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(all)),
            all,
            waiting: AtomicUsize::new(0),
        })
    }

    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(KIB).min(self.all)).ok()?;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(&self.waiting);
        let permit = Arc::clone(&self.free).acquire_many_owned(wanted).await.ok();
        drop(waits);
        permit
    }
}

/// Counts one that waits, even if it gives up.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory of all requests.
#[derive(Debug)]
pub(crate) struct Memory {
    small: Arc<Pool>,
    large: Arc<Pool>,
    parsing: Arc<Pool>,
    responses: Arc<Pool>,
}

/// Memory for one body.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    pool: Arc<Pool>,
    since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Memory {
    /// `all`: bytes together; `largest`: of one body. One body of the largest size always has enough.
    pub(crate) fn new(all: usize, largest: usize) -> Self {
        let part = all / 8;
        Self {
            small: Pool::new(part.max(held(SMALL))),
            large: Pool::new((part * 2).max(held(largest))),
            parsing: Pool::new((part * 4).max(MOST_MEMORY + largest)),
            responses: Pool::new(part.max(largest)),
        }
    }

    /// Memory for a body of this size, until its report is stored.
    ///
    /// # Errors
    /// There is none within this time.
    pub(crate) async fn body(&self, bytes: usize, within: Duration) -> Result<BodyMemory, Refusal> {
        let pool = Arc::clone(if bytes <= SMALL {
            &self.small
        } else {
            &self.large
        });
        let permit = timeout(within, pool.take(held(bytes)))
            .await
            .ok()
            .flatten()
            .ok_or_else(busy)?;
        Ok(BodyMemory {
            pool,
            since: Instant::now(),
            _permit: permit,
        })
    }

    /// Memory in which these bytes are parsed.
    pub(crate) async fn parsing(&self, bytes: &[u8]) -> Option<OwnedSemaphorePermit> {
        self.parsing.take(parsed(bytes)).await
    }

    /// Memory for a stored report of at most this size, until it has been sent.
    ///
    /// # Errors
    /// There is none within this time.
    pub(crate) async fn response(
        &self,
        bytes: usize,
        within: Duration,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        timeout(within, self.responses.take(bytes))
            .await
            .ok()
            .flatten()
            .ok_or_else(busy)
    }
}

impl BodyMemory {
    /// Refuses to wait longer for a slow body while others wait for its memory; `arrived`: its bytes so far.
    ///
    /// # Errors
    /// The body is too slow.
    pub(crate) fn check_rate(&self, arrived: usize) -> Result<(), Refusal> {
        let elapsed = self.since.elapsed();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a body is far smaller than 2^53 bytes"
        )]
        let slow = (arrived as f64) < RATE * elapsed.as_secs_f64();
        let wanted = self.pool.waiting.load(Ordering::Relaxed) > 0;
        if wanted && slow && elapsed > GRACE {
            Err(busy())
        } else {
            Ok(())
        }
    }
}

/// Keeps as much of a permit as this many bytes need.
pub(crate) fn shrink(permit: &mut OwnedSemaphorePermit, bytes: usize) {
    let surplus = permit.num_permits().saturating_sub(bytes.div_ceil(KIB));
    drop(permit.split(surplus));
}

/// A body and what the store compresses it to.
const fn held(bytes: usize) -> usize {
    bytes * 2
}

/// At most how much memory the parsed form of these bytes takes: that of an object, of a key, or of another value where one may
/// begin, and the length of all texts.
fn parsed(bytes: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'{' => 550,
        b':' | b'[' | b',' => 200,
        _ => 0,
    };
    bytes.iter().map(of).sum::<usize>().min(MOST_MEMORY) + bytes.len()
}

fn busy() -> Refusal {
    Refusal::new(RefusalReason::Busy, "too many reports at a time: try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const NOW: Duration = Duration::from_millis(20);

    fn within(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(work);
    }

    #[test]
    fn bodies_take_no_more_than_there_is_and_large_ones_keep_no_small_one_away() {
        within(async {
            let memory = Memory::new(64 << 20, 8 << 20);
            let large = memory.body(8 << 20, SOON).await.unwrap();
            assert_eq!(
                memory.body(1 << 20, NOW).await.unwrap_err().why,
                RefusalReason::Busy
            );
            let small = memory.body(SMALL, SOON).await.unwrap();
            drop((large, small));
            assert!(memory.body(1 << 20, NOW).await.is_ok());
        });
    }

    #[test]
    fn a_slow_body_gives_its_memory_to_another_one_only_where_one_waits() {
        within(async {
            let memory = Memory::new(64 << 20, 8 << 20);
            let mut slow = memory.body(8 << 20, SOON).await.unwrap();
            slow.since = Instant::now().checked_sub(GRACE * 2).unwrap();
            assert!(slow.check_rate(1000).is_ok(), "nobody waits");
            let waits = memory.body(8 << 20, SOON);
            let check = async {
                tokio::time::sleep(NOW).await;
                assert!(slow.check_rate(8 << 20).is_ok(), "it is fast");
                assert_eq!(slow.check_rate(1000).unwrap_err().why, RefusalReason::Busy);
                drop(slow);
            };
            let (got, ()) = tokio::join!(waits, check);
            assert!(got.is_ok());
        });
    }

    #[test]
    fn a_report_is_parsed_in_the_memory_that_its_values_need_at_most() {
        assert_eq!(parsed(b"{\"a\":[1,2],\"b\":3}"), 550 + 5 * 200 + 17);
        assert_eq!(parsed(&b"0,".repeat(1 << 20)), MOST_MEMORY + (2 << 20));
    }
}
