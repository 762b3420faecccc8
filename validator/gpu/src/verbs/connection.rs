//! A reliable connection between two regions of two ports.
#![expect(unsafe_code, reason = "calls into libibverbs")]

use super::abi::{
    ACCESS, AhAttr, Completion, GlobalRoute, QpAttr, QpCap, QpInit, READ, RELIABLE, SIGNALED,
    STATES, ScatterGather, SendRequest, WRITE, mask,
};
use super::memory::Region;
use super::port::{MAX_COMPLETIONS, Port};
use super::{Endpoint, Verb, VerbsError};
use std::fmt;
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The most work requests in progress.
const MAX_REQUESTS: u32 = 16;
/// The most reads in progress at the other side; every card supports that many.
const MAX_READS: u8 = 4;
/// The time until a lost packet is sent again: 4.096 us times 2 to this power, 0.54 s.
const TIMEOUT: u8 = 17;
/// How often it is sent again.
const RETRIES: u8 = 7;
/// The receiver-not-ready timer, by its code: 0.64 ms.
const RNR_TIMER: u8 = 12;
/// The hop limit: there may be routers between the ports.
const HOPS: u8 = 64;

/// Transfers of equal size, which cycle through `slots` consecutive slots of both memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Write or read.
    pub verb: Verb,
    /// Bytes of each.
    pub bytes: usize,
    /// The first offset in this side's memory, bytes.
    pub here: usize,
    /// The first offset in the other side's memory, bytes.
    pub there: usize,
    /// How many slots of `bytes` there are.
    pub slots: usize,
}

/// One side of a connection; closed when dropped.
pub struct Connection {
    // Fields are dropped in this order: the queue pair must be first.
    queue_pair: QueuePair,
    region: Region,
    packet: u32,
    other: Option<Endpoint>,
}

struct QueuePair {
    qp: *mut super::abi::Qp,
    port: Rc<Port>,
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made at this port, destroyed once.
        unsafe { (self.port.api.destroy_qp)(self.qp) };
    }
}

impl Connection {
    /// A connection that has no other side yet. `packet` is the number of its first packet, of 24 bits.
    ///
    /// # Errors
    /// The library's error.
    pub fn new(port: &Rc<Port>, region: Region, packet: u32) -> Result<Self, VerbsError> {
        let mut init = QpInit {
            own: ptr::null_mut(),
            send_cq: port.cq,
            recv_cq: port.cq,
            srq: ptr::null_mut(),
            cap: QpCap {
                send: MAX_REQUESTS,
                recv: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                inline: 0,
            },
            kind: RELIABLE,
            signal_all: 0,
        };
        // SAFETY: domain and queue exist.
        let qp = unsafe { (port.api.create_qp)(port.pd, &raw mut init) };
        if qp.is_null() {
            return Err(VerbsError::last(format!("ibv_create_qp on {}", port.name)));
        }
        let queue_pair = QueuePair {
            qp,
            port: Rc::clone(port),
        };
        let access = u32::try_from(ACCESS).unwrap_or_default();
        let attr = QpAttr {
            port: port.number,
            access,
            ..QpAttr::default()
        };
        queue_pair.change(attr, 0, mask::INIT)?;
        Ok(Self {
            queue_pair,
            region,
            packet: packet & 0xff_ffff,
            other: None,
        })
    }

    /// What the other side needs to connect.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        // SAFETY: it exists.
        let number = unsafe { (*self.queue_pair.qp).number };
        let address = self.queue_pair.port.address().clone();
        let (_, key) = self.region.keys();
        let (memory, bytes) = (self.region.address(), self.region.bytes() as u64);
        Endpoint {
            address,
            number,
            packet: self.packet,
            memory,
            key,
            bytes,
        }
    }

    /// Connects to the other side; returns the path's MTU, bytes.
    ///
    /// # Errors
    /// The library's error.
    pub fn connect(&mut self, other: &Endpoint) -> Result<u32, VerbsError> {
        let port = &self.queue_pair.port;
        let mtu = port.address().mtu.min(other.address.mtu);
        let route = |gid: [u8; 16]| GlobalRoute {
            gid,
            index: port.gid_index.unwrap_or_default(),
            hops: HOPS,
            ..GlobalRoute::default()
        };
        let global = other.address.gid.filter(|_| port.gid_index.is_some());
        let ah_attr = AhAttr {
            is_global: u8::from(global.is_some()),
            route: global.map(route).unwrap_or_default(),
            lid: other.address.lid,
            port: port.number,
            ..AhAttr::default()
        };
        let attr = QpAttr {
            path_mtu: mtu,
            peer: other.number,
            rq_psn: other.packet,
            peer_reads: MAX_READS,
            min_rnr_timer: RNR_TIMER,
            ah_attr,
            ..QpAttr::default()
        };
        self.queue_pair.change(attr, 1, mask::RECEIVE)?;
        let (timeout, retries) = (TIMEOUT, RETRIES);
        let attr = QpAttr {
            sq_psn: self.packet,
            timeout,
            retries,
            rnr_retries: RETRIES,
            reads: MAX_READS,
            ..QpAttr::default()
        };
        self.queue_pair.change(attr, 2, mask::SEND)?;
        self.other = Some(other.clone());
        Ok(128u32
            .checked_shl(u32::try_from(mtu).unwrap_or_default())
            .unwrap_or_default())
    }

    /// The memory of this side.
    pub const fn region(&mut self) -> &mut Region {
        &mut self.region
    }

    /// Runs one transfer until it is completed; returns how long it took.
    ///
    /// # Errors
    /// It failed, or was not completed until `due`.
    pub fn transfer(
        &self,
        verb: Verb,
        here: usize,
        there: usize,
        bytes: usize,
        due: Instant,
    ) -> Result<Duration, VerbsError> {
        let begun = Instant::now();
        self.post(verb, here, there, bytes, 0)?;
        self.wait_for_completion(verb, bytes, due)?;
        Ok(begun.elapsed())
    }

    /// Runs transfers for about `long`, at least one through each slot; returns how many, and how long they took.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    pub fn burst(
        &self,
        burst: &Burst,
        long: Duration,
        due: Instant,
    ) -> Result<(u64, Duration), VerbsError> {
        let Burst {
            verb,
            bytes,
            here,
            there,
            slots,
        } = *burst;
        let (begun, slots) = (Instant::now(), slots.max(1));
        let pieces = (0usize..).map_while(|n| {
            let place = (n % slots).saturating_mul(bytes);
            let wanted = n < slots || begun.elapsed() < long;
            wanted.then(|| {
                (
                    here.saturating_add(place),
                    there.saturating_add(place),
                    bytes,
                )
            })
        });
        Ok((self.all(verb, pieces, due)?, begun.elapsed()))
    }

    /// Runs transfers (the offset here, the offset there, bytes), many at the same time; returns how many.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    pub fn all(
        &self,
        verb: Verb,
        pieces: impl Iterator<Item = (usize, usize, usize)>,
        due: Instant,
    ) -> Result<u64, VerbsError> {
        let (mut posted, mut done) = (0u64, 0u64);
        for (here, there, bytes) in pieces {
            if posted - done >= u64::from(MAX_REQUESTS) {
                self.wait_for_completion(verb, bytes, due)?;
                done += 1;
            }
            self.post(verb, here, there, bytes, posted)?;
            posted += 1;
        }
        while done < posted {
            self.wait_for_completion(verb, 0, due)?;
            done += 1;
        }
        Ok(done)
    }

    fn post(
        &self,
        verb: Verb,
        here: usize,
        there: usize,
        bytes: usize,
        id: u64,
    ) -> Result<(), VerbsError> {
        let other = self
            .other
            .as_ref()
            .ok_or_else(|| VerbsError::Missing("the connection has no other side".to_owned()))?;
        self.region.check_range(here, bytes)?;
        let end = (there as u64).checked_add(bytes as u64);
        if end.is_none_or(|end| end > other.bytes) {
            return Err(VerbsError::Bounds(format!(
                "{bytes} bytes at {there} are not inside of {} bytes",
                other.bytes
            )));
        }
        let too_long = |_| VerbsError::Bounds(format!("{bytes} bytes at once"));
        let (lkey, _) = self.region.keys();
        let address = self.region.address().wrapping_add(here as u64);
        let mut sge = ScatterGather {
            address,
            bytes: u32::try_from(bytes).map_err(too_long)?,
            lkey,
        };
        let mut request = SendRequest {
            id,
            next: ptr::null_mut(),
            sg_list: &raw mut sge,
            sge_count: 1,
            opcode: if verb == Verb::Write { WRITE } else { READ },
            flags: SIGNALED,
            immediate: 0,
            remote: other.memory.wrapping_add(there as u64),
            rkey: other.key,
            reserved: [0; 19],
        };
        // SAFETY: the context is open; its table is filled in by the provider.
        let post = unsafe { (*(*self.queue_pair.qp).context).post_send };
        let port = &self.queue_pair.port;
        let post =
            post.ok_or_else(|| VerbsError::Missing(format!("{}: no ibv_post_send", port.name)))?;
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair exists; the provider copies the request; its memory is registered and outlives the queue pair.
        let code = unsafe { post(self.queue_pair.qp, &raw mut request, &raw mut refused) };
        if code == 0 {
            Ok(())
        } else {
            Err(VerbsError::code(
                format!("ibv_post_send of a {verb} on {}", port.name),
                code,
            ))
        }
    }

    fn wait_for_completion(
        &self,
        verb: Verb,
        bytes: usize,
        due: Instant,
    ) -> Result<(), VerbsError> {
        let port = &self.queue_pair.port;
        let what = || match bytes {
            0 => format!("an RDMA {verb} from {}", port.name),
            bytes => format!("an RDMA {verb} of up to {bytes} B from {}", port.name),
        };
        match port.completion(due)? {
            Some(Completion { status: 0, .. }) => Ok(()),
            Some(completion) => Err(VerbsError::Work {
                what: what(),
                why: port.status(&completion),
            }),
            None => Err(VerbsError::Late(what())),
        }
    }
}

impl QueuePair {
    /// Changes the state to `STATES[state]`.
    fn change(&self, mut attr: QpAttr, state: usize, mask: i32) -> Result<(), VerbsError> {
        attr.state = STATES.get(state).copied().unwrap_or_default();
        // SAFETY: it exists; the fields that the mask names are set.
        let code = unsafe { (self.port.api.modify_qp)(self.qp, &raw mut attr, mask) };
        let to = ["INIT", "RTR", "RTS"]
            .get(state)
            .copied()
            .unwrap_or_default();
        if code == 0 {
            Ok(())
        } else {
            Err(VerbsError::code(
                format!("ibv_modify_qp to {to} on {}", self.port.name),
                code,
            ))
        }
    }
}

const _: () = assert!(MAX_REQUESTS as i32 * 2 <= MAX_COMPLETIONS);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("region", &self.region)
            .field("other", &self.other)
            .finish_non_exhaustive()
    }
}
