//! The terminal, as it is while the program has it, and as it was.
//!
//! It is given back on every way out: by drop, and before a panic of any thread is told. A panic ends the program, since
//! it would go on with a terminal that it does not have.

use std::io::{self, Stdout, stdout};
use std::panic;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// The exit code of a program of Rust that panics.
const PANICKED: i32 = 101;

/// A terminal that is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal of standard output.
    pub fn open() -> io::Result<Screen> {
        give_back_on_panic();
        enable_raw_mode()?;
        let opened = execute!(stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match opened {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Shows what is drawn.
    pub fn show(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was. It may be gone, and then there is nothing to give back.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread that panics cannot end the others, and no destructor here has more to do"
)]
fn give_back_on_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        give_back();
        tell(panic);
        std::process::exit(PANICKED);
    }));
}
