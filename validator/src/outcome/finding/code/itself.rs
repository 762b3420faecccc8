//! The table's last part: what befalls the validator itself.

macro_rules! itself {
    ([$then:ident $($more:ident)*] $($before:tt)*) => { $then! { [$($more)*] $($before)*

    SysUnreadable "SYS-UNREADABLE"
        means "a file of the machine that a test needs could not be read or understood"
        cause "the kernel lacks that interface, the recording is incomplete, or the right to read it is missing"
        remedy "run as root on the machine itself, or record the machine again"
    TestNotRun "TEST-NOT-RUN"
        means "a mandatory test was left out, so the machine is not proven"
        cause "it was left out by --skip or the configuration"
        remedy "run `firstlight validate` without --skip, and empty validate.only and validate.skip"
    ScopeUnproven "SCOPE-UNPROVEN"
        means "no test could run on what the verdict is to speak of, so nothing is proven about it"
        cause "a recorded machine, whose GPUs are elsewhere, or GPUs without a driver"
        remedy "run on the machine itself with its driver; `firstlight validate --scope fabric` asks for what needs no GPU"
    TestTimeout "TEST-TIMEOUT"
        means "a test did not end within its time"
        cause "the kernel or a device does not answer a read"
        remedy "look at the kernel's log for the device; raise validate.timeout_s on a very slow machine"
    TestCrashed "TEST-CRASHED"
        means "the process that ran a test died or gave no usable answer"
        cause "a fault in firstlight or in a library that it loaded"
        remedy "keep the report with its last lines and report the fault"
    Interrupted "INTERRUPTED"
        means "the run was ended from outside before this test had an answer"
        cause "SIGINT (Ctrl-C) or SIGTERM was sent to `firstlight validate`"
        remedy "run it again and let it end; raise the time limit of whatever ended it"
    ReportUnwritable "REPORT-UNWRITABLE"
        means "the report could not be written, so nobody can read this verdict later"
        cause "the file system is full or read-only, or the folder does not exist"
        remedy "free space, or name another file with --json"

    } };
}
