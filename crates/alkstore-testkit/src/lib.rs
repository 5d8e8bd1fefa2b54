//! What the tests of this workspace share: [child processes](roles) and [databases](TempDb).

#![forbid(unsafe_code)]

mod child;
mod database;
mod roles;

pub use child::Child;
pub use database::TempDb;
pub use roles::{Parent, Role, Roles};
