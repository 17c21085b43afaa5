//! An agent's counts for Prometheus and programs like it.
//!
//! ```text
//!   server   answers requests over HTTP, on threads of its own
//!   page     the text of an answer, from the agent's status
//! ```
//!
//! Nobody waits for this but its clients. A status is made at most once within [`PAGE_SPAN`], however many ask: it takes the
//! lock around the kernel.

mod page;
mod server;

use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(super) use server::Server;

use super::service::Service;
pub(super) use page::Agent;

/// Within this span of the last answer everybody gets the same one.
const PAGE_SPAN: Duration = Duration::from_millis(100);

/// The last page that was made.
pub(super) struct Page {
    /// Weak: an agent that ends waits for nobody here.
    service: Weak<Service>,
    last: Mutex<Option<(Instant, String)>>,
}

impl Page {
    /// Of an agent; nothing is made before somebody asks.
    pub(super) fn of(service: Weak<Service>) -> Page {
        let last = Mutex::default();
        Page { service, last }
    }

    /// The page as it is now, or was within [`PAGE_SPAN`]; nothing of an agent that ends.
    fn text(&self) -> Option<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < PAGE_SPAN
        {
            return Some(text.clone());
        }
        let text = page::text(&self.service.upgrade()?.account());
        *last = Some((Instant::now(), text.clone()));
        Some(text)
    }
}
