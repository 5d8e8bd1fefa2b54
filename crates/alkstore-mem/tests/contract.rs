//! The contract suite on the memory engine.

fn main() {}
