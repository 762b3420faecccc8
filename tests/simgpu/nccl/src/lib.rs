//! A simulated `libnccl.so.2`: NCCL's names and types in front of the model, whose GPUs and streams are in the simulated
//! libcuda of the same process. The model decides what a collective does and how long it takes; this crate connects ranks,
//! in one process or several, chooses their transports as NCCL does, and logs them in NCCL's words. A panic here ends the
//! process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod call;
mod comm;
mod driver;
mod dump;
mod environment;
mod group;
mod init;
mod log;
mod register;
mod relay;
mod rendezvous;
mod split;
mod transport;

/// All other names of the interface: a call prints its name and ends the process, which shows which function a program
/// needs.
macro_rules! not_simulated {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            not_simulated(stringify!($name));
        }
    )*};
}

#[expect(clippy::print_stderr, reason = "the last words of the process")]
pub(crate) fn not_simulated(name: &str) -> ! {
    eprintln!("simgpu: {name} is not simulated");
    std::process::abort();
}

not_simulated! {
    ncclBcast
    ncclCommCount
    ncclCommCuDevice
    ncclCommDump
    ncclCommFinalize
    ncclCommGetUniqueId
    ncclCommGrow
    ncclCommInitAllConfig
    ncclCommInitRankConfig
    ncclCommInitRankScalable
    ncclCommMemStats
    ncclCommQueryProperties
    ncclCommResume
    ncclCommRevoke
    ncclCommShrink
    ncclCommSuspend
    ncclCommWindowDeregister
    ncclCommWindowRegister
    ncclDevCommCreate
    ncclDevCommDestroy
    ncclGetUniqueIdScalable
    ncclGroupSimulateEnd
    ncclMemAlloc
    ncclMemFree
    ncclPutSignal
    ncclRedOpCreatePreMulSum
    ncclRedOpDestroy
    ncclResetDebugInit
    ncclSignal
    ncclWaitSignal
    ncclWinGetUserPtr
}
