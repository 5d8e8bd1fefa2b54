//! How a failed command ends: what is printed, and the exit code.

use std::process::ExitCode;

use crate::output::{StdoutClosed, shown};

/// The command line asks for something that cannot be: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Prints the error and its causes, one line each, and returns the exit code.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(|cause| cause.is::<StdoutClosed>()) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    for line in lines(error) {
        eprintln!("{line}");
    }
    if error.chain().any(|cause| cause.is::<Usage>()) {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

/// The chain as it is printed; a cause that only repeats the line above is left out.
fn lines(error: &anyhow::Error) -> Vec<String> {
    let mut texts: Vec<String> = error.chain().map(|cause| shown(&cause.to_string())).collect();
    texts.dedup();
    let label = |(at, text)| format!("{}: {text}", if at == 0 { "error" } else { "  cause" });
    texts.into_iter().enumerate().map(label).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn each_cause_is_one_line_and_none_is_repeated() {
        let error = anyhow!("no\nspace left").context("no write").context("no write");
        assert_eq!(super::lines(&error), ["error: no write", "  cause: no\\nspace left"]);
    }
}
