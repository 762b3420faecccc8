//! The store of a fleet: a database of a PostgreSQL server, which several receivers may use at a time. Each has one connection
//! that writes and one that reads. What reads and then writes holds a lock of the report and of its node, so that several
//! receivers do what one would do.

mod rows;
mod session;
mod tables;
pub(super) mod tls;

use super::address::Server;
use super::{NewReport, PutResult, Rules, StoreError, other_version, put_one};
use crate::query::Rows;
use report::mac::digest;
use session::Session;
use std::time::{Duration, Instant};
use tables::{Begun, STEPS, TABLES_LOCK};

/// How long a failure must have taken, so that nobody else who waited for it tries as long.
const SLOW: Duration = Duration::from_secs(1);
/// How long a transaction may take in which no more reports are stored.
const ENOUGH: Duration = Duration::from_secs(5);

/// The version of the tables: that of the last step.
fn version() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// A database of a server, and the connection to it, which is made again where it was lost.
#[derive(Debug)]
pub struct Database {
    server: Server,
    reading: bool,
    session: Option<Session>,
    /// When it last failed slowly, and why.
    failed: Option<(Instant, StoreError)>,
}

impl Database {
    /// Connects to the server, and creates or updates the tables unless it is for reading.
    ///
    /// # Errors
    /// One line with the server's name.
    pub(super) fn open(server: Server, reading: bool) -> Result<Self, StoreError> {
        let mut db = Self {
            server,
            reading,
            session: None,
            failed: None,
        };
        db.with(|_| Ok(()))?;
        Ok(db)
    }

    /// As [`super::Database::refuses`].
    pub(super) fn refuses(&self, since: Instant) -> Option<StoreError> {
        self.failed
            .as_ref()
            .filter(|(when, _)| *when >= since)
            .map(|(_, why)| why.clone())
    }

    /// Stores reports in one transaction: fewer of them where the server is slow, and then returns fewer results.
    ///
    /// # Errors
    /// None of them is stored, or it is unknown whether they are.
    pub(super) fn write(
        &mut self,
        items: &[NewReport],
        rules: Rules,
    ) -> Result<Vec<PutResult>, StoreError> {
        // Once more after a lost connection: what is stored already is known by its digest.
        self.with(|session| write(session, items, rules))
    }

    /// Asks the database.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read<T>(
        &mut self,
        mut ask: impl FnMut(&mut dyn Rows) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|session| ask(&mut rows::Reading(session)))
    }

    /// Works with a connection, and once more with a new one where an old one turns out to be lost.
    fn with<T>(
        &mut self,
        mut work: impl FnMut(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let (was_open, begun) = (self.session.is_some(), Instant::now());
            let mut lost = false;
            let session = match self.session.take() {
                Some(session) => Ok(session),
                None => self.connect(),
            };
            let done = session.and_then(|mut session| {
                let done = work(&mut session);
                lost = session.is_lost();
                // After an error it is unknown what the server still does on it.
                self.session = done.is_ok().then_some(session);
                done
            });
            match done {
                Ok(done) => return Ok(done),
                Err(_) if was_open && lost => {}
                Err(why) => {
                    let why = StoreError(format!("{}: {why}", self.server.name));
                    if begun.elapsed() > SLOW {
                        self.failed = Some((Instant::now(), why.clone()));
                    }
                    return Err(why);
                }
            }
        }
    }

    fn connect(&self) -> Result<Session, StoreError> {
        let mut session = Session::connect(&self.server, self.reading)?;
        match tables::found(&mut session)? {
            found if found == version() => {}
            found if found > version() || self.reading => {
                return Err(other_version(found, version()));
            }
            _ => tables::update(&mut session)?,
        }
        Ok(session)
    }
}

/// The lock of a text in hexadecimal, such as a digest or the id of a node.
fn lock(text: &str) -> i64 {
    let hexadecimal = text.get(..16).unwrap_or_default();
    let number = u64::from_str_radix(hexadecimal, 16).or_else(|_| {
        let hash = digest(text.as_bytes());
        u64::from_str_radix(hash.get(..16).unwrap_or_default(), 16)
    });
    number.unwrap_or_default().cast_signed()
}

fn write(
    session: &mut Session,
    items: &[NewReport],
    rules: Rules,
) -> Result<Vec<PutResult>, StoreError> {
    // Each statement sees what others had committed before it, and so what they did before they gave up a lock.
    session.run(&format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({TABLES_LOCK})"
    ))?;
    match tables::found(session)? {
        found if found == version() => {}
        found => return Err(other_version(found, version())),
    }
    let mut locks: Vec<_> = items
        .iter()
        .flat_map(|i| [lock(&i.entry.digest), lock(&i.entry.node)])
        .collect();
    // All receivers take them in one order, so that none waits for one that waits for it.
    locks.sort_unstable();
    locks.dedup();
    session.ask(
        "SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number",
        &[&locks],
    )?;
    let (mut tables, mut done, begun) = (Begun(session), Vec::new(), Instant::now());
    for item in items {
        done.push(put_one(&mut tables, item, rules)?);
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    session.run("COMMIT")?;
    Ok(done)
}
