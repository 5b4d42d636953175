//! Shows the progress of a fetch, and measures times for the report.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_http::{FetchError, Fetched, Observer};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::one_line;

/// Maximum number of files with their own bars at the same time; the others are only counted in the
/// overall bar.
const VISIBLE: usize = 8;

/// The bar of a file, as wide as the terminal. At 80 columns, 13 are left for the bar itself.
const FILE: &str = "{msg:20!} {prefix:>5} {wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} \
                    {decimal_bytes_per_sec:>11} {eta:>4}";

/// The bars of a whole command.
#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    files: ProgressBar,
}

impl Bars {
    /// Shows bars on standard error if it is a terminal and if `wanted`.
    pub(crate) fn new(files: usize, wanted: bool) -> Self {
        let target =
            if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        let bar = ProgressBar::new(files as u64)
            .with_style(style("{pos}/{len} files {bar:30} {elapsed}"));
        Self { files: all.add(bar), all }
    }

    /// Adds to the number of expected files.
    pub(crate) fn expect(&self, files: usize) {
        self.files.inc_length(files as u64);
    }

    /// Removes all bars from the screen.
    pub(crate) fn clear(&self) {
        self.files.finish_and_clear();
        // If this fails, the terminal is gone.
        let _ = self.all.clear();
    }
}

/// Shows that a page is being loaded, on standard error if it is a terminal and if `wanted`.
#[derive(Debug)]
pub(crate) struct PageBar(ProgressBar);

impl PageBar {
    pub(crate) fn new(wanted: bool) -> Self {
        let target =
            if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target)
            .with_style(style("{spinner} loading the page, {elapsed}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// The template, or indicatif's default if it is malformed.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Follows the transactions of one connection.
pub(crate) struct Follower<'a> {
    bars: &'a Bars,
    /// Names for the bars, by transaction.
    names: Vec<String>,
    state: Mutex<State>,
    /// Messages to print after the bars are removed.
    notes: Mutex<Vec<String>>,
}

struct State {
    active: HashMap<usize, ProgressBar>,
    begun: HashMap<usize, Instant>,
    took: HashMap<usize, Duration>,
    /// When the last bytes arrived; `None` while no transaction is in progress.
    last: Option<Instant>,
    longest_pause: Duration,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(bars: &'a Bars, names: Vec<String>) -> Self {
        let state = State {
            active: HashMap::new(),
            begun: HashMap::new(),
            took: HashMap::new(),
            last: None,
            longest_pause: Duration::ZERO,
        };
        Self { bars, names, state: Mutex::new(state), notes: Mutex::default() }
    }

    /// Takes the messages about the files.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes())
    }

    fn notes(&self) -> MutexGuard<'_, Vec<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a transaction took, from the start of its answer.
    pub(crate) fn took(&self, transaction: usize) -> Option<Duration> {
        self.state().took.get(&transaction).copied()
    }

    /// The longest time without a byte of any answer while one was in progress: the interruption that
    /// a user notices during a failover.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.state().longest_pause
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note_bytes(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest_pause = self.longest_pause.max(now.duration_since(last));
        }
    }

    /// Called when an answer breaks off: the time since its last byte is a pause, too, and often the
    /// longest.
    fn note_end(&mut self, now: Instant) {
        if let Some(last) = self.last {
            self.longest_pause = self.longest_pause.max(now.duration_since(last));
        }
    }
}

impl Observer for Follower<'_> {
    fn started(&self, transaction: usize, stream: u16, total: Option<u64>) {
        let now = Instant::now();
        let mut state = self.state();
        state.note_bytes(now);
        state.begun.insert(transaction, now);
        if state.active.len() >= VISIBLE {
            return;
        }
        let name = self.names.get(transaction).cloned().unwrap_or_default();
        let bar = ProgressBar::new(total.unwrap_or(0))
            .with_style(style(FILE))
            .with_message(one_line(&name).into_owned())
            .with_prefix(format!("#{stream}"));
        let before = state.active.insert(transaction, self.bars.all.add(bar));
        if let Some(before) = before {
            before.finish_and_clear();
            self.bars.all.remove(&before);
        }
    }

    fn restarted(&self, transaction: usize, reason: &str) {
        let name = self.names.get(transaction).map_or("", String::as_str);
        self.notes().push(format!("{name}: fetching it from the start: {reason}"));
    }

    fn lost(&self, transaction: usize) {
        let name = self.names.get(transaction).map_or("", String::as_str);
        self.notes().push(format!(
            "{name}: nothing of it is kept, since the server gives no strong ETag or date to identify it"
        ));
    }

    fn progress(&self, transaction: usize, bytes: u64) {
        let now = Instant::now();
        let mut state = self.state();
        state.note_bytes(now);
        if let Some(bar) = state.active.get(&transaction) {
            bar.inc(bytes);
        }
    }

    fn finished(&self, transaction: usize, result: &Result<Fetched, FetchError>) {
        let now = Instant::now();
        let mut state = self.state();
        if result.is_err() {
            state.note_end(now);
        }
        if let Some(bar) = state.active.remove(&transaction) {
            bar.finish_and_clear();
            self.bars.all.remove(&bar);
        }
        if let Some(begun) = state.begun.remove(&transaction) {
            state.took.insert(transaction, now.duration_since(begun));
            if state.begun.is_empty() {
                // Writing files and sending the next requests is not a pause of the network.
                state.last = None;
            }
        }
        drop(state);
        // A failed file may be tried again, so it does not count as done.
        self.bars.files.inc(u64::from(result.is_ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_count_while_something_is_under_way() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let bars = Bars::new(1, false);
        let follower = Follower::new(&bars, vec!["a".into()]);
        let mut state = follower.state();
        for ms in [0, 10, 40, 45] {
            state.note_bytes(at(ms));
        }
        assert_eq!(state.longest_pause, Duration::from_millis(30));
        state.last = None;
        state.note_bytes(at(500));
        assert_eq!(state.longest_pause, Duration::from_millis(30));
        state.note_end(at(540));
        assert_eq!(state.longest_pause, Duration::from_millis(40), "the one at the end");
        state.note_bytes(at(550));
        assert_eq!(state.longest_pause, Duration::from_millis(50), "another answer went on");
    }

    #[test]
    fn a_transaction_has_its_time() {
        let bars = Bars::new(1, false);
        let follower = Follower::new(&bars, vec!["a".into()]);
        follower.started(0, 3, Some(5));
        follower.progress(0, 5);
        assert_eq!(follower.took(0), None);
        follower.finished(
            0,
            &Ok(Fetched {
                stream: 3,
                bytes: 5,
                resumed: 0,
                replaced: false,
                modified: None,
                known: true,
            }),
        );
        assert!(follower.took(0).is_some());
        assert!(follower.state().active.is_empty());
    }
}
