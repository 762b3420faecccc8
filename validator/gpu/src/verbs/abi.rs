//! Types of libibverbs in the layout of `infiniband/verbs.h` (rdma-core; the same since ABI `IBVERBS_1.1`). Posting and
//! polling are inline functions there: they call the provider through the table in [`Context`].

use std::ffi::{c_char, c_int, c_void};

/// `struct ibv_device`: a device that is not open; only libibverbs accesses its fields.
pub(super) type Device = c_void;
/// `struct ibv_pd`: a protection domain; only libibverbs accesses its fields.
pub(super) type Pd = c_void;

/// `struct ibv_context`: an open device.
#[repr(C)]
pub(super) struct Context {
    device: *mut Device,
    reserved: [*mut c_void; 11],
    /// Removes completions from a queue; returns their number, or an error below 0.
    pub(super) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Completion) -> c_int>,
    reserved_too: [*mut c_void; 13],
    /// Queues work; returns 0, or an errno.
    pub(super) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendRequest, *mut *mut SendRequest) -> c_int>,
}

/// `struct ibv_cq`: a completion queue.
#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

/// `struct ibv_qp`: a queue pair.
#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    reserved: [*mut c_void; 5],
    handle: u32,
    pub(super) number: u32,
}

/// `struct ibv_mr`: registered memory.
#[repr(C)]
pub(super) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `struct ibv_port_attr`; the library may fill in more than its old fields.
#[repr(C)]
#[derive(Default)]
pub(super) struct PortAttr {
    pub(super) state: c_int,
    pub(super) max_mtu: c_int,
    pub(super) active_mtu: c_int,
    gid_table: c_int,
    flags: u32,
    max_message: u32,
    bad_pkeys: u32,
    qkey_violations: u32,
    pkey_table: u16,
    pub(super) lid: u16,
    reserved: [u64; 16],
}

/// `struct ibv_qp_init_attr`
#[repr(C)]
pub(super) struct QpInit {
    pub(super) own: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: QpCap,
    pub(super) kind: c_int,
    pub(super) signal_all: c_int,
}

/// `struct ibv_qp_cap`
#[repr(C)]
#[derive(Default)]
pub(super) struct QpCap {
    pub(super) send: u32,
    pub(super) recv: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) inline: u32,
}

/// `struct ibv_qp_attr`
#[repr(C)]
#[derive(Default)]
pub(super) struct QpAttr {
    pub(super) state: c_int,
    pub(super) old_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) migration: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) peer: u32,
    pub(super) access: u32,
    pub(super) cap: QpCap,
    pub(super) ah_attr: AhAttr,
    pub(super) alternate_ah_attr: AhAttr,
    pub(super) pkey_index: u16,
    pub(super) alternate_pkey: u16,
    pub(super) notify: u8,
    pub(super) draining: u8,
    pub(super) reads: u8,
    pub(super) peer_reads: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port: u8,
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    pub(super) alternate_port: u8,
    pub(super) alternate_timeout: u8,
    pub(super) rate_limit: u32,
}

/// `struct ibv_ah_attr`
#[repr(C)]
#[derive(Default)]
pub(super) struct AhAttr {
    pub(super) route: GlobalRoute,
    pub(super) lid: u16,
    pub(super) level: u8,
    pub(super) path_bits: u8,
    pub(super) rate: u8,
    pub(super) is_global: u8,
    pub(super) port: u8,
}

/// `struct ibv_global_route`
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct GlobalRoute {
    pub(super) gid: [u8; 16],
    pub(super) flow: u32,
    pub(super) index: u8,
    pub(super) hops: u8,
    pub(super) class: u8,
}

/// `struct ibv_sge`
#[repr(C)]
pub(super) struct ScatterGather {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`
#[repr(C)]
pub(super) struct SendRequest {
    pub(super) id: u64,
    pub(super) next: *mut Self,
    pub(super) sg_list: *mut ScatterGather,
    pub(super) sge_count: c_int,
    pub(super) opcode: c_int,
    pub(super) flags: u32,
    pub(super) immediate: u32,
    pub(super) remote: u64,
    pub(super) rkey: u32,
    pub(super) reserved: [u32; 19],
}

/// `struct ibv_wc`
#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: c_int,
    opcode: c_int,
    pub(super) vendor: u32,
    bytes: u32,
    reserved: [u32; 6],
}

/// Fields of [`QpAttr`] that a change of state sets (`enum ibv_qp_attr_mask`).
pub(super) mod mask {
    use std::ffi::c_int;

    const STATE: c_int = 1;
    const ACCESS: c_int = 1 << 3;
    const PKEY: c_int = 1 << 4;
    const PORT: c_int = 1 << 5;
    const AH_ATTR: c_int = 1 << 7;
    const MTU: c_int = 1 << 8;
    const TIMEOUT: c_int = 1 << 9;
    const RETRIES: c_int = 1 << 10;
    const RNR_RETRIES: c_int = 1 << 11;
    const RQ_PSN: c_int = 1 << 12;
    const READS: c_int = 1 << 13;
    const RNR_TIMER: c_int = 1 << 15;
    const SQ_PSN: c_int = 1 << 16;
    const PEER_READS: c_int = 1 << 17;
    const PEER: c_int = 1 << 20;

    pub(in super::super) const INIT: c_int = STATE | PKEY | PORT | ACCESS;
    pub(in super::super) const RECEIVE: c_int =
        STATE | AH_ATTR | MTU | PEER | RQ_PSN | PEER_READS | RNR_TIMER;
    pub(in super::super) const SEND: c_int =
        STATE | TIMEOUT | RETRIES | RNR_RETRIES | SQ_PSN | READS;
}

/// States of a queue pair: initialized, ready to receive, ready to send.
pub(super) const STATES: [c_int; 3] = [1, 2, 3];
/// `IBV_QPT_RC`: a reliable connection.
pub(super) const RELIABLE: c_int = 2;
/// `IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_READ`
pub(super) const WRITE: c_int = 0;
pub(super) const READ: c_int = 4;
/// `IBV_SEND_SIGNALED`: the request reports its completion.
pub(super) const SIGNALED: u32 = 2;
/// Local write, remote write, remote read.
pub(super) const ACCESS: c_int = 1 | 2 | 4;
/// `IBV_PORT_ACTIVE`
pub(super) const ACTIVE: c_int = 4;

/// A NUL-terminated string of the library.
pub(super) type CStrPtr = *const c_char;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_layout_is_that_of_verbs_h() {
        assert_eq!(
            (offset_of!(Context, poll_cq), offset_of!(Context, post_send)),
            (96, 208)
        );
        assert_eq!(
            (
                offset_of!(Qp, number),
                offset_of!(Mr, lkey),
                offset_of!(Mr, rkey)
            ),
            (52, 36, 40)
        );
        assert_eq!(
            (offset_of!(PortAttr, active_mtu), offset_of!(PortAttr, lid)),
            (8, 34)
        );
        assert!(size_of::<PortAttr>() >= 64);
        assert_eq!((size_of::<QpInit>(), offset_of!(QpInit, kind)), (64, 52));
        assert_eq!(
            (
                size_of::<QpAttr>(),
                size_of::<AhAttr>(),
                size_of::<GlobalRoute>()
            ),
            (144, 32, 24)
        );
        assert_eq!(
            (offset_of!(QpAttr, ah_attr), offset_of!(QpAttr, pkey_index)),
            (56, 120)
        );
        assert_eq!(
            (offset_of!(QpAttr, peer), offset_of!(QpAttr, access)),
            (28, 32)
        );
        assert_eq!(
            (offset_of!(QpAttr, reads), offset_of!(QpAttr, rnr_retries)),
            (126, 132)
        );
        assert_eq!(
            (
                offset_of!(AhAttr, lid),
                offset_of!(AhAttr, is_global),
                offset_of!(AhAttr, port)
            ),
            (24, 29, 30)
        );
        assert_eq!(
            (
                offset_of!(GlobalRoute, index),
                offset_of!(GlobalRoute, hops)
            ),
            (20, 21)
        );
        assert_eq!(
            (
                size_of::<SendRequest>(),
                offset_of!(SendRequest, remote),
                offset_of!(SendRequest, rkey)
            ),
            (128, 40, 48)
        );
        assert_eq!(
            (size_of::<ScatterGather>(), size_of::<Completion>()),
            (16, 48)
        );
        assert_eq!(
            (
                offset_of!(Completion, status),
                offset_of!(Completion, vendor)
            ),
            (8, 16)
        );
    }
}
