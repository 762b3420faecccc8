//! A terminal that shows a screen: reads its size, sets raw input, and writes only the changed cells.

use ratatui_core::layout::Rect;
use ratatui_core::terminal::{Terminal, TerminalOptions, Viewport};
use ratatui_core::widgets::Widget;
use ratatui_termion::TermionBackend;
use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Switches to the alternate screen, if the terminal has one, and hides the cursor; the other sequence reverts this.
const BEGIN: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const END: &[u8] = b"\x1b[0m\x1b[2J\x1b[?25h\x1b[?1049l";

/// Assumed size of a terminal that does not report it.
const USUAL: (u16, u16) = crate::render::screen::SMALLEST;

/// The terminal.
pub(super) struct ScreenDevice {
    terminal: Terminal<TermionBackend<File>>,
    file: File,
    size: (u16, u16),
    /// The settings of standard input, which are restored at the end.
    before: Option<Termios>,
}

impl ScreenDevice {
    /// The terminal of standard input and output; keys arrive one by one and are not echoed.
    pub(super) fn of_standard_streams() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut device = Self::new(file)?;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        device.before = Some(before);
        Ok(device)
    }

    /// A terminal that is only written to. A write never blocks, because scroll lock can stop a terminal for any length
    /// of time.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
        if !rustix::termios::isatty(&file) {
            return Err(io::Error::other("it is not a terminal"));
        }
        Self::new(file)
    }

    fn new(mut file: File) -> io::Result<Self> {
        let size = size(&file);
        let terminal = terminal(&file, size)?;
        file.write_all(BEGIN)?;
        Ok(Self {
            terminal,
            file,
            size,
            before: None,
        })
    }

    /// Rows of the terminal.
    pub(super) const fn rows(&self) -> u16 {
        self.size.1
    }

    /// Writes the cells that have changed; all of them after the terminal's size has changed.
    pub(super) fn draw<'a, W>(&mut self, screen: &'a W) -> io::Result<()>
    where
        &'a W: Widget,
    {
        let now = size(&self.file);
        if now != self.size {
            self.size = now;
            self.forget()?;
        }
        self.terminal
            .draw(|frame| frame.render_widget(screen, frame.area()))
            .map(drop)
    }

    /// Clears the terminal, so that the next drawing writes all cells.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.file.write_all(b"\x1b[0m\x1b[2J")?;
        self.terminal = terminal(&self.file, self.size)?;
        Ok(())
    }
}

fn size(file: &File) -> (u16, u16) {
    let size = tcgetwinsize(file).map(|size| (size.ws_col, size.ws_row));
    size.ok()
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
        .unwrap_or(USUAL)
}

fn terminal(
    file: &File,
    (width, height): (u16, u16),
) -> io::Result<Terminal<TermionBackend<File>>> {
    let viewport = Viewport::Fixed(Rect {
        x: 0,
        y: 0,
        width,
        height,
    });
    Terminal::with_options(
        TermionBackend::new(file.try_clone()?),
        TerminalOptions { viewport },
    )
}

impl Drop for ScreenDevice {
    fn drop(&mut self) {
        // A terminal that was only written to keeps the screen, so that it can still be read.
        let Some(before) = self.before.take() else {
            return;
        };
        let _gone = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        let _gone = self.file.write_all(END);
    }
}
