//! The contract suite on the SQLite engine.

fn main() {}
