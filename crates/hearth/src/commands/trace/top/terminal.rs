//! A terminal that shows a screen of its own, and shows the old one again at the end.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use hearth_set::failure::{Failure, OrFail};

/// The other screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Ctrl-C, as a terminal sends it that makes no signal of it.
const CTRL_C: u8 = 3;

/// The terminal, as long as it shows this command's screen.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Turns to another screen, and takes keys as they come.
    pub(super) fn take() -> Result<Terminal, Failure> {
        let why = || "cannot use the terminal".to_owned();
        let before = tcgetattr(io::stdin()).or_fail(why)?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = Terminal { before };
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw).or_fail(why)?;
        terminal.write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Whether somebody has typed `q` or Ctrl-C, or hung up.
    pub(super) fn has_quit(&self) -> Result<bool, Failure> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..)) {
            return Ok(false);
        }
        let mut keys = [0; 64];
        let count =
            rustix::io::read(&stdin, &mut keys).or_fail(|| "cannot read keys".to_owned())?;
        let quits = |key: &u8| matches!(*key, b'q' | b'Q' | CTRL_C);
        Ok(count == 0 || keys[..count].iter().any(quits))
    }

    /// Shows lines from the top of the screen on, and nothing else.
    pub(super) fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        let lines = lines.join("\x1b[K\r\n");
        self.write(&format!("\x1b[H{lines}\x1b[K\x1b[J"))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .or_fail(|| "cannot write to the terminal".to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
