//! `--store`: a folder of this machine, or a PostgreSQL server. No line of this file shows a password, and none shows a text
//! that may contain one.

use super::postgres::tls::Tls;
use crate::CollectError;
use outcome::files::secret;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// What the URL of a server looks like.
const FORM: &str = "postgres://USER@HOST:PORT/DATABASE";
/// The parameters of the URL that the client library reads; those of TLS are read here.
const PARAMETERS: [&str; 4] = ["host", "port", "user", "dbname"];
/// Maximum size of a file with a password or with certificates, bytes.
const LARGEST: u64 = 1 << 20;

/// Where the reports are.
#[derive(Debug, Clone)]
pub enum Address {
    /// The folder of a SQLite database.
    Folder(PathBuf),
    /// A PostgreSQL server.
    Server(Box<Server>),
}

/// A PostgreSQL server, its database, and how it is reached.
#[derive(Debug, Clone)]
pub struct Server {
    pub(super) config: Config,
    /// `None`: plain text, on this machine or where the user says so.
    pub(super) tls: Option<Tls>,
    /// The URL without anything secret, for errors.
    pub(super) name: String,
}

/// Why the address is not used; one line without its text.
fn refused(why: &str) -> CollectError {
    CollectError::Usage(format!("--store: {why}"))
}

/// The password in a file.
fn password_in(file: &Path) -> Result<Vec<u8>, CollectError> {
    let named = |why: String| CollectError::Undone(format!("{}: {why}", file.display()));
    let mut bytes = secret(file, LARGEST).map_err(named)?;
    bytes.truncate(bytes.trim_ascii_end().len());
    if bytes.is_empty() {
        Err(named("no password, allowed: one line".to_owned()))
    } else {
        Ok(bytes)
    }
}

impl Address {
    /// Parses what `--store` has; `password_file` is the file with the password of the database's user, and `password` the one
    /// that is used without a file.
    ///
    /// # Errors
    /// One line, in which no secret is: the text is refused, or a file cannot be used.
    pub fn parse(
        text: &Path,
        password_file: Option<&Path>,
        password: Option<&[u8]>,
    ) -> Result<Self, CollectError> {
        let Some((scheme, rest)) = text.to_str().and_then(|text| text.split_once("://")) else {
            return match password_file {
                None => Ok(Self::Folder(text.to_owned())),
                Some(_) => {
                    let line = "--store-password-file is for a --store that is a PostgreSQL server";
                    Err(CollectError::Usage(line.to_owned()))
                }
            };
        };
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err(refused(&format!(
                "no kind of store that is known; allowed: a folder, or {FORM}"
            )));
        }
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters = parameters.split('&').filter(|part| !part.is_empty());
        let parameters: Vec<_> = parameters
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        if place
            .rsplit_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
            || parameters.iter().any(|(key, _)| *key == "password")
        {
            let line = "a password in it could be read by all users of this machine: give --store-password-file FILE, or PGPASSWORD in the environment";
            return Err(refused(line));
        }
        let (mut url, mut mode, mut authority) = (format!("postgres://{place}?"), None, None);
        for (key, value) in parameters {
            match key {
                "sslmode" => mode = Some(value),
                "sslrootcert" => authority = Some(Path::new(value)),
                _ if PARAMETERS.contains(&key) => url += &format!("{key}={value}&"),
                _ => {
                    let allowed = PARAMETERS.join(", ");
                    return Err(refused(&format!(
                        "a parameter that is not known; allowed: {allowed}, sslmode, sslrootcert"
                    )));
                }
            }
        }
        let not_understood = || {
            refused(&format!(
                "not understood; allowed: {FORM}, or {FORM}?host=/run/postgresql"
            ))
        };
        let mut config: Config = url.parse().map_err(|_| not_understood())?;
        if config.get_hosts().is_empty() {
            let line = format!(
                "no host; allowed: {FORM}, or postgres:///DATABASE?host=/run/postgresql for a Unix socket"
            );
            return Err(refused(&line));
        }
        let tls = tls(&config, mode, authority)?;
        config.ssl_mode(if tls.is_some() {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        if let Some(file) = password_file {
            config.password(password_in(file)?);
        } else if let Some(password) = password {
            config.password(password);
        }
        let name = name(&config);
        Ok(Self::Server(Box::new(Server { config, tls, name })))
    }
}

/// Whether the host is this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

/// The TLS that the connection must have; never plain text to another machine, unless the user says so.
fn tls(
    config: &Config,
    mode: Option<&str>,
    authority: Option<&Path>,
) -> Result<Option<Tls>, CollectError> {
    let here = config.get_hosts().iter().all(is_here);
    match (mode, authority) {
        (None, None) if !here => {
            let line = "the database is on another machine: give sslmode=verify-full&sslrootcert=FILE, or sslmode=disable where nobody else can listen";
            Err(refused(line))
        }
        (Some("disable") | None, None) => Ok(None),
        (Some("disable"), Some(_)) => Err(refused("sslrootcert is for sslmode=verify-full")),
        (Some("require" | "verify-full"), None) => Err(refused(
            "sslmode=require and verify-full need sslrootcert=FILE, the certificates of those who sign the server's",
        )),
        (Some("require" | "verify-full") | None, Some(file)) => {
            if config
                .get_hosts()
                .iter()
                .any(|host| matches!(host, Host::Unix(_)))
            {
                return Err(refused(
                    "a Unix socket has no TLS: leave out sslmode and sslrootcert",
                ));
            }
            let named = |why: String| {
                CollectError::Undone(format!("--store: sslrootcert {}: {why}", file.display()))
            };
            secret(file, LARGEST)
                .and_then(|pem| Tls::new(&pem))
                .map(Some)
                .map_err(named)
        }
        (Some(_), _) => Err(refused(
            "sslmode: allowed: disable, require, verify-full; the last two are the same here",
        )),
    }
}

/// The address without anything secret.
fn name(config: &Config) -> String {
    let user = config
        .get_user()
        .map_or_else(String::new, |user| format!("{user}@"));
    let port = |at: usize| {
        config
            .get_ports()
            .get(at)
            .or_else(|| config.get_ports().first())
            .copied()
            .unwrap_or(5432)
    };
    let host = |(at, host): (usize, &Host)| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port(at)),
        Host::Tcp(name) => format!("{name}:{}", port(at)),
        Host::Unix(path) => format!("{}:{}", path.display(), port(at)),
    };
    let hosts: Vec<_> = config.get_hosts().iter().enumerate().map(host).collect();
    format!(
        "postgres://{user}{}/{}",
        hosts.join(","),
        config.get_dbname().unwrap_or("")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Address, String> {
        Address::parse(Path::new(text), None, Some(b"from-the-environment"))
            .map_err(|e| e.to_string())
    }

    fn server(text: &str) -> Box<Server> {
        match parsed(text) {
            Ok(Address::Server(server)) => server,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn urls_are_servers_and_everything_else_is_a_folder() {
        for text in ["/var/lib/firstlight", "store", "./postgres:/x", "postgres"] {
            assert!(
                matches!(parsed(text), Ok(Address::Folder(dir)) if dir == Path::new(text)),
                "{text}"
            );
        }
        for (text, name) in [
            (
                "postgres://fl@localhost:5433/reports",
                "postgres://fl@localhost:5433/reports",
            ),
            (
                "postgresql://fl@127.0.0.1/reports",
                "postgres://fl@127.0.0.1:5432/reports",
            ),
            (
                "postgres://fl@[::1]:5433/reports",
                "postgres://fl@[::1]:5433/reports",
            ),
            (
                "postgres:///reports?host=/run/postgresql&user=fl",
                "postgres://fl@/run/postgresql:5432/reports",
            ),
            (
                "postgres://fl@%2Frun%2Fpg:5433/reports",
                "postgres://fl@/run/pg:5433/reports",
            ),
            (
                "postgres://fl@db1,db2:5433/r?sslmode=disable",
                "postgres://fl@db1:5432,db2:5433/r",
            ),
        ] {
            let server = server(text);
            assert_eq!(server.name, name);
            assert!(
                server.tls.is_none() && server.config.get_ssl_mode() == SslMode::Disable,
                "{text}"
            );
            assert_eq!(
                server.config.get_password(),
                Some(&b"from-the-environment"[..])
            );
            assert!(!format!("{server:?}").contains("from-the"), "{server:?}");
        }
    }

    #[test]
    fn what_is_refused_shows_no_secret_and_never_becomes_plain_text() {
        for (text, says) in [
            ("mysql://u:secret@h/d", "allowed: a folder, or postgres://"),
            ("postgres://u:secret@localhost/d", "--store-password-file"),
            ("postgres://u:sec/ret@localhost/d", "--store-password-file"),
            ("postgres://u:sec@ret@localhost/d", "--store-password-file"),
            (
                "postgres://u@localhost/d?password=secret",
                "--store-password-file",
            ),
            (
                "postgres://u:123?secret@localhost/d",
                "a parameter that is not known",
            ),
            ("postgres://localhost:secret/d", "not understood"),
            ("postgres:///d", "no host"),
            ("postgres://u@db/d", "on another machine"),
            ("postgres://u@localhost,db/d", "on another machine"),
            ("postgres://u@db/d?sslmode=require", "need sslrootcert"),
            (
                "postgres://u@localhost/d?sslmode=verify-full",
                "need sslrootcert",
            ),
            (
                "postgres://u@db/d?sslmode=prefer",
                "allowed: disable, require, verify-full",
            ),
            (
                "postgres://u@db/d?sslmode=disable&sslrootcert=/x",
                "sslrootcert is for",
            ),
            (
                "postgres://u@db/d?sslrootcert=/none",
                "--store: sslrootcert /none: ",
            ),
            (
                "postgres:///d?host=/run/x&sslrootcert=/x",
                "a Unix socket has no TLS",
            ),
            (
                "postgres://u@localhost/d?options=-csynchronous_commit%3Doff",
                "a parameter that is not known",
            ),
        ] {
            let line = parsed(text).unwrap_err();
            assert!(
                line.contains(says) && !line.contains("sec") && line.lines().count() == 1,
                "{text}: {line}"
            );
        }
    }

    #[test]
    fn a_password_is_the_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let parse = |text: &str| {
            Address::parse(Path::new(text), Some(&file), Some(b"other")).map_err(|e| e.to_string())
        };
        std::fs::write(&file, "s p\u{e4}ce\n").unwrap();
        let Ok(Address::Server(server)) = parse("postgres://u@localhost/d") else {
            panic!("no server")
        };
        assert_eq!(server.config.get_password(), Some("s p\u{e4}ce".as_bytes()));
        assert!(
            parse("/folder")
                .unwrap_err()
                .contains("is for a --store that is a PostgreSQL server")
        );
        std::fs::write(&file, "\n").unwrap();
        assert!(
            parse("postgres://u@localhost/d")
                .unwrap_err()
                .ends_with("password: no password, allowed: one line")
        );
    }
}
