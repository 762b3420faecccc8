//! The table's last part: what befalls the validator itself.

macro_rules! itself {
    ([$then:ident $($more:ident)*] $($before:tt)*) => { $then! { [$($more)*] $($before)*

    SysUnreadable "SYS-UNREADABLE"
        means "a file of the machine that a test needs could not be read or understood"
        cause "the kernel lacks that interface, the recording is incomplete, or the right to read it is missing"
        remedy "run as root on the machine itself, or record the machine again"
    TestNotRun "TEST-NOT-RUN"
        means "a mandatory test was left out, so the machine is not proven"
        cause "it was left out by --only, --skip or the configuration"
        remedy "run `firstlight validate` without --only and --skip, and empty validate.only and validate.skip"
    TestTimeout "TEST-TIMEOUT"
        means "a test did not end within its time"
        cause "the kernel or a device does not answer a read"
        remedy "look at the kernel's log for the device; raise validate.timeout_s on a very slow machine"
    TestCrashed "TEST-CRASHED"
        means "the process that ran a test died or gave no usable answer"
        cause "a fault in firstlight or in a library that it loaded"
        remedy "keep the report with its last lines and report the fault"
    ReportUnwritable "REPORT-UNWRITABLE"
        means "the report could not be written, so nobody can read this verdict later"
        cause "the file system is full or read-only, or the folder does not exist"
        remedy "free space, or name another file with --json"

    } };
}
