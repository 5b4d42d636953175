//! Which uplinks to use: backups only while no other works, and none that has reached its limit.

use std::time::Duration;

/// How long the others may take to work at first, before backups help.
const FIRST: Duration = Duration::from_secs(3);

/// How long another uplink must have worked again, before backups rest. One that comes and goes would otherwise take
/// the backups with it.
const AGAIN: Duration = Duration::from_secs(10);

/// An uplink as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its switch is on.
    pub(super) on: bool,
    pub(super) backup: bool,
    /// It has reached its limit.
    pub(super) exceeded: bool,
    /// Its path carries data.
    pub(super) works: bool,
}

/// Decides which uplinks are used.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Backups are used.
    helping: bool,
    /// An uplink has worked before.
    begun: bool,
    /// Since when the uplinks that are no backups have been in the state that would change `helping`.
    since: Option<Duration>,
}

impl Plan {
    /// Returns for each uplink whether it is used. `now` is the time since the start.
    pub(super) fn decide(&mut self, now: Duration, candidates: &[Candidate]) -> Vec<bool> {
        let usable = |one: &&Candidate| one.on && !one.exceeded;
        let mut others = candidates.iter().filter(usable).filter(|one| !one.backup).peekable();
        let there_are_others = others.peek().is_some();
        let works = others.any(|one| one.works);
        if works == self.helping {
            let since = *self.since.get_or_insert(now);
            let patience = match works {
                true => AGAIN,
                false if self.begun || !there_are_others => Duration::ZERO,
                false => FIRST,
            };
            if now.saturating_sub(since) >= patience {
                (self.helping, self.since) = (!works, None);
            }
        } else {
            self.since = None;
        }
        self.begun |= works;
        let used = |one: &Candidate| one.on && !one.exceeded && (!one.backup || self.helping);
        candidates.iter().map(used).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Candidate = Candidate { on: true, backup: false, exceeded: false, works: true };
    const DEAD: Candidate = Candidate { works: false, ..GOOD };
    const BACKUP: Candidate = Candidate { backup: true, ..DEAD };

    fn at(plan: &mut Plan, seconds: u64, candidates: &[Candidate]) -> Vec<bool> {
        plan.decide(Duration::from_secs(seconds), candidates)
    }

    #[test]
    fn a_backup_helps_at_once_and_rests_when_another_has_worked_for_a_while() {
        let mut plan = Plan::default();
        assert_eq!(at(&mut plan, 0, &[DEAD, BACKUP]), [true, false], "it has just begun");
        assert_eq!(at(&mut plan, 2, &[GOOD, BACKUP]), [true, false]);
        assert_eq!(at(&mut plan, 50, &[DEAD, BACKUP]), [true, true]);
        assert_eq!(at(&mut plan, 60, &[GOOD, BACKUP]), [true, true]);
        assert_eq!(at(&mut plan, 65, &[DEAD, BACKUP]), [true, true]);
        assert_eq!(at(&mut plan, 66, &[GOOD, BACKUP]), [true, true], "it comes and goes");
        assert_eq!(at(&mut plan, 75, &[GOOD, BACKUP]), [true, true]);
        assert_eq!(at(&mut plan, 76, &[GOOD, BACKUP]), [true, false]);
    }

    #[test]
    fn a_backup_helps_when_nothing_else_comes() {
        let mut plan = Plan::default();
        assert_eq!(at(&mut plan, 0, &[DEAD, BACKUP]), [true, false]);
        assert_eq!(at(&mut plan, 3, &[DEAD, BACKUP]), [true, true]);
        assert_eq!(at(&mut Plan::default(), 0, &[BACKUP]), [true], "there is nothing else");
        let off = Candidate { on: false, ..DEAD };
        assert_eq!(at(&mut Plan::default(), 0, &[off, BACKUP]), [false, true]);
    }

    #[test]
    fn limits_and_switches_go_first() {
        let exceeded = Candidate { exceeded: true, ..GOOD };
        let off = Candidate { on: false, ..BACKUP };
        let mut plan = Plan::default();
        assert_eq!(at(&mut plan, 0, &[exceeded, BACKUP, off]), [false, true, false]);
        let spent = Candidate { exceeded: true, ..BACKUP };
        assert_eq!(at(&mut plan, 1, &[DEAD, spent]), [true, false]);
    }
}
