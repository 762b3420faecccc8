//! The receiver of reports: accepts what `firstlight publish` sends, stores it, and shows verdicts by node and by time.
//! [`run`] is the program; the command line is parsed and checked here.

mod answers;
mod connections;
pub mod intake;
mod memory;
mod metrics;
mod order;
mod pages;
pub mod query;
pub mod refusal;
mod request;
mod server;
pub mod store;

use answers::Receiver;
use clap::Parser;
use connections::Most;
use report::mac::Key;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Limits;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::address::Address;
use store::{Database, Rules, Writer};

/// Open files that are no connections.
const OTHER_FILES: u64 = 64;

/// Receives reports of firstlight over HTTP, stores them, and shows verdicts by node and by time
#[derive(Debug, Clone, Parser)]
#[command(name = "firstlight collect", version, max_term_width = 80)]
pub struct Options {
    /// Where to listen; an address that others reach needs --token-file or --key-file, and for reading a token or --open-reading
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8420", value_parser = address)]
    listen: SocketAddr,
    /// The folder of the stored reports, which is created if it is missing; or postgres://USER@HOST:PORT/DATABASE, a
    /// PostgreSQL database, which several receivers may use
    #[arg(long, value_name = "DIR|URL", required_unless_present = "machine_key")]
    store: Option<PathBuf>,
    /// A file with the password of the database's user; without it, PGPASSWORD in the environment is used
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// A file with the token that senders and readers must have: 16 to 256 visible ASCII characters
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with another token, which allows reading only
    #[arg(long, value_name = "FILE")]
    read_token_file: Option<PathBuf>,
    /// Anyone who can reach the address may read
    #[arg(long, conflicts_with = "read_token_file")]
    open_reading: bool,
    /// The key (32 to 4096 bytes) of `publish --key-file`; reports without a correct MAC are refused
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Maximum size of a report, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = largest)]
    max_bytes: u64,
    /// Number of reports to keep per node; default: all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Seconds in which the body of a request must arrive; its head must arrive in 5
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Maximum number of open connections; beyond it, those that have waited longest for their requests are closed
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u16).range(4..=16384))]
    connections: u16,
    /// Maximum number of these from one address (IPv6: one /64 network); 0: no limit, as behind a proxy that you trust
    #[arg(long, value_name = "N", default_value_t = 1536)]
    per_address: u16,
    /// Maximum memory of all requests together, MiB; one report of the largest size always has enough
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..=65536))]
    memory: u32,
    /// Prints the key of the machine with this host name or machine id, made from the key in --key-file, and exits
    #[arg(long, value_name = "NAME", requires = "key_file")]
    machine_key: Option<String>,
}

/// An address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let allowed =
        "allowed: an IP address and a port, such as 127.0.0.1:8420, 0.0.0.0:8420 or [::1]:8420";
    text.parse().map_err(|_| match text.parse::<u16>() {
        Ok(port) => format!("{allowed}; for this port 127.0.0.1:{port}"),
        Err(_) => allowed.to_owned(),
    })
}

/// The maximum size of a report, in bytes.
fn largest(text: &str) -> Result<u64, String> {
    let allowed = "allowed: a number of bytes without a unit, from 1024 to 67108864, such as 8388608 for 8 MiB";
    text.parse()
        .ok()
        .filter(|bytes| (1024..=64 << 20).contains(bytes))
        .ok_or_else(|| allowed.to_owned())
}

/// Why the program exits; one line.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// Something could not be read, opened or done.
    #[error("{0}")]
    Undone(String),
}

/// Who may send and read.
#[derive(Debug, Default)]
struct Secrets {
    /// SHA-256 of the token for sending and reading.
    token: Option<[u8; 32]>,
    /// SHA-256 of the token for reading.
    reading: Option<[u8; 32]>,
    open_reading: bool,
    key: Option<Key>,
}

impl Options {
    /// The file of one machine's key, if that is what was asked for.
    ///
    /// # Errors
    /// The key cannot be read, or the name is invalid.
    pub fn machine_key(&self) -> Result<Option<String>, CollectError> {
        let (Some(name), Some(file)) = (&self.machine_key, &self.key_file) else {
            return Ok(None);
        };
        let key = Key::read(file).map_err(CollectError::Undone)?;
        let own = key
            .of_machine(name)
            .map_err(|why| CollectError::Usage(format!("--machine-key: {why}")))?;
        Ok(own.machine_file())
    }

    /// Where the reports are.
    ///
    /// # Errors
    /// One line, in which no password is.
    fn address(&self) -> Result<Address, CollectError> {
        let store = self
            .store
            .as_deref()
            .ok_or_else(|| CollectError::Usage("--store is missing".to_owned()))?;
        let password = std::env::var_os("PGPASSWORD").filter(|password| !password.is_empty());
        let password = password.as_deref().map(OsStr::as_encoded_bytes);
        Address::parse(store, self.store_password_file.as_deref(), password)
    }

    /// The connections that may be open: fewer if the system allows fewer files.
    fn most(&self) -> Most {
        let wanted = u64::from(self.connections) + OTHER_FILES;
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let more = maximum.map_or(wanted, |maximum| wanted.min(maximum));
        if current.is_some_and(|current| current < more) {
            // Then there are fewer.
            let _ = setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(more),
                    maximum,
                },
            );
        }
        let files = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
        let all = files
            .saturating_sub(OTHER_FILES)
            .clamp(4, u64::from(self.connections));
        Most {
            all: usize::try_from(all).unwrap_or(4),
            per_address: self.per_address.into(),
        }
    }

    /// Reads the secrets, and refuses to listen on a reachable address without them.
    fn secrets(&self) -> Result<Secrets, CollectError> {
        let token = |file: &Option<PathBuf>| file.as_deref().map(token).transpose();
        let secrets = Secrets {
            token: token(&self.token_file)?,
            reading: token(&self.read_token_file)?,
            open_reading: self.open_reading,
            key: self
                .key_file
                .as_deref()
                .map(Key::read)
                .transpose()
                .map_err(CollectError::Undone)?,
        };
        let reached = !self.listen.ip().is_loopback();
        if reached && secrets.token.is_none() && secrets.key.is_none() {
            let line = format!(
                "--listen {}: others could send anything there: give --token-file or --key-file, or listen on 127.0.0.1",
                self.listen
            );
            return Err(CollectError::Usage(line));
        }
        if reached && !secrets.open_reading && secrets.token.is_none() && secrets.reading.is_none()
        {
            let line = format!(
                "--listen {}: others could read all reports there: give --token-file or --read-token-file, or allow it by --open-reading",
                self.listen
            );
            return Err(CollectError::Usage(line));
        }
        Ok(secrets)
    }
}

/// The hash of the token in a file.
fn token(file: &Path) -> Result<[u8; 32], CollectError> {
    let token = report::mac::token(file).map_err(CollectError::Undone)?;
    Ok(Sha256::digest(token).into())
}

/// Receives reports until SIGTERM or SIGINT. `listening` is called with the address when senders can connect.
///
/// # Errors
/// See [`CollectError`].
pub fn run(options: &Options, listening: impl FnOnce(SocketAddr)) -> Result<(), CollectError> {
    let undone = |e: &dyn std::error::Error| CollectError::Undone(e.to_string());
    let secrets = options.secrets()?;
    let store = options.address()?;
    let open = |reading| Database::open(&store, reading).map_err(|e| undone(&e));
    let rules = Rules {
        keep: options.keep,
        signed: secrets.key.is_some(),
    };
    let (writer, thread) = Writer::start(open(false)?, rules).map_err(|e| undone(&e))?;
    let largest = usize::try_from(options.max_bytes).map_err(|e| undone(&e))?;
    let receiver = Receiver::new(
        secrets,
        writer,
        open(true)?,
        (largest, (options.memory as usize) << 20),
    );
    let limits = Limits {
        request: Duration::from_secs(options.timeout),
        most: options.most(),
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Threads that parse and read: more than processors would only take memory.
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(2 * processors + 2)
        .build()
        .map_err(|e| undone(&e))?;
    runtime.block_on(async {
        let named =
            |e: std::io::Error| CollectError::Undone(format!("--listen {}: {e}", options.listen));
        let listener = tokio::net::TcpListener::bind(options.listen)
            .await
            .map_err(named)?;
        let stop = server::stop_signal().map_err(|e| undone(&e))?;
        listening(listener.local_addr().map_err(named)?);
        server::serve(listener, Arc::new(receiver), limits, stop).await;
        Ok(())
    })?;
    // Connections that did not end in time are dropped with the runtime, and the writer with the last of them.
    drop(runtime);
    thread
        .join()
        .map_err(|_| CollectError::Undone("the writer of the store has crashed".to_owned()))
}
