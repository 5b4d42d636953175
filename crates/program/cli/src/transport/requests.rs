//! Counts the requests that this process answered, by method and status.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_http::Access;
use serde::{Deserialize, Serialize};

/// Methods that are counted by name, since clients may send any method.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];

/// Requests of one method that were answered with one status.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Requests {
    pub(crate) method: String,
    pub(crate) code: u16,
    pub(crate) requests: u64,
    /// Bytes of the bodies of their answers.
    pub(crate) response_bytes: u64,
}

/// Number of requests and bytes of their answers, by method and status.
type Answered = BTreeMap<(&'static str, u16), (u64, u64)>;

static ANSWERED: Mutex<Answered> = Mutex::new(BTreeMap::new());

fn answered() -> MutexGuard<'static, Answered> {
    ANSWERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a request.
pub(super) fn note(access: &Access) {
    let method = METHODS.into_iter().find(|method| *method == access.method.as_str());
    let mut answered = answered();
    let (requests, bytes) =
        answered.entry((method.unwrap_or("other"), access.status.as_u16())).or_default();
    *requests += 1;
    *bytes += access.bytes;
}

/// The counts of all answered requests.
pub(crate) fn now() -> Vec<Requests> {
    let answered = answered();
    let rows = answered.iter().map(|((method, code), (requests, bytes))| Requests {
        method: (*method).to_owned(),
        code: *code,
        requests: *requests,
        response_bytes: *bytes,
    });
    rows.collect()
}
