//! What the tests of this workspace share: [child processes](roles!), [databases](TempDb),
//! [rounds].

#![forbid(unsafe_code)]

mod child;
mod database;
mod roles;
mod rounds;

pub use child::Child;
pub use database::TempDb;
pub use roles::{Parent, Role, Roles};
pub use rounds::rounds;
