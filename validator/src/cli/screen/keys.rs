//! Keys of a terminal, and what they do to the screen.

use crate::render::screen::{MenuItem, Page, ResultScreen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Duration;

/// Rows of a page of the report.
const PAGE: usize = 20;

/// A key of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A character.
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Enter,
    Escape,
    /// Control and C: leave.
    Interrupt,
    /// The terminal is gone.
    End,
    /// Any other.
    Other,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// The screen has handled it; what it shows may have changed.
    Shown,
    /// The item of this key was chosen.
    Chosen(char),
    /// The terminal is gone, or the user left the screen.
    Gone,
}

impl Key {
    /// The next key of standard input; `None` after `limit` or on a signal.
    pub(super) fn read(limit: Duration) -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: 0,
        };
        match poll(&mut wanted, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        // The terminal writes a key at once, so an escape sequence arrives whole.
        let mut bytes = [0; 16];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(count) => Ok(Some(Self::of(bytes.get(..count).unwrap_or_default()))),
            Err(rustix::io::Errno::INTR) => Ok(None),
            // A terminal that was hung up.
            Err(rustix::io::Errno::IO) => Ok(Some(Self::End)),
            Err(e) => Err(e.into()),
        }
    }

    /// ECMA-48's sequences, as the Linux console and xterm send them.
    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::End,
            b"\x1b" => Self::Escape,
            b"\x1b[A" | b"\x1bOA" => Self::Up,
            b"\x1b[B" | b"\x1bOB" => Self::Down,
            b"\x1b[C" | b"\x1bOC" => Self::Right,
            b"\x1b[D" | b"\x1bOD" => Self::Left,
            b"\x1b[5~" => Self::PageUp,
            b"\x1b[6~" => Self::PageDown,
            [b'\x1b', ..] => Self::Other,
            [b'\r' | b'\n', ..] => Self::Enter,
            [3, ..] => Self::Interrupt,
            [byte @ b' '..=b'~', ..] => Self::Char(char::from(*byte)),
            _ => Self::Other,
        }
    }
}

/// Applies a key to the screen. `rows`: the rows of the terminal.
pub(super) fn press(ended: &mut ResultScreen, key: Key, rows: u16) -> KeyEffect {
    if matches!(key, Key::End) {
        return KeyEffect::Gone;
    }
    if let Some(asked) = ended.asked.take() {
        ended.note = None;
        // Only one answer means yes.
        return if key == Key::Char('y') {
            KeyEffect::Chosen(asked)
        } else {
            KeyEffect::Shown
        };
    }
    ended.note = None;
    if let Page::Report(from) = ended.page {
        let last = ended.last_row(rows);
        let to = match key {
            Key::Up => from.saturating_sub(1),
            Key::Down => from + 1,
            Key::PageUp => from.saturating_sub(PAGE),
            Key::PageDown | Key::Char(' ') => from + PAGE,
            _ => return leave(ended),
        };
        ended.page = Page::Report(to.min(last));
        return KeyEffect::Shown;
    }
    if ended.page == Page::Code {
        return leave(ended);
    }
    let count = ended.menu.len().max(1);
    match key {
        Key::Left | Key::Up => ended.chosen = (ended.chosen + count - 1) % count,
        Key::Right | Key::Down => ended.chosen = (ended.chosen + 1) % count,
        Key::Enter => {
            return ended
                .menu
                .get(ended.chosen)
                .copied()
                .map_or(KeyEffect::Shown, |item| choose(ended, item));
        }
        Key::Char(key) => {
            let at = ended
                .menu
                .iter()
                .position(|item| item.key == key.to_ascii_lowercase());
            if let Some(item) = at.and_then(|at| ended.menu.get(at)).copied() {
                ended.chosen = at.unwrap_or_default();
                return choose(ended, item);
            }
        }
        // The machine's own screen has no item to quit, and there this key does nothing.
        Key::Interrupt if ended.menu.iter().any(|item| item.key == 'q') => return KeyEffect::Gone,
        _ => {}
    }
    KeyEffect::Shown
}

fn leave(ended: &mut ResultScreen) -> KeyEffect {
    ended.page = Page::Verdict;
    KeyEffect::Shown
}

fn choose(ended: &mut ResultScreen, item: MenuItem) -> KeyEffect {
    match item.key {
        'r' => ended.page = Page::Report(0),
        'c' => ended.page = Page::Code,
        // These cannot be undone and are confirmed first.
        'b' | 'o' => {
            ended.asked = Some(item.key);
            ended.note = Some(format!(
                "{}: press y, or any other key to go back",
                item.name
            ));
        }
        key => return KeyEffect::Chosen(key),
    }
    KeyEffect::Shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Verdict;

    fn screen() -> ResultScreen {
        let mut ended = ResultScreen::without_report(Verdict::Error, "the validator was killed");
        let items = [
            ('1', "test quickly"),
            ('b', "reboot"),
            ('r', "report"),
            ('c', "code"),
        ];
        ended.menu = items.map(|(key, name)| MenuItem { key, name }).to_vec();
        ended
    }

    #[test]
    fn a_reboot_is_asked_about_and_only_y_means_yes() {
        let mut ended = screen();
        assert_eq!(press(&mut ended, Key::Char('b'), 25), KeyEffect::Shown);
        assert!(
            ended
                .note
                .as_ref()
                .is_some_and(|note| note.starts_with("reboot: press y"))
        );
        assert_eq!(press(&mut ended, Key::Enter, 25), KeyEffect::Shown);
        assert_eq!(press(&mut ended, Key::Char('y'), 25), KeyEffect::Shown);
        assert_eq!(press(&mut ended, Key::Char('b'), 25), KeyEffect::Shown);
        assert_eq!(
            press(&mut ended, Key::Char('y'), 25),
            KeyEffect::Chosen('b')
        );
    }

    #[test]
    fn arrows_choose_and_enter_does_it() {
        let mut ended = screen();
        assert_eq!(press(&mut ended, Key::Enter, 25), KeyEffect::Chosen('1'));
        assert_eq!(press(&mut ended, Key::Left, 25), KeyEffect::Shown);
        assert_eq!(
            (ended.chosen, press(&mut ended, Key::Enter, 25)),
            (3, KeyEffect::Shown)
        );
        assert_eq!(ended.page, Page::Code);
        assert_eq!(
            (press(&mut ended, Key::Other, 25), ended.page),
            (KeyEffect::Shown, Page::Verdict)
        );
        assert_eq!(press(&mut ended, Key::Interrupt, 25), KeyEffect::Shown);
        ended.menu.push(MenuItem {
            key: 'q',
            name: "quit",
        });
        assert_eq!(press(&mut ended, Key::Interrupt, 25), KeyEffect::Gone);
    }

    #[test]
    fn the_report_ends_where_it_ends() {
        let mut ended = screen();
        let _shown = press(&mut ended, Key::Char('R'), 25);
        for key in [Key::PageDown, Key::Down, Key::Up, Key::Up] {
            assert_eq!(press(&mut ended, key, 25), KeyEffect::Shown);
            // There is no report: nothing to scroll.
            assert_eq!(ended.page, Page::Report(0));
        }
        assert_eq!(press(&mut ended, Key::End, 25), KeyEffect::Gone);
    }

    #[test]
    fn keys_of_both_kinds_of_terminal_are_known_and_rubbish_is_other() {
        for (bytes, key) in [
            (&b"\x1b[A"[..], Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\r", Key::Enter),
            (b"x", Key::Char('x')),
            (b"\x1b", Key::Escape),
            (b"\x1b[99;99R", Key::Other),
            (b"\xff\xfe", Key::Other),
            (b"", Key::End),
            (b"\x03", Key::Interrupt),
        ] {
            assert_eq!(Key::of(bytes), key, "{bytes:?}");
        }
    }
}
