//! The tables: which functions are hooked, and what each is about.

mod attributes;
mod data;
mod descriptors;
mod directories;
mod mapped;
mod mpi;
mod opening;
mod paths;
mod processes;
mod streams;
