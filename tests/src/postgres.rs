//! A PostgreSQL server for tests: the installed one of Debian, in a folder of its own, as a user without rights, reached by a
//! Unix socket and the loopback interface. It ends, and its folder is gone, when the test's process ends, however it ends.

use crate::error::output;
use crate::{Error, Result};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Debian's user without rights; the server refuses to run as root.
const NOBODY: u32 = 65534;
/// The password of the user `postgres`, which the server demands on the loopback interface.
pub const PASSWORD: &str = "a password of the tests";

/// A server. Its shell waits for a line or the end of its input, and then stops it.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    dir: TempDir,
    port: u16,
    shell: Option<Child>,
    databases: AtomicUsize,
}

/// The programs of the newest PostgreSQL that is installed.
///
/// # Errors
/// There is none.
pub fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let programs = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists());
    let version = |bin: &PathBuf| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    programs
        .max_by_key(version)
        .ok_or_else(|| failed("it is missing; apt install postgresql"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A command as the server's user.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").env("LC_ALL", "C.UTF-8");
    command
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::Program {
        program: "postgres".to_owned(),
        why: why.to_string(),
    }
}

impl Postgres {
    /// Makes a server with these settings, such as `ssl = on`, and files beside its data, and starts it.
    ///
    /// # Errors
    /// PostgreSQL is missing, or says why not.
    pub fn start(settings: &[&str], files: &[(&str, &str)]) -> Result<Self> {
        let bin = programs()?;
        // In memory where that is possible, since it synchronises each commit; and where its user may enter.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir_in("/tmp"))
            .map_err(failed)?;
        if is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).map_err(failed)?;
        }
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD).map_err(failed)?;
        fs::set_permissions(
            &password,
            std::os::unix::fs::PermissionsExt::from_mode(0o644),
        )
        .map_err(failed)?;
        let mut init = command(&bin.join("initdb"));
        init.args([
            "--no-sync",
            "--no-instructions",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]);
        init.args([
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--pwfile",
        ])
        .arg(&password);
        output(init.arg("--pgdata").arg(dir.path().join("data")))?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .map_err(failed)?
            .port();
        let own = dir.path().display();
        let mut all = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{own}'\nmax_connections = 200\n\
             shared_buffers = 16MB\nlog_min_messages = warning\n"
        );
        settings
            .iter()
            .for_each(|setting| all += &format!("{setting}\n"));
        fs::write(dir.path().join("data/postgresql.auto.conf"), all).map_err(failed)?;
        for (name, text) in files {
            let path = dir.path().join("data").join(name);
            fs::write(&path, text).map_err(failed)?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .map_err(failed)?;
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).map_err(failed)?;
            }
        }
        let mut server = Self {
            bin,
            dir,
            port,
            shell: None,
            databases: AtomicUsize::new(0),
        };
        server.start_again()?;
        Ok(server)
    }

    /// Starts the server after [`Self::stop`].
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_again(&mut self) -> Result<()> {
        // Signals to the whole group, as of a terminal, must not end it before the server.
        let script = "trap '' HUP INT TERM; \"$1/postgres\" -D \"$2/data\" >> \"$2/log\" 2>&1 < /dev/null & server=$!
            end() { kill -s CONT $server; kill -s \"$1\" $server; wait $server; }
            if read -r word; then end \"$word\"; else end QUIT; rm -rf \"$2\"; fi";
        let mut shell = command(Path::new("sh"));
        shell
            .args(["-c", script, "sh"])
            .arg(&self.bin)
            .arg(self.dir.path())
            .stdin(Stdio::piped());
        self.shell = Some(shell.spawn().map_err(failed)?);
        let until = Instant::now() + Duration::from_secs(60);
        while self.sql("postgres", "SELECT 1").is_err() {
            if Instant::now() > until {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                return Err(failed(format!("it does not answer: {log}")));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Stops the server by a signal, `INT` for a shutdown that ends the connections and `QUIT` for one as after a crash;
    /// returns when it has ended.
    pub fn stop(&mut self, signal: &str) {
        if let Some(mut shell) = self.shell.take() {
            if let Some(mut input) = shell.stdin.take() {
                let _sent = writeln!(input, "{signal}");
            }
            let _status = shell.wait();
        }
    }

    /// The ids of the server's process and of those that serve connections of this program.
    ///
    /// # Errors
    /// The server's.
    pub fn serving(&self, program: &str) -> Result<Vec<u32>> {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{program}'");
        let rows = self.sql("postgres", &sql)?;
        Ok(rows.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The id of the server's first process.
    #[must_use]
    pub fn postmaster(&self) -> Option<u32> {
        let file = fs::read_to_string(self.dir.path().join("data/postmaster.pid")).ok()?;
        file.lines().next()?.parse().ok()
    }

    /// Runs SQL in a database; returns its rows.
    ///
    /// # Errors
    /// The server's.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = command(&self.bin.join("psql"));
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            "-U",
            "postgres",
        ]);
        psql.arg("-h").arg(self.dir.path()).args([
            "-p",
            &self.port.to_string(),
            "-d",
            database,
            "-c",
            sql,
        ]);
        output(&mut psql)
    }

    /// Creates a database; returns its name.
    ///
    /// # Errors
    /// The server's.
    pub fn database(&self) -> Result<String> {
        let name = format!("fleet{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// The URL of a database by the Unix socket, which needs no password.
    #[must_use]
    pub fn socket_url(&self, database: &str) -> String {
        format!(
            "postgres:///{database}?host={}&port={}&user=postgres",
            self.dir.path().display(),
            self.port
        )
    }

    /// The URL of a database by the loopback interface, which needs [`PASSWORD`].
    #[must_use]
    pub fn loopback_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The server's folder, which its user owns; `data` in it is the database.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its processes may be stopped where a test failed: these are killed after 5 s.
        self.stop("QUIT");
    }
}
