//! Streams and events.

use crate::state::{Handle, HandleKind, unwrap, wrap};
use crate::state::{call, current, current_alive, put, stream};
use simgpu_model::Status;
use std::ffi::{c_int, c_uint};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(handle: *mut Handle, _flags: c_uint) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        let id = driver.engine.add_stream(gpu);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Stream, id)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(handle: Handle) -> c_int {
    call(|driver| {
        let gpu = current(driver)?;
        driver
            .engine
            .drop_stream(unwrap(HandleKind::Stream, handle)?)?;
        driver.engine.check_alive(gpu)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(handle: Handle, context: *mut Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        let gpu = driver.engine.gpu_of(id)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(context, wrap(HandleKind::Context, gpu as u64)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(handle: Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        driver.engine.query(id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(handle: Handle, event: Handle, _flags: c_uint) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        driver.engine.wait(unwrap(HandleKind::Event, event)?, id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(handle: Handle, mode: c_uint) -> c_int {
    call(|driver| {
        if handle == 0 || mode > 2 {
            return Err(Status::INVALID_VALUE);
        }
        let id = stream(driver, handle)?;
        driver.engine.begin_capture(id)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(handle: Handle, graph: *mut Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        let made = driver.engine.end_capture(id)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(graph, wrap(HandleKind::Graph, made)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    exec: *mut Handle,
    graph: Handle,
    flags: u64,
) -> c_int {
    call(|driver| {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let made = driver
            .engine
            .copy_graph(unwrap(HandleKind::Graph, graph)?)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(exec, wrap(HandleKind::Exec, made)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(exec: Handle, handle: Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        driver
            .engine
            .launch_graph(unwrap(HandleKind::Exec, exec)?, id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(exec: Handle) -> c_int {
    call(|driver| driver.engine.drop_graph(unwrap(HandleKind::Exec, exec)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> c_int {
    call(|driver| driver.engine.drop_graph(unwrap(HandleKind::Graph, graph)?))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(handle: *mut Handle, _flags: c_uint) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        let id = driver.engine.add_event(gpu);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Event, id)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, handle: Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, handle)?;
        driver.engine.record(unwrap(HandleKind::Event, event)?, id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> c_int {
    call(|driver| driver.engine.query_event(unwrap(HandleKind::Event, event)?))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> c_int {
    call(|driver| {
        let (start, end) = (
            unwrap(HandleKind::Event, start)?,
            unwrap(HandleKind::Event, end)?,
        );
        if driver.engine.event_gpu(start)? != driver.engine.event_gpu(end)? {
            return Err(Status::INVALID_HANDLE);
        }
        let took = driver.engine.elapsed(start, end)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the interface has 32 bits for it"
        )]
        let took = (took / 1e6) as f32;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(milliseconds, took) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> c_int {
    call(|driver| driver.engine.drop_event(unwrap(HandleKind::Event, event)?))
}
