//! An agent's log: plain lines on standard error, as much as `HEARTH_LOG` asks for.

use std::time::{SystemTime, UNIX_EPOCH};

use log::{LevelFilter, Log, Metadata, Record};

struct Lines;

/// Starts to log; `HEARTH_LOG` is error, warn, info (as without it), debug or trace.
pub(crate) fn start() {
    let level = std::env::var("HEARTH_LOG").ok();
    let level = level.and_then(|word| word.parse().ok());
    // Nobody else in this process logs, so this is the first logger.
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(level.unwrap_or(LevelFilter::Info));
    }
}

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        hearth_client::say!(
            "{}.{:03} {} {}: {}",
            now.as_secs(),
            now.subsec_millis(),
            record.level().as_str().to_lowercase(),
            record.target(),
            record.args()
        );
    }

    fn flush(&self) {}
}
