//! Shows agents at work, live in a terminal.
//!
//! ```text
//!   look     asks all agents of the chosen sets for their status, as `hearth status` does
//!   watch    keeps the last words of each, and the counts since the words before
//!   draw     shows pages of a watch: agents by column, sources of bytes, alarms
//!   ui       the state that keys change
//!   live     the loop: looks, keys and signals in, pages out
//!   once     the table
//! ```
//!
//! Agents know nothing of this: a look costs them one status.

#![forbid(unsafe_code)]

mod alarms;
mod column;
mod draw;
mod live;
mod look;
mod once;
mod terminal;
mod traffic;
mod ui;
mod watch;
mod words;

pub use column::Column;
pub use draw::draw;
pub use live::run as show;
pub use look::{AgentAnswer, AgentKey, AgentLook, Glance};
pub use once::run as print_once;
pub use terminal::Screen;
pub use traffic::{ByteSource, Traffic};
pub use ui::{AfterKey, Help, Page, Ui};
pub use watch::{Watch, Watched};
