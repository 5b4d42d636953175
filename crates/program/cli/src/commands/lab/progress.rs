//! A progress bar with the remaining time.

use std::io::Write as _;

use anabranch_lab::runner::Observer;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::complain;
use crate::output::{one_line, printable};

/// Shows how many runs are done; nothing if standard error is not a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} runs, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self { bar, quiet }
    }

    /// Sets the text that says what the runs are for.
    pub(super) fn title(&self, text: &str) {
        self.bar.set_message(one_line(text).into_owned());
    }

    /// Prints a line to standard error.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            // If standard error is closed, continue.
            let _ = writeln!(std::io::stderr(), "{}", printable(text));
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn begin(&self, runs: usize) {
        self.bar.set_length(runs as u64);
        self.bar.set_position(0);
        self.bar.reset();
    }

    fn more(&self, runs: usize) {
        self.bar.inc_length(runs as u64);
    }

    fn done(&self) {
        self.bar.inc(1);
    }

    fn warn(&self, sentence: &str) {
        self.bar.suspend(|| complain(sentence));
    }
}
