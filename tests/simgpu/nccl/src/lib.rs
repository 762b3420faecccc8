//! A simulated `libnccl.so.2`: NCCL's names and types in front of the model, whose GPUs and streams the
//! simulated libcuda of the same process holds. What a collective does and takes is the model's; this crate
//! brings ranks together, in one process or several, decides as NCCL does how they reach each other, and says
//! so in NCCL's words. A panic here ends the process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod board;
mod call;
mod comm;
mod driver;
mod dump;
mod environment;
mod group;
mod init;
mod log;
mod relay;
mod transport;

/// Every other name of the interface, so that a program that needs it learns which one it is: a call says
/// the name and ends the process.
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
    ncclCommDeregister
    ncclCommDump
    ncclCommFinalize
    ncclCommGetUniqueId
    ncclCommGrow
    ncclCommInitAllConfig
    ncclCommInitRankConfig
    ncclCommInitRankScalable
    ncclCommMemStats
    ncclCommQueryProperties
    ncclCommRegister
    ncclCommResume
    ncclCommRevoke
    ncclCommShrink
    ncclCommSplit
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
