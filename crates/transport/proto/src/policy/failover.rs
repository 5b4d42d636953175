//! The state machine that chooses the path for new data when paths fail and answer again. It combines
//! those of caro Figs 3.1, 3.7 and 3.9, with the phase that RFC 7829 puts before III.
//!
//! ```text
//!              the primary fails,             the path in use fails,
//!              another path is active         another one is active
//!            +----------------------+        +------+
//!            |                      v        |      v
//!      +-----------+  the primary  +-------------------+  no path is   +-------------+
//!  --> | I Primary | <------------ |   II Alternate    | ------------> | III Dormant |
//!      +-----------+  answers, or  +-------------------+  active       +-------------+
//!          ^  |       is given up        ^                               |  |  ^  |
//!          |  |                          | another path answers          |  |  +--+ timeout,
//!          |  |                          +-------------------------------+  |    or the primary
//!          |  +--------- no path is active --------------> III              |    is given up
//!          +-------------------- the primary answers -----------------------+
//! ```
//!
//! Paths fail elsewhere: a path has failed when its error count exceeds Path.Max.Retrans. A
//! potentially failed path (RFC 7829) counts as failed in the figure. While no path is active but
//! some are potentially failed, the association is not dormant: data uses the potentially failed path
//! with the fewest errors (section 3.2, 4). From there it goes to I and II as from III, and to III
//! when the last of these paths fails.
//!
//! The primary is given up when its error count exceeds the change-primary threshold (and, for an
//! informed choice, the path in use promises more throughput). Then the path in use becomes the
//! primary one.

use super::DormantBehaviour;
use crate::path::{Failover, Phase};
use crate::per_path::PathId;

/// Inputs of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A path that was active has failed, perhaps only potentially.
    Failed(PathId),
    /// A path that had already failed, perhaps only potentially, timed out again.
    TimedOut(PathId),
    /// A path that had failed answered and is active again.
    Responds(PathId),
    /// The primary path's error count exceeds the change-primary threshold.
    GiveUpPrimary,
    /// The user made this path the primary one.
    SetPrimary(PathId),
}

/// The state machine's view of the paths.
pub(crate) struct View<'a> {
    pub(crate) dormant: DormantBehaviour,
    pub(crate) is_active: &'a dyn Fn(PathId) -> bool,
    /// The next active path after a path, if there is another one.
    pub(crate) alternate: &'a dyn Fn(PathId) -> Option<PathId>,
    /// The potentially failed path with the fewest errors; the argument is the path that had the last
    /// error.
    pub(crate) potentially_failed: &'a dyn Fn(PathId) -> Option<PathId>,
    /// The same for all paths that may carry data.
    pub(crate) fewest_errors: &'a dyn Fn(PathId) -> Option<PathId>,
    /// The next path after a path that may carry data, failed or not; the path itself if there is no
    /// other one.
    pub(crate) next_usable: &'a dyn Fn(PathId) -> Option<PathId>,
}

impl Failover {
    /// The state after `input`; `view` shows the paths after the input.
    pub(crate) fn step(self, input: Input, view: &View<'_>) -> Self {
        let Self { phase, primary, in_use } = self;
        match (phase, input) {
            (Phase::Primary | Phase::Alternate, Input::Failed(path)) if path == in_use => {
                match (view.alternate)(path) {
                    Some(next) => Self { phase: Phase::Alternate, primary, in_use: next },
                    None => self.without_active_path(path, view),
                }
            }
            (Phase::PotentiallyFailed | Phase::Dormant, Input::TimedOut(path))
                if path == in_use =>
            {
                self.without_active_path(path, view)
            }
            (
                Phase::Alternate | Phase::PotentiallyFailed | Phase::Dormant,
                Input::Responds(path),
            ) if path == primary => Self { phase: Phase::Primary, primary, in_use: primary },
            (Phase::PotentiallyFailed | Phase::Dormant, Input::Responds(path)) => {
                Self { phase: Phase::Alternate, primary, in_use: path }
            }
            (Phase::Alternate, Input::GiveUpPrimary) => {
                Self { phase: Phase::Primary, primary: in_use, in_use }
            }
            // This does not change the state of a path, so the association's phase remains the same.
            (Phase::PotentiallyFailed | Phase::Dormant, Input::GiveUpPrimary) => {
                Self { primary: in_use, ..self }
            }
            (_, Input::SetPrimary(path)) if (view.is_active)(path) => {
                Self { phase: Phase::Primary, primary: path, in_use: path }
            }
            (Phase::Primary, Input::SetPrimary(path)) if path != in_use => {
                Self { phase: Phase::Alternate, primary: path, in_use }
            }
            (_, Input::SetPrimary(path)) => Self { primary: path, ..self },
            // State changes of paths that do not carry new data have no effect.
            (_, Input::Failed(_) | Input::TimedOut(_) | Input::Responds(_))
            | (Phase::Primary, Input::GiveUpPrimary) => self,
        }
    }

    /// The state after `last` timed out and no path is active.
    fn without_active_path(self, last: PathId, view: &View<'_>) -> Self {
        if let Some(in_use) = (view.potentially_failed)(last) {
            return Self { phase: Phase::PotentiallyFailed, in_use, ..self };
        }
        let in_use = view.dormant.path(last, self.primary, view.next_usable, view.fewest_errors);
        Self { phase: Phase::Dormant, in_use, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_path::{OfPath, PerPath};

    /// Number of consecutive errors of a path.
    struct Errors(PathId, u32);

    impl OfPath for Errors {
        fn id(&self) -> PathId {
            self.0
        }
    }

    /// Steps through `inputs` with `count` paths and returns the states, as phase, primary and
    /// path in use. A path has failed with its first error.
    fn run(count: u16, dormant: DormantBehaviour, inputs: &[Input]) -> Vec<(Phase, u16, u16)> {
        run_potentially(count, 0, dormant, inputs)
    }

    /// The same, but with up to `pmr` errors a path is only potentially failed.
    fn run_potentially(
        count: u16,
        pmr: u32,
        dormant: DormantBehaviour,
        inputs: &[Input],
    ) -> Vec<(Phase, u16, u16)> {
        let mut errors: PerPath<Errors> =
            (0..count).map(|number| Errors(PathId(number), 0)).collect();
        let mut state = Failover { phase: Phase::Primary, primary: PathId(0), in_use: PathId(0) };
        let mut states = Vec::new();
        for input in inputs {
            match *input {
                Input::Failed(path) | Input::TimedOut(path) => errors[path].1 += 1,
                Input::Responds(path) => errors[path].1 = 0,
                _ => {}
            }
            let after = |from: PathId| errors.in_turn_after(from);
            let alternate = |from| after(from).find(|path| *path != from && errors[*path].1 == 0);
            let fewest = |from: PathId, most: u32| {
                let few = after(from).filter(|path| errors[*path].1 <= most);
                few.min_by_key(|path| errors[*path].1)
            };
            let view = View {
                dormant,
                is_active: &|path| errors[path].1 == 0,
                alternate: &alternate,
                potentially_failed: &|from| fewest(from, pmr),
                fewest_errors: &|from| fewest(from, u32::MAX),
                next_usable: &|from| after(from).next(),
            };
            state = state.step(*input, &view);
            states.push((state.phase, state.primary.number(), state.in_use.number()));
        }
        states
    }

    use DormantBehaviour::{FewestErrors, Hop, LastDest};
    use Input::GiveUpPrimary;

    #[expect(non_snake_case, reason = "written as the input is")]
    const fn Failed(path: u16) -> Input {
        Input::Failed(PathId(path))
    }

    #[expect(non_snake_case, reason = "written as the input is")]
    const fn TimedOut(path: u16) -> Input {
        Input::TimedOut(PathId(path))
    }

    #[expect(non_snake_case, reason = "written as the input is")]
    const fn Responds(path: u16) -> Input {
        Input::Responds(PathId(path))
    }

    #[expect(non_snake_case, reason = "written as the input is")]
    const fn SetPrimary(path: u16) -> Input {
        Input::SetPrimary(PathId(path))
    }

    use Phase::{Alternate, Dormant, Primary};

    /// Every transition of the three figures, with its inputs and the state after the last of them.
    #[test]
    fn transitions_of_the_figures() {
        type Row<'a> = (&'a str, DormantBehaviour, &'a [Input], (Phase, u16, u16));
        let table: &[Row<'_>] = &[
            ("3.1 I to II", Hop, &[Failed(0)], (Alternate, 0, 1)),
            ("3.1 II to II", Hop, &[Failed(0), Failed(1)], (Alternate, 0, 2)),
            ("3.1 II to I", Hop, &[Failed(0), Responds(0)], (Primary, 0, 0)),
            ("3.1 II to I from D2", Hop, &[Failed(0), Failed(1), Responds(0)], (Primary, 0, 0)),
            ("3.1 D1 back", Hop, &[Failed(0), Failed(1), Responds(1)], (Alternate, 0, 2)),
            ("3.7 I to III", Hop, &[Failed(1), Failed(2), Failed(0)], (Dormant, 0, 1)),
            ("3.7 II to III", Hop, &[Failed(0), Failed(1), Failed(2)], (Dormant, 0, 0)),
            (
                "3.7 III hops",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(0), TimedOut(1)],
                (Dormant, 0, 2),
            ),
            (
                "3.7 another path times out",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(1)],
                (Dormant, 0, 0),
            ),
            (
                "3.7 III to I",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(0), Responds(0)],
                (Primary, 0, 0),
            ),
            (
                "3.7 III to II",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(0), Responds(2)],
                (Alternate, 0, 2),
            ),
            ("3.9 II to I", Hop, &[Failed(0), GiveUpPrimary], (Primary, 1, 1)),
            (
                "3.9 III to III",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(0), GiveUpPrimary],
                (Dormant, 1, 1),
            ),
            (
                "3.9 III to I with the new primary",
                Hop,
                &[Failed(0), Failed(1), Failed(2), TimedOut(0), GiveUpPrimary, Responds(1)],
                (Primary, 1, 1),
            ),
            ("3.9 nothing to give up", Hop, &[GiveUpPrimary], (Primary, 0, 0)),
        ];
        for (name, dormant, inputs, expected) in table {
            assert_eq!(run(3, *dormant, inputs).last(), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_dormant_behaviours_stay_where_they_are() {
        let all: Vec<Input> =
            [0, 1, 2].map(Failed).into_iter().chain([2, 2, 0].map(TimedOut)).collect();
        let in_use = |behaviour| -> Vec<u16> {
            run(3, behaviour, &all).iter().map(|(_, _, in_use)| *in_use).collect()
        };
        assert_eq!(in_use(LastDest), [1, 2, 2, 2, 2, 2]);
        assert_eq!(in_use(DormantBehaviour::Primary), [1, 2, 0, 0, 0, 0]);
        assert_eq!(in_use(Hop), [1, 2, 0, 0, 0, 1]);
        for behaviour in DormantBehaviour::ALL {
            let back = [Failed(1), Failed(0), Responds(1)];
            assert_eq!(run(2, *behaviour, &back)[2], (Alternate, 0, 1), "{behaviour}");
        }
    }

    #[test]
    // test: rfc7829 3.2 "the sender MUST choose one destination address in PF state"
    fn data_takes_the_best_of_the_potentially_failed_paths() {
        let all = [Failed(0), Failed(1)];
        let run = |inputs: &[Input]| -> (Phase, u16, u16) {
            let inputs: Vec<Input> = all.iter().chain(inputs).copied().collect();
            *run_potentially(2, 2, Hop, &inputs).last().unwrap()
        };
        let doubtful = Phase::PotentiallyFailed;
        assert_eq!(run(&[]), (doubtful, 0, 0), "away from the one that timed out last");
        assert_eq!(run(&[TimedOut(1)]), (doubtful, 0, 0), "another one's errors");
        assert_eq!(run(&[TimedOut(0)]), (doubtful, 0, 1));
        assert_eq!(run(&[TimedOut(0), TimedOut(1)]), (doubtful, 0, 0));
        assert_eq!(run(&[TimedOut(0), Responds(1)]), (Alternate, 0, 1));
        assert_eq!(run(&[TimedOut(0), Responds(0)]), (Primary, 0, 0));
        assert_eq!(run(&[Responds(1)]), (Alternate, 0, 1));
        assert_eq!(run(&[TimedOut(0), GiveUpPrimary]), (doubtful, 1, 1));
        assert_eq!(
            run(&[SetPrimary(1)]),
            (doubtful, 1, 0),
            "the user's choice waits for an answer"
        );
        // The last path fails.
        let failed = [TimedOut(0), TimedOut(1), TimedOut(0), TimedOut(1)];
        assert_eq!(run(&failed[..3]), (doubtful, 0, 1));
        assert_eq!(run(&failed), (Dormant, 0, 0));
        let single = run_potentially(1, 1, Hop, &[Failed(0), Responds(0), Failed(0), TimedOut(0)]);
        let phases = [doubtful, Primary, doubtful, Dormant];
        assert_eq!(single, phases.map(|phase| (phase, 0, 0)));
    }

    #[test]
    // test: rfc7829 4.1 "SHOULD choose the destination in inactive state with the lowest error count"
    fn dormant_data_takes_the_path_with_the_fewest_errors() {
        let inputs = [Failed(0), TimedOut(0), TimedOut(0), Failed(1), TimedOut(1), TimedOut(1)];
        let in_use: Vec<u16> =
            run(2, FewestErrors, &inputs).iter().map(|(_, _, in_use)| *in_use).collect();
        assert_eq!(in_use, [1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn one_path_is_dormant_when_it_fails() {
        for behaviour in DormantBehaviour::ALL {
            let states = run(1, *behaviour, &[Failed(0), TimedOut(0), GiveUpPrimary, Responds(0)]);
            assert_eq!(states[..3], [(Dormant, 0, 0); 3], "{behaviour}");
            assert_eq!(states[3], (Primary, 0, 0));
        }
    }

    #[test]
    fn the_user_chooses() {
        assert_eq!(run(2, Hop, &[SetPrimary(1)]), [(Primary, 1, 1)]);
        let inactive = run(2, Hop, &[Failed(1), SetPrimary(1), Responds(1)]);
        assert_eq!(inactive[1..], [(Alternate, 1, 0), (Primary, 1, 1)]);
        let dormant = run(2, Hop, &[Failed(0), Failed(1), SetPrimary(1), Responds(1)]);
        assert_eq!(dormant[2..], [(Dormant, 1, 0), (Primary, 1, 1)]);
    }
}
