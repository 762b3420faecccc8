//! The full-screen display: while `validate` runs (`running`), and for a finished report with a menu, which process 1
//! starts on the machine's own screen when the policy holds the machine. The exit status is the user's choice.

mod device;
mod keys;
mod running;

pub(super) use running::RunningScreen;

use super::{CommandError, SUCCESS};
use crate::cli::args::Screen;
use crate::cli::report::read;
use crate::engine::Interrupts;
use crate::net::publish::LARGEST;
use crate::render::screen::{MenuItem, ResultScreen};
use contract::schema;
use contract::screen::Choice;
use device::ScreenDevice;
use keys::{Key, KeyEffect};
use outcome::Verdict;
use outcome::files;
use serde::Deserialize;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which everything is drawn again: the kernel may have written over it.
const AGAIN: Duration = Duration::from_secs(5);

/// Keys and names of the actions that only process 1 can do.
const MACHINE: [(char, &str, Choice); 7] = [
    ('1', "test quickly", Choice::Quick),
    ('2', "test", Choice::Standard),
    ('3', "test fully", Choice::Full),
    ('s', "save the report", Choice::Save),
    ('b', "reboot", Choice::Reboot),
    ('o', "power off", Choice::PowerOff),
    ('x', "shell", Choice::Shell),
];

/// The fields that are read from process 1's verdict file.
#[derive(Debug, Deserialize)]
struct VerdictFile {
    schema: String,
    verdict: Verdict,
    cause: Option<String>,
}

/// `screen`; the exit status is that of the choice.
pub(super) fn run(asked: &Screen) -> Result<u8, CommandError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CommandError::Usage(
            "screen needs a terminal as its standard input and output".to_owned(),
        ));
    }
    let mut ended = ended(asked)?;
    (ended.menu, ended.note) = (menu(asked), asked.note.clone());
    let interrupts = Interrupts::catch().map_err(|e| CommandError::undone(&e))?;
    let mut device = ScreenDevice::of_standard_streams().map_err(|e| CommandError::undone(&e))?;
    let mut drawn = Instant::now();
    loop {
        device.draw(&ended).map_err(|e| CommandError::undone(&e))?;
        let key = Key::read(AGAIN).map_err(|e| CommandError::undone(&e))?;
        if let Some(interrupt) = interrupts.received() {
            return Ok(interrupt.exit_status());
        }
        if drawn.elapsed() >= AGAIN {
            device.forget().map_err(|e| CommandError::undone(&e))?;
            drawn = Instant::now();
        }
        match key.map(|key| keys::press(&mut ended, key, device.rows())) {
            Some(KeyEffect::Chosen('q')) | Some(KeyEffect::Gone) => return Ok(SUCCESS),
            Some(KeyEffect::Chosen(key)) => {
                if let Some((.., choice)) = MACHINE.iter().find(|(own, ..)| *own == key) {
                    return Ok(choice.status());
                }
            }
            Some(KeyEffect::Shown) | None => {}
        }
    }
}

fn menu(asked: &Screen) -> Vec<MenuItem> {
    let machine = MACHINE
        .iter()
        .filter(|(.., choice)| asked.machine && (asked.shell || *choice != Choice::Shell));
    let machine = machine.map(|(key, name, _)| MenuItem { key: *key, name });
    let end = (!asked.machine).then_some(MenuItem {
        key: 'q',
        name: "quit",
    });
    machine
        .chain([
            MenuItem {
                key: 'r',
                name: "report",
            },
            MenuItem {
                key: 'c',
                name: "code",
            },
        ])
        .chain(end)
        .collect()
}

/// The report, with the verdict of process 1 if that is different.
fn ended(asked: &Screen) -> Result<ResultScreen, CommandError> {
    let Some(path) = &asked.verdict else {
        return Ok(ResultScreen::of_report(&read(&asked.report)?, None));
    };
    let file = verdict(path)?;
    let cause = file.cause.unwrap_or_default();
    Ok(match read(&asked.report) {
        Ok(report) if report.verdict == file.verdict => ResultScreen::of_report(&report, None),
        Ok(report) => ResultScreen::of_report(&report, Some((file.verdict, &cause))),
        // Process 1 could not read the report either, and its verdict has the cause.
        Err(_) => ResultScreen::without_report(file.verdict, &cause),
    })
}

fn verdict(path: &Path) -> Result<VerdictFile, CommandError> {
    let bad = |why: String| CommandError::Undone(format!("{}: {why}", path.display()));
    let bytes = files::read(path, LARGEST).map_err(bad)?;
    let file: VerdictFile = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
    if file.schema != schema::VERDICT {
        return Err(bad(format!(
            "read schema {:?}, allowed: {}",
            file.schema,
            schema::VERDICT
        )));
    }
    Ok(file)
}
