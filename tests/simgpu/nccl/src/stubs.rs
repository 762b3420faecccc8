//! Every other name of the interface, so that a program that needs it learns which one it is: a call says
//! the name and ends the process.

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
