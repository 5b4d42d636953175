//! The null test: checks which claims of a scenario hold even without any effect.
//!
//! In this test every variant of the axes is replaced by the first one, with the same seeds, so that all policies are
//! the same policy. A claim that still holds then did not need the effect that it describes.

use std::sync::Arc;

use super::axis::Axis;
use super::{Claim, Scenario};
use crate::tree::{Checked, Fields, problem};

/// The variants that are merged, and the claims that should still hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Null {
    /// Indices of the axes whose values become the first one.
    pub axes: Vec<usize>,
    /// Claims that hold nevertheless, and rightly so: most state that two things are equal.
    pub survive: Vec<String>,
}

/// Reads `[null]`. By default all axes of variants are merged, and no claim should survive.
pub(super) fn read(root: &Fields<'_>, axes: &[Axis], claims: &[Claim]) -> Checked<Null> {
    let variants = || (0..axes.len()).filter(|at| axes.get(*at).is_some_and(Axis::is_of_variants));
    let mut null = Null { axes: variants().collect(), survive: Vec::new() };
    let Some(fields) = root.table("null")? else { return Ok(null) };
    if let Some(names) = fields.texts("axes")? {
        null.axes.clear();
        for (line, name) in names {
            match axes.iter().position(|axis| axis.name == name) {
                Some(index) => null.axes.push(index),
                None => return problem(line, format!("null.axes: '{name}' is not an axis")),
            }
        }
    }
    for (line, name) in fields.texts("survive")?.unwrap_or_default() {
        let Some(claim) = claims.iter().find(|claim| claim.id == name) else {
            return problem(line, format!("null.survive: there is no claim '{name}'"));
        };
        if !claim.kind.may_survive_null() {
            return problem(
                line,
                format!(
                    "null.survive: an {} as '{name}' must not hold where there is none",
                    claim.kind
                ),
            );
        }
        null.survive.push(name.to_owned());
    }
    fields.finish()?;
    Ok(null)
}

impl Scenario {
    /// The same scenario with the values of the null test's axes merged. The flags tell for each point whether its
    /// experiment has changed.
    pub fn nulled(&self) -> (Self, Vec<bool>) {
        let mut nulled = self.clone();
        let mut changed = vec![false; self.points.len()];
        let setups = self.points.iter().map(|point| {
            let is_like = |at: &[usize]| {
                at.iter()
                    .zip(&point.at)
                    .enumerate()
                    .all(|(axis, (theirs, ours))| self.null.axes.contains(&axis) || theirs == ours)
            };
            // The last axis varies fastest, so the first match has the first values.
            let first = self.points.iter().find(|other| is_like(&other.at)).unwrap_or(point);
            (Arc::clone(&first.setup), first.seed_key.clone())
        });
        let setups: Vec<_> = setups.collect();
        for ((point, first), changed) in nulled.points.iter_mut().zip(setups).zip(&mut changed) {
            *changed = !Arc::ptr_eq(&point.setup, &first.0);
            (point.setup, point.seed_key) = first;
        }
        (nulled, changed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::scenario::tests::{read, text};
    use crate::tree::tests::refused;

    const CLAIM: &str = "[[claim]]\nid = 'a'\nkind = 'order'\ntext = 't'\nsource = 's'\n\
                         formula = '1'\nat_least = 1\n";

    #[test]
    fn variants_become_the_first_one_and_other_values_stay() {
        let scenario = read(&text(), &[]).unwrap();
        let (nulled, changed) = scenario.nulled();
        assert_eq!(changed, [false, true, false, true]);
        for at in [0, 2] {
            assert!(Arc::ptr_eq(&nulled.points[at + 1].setup, &scenario.points[at].setup));
            assert_eq!(nulled.points[at + 1].key, scenario.points[at + 1].key);
            // Even the random choices are the same.
            assert_eq!(nulled.points[at + 1].seed_key, scenario.points[at].seed_key);
        }
        let by_name = read(&format!("{}[null]\naxes = ['loss']\n", text()), &[]).unwrap();
        assert_eq!(by_name.nulled().1, [false, false, true, true]);
    }

    #[test]
    fn only_likenesses_may_survive() {
        let line = text().lines().count() + 2;
        let with = |more: &str| read(&format!("{}[null]\n{more}\n{CLAIM}", text()), &[]);
        refused(with("axes = ['lost']"), line, "'lost' is not an axis");
        refused(with("survive = ['b']"), line, "there is no claim 'b'");
        refused(with("survive = ['a']"), line, "an order as 'a' must not hold");
        assert_eq!(with("").unwrap().null.axes, [1]);
    }
}
