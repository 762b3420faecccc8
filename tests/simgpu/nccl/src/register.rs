//! Registered memory: NCCL may reach it directly, which changes nothing here but how a call is known to faults.

use crate::comm::Comm;
use crate::log::{Code, Result, code};
use std::ffi::{c_int, c_void};
use std::ptr;

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommRegister(
    comm: *const Comm,
    memory: *mut c_void,
    bytes: usize,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's handle.
    let comm = unsafe { comm.as_ref() };
    let register = || -> Result<()> {
        let (Some(comm), false) = (comm, memory.is_null() || bytes == 0 || handle.is_null()) else {
            return Err(Code::ARGUMENT);
        };
        comm.register(memory.addr() as u64, bytes as u64);
        // SAFETY: it is not null, and the caller guarantees the rest. The address is the handle.
        unsafe { handle.write_unaligned(ptr::without_provenance_mut(memory.addr())) };
        Ok(())
    };
    code(register())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDeregister(comm: *const Comm, handle: *mut c_void) -> c_int {
    // SAFETY: the caller's handle.
    let known = unsafe { comm.as_ref() }.is_some_and(|comm| comm.deregister(handle.addr() as u64));
    code(if known { Ok(()) } else { Err(Code::ARGUMENT) })
}
