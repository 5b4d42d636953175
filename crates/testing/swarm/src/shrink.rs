//! Reduces the faults of a failing run.

use std::collections::BTreeSet;

use crate::fault::{Fault, Item, Only};
use crate::{Failure, Options, attempt};

/// A failing run from which no fault can be removed.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The remaining faults.
    pub only: Only,
    /// Maximum number of messages that either end sends.
    pub messages: u32,
    /// The failure.
    pub failure: Failure,
    /// Number of runs that were executed.
    pub runs: u32,
}

/// Finds fewer faults and messages with which a run with these options fails in the same way.
///
/// It first tries to turn off all faults of a kind together, then single ones, until none can be
/// removed. Then it halves the messages. `limit` bounds the number of runs.
pub fn shrink(all: &Options, failure: Failure, limit: u32) -> Shrunk {
    let messages = all.traffic.iter().map(|traffic| traffic.messages).max().unwrap_or(0);
    let mut search = Search { all, failure, messages, runs: 0, limit };
    let mut items = all.faults();
    if search.fails(&[], messages) {
        items.clear();
    }
    loop {
        let before = items.len();
        let kinds: BTreeSet<Fault> = items.iter().map(|item| item.fault).collect();
        for kind in kinds {
            search.without(&mut items, |item| item.fault == kind);
        }
        for item in items.clone() {
            search.without(&mut items, |other| *other == item);
        }
        // After a fault has been removed, others may no longer be needed.
        if items.len() == before || search.runs >= limit {
            break;
        }
    }
    while search.messages > 1 && search.fails(&items, search.messages / 2) {
        search.messages /= 2;
    }
    Shrunk {
        only: Only::from(&items[..]),
        messages: search.messages,
        failure: search.failure,
        runs: search.runs,
    }
}

struct Search<'a> {
    all: &'a Options,
    failure: Failure,
    messages: u32,
    runs: u32,
    limit: u32,
}

impl Search<'_> {
    /// Whether the run still fails in the same way.
    fn fails(&mut self, items: &[Item], messages: u32) -> bool {
        if self.runs >= self.limit {
            return false;
        }
        self.runs += 1;
        let mut options = self.all.clone();
        options.keep_only(&Only::from(items));
        options.limit_messages(messages);
        match attempt(options, false) {
            Err(failure) if failure.is_like(&self.failure) => {
                self.failure = failure;
                true
            }
            _ => false,
        }
    }

    /// Removes the items that match `unwanted` if the run still fails without them.
    fn without(&mut self, items: &mut Vec<Item>, unwanted: impl Fn(&Item) -> bool) {
        let fewer: Vec<Item> = items.iter().filter(|item| !unwanted(item)).copied().collect();
        if fewer.len() < items.len() && self.fails(&fewer, self.messages) {
            *items = fewer;
        }
    }
}
