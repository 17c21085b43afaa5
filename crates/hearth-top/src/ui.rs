//! The state that keys change: the page, the order of agents, the agent that is chosen.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::column::Column;
use crate::look::AgentKey;
use crate::watch::Watch;

/// The state that keys change.
#[derive(Debug, Default)]
pub struct Ui {
    /// The page that is shown.
    pub page: Page,
    /// The column that agents are in the order of.
    pub sort: Column,
    /// Whether help is shown instead of the page.
    pub help: Help,
    /// The agent that is chosen; the first if it is none.
    chosen: Option<AgentKey>,
    /// The first line that is shown of a page of words.
    pub line: usize,
}

/// A page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// A line of numbers for each agent.
    #[default]
    Agents,
    /// The sources of bytes that programs read, for each agent.
    Sources,
    /// Alarms, long waits, and members.
    Alarms,
}

/// Whether help is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Help {
    /// It is not.
    #[default]
    Hidden,
    /// It is.
    Shown,
}

/// The thing to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterKey {
    /// Show the page anew.
    Show,
    /// End.
    End,
}

/// A step among agents or lines.
#[derive(Clone, Copy)]
enum Step {
    Up(usize),
    Down(usize),
}

/// Lines of a leap by a page key.
const LEAP: usize = 10;

impl Page {
    /// Every one.
    pub const ALL: [Page; 3] = [Page::Agents, Page::Sources, Page::Alarms];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Page::Agents => "agents",
            Page::Sources => "sources",
            Page::Alarms => "alarms",
        }
    }

    fn next(self) -> Page {
        Page::ALL[(self as usize + 1) % Page::ALL.len()]
    }

    fn previous(self) -> Page {
        Page::ALL[(self as usize + Page::ALL.len() - 1) % Page::ALL.len()]
    }
}

impl Ui {
    /// Does what a key asks for. Keys without a meaning change nothing.
    pub fn press(&mut self, key: KeyEvent, watch: &Watch) -> AfterKey {
        if key.kind == KeyEventKind::Release {
            return AfterKey::Show;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, is_control, self.help) {
            // The terminal does not make a signal of it while every key is read.
            (KeyCode::Char('c'), true, _) => return AfterKey::End,
            (_, true, _) => {}
            (KeyCode::Char('q'), _, _) => return AfterKey::End,
            (_, _, Help::Shown) => self.help = Help::Hidden,
            (code, _, Help::Hidden) => self.press_plain(code, watch),
        }
        AfterKey::Show
    }

    fn press_plain(&mut self, code: KeyCode, watch: &Watch) {
        match code {
            KeyCode::Char('?' | 'h') => self.help = Help::Shown,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Tab | KeyCode::Right => self.turn(self.page.next()),
            KeyCode::BackTab | KeyCode::Left => self.turn(self.page.previous()),
            KeyCode::Down | KeyCode::Char('j') => self.go(Step::Down(1), watch),
            KeyCode::Up | KeyCode::Char('k') => self.go(Step::Up(1), watch),
            KeyCode::PageDown => self.go(Step::Down(LEAP), watch),
            KeyCode::PageUp => self.go(Step::Up(LEAP), watch),
            KeyCode::Home => self.go(Step::Up(usize::MAX), watch),
            KeyCode::End => self.go(Step::Down(usize::MAX), watch),
            _ => {}
        }
    }

    fn turn(&mut self, page: Page) {
        self.page = page;
        self.line = 0;
    }

    fn go(&mut self, step: Step, watch: &Watch) {
        if self.page == Page::Alarms {
            let last = crate::alarms::lines(watch).len().saturating_sub(1);
            self.line = step.from(self.line, last);
            return;
        }
        let rows = self.sort.sorted(watch);
        let row = step.from(self.chosen_row(&rows), rows.len().saturating_sub(1));
        self.chosen = rows.get(row).map(|(key, _)| (*key).clone());
    }

    /// The row of the chosen agent, which stays chosen when the order changes.
    pub(crate) fn chosen_row<T>(&self, rows: &[(&AgentKey, T)]) -> usize {
        let chosen = |(key, _): &(&AgentKey, T)| Some(*key) == self.chosen.as_ref();
        rows.iter().position(chosen).unwrap_or(0)
    }
}

impl Step {
    fn from(self, at: usize, last: usize) -> usize {
        match self {
            Step::Up(lines) => at.saturating_sub(lines),
            Step::Down(lines) => at.saturating_add(lines).min(last),
        }
    }
}
