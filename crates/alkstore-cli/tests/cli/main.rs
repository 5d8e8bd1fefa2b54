//! The program as its users see it: every test runs the binary on a store of its own.
#![expect(clippy::unwrap_used, reason = "what fails on the way fails the test")]

mod demo;
mod input;
mod program;
mod queue;
mod stream;
mod usage;
mod wake;
