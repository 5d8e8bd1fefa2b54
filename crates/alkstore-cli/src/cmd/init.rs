//! `alkstore init`: creates a store or brings it up to date.

use anyhow::Result;

use crate::connect::About;
use crate::output::{Output, shown};

/// Says what opening the store has found or made.
pub(crate) fn run(about: &About, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.object(about);
    }
    let what = if about.created { "created" } else { "was there and is up to date" };
    let location = shown(&about.location);
    out.line(format_args!(
        "{} store {location}: {what}; commits survive {}",
        about.engine, about.commits_survive
    ))
}
