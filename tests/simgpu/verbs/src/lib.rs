//! A simulated `libibverbs.so.1`: RDMA cards whose transfers go through a socket between two processes of one host. Their
//! faults are in the scenario next to the library. A panic here ends the process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod memory;
mod work;

use memory::{Completion, CompletionQueue, Context, Device, MemoryRegion, QueuePair, Registration};
use simgpu_model::scenario::{VerbsFault, VerbsKind};
use simgpu_model::{Scenario, library_folder};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};
use work::{Burst, post};

const EINVAL: c_int = 22;
const ETIMEDOUT: c_int = 110;
/// Completion statuses: remote access error, transport retry counter exceeded.
const REMOTE_ACCESS: c_int = 10;
const RETRY_EXCEEDED: c_int = 12;
/// Bytes per microsecond of a card: low enough that other work of the host does not affect the measured rate.
const RATE: u64 = 100;

#[expect(
    clippy::print_stderr,
    reason = "there is no other way to say what is wrong with a scenario"
)]
fn scenario() -> &'static Scenario {
    static READ: OnceLock<Scenario> = OnceLock::new();
    READ.get_or_init(|| {
        library_folder::scenario().unwrap_or_else(|why| {
            eprintln!("simgpu: {why}");
            std::process::abort();
        })
    })
}

/// The faults of this kind that affect a device of this node.
fn faults(kind: Option<VerbsKind>, device: &CStr) -> impl Iterator<Item = &'static VerbsFault> {
    let node = std::env::var("NCCL_HOSTID").ok();
    let device = device.to_string_lossy().into_owned();
    scenario().verbs.fault.iter().filter(move |fault| {
        kind.is_none_or(|kind| fault.kind == kind)
            && fault
                .node
                .as_ref()
                .is_none_or(|name| Some(name) == node.as_ref())
            && fault.device.as_ref().is_none_or(|name| *name == device)
    })
}

fn fail<T>(errno: c_int) -> *mut T {
    // SAFETY: this thread's errno is writable.
    unsafe { *errno_location() = errno };
    std::ptr::null_mut()
}

unsafe extern "C" {
    #[link_name = "__errno_location"]
    safe fn errno_location() -> *mut c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Device {
    let one = |name: &String| {
        Box::into_raw(Box::new(Device {
            name: CString::new(name.as_str()).unwrap_or_default(),
        }))
    };
    let mut all: Vec<_> = scenario().verbs.devices.iter().map(one).collect();
    // SAFETY: the caller's pointer is valid.
    unsafe { *count = c_int::try_from(all.len()).unwrap_or_default() };
    all.push(std::ptr::null_mut());
    Box::leak(all.into_boxed_slice()).as_mut_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(_list: *mut *mut Device) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: a device of the list; devices are never freed.
    unsafe { (*device).name.as_ptr() }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: *mut Device) -> *mut Context {
    let null = std::ptr::null_mut();
    let (reserved, reserved_too, rest) = ([null; 11], [null; 13], [null; 15]);
    Box::into_raw(Box::new(Context {
        device,
        reserved,
        poll,
        reserved_too,
        post,
        rest,
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(_context: *mut Context) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(_context: *mut Context, port: u8, attr: *mut u32) -> c_int {
    if port != 1 {
        return EINVAL;
    }
    // SAFETY: the caller's structure: state ACTIVE, both MTUs 4096; the local identifier.
    unsafe {
        attr.write(4);
        attr.add(1).write(5);
        attr.add(2).write(5);
        attr.byte_add(34).cast::<u16>().write(7);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    _context: *mut Context,
    _port: u8,
    index: c_int,
    gid: *mut [u8; 16],
) -> c_int {
    // SAFETY: the caller's 16 bytes.
    unsafe { gid.write([0; 16]) };
    if index < 8 { 0 } else { -1 }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: *mut Context) -> *mut c_void {
    context.cast()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(_domain: *mut c_void) -> c_int {
    0
}

/// # Safety
/// The domain is a context.
unsafe fn register(
    domain: *mut c_void,
    address: u64,
    bytes: usize,
    gpu: bool,
) -> *mut MemoryRegion {
    let context = domain.cast::<Context>();
    // SAFETY: guaranteed by the caller.
    let device = unsafe { &(*(*context).device).name };
    if faults(Some(VerbsKind::Unregistered), device)
        .any(|fault| fault.gpu.is_none_or(|wanted| wanted == gpu))
    {
        return fail(12);
    }
    let key = memory::add(Registration {
        address,
        bytes: bytes as u64,
        gpu,
    });
    let address = std::ptr::null_mut();
    Box::into_raw(Box::new(MemoryRegion {
        context,
        domain,
        address,
        length: bytes,
        handle: 0,
        lkey: key,
        rkey: key,
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    domain: *mut c_void,
    address: *mut c_void,
    bytes: usize,
    _access: c_int,
) -> *mut MemoryRegion {
    // GPU memory cannot be registered this way, as without nvidia_peermem.
    if memory::access_gpu_memory(address.addr() as u64, &mut [0], false) {
        return fail(14);
    }
    // SAFETY: the caller's domain.
    unsafe { register(domain, address.addr() as u64, bytes, false) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr(
    domain: *mut c_void,
    _offset: u64,
    bytes: usize,
    iova: u64,
    _descriptor: c_int,
    _access: c_int,
) -> *mut MemoryRegion {
    // SAFETY: the caller's domain.
    unsafe { register(domain, iova, bytes, true) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(region: *mut MemoryRegion) -> c_int {
    // SAFETY: `register` created it.
    memory::remove(unsafe { (*region).rkey });
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: *mut Context,
    _size: c_int,
    _own: *mut c_void,
    _channel: *mut c_void,
    _vector: c_int,
) -> *mut CompletionQueue {
    Box::into_raw(Box::new(CompletionQueue {
        context,
        done: Mutex::default(),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(_queue: *mut CompletionQueue) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(
    domain: *mut c_void,
    init: *const *mut CompletionQueue,
) -> *mut QueuePair {
    // SAFETY: the domain is an open context.
    let device = unsafe { &(*(*domain.cast::<Context>()).device).name };
    if work::serve(device).is_err() {
        return fail(98);
    }
    // SAFETY: the caller's structure, whose second field is the queue.
    let queue = unsafe { *init.add(1) };
    let (context, reserved) = (domain.cast(), [std::ptr::null_mut(); 5]);
    let number = std::process::id();
    Box::into_raw(Box::new(QueuePair {
        context,
        reserved,
        handle: 0,
        number,
        queue,
        remote_qp: 0,
        posted: 0,
        burst: Burst::default(),
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(pair: *mut QueuePair, attr: *const u32, _mask: c_int) -> c_int {
    // SAFETY: the caller's structures: the state, and the number of the other queue pair.
    let (state, other, device) =
        unsafe { (*attr, *attr.add(7), &(*(*(*pair).context).device).name) };
    if state == 2 {
        if faults(Some(VerbsKind::NoWay), device).next().is_some() {
            return ETIMEDOUT;
        }
        // SAFETY: as above.
        unsafe { (*pair).remote_qp = other };
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_qp(_pair: *mut QueuePair) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    let text = match status {
        0 => c"success",
        REMOTE_ACCESS => c"remote access error",
        RETRY_EXCEEDED => c"transport retry counter exceeded",
        _ => c"general error",
    };
    text.as_ptr()
}

unsafe extern "C" fn poll(
    queue: *mut CompletionQueue,
    _count: c_int,
    to: *mut Completion,
) -> c_int {
    // SAFETY: the caller's queue.
    let mut done = unsafe { &*queue }
        .done
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let Some(completion) = done.pop_front() else {
        return 0;
    };
    // SAFETY: the caller has room for one completion.
    unsafe { to.write(completion) };
    1
}
