//! Back-off of heartbeats on a path that does not answer.
//!
//! A path that has worked is probed at the usual rate as long as the association exists, with an RTO
//! that doubles at each error (RFC 9260 section 8.3). An address that could not be verified is probed
//! ever more rarely, down to an eighth of that rate: it may belong to an unrelated host, or to an
//! interface that is down.

/// The factor for the usual time between heartbeats to a path. `never_verified`: the path has failed
/// and has never worked; `errors`: number of consecutive errors. A path fails at more than
/// `path_max_retrans`.
pub(super) fn factor(never_verified: bool, errors: u32, path_max_retrans: u32) -> u32 {
    if !never_verified {
        return 1;
    }
    1 << errors.saturating_sub(path_max_retrans).saturating_sub(1).min(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_never_answered_is_asked_ever_more_rarely() {
        let factors: Vec<u32> = (5..12).map(|errors| factor(true, errors, 5)).collect();
        assert_eq!(factors, [1, 1, 2, 4, 8, 8, 8]);
        assert_eq!(factor(false, 100, 5), 1, "what has worked may work again");
    }
}
