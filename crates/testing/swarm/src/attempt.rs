//! Executes runs that may fail.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::{Options, Report, run};

/// The failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message.
    pub message: String,
    /// File and line of the check that failed.
    pub place: String,
}

impl Failure {
    /// Whether the same check failed.
    pub fn is_like(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// The first line of the message, cut if it is long.
    pub fn headline(&self) -> String {
        let line = self.message.lines().next().unwrap_or_default();
        line.chars().take(160).collect()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.headline(), self.place)
    }
}

thread_local! {
    /// Whether this thread executes a trial, and where it failed.
    static TRIAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Silences the panics of trials; others are reported as before.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let tried = TRIAL.with_borrow_mut(|trial| match (trial, info.location()) {
                (Some(place), Some(at)) => {
                    *place = format!("{}:{}", at.file(), at.line());
                    true
                }
                (trial, _) => trial.is_some(),
            });
            if !tried {
                others(info);
            }
        }));
    });
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Executes a run with `options`; `print` prints every packet and event.
///
/// # Errors
/// Returns the violated check. Panics of the engine count as failures.
pub fn attempt(options: Options, print: bool) -> Result<Report, Failure> {
    quiet();
    TRIAL.set(Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(options, print)));
    let place = TRIAL.take().unwrap_or_default();
    result.map_err(|panic| Failure { message: message(panic.as_ref()), place })
}
