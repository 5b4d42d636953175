//! From values to places on the paper, and round numbers for the axes.

/// A linear scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    step: f64,
}

/// Ticks of an axis, about.
const TICKS: f64 = 6.0;

impl Scale {
    /// A scale that holds all values between `start` and `end` of the paper.
    pub fn numbers(
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        start: f64,
        end: f64,
    ) -> Self {
        let (mut low, mut high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), value| (l.min(value), h.max(value)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if low == high {
            high = low + low.abs().max(1.0);
        }
        let step = round_step((high - low) / TICKS);
        // The paper ends at a round number, and a little beyond the values.
        Self {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            start,
            end,
            step,
        }
    }

    /// A scale with a place for each of `count` names.
    pub fn names(count: usize, start: f64, end: f64) -> Self {
        Self { low: -0.5, high: count.max(1) as f64 - 0.5, start, end, step: 1.0 }
    }

    /// Where the paper begins.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// Where a value is.
    pub fn place(&self, value: f64) -> f64 {
        self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// Round numbers with their spelling.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        // There is room for five digits beside the axis.
        let (unit, suffix) = match self.low.abs().max(self.high.abs()) {
            most if most >= 1e8 => (1e6, "M"),
            most if most >= 1e5 => (1e3, "k"),
            _ => (1.0, ""),
        };
        let decimals = (-(self.step / unit).log10().floor()).max(0.0) as usize;
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count)
            .map(|index| {
                let value = self.low + index as f64 * self.step;
                let text = format!("{:.decimals$}", value / unit);
                (
                    value,
                    if text.trim_start_matches(['-', '0', '.']).is_empty() {
                        "0".into()
                    } else {
                        text + suffix
                    },
                )
            })
            .collect()
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    let factor = wanted / power;
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| factor <= f + 1e-9).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let texts = |values: &[f64], zero| -> Vec<String> {
            Scale::numbers(values.iter().copied(), zero, 0.0, 100.0)
                .ticks()
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(texts(&[0.0, 10.0], false), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(&[37.0, 98.0], true), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&[0.0, 0.3], true).first().unwrap(), "0");
        assert_eq!(texts(&[0.0, 0.3], true).last().unwrap(), "0.30");
        assert_eq!(texts(&[-20.0, 40.0], false)[0], "-20");
        assert_eq!(texts(&[0.0, 200_000.0], true)[..3], ["0", "50k", "100k"]);
        assert_eq!(texts(&[0.0, 2e8], true)[4], "200M");
    }

    #[test]
    fn values_have_places() {
        let scale = Scale::numbers([0.0, 10.0].into_iter(), true, 200.0, 0.0);
        assert_eq!((scale.place(0.0), scale.place(10.0)), (200.0, 0.0));
        let names = Scale::names(2, 0.0, 100.0);
        assert_eq!((names.place(0.0), names.place(1.0)), (25.0, 75.0));
    }
}
