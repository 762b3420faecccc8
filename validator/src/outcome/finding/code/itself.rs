//! Findings about the validator itself, and those that the appliance's process 1 makes ([`contract::outcome::code`]).

macro_rules! itself {
    ([$then:ident $($more:ident)*] $($before:tt)*) => { $then! { [$($more)*] $($before)*

    SysUnreadable "SYS-UNREADABLE"
        means "a system file that a test needs could not be read or parsed"
        cause "the kernel lacks that interface, the recording is incomplete, or the process lacks permission"
        remedy "run as root on the machine itself; for a recording, record the machine again as root"
    TestNotRun "TEST-NOT-RUN"
        means "a mandatory test was not run, so the machine is not proven"
        cause "it was skipped by --skip or the configuration"
        remedy "run `firstlight validate` without --skip, and leave validate.only and validate.skip empty"
    ScopeUnproven "SCOPE-UNPROVEN"
        means "no test within the scope of the verdict could run, so nothing is proven"
        cause "a machine in files, whose GPUs are not here, or GPUs without a driver"
        remedy "run on the machine itself with its driver; `firstlight validate --scope fabric` needs no GPU"
    TestTimeout "TEST-TIMEOUT"
        means "a test did not finish within its time limit"
        cause "the kernel or a device does not answer a read"
        remedy "check the kernel log for the device; on a very slow machine, raise validate.timeout_s"
    TestCrashed "TEST-CRASHED"
        means "the process that ran a test died or returned no usable result"
        cause "a fault in firstlight or in a library that it loaded"
        remedy "keep the report with its last log lines and report the fault"
    Interrupted "INTERRUPTED"
        means "the run was ended from outside before this test had a result"
        cause "SIGINT (Ctrl-C) or SIGTERM was sent to `firstlight validate`"
        remedy "run it again and let it finish; if a time limit ended it, raise that limit"
    ReportUnwritable "REPORT-UNWRITABLE"
        means "the report could not be written, so this verdict cannot be read later"
        cause "the file system is full or read-only, or the folder does not exist"
        remedy "free space, or write to another file with --json FILE"
    WatchdogNone "WATCHDOG-NONE"
        means "the configuration demands a watchdog, but none can be used"
        cause "the machine has none, the firmware switched it off, or its driver is not in the image"
        remedy "switch the watchdog (TCO, WDT) on in the firmware setup, or set watchdog.mode = \"auto\""
    ResetDuring "RESET-DURING"
        means "an earlier boot was reset during a step, which is not run since, nor the steps after it; the cause names the step"
        cause "the step hung or reset the machine; or the power was cut or the reset button pressed meanwhile"
        remedy "read what the last finding says; then run `firstlight reset clear` or boot once with firstlight.reset=clear"

    } };
}
