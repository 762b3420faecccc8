//! NCCL's log, in its own format on standard output: `NCCL_DEBUG` selects how much and `NCCL_DEBUG_SUBSYS` which
//! subsystems. Also its result codes, their descriptions, and the last warning.

use rustix::stdio::stdout;
use std::env;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// The subsystem of a line.
pub(crate) const INIT: u32 = 1;
pub(crate) const COLL: u32 = 2;
pub(crate) const P2P: u32 = 4;
pub(crate) const SHM: u32 = 8;
pub(crate) const NET: u32 = 16;
pub(crate) const GRAPH: u32 = 32;
pub(crate) const ENV: u32 = 128;
pub(crate) const BOOTSTRAP: u32 = 4096;
/// The names of the subsystems, including some without lines here.
const NAMES: [(&str, u32); 16] = [
    ("INIT", INIT),
    ("COLL", COLL),
    ("P2P", P2P),
    ("SHM", SHM),
    ("NET", NET),
    ("GRAPH", GRAPH),
    ("TUNING", 64),
    ("ENV", ENV),
    ("ALLOC", 256),
    ("CALL", 512),
    ("PROXY", 1024),
    ("NVLS", 2048),
    ("BOOTSTRAP", BOOTSTRAP),
    ("REG", 8192),
    ("PROFILE", 16384),
    ("ALL", u32::MAX),
];

/// The log levels, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LogLevel {
    Nothing,
    Version,
    Warn,
    Info,
}

#[derive(Debug, Clone)]
struct LogSettings {
    level: LogLevel,
    subsystem: u32,
    host: String,
}

fn settings() -> &'static LogSettings {
    static READ: OnceLock<LogSettings> = OnceLock::new();
    READ.get_or_init(|| {
        let word = env::var("NCCL_DEBUG").unwrap_or_default().to_uppercase();
        let level = match word.as_str() {
            "VERSION" => LogLevel::Version,
            "WARN" => LogLevel::Warn,
            "INFO" | "ABORT" | "TRACE" => LogLevel::Info,
            _ => LogLevel::Nothing,
        };
        let subsystem =
            env::var("NCCL_DEBUG_SUBSYS").map_or(INIT | BOOTSTRAP | ENV, |text| subsystems(&text));
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let host = host.split('.').next().unwrap_or_default().to_owned();
        LogSettings {
            level,
            subsystem,
            host,
        }
    })
}

/// A list of subsystem names; one that begins with `^` selects all others.
fn subsystems(text: &str) -> u32 {
    let (inverse, names) = text
        .strip_prefix('^')
        .map_or((false, text), |rest| (true, rest));
    let one = |name: &str| {
        NAMES
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.trim()))
            .map(|(_, m)| *m)
    };
    let mask = names.split(',').filter_map(one).fold(0, |all, m| all | m);
    if inverse { !mask } else { mask }
}

/// Whether `INFO` lines of a subsystem are logged.
pub(crate) fn enabled(subsystem: u32) -> bool {
    settings().level >= LogLevel::Info && settings().subsystem & subsystem != 0
}

/// Logs an `INFO` line of a device.
pub(crate) fn info(subsystem: u32, device: usize, text: &str) {
    if enabled(subsystem) {
        put(&format!("{} NCCL INFO {text}\n", line_prefix(device)));
    }
}

/// Logs the version, which needs a lower level than other lines.
pub(crate) fn version(text: &str) {
    match settings().level {
        LogLevel::Nothing => {}
        LogLevel::Version | LogLevel::Warn => put(&format!("{text}\n")),
        LogLevel::Info => info(INIT, 0, text),
    }
}

/// Logs a warning, and keeps it for ncclGetLastError.
pub(crate) fn warn(device: usize, source: &str, text: &str) {
    set_last_error(text);
    if settings().level >= LogLevel::Warn {
        put(&format!(
            "\n[{}] {} {source} NCCL WARN {text}\n",
            now(),
            line_prefix(device)
        ));
    }
}

/// Prints a line of NCCL's own diagnostics, which no level hides.
pub(crate) fn diagnosis(text: &str) {
    put(&format!(
        "{}:{} NCCL DIAG {text}\n",
        settings().host,
        std::process::id()
    ));
}

/// Logs a line that asks for attention, which NCCL has from 2.32 on.
pub(crate) fn attention(device: usize, source: &str, text: &str) {
    if settings().level >= LogLevel::Warn {
        put(&format!(
            "{} {source} NCCL ATTN {text}\n",
            line_prefix(device)
        ));
    }
}

/// `HOST:PROCESS:THREAD [DEVICE]`.
fn line_prefix(device: usize) -> String {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    format!(
        "{}:{}:{thread} [{device}]",
        settings().host,
        std::process::id()
    )
}

/// Writes complete lines, each in one call, since other processes write to the same file.
fn put(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let Ok(written) = rustix::io::write(stdout(), rest) else {
            return;
        };
        rest = rest.get(written..).unwrap_or_default();
    }
}

/// Date and time, as NCCL writes them before warnings.
fn now() -> String {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (days, second) = (since / 86_400, since % 86_400);
    // Counted in years that begin in March, so that the leap day is the last one (Howard Hinnant's civil_from_days).
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (d, m) = (
        day - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let y = year + era * 400 + u64::from(m <= 2);
    format!(
        "{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// A result code, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// The result of a call.
pub(crate) type Result<T> = core::result::Result<T, Code>;

impl Code {
    pub(crate) const CUDA: Self = Self(1);
    pub(crate) const SYSTEM: Self = Self(2);
    pub(crate) const INTERNAL: Self = Self(3);
    pub(crate) const ARGUMENT: Self = Self(4);
    pub(crate) const USAGE: Self = Self(5);
}

/// A result as a C return code.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// The text of the last warning.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

/// Keeps a warning's text.
pub(crate) fn set_last_error(text: &str) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(text).ok();
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_comm: *const c_void) -> *const c_char {
    // Each text is leaked on purpose, since the caller may keep the pointer.
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    last.map_or(c"".as_ptr(), |text| text.into_raw().cast_const())
}
