//! The functions of libibverbs, looked up by name once. The crates that wrap rdma-core need its headers, cmake and clang to
//! compile; this needs none of them, and if the library is missing the program starts anyway.
#![expect(
    unsafe_code,
    reason = "functions of a shared library are found by name and called as its header declares them"
)]

use super::VerbsError;
use super::abi::{CStrPtr, Context, Cq, Device, Mr, Pd, PortAttr, Qp, QpAttr, QpInit};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The name under which the loader finds the library.
const LIBRARY: &str = "libibverbs.so.1";

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that firstlight calls, as `infiniband/verbs.h` declares them.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// `None`: libraries before rdma-core 34 do not have it.
            pub(super) reg_dmabuf_mr: Option<RegDmabuf>,
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, VerbsError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the symbol's type is the header's declaration.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol) };
                        *found.map_err(|e| VerbsError::Library(e.to_string()))?
                    },)*
                    // SAFETY: as above.
                    reg_dmabuf_mr: unsafe { library.get::<RegDmabuf>("ibv_reg_dmabuf_mr") }.ok().map(|f| *f),
                })
            }
        }
    };
}

type RegDmabuf = unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;

functions! {
    devices = "ibv_get_device_list" (*mut c_int) -> *mut *mut Device;
    free_devices = "ibv_free_device_list" (*mut *mut Device) -> ();
    device_name = "ibv_get_device_name" (*mut Device) -> CStrPtr;
    open = "ibv_open_device" (*mut Device) -> *mut Context;
    close = "ibv_close_device" (*mut Context) -> c_int;
    query_port = "ibv_query_port" (*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid = "ibv_query_gid" (*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    alloc_pd = "ibv_alloc_pd" (*mut Context) -> *mut Pd;
    dealloc_pd = "ibv_dealloc_pd" (*mut Pd) -> c_int;
    reg_mr = "ibv_reg_mr" (*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr = "ibv_dereg_mr" (*mut Mr) -> c_int;
    create_cq = "ibv_create_cq" (*mut Context, c_int, *mut c_void, *mut c_void, c_int) -> *mut Cq;
    destroy_cq = "ibv_destroy_cq" (*mut Cq) -> c_int;
    create_qp = "ibv_create_qp" (*mut Pd, *mut QpInit) -> *mut Qp;
    modify_qp = "ibv_modify_qp" (*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp = "ibv_destroy_qp" (*mut Qp) -> c_int;
    status_text = "ibv_wc_status_str" (c_int) -> CStrPtr;
}

/// The library's functions; it is loaded at the first call and stays.
pub(super) fn api() -> Result<&'static Api, VerbsError> {
    static LOADED: OnceLock<Result<Api, VerbsError>> = OnceLock::new();
    let load = || {
        // SAFETY: the library's own initializers run; it is never unloaded.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library.map_err(|e| VerbsError::Library(outcome::text::chain(&e)))?;
        Api::find(Box::leak(Box::new(library)))
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}
