//! Reachability of the peer's addresses, and which changes are reported.

use anabranch::PathState;

use crate::notification::AddressChange;

/// The reachability of an address over the best path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Unreachable,
    PotentiallyFailed,
    Active,
}

impl Reach {
    /// The reachability over paths in these states. Without `expose_pf`, potentially failed paths count as
    /// active (RFC 7829 section 7.3).
    pub(super) fn of(states: impl Iterator<Item = PathState>, expose_pf: bool) -> Self {
        let reach = |state| match state {
            PathState::Active => Self::Active,
            PathState::PotentiallyFailed if expose_pf => Self::PotentiallyFailed,
            PathState::PotentiallyFailed => Self::Active,
            _ => Self::Unreachable,
        };
        states.map(reach).max().unwrap_or(Self::Unreachable)
    }

    /// The change to report when it becomes `now`; `before` is `None` the first time.
    pub(super) fn change(before: Option<Self>, now: Self) -> Option<AddressChange> {
        match (before, now) {
            (None, Self::Active) => Some(AddressChange::Confirmed),
            (Some(before), now) if before == now => None,
            (None, _) => None,
            (Some(_), Self::Active) => Some(AddressChange::Available),
            (Some(_), Self::PotentiallyFailed) => Some(AddressChange::PotentiallyFailed),
            (Some(_), Self::Unreachable) => Some(AddressChange::Unreachable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathState::{Active, Inactive, PotentiallyFailed};

    #[test]
    fn potentially_failed_paths_are_reported_if_they_are_exposed() {
        let reported = |expose| {
            let mut before = None;
            let story = [Active, PotentiallyFailed, Active, PotentiallyFailed, Inactive, Active];
            let changes = story.map(|state| {
                let now = Reach::of([state, Inactive].into_iter(), expose);
                Reach::change(before.replace(now), now)
            });
            changes.into_iter().flatten().collect::<Vec<_>>()
        };
        use AddressChange::{Available, Confirmed, Unreachable};
        assert_eq!(reported(false), [Confirmed, Unreachable, Available]);
        let doubtful = AddressChange::PotentiallyFailed;
        let all = [Confirmed, doubtful, Available, doubtful, Unreachable, Available];
        assert_eq!(reported(true), all);
        assert_eq!(Reach::of([PotentiallyFailed, Active].into_iter(), true), Reach::Active);
        assert_eq!(Reach::change(None, Reach::Unreachable), None);
    }
}
