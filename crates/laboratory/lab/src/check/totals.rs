//! The verdicts of several claims in numbers.

use super::{Chance, Judgement, Verdict, by_chance};

/// How many claims have which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// All claims.
    pub claims: usize,
    /// Claims that hold.
    pub holds: usize,
    /// Claims that would hold, but whose set-up was chosen by its result.
    pub fitted: usize,
    /// Claims that differ without refuting the document.
    pub differs: usize,
    /// Claims that refute the document.
    pub refuted: usize,
    /// Claims that the runs do not decide.
    pub open: usize,
    /// How many verdicts may be wrong by chance.
    pub chance: Chance,
}

impl Totals {
    /// The totals of some claims.
    pub fn of<'a>(judgements: impl Iterator<Item = &'a Judgement> + Clone) -> Self {
        let count = |verdict| judgements.clone().filter(|one| one.verdict == verdict).count();
        Self {
            claims: judgements.clone().count(),
            holds: count(Verdict::Holds),
            fitted: count(Verdict::Fitted),
            differs: count(Verdict::Differs),
            refuted: count(Verdict::Refuted),
            open: count(Verdict::Open),
            chance: by_chance(judgements.clone()),
        }
    }

    /// How many claims have which verdict.
    pub fn verdicts(&self) -> String {
        let Self { holds, fitted, differs, refuted, open, .. } = self;
        format!(
            "{holds} hold, {fitted} fitted, {differs} differ, {refuted} refute the document, {open} open"
        )
    }

    /// How many verdicts may be wrong by chance, as a sentence; `None` if none rests on random runs.
    pub fn by_chance(&self) -> Option<String> {
        let Chance { decided, at_most, expected } = self.chance;
        (decided > 0).then(|| {
            format!(
                "Of {decided} verdicts that rest on random runs, about {expected:.1} are wrong by chance, by how far \
                 the numbers are from their bounds; {at_most:.1} if every true number were at its bound."
            )
        })
    }
}
