//! Enumerates all combinations of a few choices without nested loops.

/// Enumerates every sequence of choices in a procedure. The procedure calls
/// [`choose`](Self::choose) for each choice, and is run again until all alternatives have been
/// tried.
///
/// ```
/// use anabranch_harness::odometer::Odometer;
///
/// let mut odometer = Odometer::default();
/// let mut seen = Vec::new();
/// while odometer.next() {
///     let first = odometer.choose(2);
///     // Later choices may depend on earlier ones.
///     let second = if first == 0 { odometer.choose(3) } else { 9 };
///     seen.push((first, second));
/// }
/// assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 9)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Odometer {
    /// Choice and number of alternatives at each position so far.
    digits: Vec<(usize, usize)>,
    at: usize,
    started: bool,
}

impl Odometer {
    /// Advances to the next sequence. Returns `false` if there is none.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> bool {
        self.at = 0;
        if !self.started {
            self.started = true;
            return true;
        }
        while let Some((choice, count)) = self.digits.pop() {
            if choice + 1 < count {
                self.digits.push((choice + 1, count));
                return true;
            }
        }
        false
    }

    /// Chooses one of `count` alternatives, 0 to `count - 1`. `count` must be at least 1, and the
    /// same whenever the previous choices are the same.
    pub fn choose(&mut self, count: usize) -> usize {
        assert!(count > 0, "a choice among nothing");
        if self.at == self.digits.len() {
            self.digits.push((0, count));
        }
        let (choice, before) = self.digits[self.at];
        assert_eq!(before, count, "the procedure is not deterministic");
        self.at += 1;
        choice
    }

    /// The choices of the current sequence.
    pub fn choices(&self) -> Vec<usize> {
        self.digits.iter().map(|(choice, _)| *choice).collect()
    }
}
