//! Types in the layout of `infiniband/verbs.h`; behind the caller's part of a handle comes what is simulated.

use std::collections::VecDeque;
use std::ffi::{CString, c_int, c_void};
use std::sync::Mutex;

/// `struct ibv_context`
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut Device,
    pub(crate) reserved: [*mut c_void; 11],
    pub(crate) poll: unsafe extern "C" fn(*mut Queue, c_int, *mut Completion) -> c_int,
    pub(crate) reserved_too: [*mut c_void; 13],
    pub(crate) post: unsafe extern "C" fn(*mut Pair, *mut Work, *mut *mut Work) -> c_int,
    pub(crate) rest: [*mut c_void; 15],
}

pub(crate) struct Device {
    pub(crate) name: CString,
}

#[repr(C)]
pub(crate) struct Queue {
    pub(crate) context: *mut Context,
    pub(crate) done: Mutex<VecDeque<Completion>>,
}

#[repr(C)]
pub(crate) struct Pair {
    pub(crate) context: *mut Context,
    pub(crate) reserved: [*mut c_void; 5],
    pub(crate) handle: u32,
    pub(crate) number: u32,
    pub(crate) queue: *mut Queue,
    pub(crate) other: u32,
    pub(crate) posted: u64,
}

#[repr(C)]
pub(crate) struct Registered {
    pub(crate) context: *mut Context,
    pub(crate) domain: *mut c_void,
    pub(crate) address: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct Work {
    pub(crate) id: u64,
    pub(crate) next: *mut Self,
    pub(crate) places: *const Place,
    pub(crate) count: c_int,
    pub(crate) what: c_int,
    pub(crate) flags: u32,
    pub(crate) immediate: u32,
    pub(crate) remote: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) id: u64,
    pub(crate) status: c_int,
    pub(crate) what: c_int,
    pub(crate) vendor: u32,
    pub(crate) bytes: u32,
    pub(crate) reserved: [u32; 6],
}
