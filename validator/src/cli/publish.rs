//! `publish`: saves a finished report to a partition, a URL, or both. `collect`: replaces this process with the program
//! that receives such reports.

use super::output::to_stdout;
use super::{CommandError, NOT_DONE, SUCCESS};
use crate::cli::args::Publish;
use crate::net::http::Authorities;
use crate::net::publish::{FinishedReport, LARGEST, StorageOptions, UploadTarget, publish};
use outcome::files;
use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The program that receives reports, in the folder of this one: it has a database, which the image has no room for.
const RECEIVER: &str = "firstlight-collect";

/// Maximum size of the file of trusted certificates; those that browsers trust take a quarter of it.
const LARGEST_CA: u64 = 1 << 20;

/// Saves the report to every given place; `NOT_DONE` where one of them lacks it.
pub(super) fn run(asked: Publish) -> Result<u8, CommandError> {
    if asked.partition.is_none() && asked.url.is_none() {
        return Err(CommandError::Usage(
            "publish: no destination: give --partition or --url".to_owned(),
        ));
    }
    let path = asked.report.display().to_string();
    let here = |why: String| CommandError::Undone(format!("{path}: {why}"));
    let bytes = files::read(&asked.report, LARGEST).map_err(&here)?;
    let finished = FinishedReport::from_json(bytes, asked.verdict.as_deref()).map_err(&here)?;
    let url = asked.url.map(|url| {
        let authorities = authorities(asked.ca.as_deref()).map_err(|e| e.to_string());
        let token = asked.token_file.as_deref();
        let token = token.map(report::mac::token).transpose();
        // Without usable certificates or a usable token the report waits in the spool to be sent, and is still saved to
        // the partition.
        let (authorities, token, offline) = match (authorities, token) {
            (Ok(authorities), Ok(token)) => (authorities, token, asked.offline),
            (Err(why), _) | (_, Err(why)) => (Authorities::default(), None, Some(why)),
        };
        UploadTarget {
            url,
            timeout: Duration::from_secs(asked.timeout),
            authorities,
            token,
            offline,
        }
    });
    let mut all = true;
    let (spool, key) = (asked.spool.as_path(), asked.key_file.as_deref());
    let storage = StorageOptions {
        keep: asked.keep.into(),
        spool,
        key,
    };
    publish(
        &finished,
        asked.partition.as_deref(),
        url.as_ref(),
        storage,
        |step| {
            all &= step.done;
            // A closed standard output does not stop the saving.
            let _ = to_stdout(&format!("{}\n", step.line));
        },
    );
    Ok(if all { SUCCESS } else { NOT_DONE })
}

/// Replaces this process with the receiver.
pub(super) fn collect(args: &[OsString]) -> Result<u8, CommandError> {
    let own = env::current_exe().map_err(|e| CommandError::undone(&e))?;
    let receiver = own.with_file_name(RECEIVER);
    let error = Command::new(&receiver).args(args).exec();
    let remedy = match error.kind() {
        ErrorKind::NotFound => "; './run binaries' builds it, and the image does not have it",
        _ => "",
    };
    Err(CommandError::Undone(format!(
        "{}: {error}{remedy}",
        receiver.display()
    )))
}

/// The trusted certificates for https: those in `file`, if it is given.
pub(super) fn authorities(file: Option<&Path>) -> Result<Authorities, CommandError> {
    let Some(path) = file else {
        return Ok(Authorities::default());
    };
    let name = path.display().to_string();
    let pem = files::secret(path, LARGEST_CA)
        .map_err(|e| CommandError::Undone(format!("{name}: {e}")))?;
    Authorities::from_pem(&name, &pem).map_err(|e| CommandError::undone(&e))
}
