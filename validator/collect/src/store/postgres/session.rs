//! One connection to the server. Each question has a deadline at the server and a later one here, which also holds where the
//! server does not answer at all. After an error the connection is not used again.

use super::tls::Tls;
use crate::store::StoreError;
use crate::store::address::Server;
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

/// How long the server may take for one statement, with waiting for other receivers.
const STATEMENT: Duration = Duration::from_secs(8);
/// How long an answer may take here, and the making of a connection.
const ANSWER: Duration = Duration::from_secs(10);
/// How long an update of the tables may take, or waiting for another receiver that does it.
pub(super) const UPDATE: Duration = Duration::from_secs(600);

/// The parameters of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection. It is worked on only while something is asked, in this thread.
pub(super) struct Session {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    statements: HashMap<String, Statement>,
    answer: Duration,
    lost: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may be dropped where nothing may block.
        self.runtime
            .take()
            .into_iter()
            .for_each(Runtime::shutdown_background);
    }
}

/// An error of the client library in one line.
fn line(error: &Error) -> StoreError {
    let text = match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(one) = cause {
                text += &format!(": {one}");
                cause = one.source();
            }
            text
        }
    };
    StoreError(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether the server ended the connection, or must not be written to: another connection may do better.
fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        // The classes of an operator's intervention and of broken connections, but not a statement that was cancelled; and a
        // transaction that may not write, as on a server that has become a standby.
        Some(said) => {
            let code = said.code().code();
            (code.starts_with("57P") || code.starts_with("08")) || code == "25006"
        }
        None => true,
    }
}

impl Session {
    /// Connects to the server, which must be one that may be written to, and prepares the session.
    ///
    /// # Errors
    /// One line.
    pub(super) fn connect(server: &Server, reading: bool) -> Result<Self, StoreError> {
        let mut config = server.config.clone();
        config
            .application_name("firstlight-collect")
            .connect_timeout(ANSWER / 2)
            .tcp_user_timeout(ANSWER);
        config
            .keepalives_idle(ANSWER)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let late = |_| StoreError(format!("no connection in {} s", ANSWER.as_secs()));
        let client = runtime.block_on(async {
            timeout(ANSWER, async {
                match server.tls.clone() {
                    Some(tls) => started(config.connect::<Tls>(tls).await),
                    None => started(config.connect(NoTls).await),
                }
            })
            .await
            .map_err(late)?
            .map_err(|e| line(&e))
        })?;
        let (runtime, statements) = (Some(runtime), HashMap::new());
        let mut session = Self {
            runtime,
            client,
            statements,
            answer: ANSWER,
            lost: false,
        };
        session.prepare(reading)?;
        Ok(session)
    }

    /// The settings on which the promises of the receiver rest.
    fn prepare(&mut self, reading: bool) -> Result<(), StoreError> {
        let (statement, idle) = (STATEMENT.as_millis(), ANSWER.as_millis());
        self.run(&format!(
            "SET search_path = firstlight; SET client_min_messages = warning; SET statement_timeout = {statement};
             SET lock_timeout = 0; SET idle_in_transaction_session_timeout = {idle};
             SET default_transaction_read_only = {}",
            if reading { "on" } else { "off" }
        ))?;
        let sql =
            "SELECT current_setting('server_encoding'), current_setting('fsync'), current_setting('full_page_writes'),
            current_setting('synchronous_commit')";
        let row = self
            .ask(sql, &[])?
            .into_iter()
            .next()
            .ok_or_else(|| StoreError("it has no settings".to_owned()))?;
        let setting = |at| row.try_get::<_, String>(at).map_err(|e| line(&e));
        if setting(0)? != "UTF8" {
            return Err(StoreError(format!(
                "its encoding is {}, and must be UTF8",
                setting(0)?
            )));
        }
        for (at, name) in [(1, "fsync"), (2, "full_page_writes")] {
            if setting(at)? != "on" {
                return Err(StoreError(format!(
                    "{name} is {}: what it acknowledges could be lost",
                    setting(at)?
                )));
            }
        }
        // An administrator may ask for more, and for less not here.
        if setting(3)? == "remote_apply" {
            Ok(())
        } else {
            self.run("SET synchronous_commit = on")
        }
    }

    /// Whether the connection is over, so that another one may do what this one did not.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// How long answers may take from now on; returns how long they could.
    pub(super) fn wait(&mut self, answer: Duration) -> Duration {
        std::mem::replace(&mut self.answer, answer)
    }

    fn hold<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError("the connection has ended".to_owned()));
        };
        let (client, answer) = (&mut self.client, self.answer);
        match runtime.block_on(async { timeout(answer, work(client)).await }) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                self.lost = is_lost(&error);
                Err(line(&error))
            }
            Err(_) => Err(StoreError(format!("no answer in {} s", answer.as_secs()))),
        }
    }

    /// Runs statements without parameters.
    ///
    /// # Errors
    /// One line.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.hold(async |client| client.batch_execute(sql).await)
    }

    /// Runs one statement, which is prepared once; returns its rows.
    ///
    /// # Errors
    /// One line.
    pub(super) fn ask(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.hold(async |client| client.prepare(sql).await)?;
                self.statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        self.hold(async |client| client.query(&statement, values).await)
    }
}

/// Begins to work on the connection; the client is what it is used by.
fn started<T>(
    made: Result<
        (
            Client,
            tokio_postgres::Connection<tokio_postgres::Socket, T>,
        ),
        Error,
    >,
) -> Result<Client, Error>
where
    T: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    let (client, connection) = made?;
    // Its error is the client's, too.
    drop(tokio::spawn(connection));
    Ok(client)
}
