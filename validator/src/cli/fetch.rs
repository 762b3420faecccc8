//! `fetch`: downloads a file whose checksum is known. A file with another checksum is deleted. With
//! `--any-content` no checksum is compared, and the caller must verify the content. `time`: queries NTP servers, and
//! prints the accepted server and the clock offset.

use super::output::{to_stdout, write};
use super::publish::authorities;
use super::{CommandError, SUCCESS};
use crate::cli::args::{Fetch, Place, Time};
use crate::net::http::{self, HttpError, Piece};
use crate::net::sntp;
use outcome::files::atomic::AtomicFile;
use outcome::files::destination;
use outcome::text::shown;
use report::mac::hex;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Downloads a file and moves it to its place only if its checksum is correct.
pub(super) fn fetch(asked: &Fetch) -> Result<u8, CommandError> {
    let here = |why: String| CommandError::Undone(format!("{}: {why}", asked.url));
    let to = asked.output.display();
    let unwritten = |e: std::io::Error| here(format!("{to}: {e}"));
    replaceable(&asked.output)?;
    let authorities = authorities(asked.ca.as_deref())?;
    let mut pieces = http::get(
        &asked.url,
        asked.largest,
        &authorities,
        Duration::from_secs(asked.timeout),
    );
    let length = match pieces.next() {
        Some(Ok(Piece::Head(200, length))) => length,
        Some(Ok(Piece::Head(status, _))) => {
            return Err(here(format!("answered {}", http::status_text(status))));
        }
        Some(Err(error)) => return Err(here(error.to_string())),
        _ => {
            return Err(here(
                HttpError::NoAnswer("no answer".to_owned()).to_string(),
            ));
        }
    };
    let mut file = AtomicFile::through_links(&asked.output).map_err(unwritten)?;
    let (mut sum, mut got, mut last_shown) = (Sha256::new(), 0, Instant::now());
    for piece in pieces {
        let Piece::Bytes(bytes) = piece.map_err(|e| here(e.to_string()))? else {
            continue;
        };
        file.write_all(&bytes).map_err(unwritten)?;
        sum.update(&bytes);
        got += bytes.len() as u64;
        if asked
            .progress
            .is_some_and(|seconds| last_shown.elapsed() >= Duration::from_secs(seconds))
        {
            last_shown = Instant::now();
            // A closed standard output does not stop the download.
            let _ = to_stdout(&format!("{}\n", so_far(got, length)));
        }
    }
    let found = hex(&sum.finalize());
    if let Some(expected) = asked
        .sha256
        .as_ref()
        .filter(|sum| !found.eq_ignore_ascii_case(sum))
    {
        return Err(here(format!("sha256 is {found}, expected {expected}")));
    }
    file.replace().map_err(unwritten)?;
    Ok(SUCCESS)
}

/// The content takes the place of a file, once its checksum is correct; a device, a pipe or an open descriptor would get
/// content that is not checked yet, or be replaced itself.
fn replaceable(path: &Path) -> Result<(), CommandError> {
    let other = fs::metadata(path).is_ok_and(|there| !there.is_file());
    let held = destination::resolve(path).is_ok_and(|end| destination::is_descriptor(&end));
    if other || held {
        let path = shown(&path.display().to_string());
        let why = format!("--output {path}: no regular file; allowed: a file, or a new name");
        return Err(CommandError::Usage(why));
    }
    Ok(())
}

/// Queries the servers for this machine's clock offset.
pub(super) fn time(asked: &Time) -> Result<u8, CommandError> {
    let within = Duration::from_secs(asked.timeout);
    let (server, by) = sntp::query(&asked.servers, within).map_err(CommandError::Undone)?;
    write(&Place::Stdout, &format!("{server} {by}\n"))?;
    Ok(SUCCESS)
}

fn so_far(got: u64, length: Option<u64>) -> String {
    let of = length.map_or_else(String::new, |length| format!(" of {}", length >> 20));
    format!("{}{of} MiB", got >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_includes_the_total_if_the_server_gives_it() {
        assert_eq!(so_far(5 << 20, Some(80 << 20)), "5 of 80 MiB");
        assert_eq!(so_far(5 << 20, None), "5 MiB");
    }
}
