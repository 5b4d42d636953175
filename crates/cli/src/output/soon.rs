//! Lines for standard output that need not be there at once: those of what happens in one turn of the program are
//! written together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

use super::print;
use crate::failure::{Failure, complain};

/// Bytes that are written without waiting for the end of the turn.
const MANY: usize = 64 << 10;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn lines() -> MutexGuard<'static, Vec<u8>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What waits is written by whoever has this.
pub(super) fn take() -> Vec<u8> {
    std::mem::take(&mut *lines())
}

/// Prints a text once the other tasks that are ready have had their turn, or before whatever is printed till then.
pub(crate) fn print_soon(text: &str) {
    let (first, many) = {
        let mut lines = lines();
        let first = lines.is_empty();
        lines.extend_from_slice(text.as_bytes());
        (first, lines.len() >= MANY)
    };
    match Handle::try_current() {
        Ok(runtime) if first && !many => {
            runtime.spawn(async {
                tokio::task::yield_now().await;
                write();
            });
        }
        Ok(_) if !many => {}
        _ => write(),
    }
}

/// Prints what waits.
fn write() {
    if let Err(Failure::Failed(sentence)) = print("") {
        complain(&sentence);
    }
}
