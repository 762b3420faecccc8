//! The screen of a machine that holds: the verdict in large letters, what to do first, and a menu. A child shows it
//! (`firstlight screen`), and its exit status is what a person chose.

use super::exec::attend;
use super::{After, shell};
use crate::child::End;
use crate::machine::Machine;
use crate::paths;
use crate::sys::process::Terminal;
use contract::screen::Choice;
use log::info;
use std::time::{Duration, Instant};

/// A screen that ends sooner than this without a choice cannot be shown.
const SHORTEST: Duration = Duration::from_secs(2);

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The machine ends, or holds without a menu.
    Then(After),
    /// The tests of this level.
    Test(&'static str),
    /// The report is kept and sent again.
    Save,
}

/// Shows the screen until a person has chosen something that is not done here. `note` is said first.
pub fn ask(m: &mut Machine, may_start_shell: bool, note: Option<&str>) -> Wish {
    let mut note = note;
    info!("HOLD      menu on the screen; Ctrl-Alt-Del reboots, SIGTERM powers off");
    loop {
        let begun = Instant::now();
        if !m.console.lend_screen(true) {
            return Wish::Then(After::Hold);
        }
        let shown =
            attend(m, &words(may_start_shell, note.take()), &[], (paths::SCREEN, Terminal::Controlling));
        m.console.lend_screen(false);
        let choice = match shown {
            Ok((_, Some(after))) => return Wish::Then(after),
            Ok((End::Exited(status), None)) => Choice::of_status(status),
            Ok((end, None)) => {
                info!("warning: the screen {end}");
                None
            }
            Err(e) => {
                info!("warning: the screen cannot be shown: {e}");
                None
            }
        };
        match choice {
            Some(Choice::Shell) if may_start_shell => match shell(m, paths::SCREEN) {
                After::Hold => {}
                after => return Wish::Then(after),
            },
            Some(choice) => return wish(choice),
            None if begun.elapsed() < SHORTEST => return Wish::Then(After::Hold),
            None => {}
        }
    }
}

const fn wish(choice: Choice) -> Wish {
    match choice {
        Choice::Quick => Wish::Test("quick"),
        Choice::Standard => Wish::Test("standard"),
        Choice::Full => Wish::Test("full"),
        Choice::Save => Wish::Save,
        Choice::Reboot => Wish::Then(After::Reboot),
        Choice::PowerOff => Wish::Then(After::PowerOff),
        // It was not offered.
        Choice::Shell => Wish::Then(After::Hold),
    }
}

fn words(may_start_shell: bool, note: Option<&str>) -> Vec<String> {
    let mut words = vec![paths::VALIDATOR, "screen", paths::REPORT, "--verdict", paths::VERDICT, "--machine"];
    if may_start_shell {
        words.push("--shell");
    }
    words.extend(note.iter().flat_map(|note| ["--note", *note]));
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_offered_only_where_the_image_allows_it() {
        assert!(words(true, None).contains(&"--shell".to_owned()));
        assert!(!words(false, Some("saved")).contains(&"--shell".to_owned()));
        assert_eq!(words(false, Some("saved")).last().map(String::as_str), Some("saved"));
    }
}
