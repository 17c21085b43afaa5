//! One suite of cases for every back end of the log of views.
//!
//! `cases` says what each log must do, in words of a `Stage`: hosts that are killed, stopped and cut off,
//! clocks that are skewed, words that are lost or doubled. Each back end has a file that sets such a stage.
//! `broken` has logs with a known fault, and sees the suite catch each.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod broken;
mod cases;
mod embedded;
mod memory;
mod stage;
