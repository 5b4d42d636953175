//! Converts values to positions on the paper, and chooses round numbers for the axes.

/// A linear or logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Whether the other fields refer to the powers of ten of the values.
    log: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    step: f64,
}

/// Approximate number of ticks on an axis.
const TICKS: f64 = 6.0;

impl Scale {
    /// A scale with all values between the positions `start` and `end` of the paper.
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
        // The paper ends at a round number slightly beyond the values.
        Self {
            log: false,
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            start,
            end,
            step,
        }
    }

    /// A logarithmic scale with all positive values between the positions `start` and `end` of the paper. It starts and
    /// ends at powers of ten.
    pub fn powers(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), value| (l.min(value), h.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        // Treat values that differ from a power of ten only by rounding as that power.
        let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
        let high = high.max(low + 1.0);
        let step = ((high - low) / TICKS).ceil();
        Self { log: true, low, high, start, end, step }
    }

    /// A scale with positions for `count` names.
    pub fn names(count: usize, start: f64, end: f64) -> Self {
        Self { log: false, low: -0.5, high: count.max(1) as f64 - 0.5, start, end, step: 1.0 }
    }

    /// The position where the paper starts.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// The position of a value.
    pub fn place(&self, value: f64) -> f64 {
        // Values that are not positive are placed before the start of a logarithmic scale.
        let value = match self.log {
            true if value > 0.0 => value.log10(),
            true => self.low,
            false => value,
        };
        self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// Round numbers with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let count = ((self.high - self.low) / self.step).floor() as i32;
            let power = |index: i32| self.low as i32 + index * self.step as i32;
            return (0..=count).map(|index| power_of_ten(power(index))).collect();
        }
        // There is room for five digits next to the axis.
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

/// A power of ten with its label.
fn power_of_ten(power: i32) -> (f64, String) {
    let value = 10f64.powi(power);
    let text = match power {
        9.. => format!("1e{power}"),
        6..=8 => format!("{}M", 10u64.pow(power as u32 - 6)),
        5 => "100k".to_owned(),
        0..=4 => 10u64.pow(power as u32).to_string(),
        -4..=-1 => format!("{value:.*}", -power as usize),
        _ => format!("1e{power}"),
    };
    (value, text)
}

/// The next larger 1, 2 or 5 times a power of ten.
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
    fn logarithmic_axes_have_powers_of_ten() {
        let scale = Scale::powers([0.02, 30.0].into_iter(), 0.0, 80.0);
        let texts: Vec<_> = scale.ticks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["0.01", "0.1", "1", "10", "100"]);
        assert!((scale.place(1.0) - 40.0).abs() < 1e-9 && scale.place(0.0) == 0.0);
        // The ends are powers of ten; if there are many, some are omitted.
        let wide = Scale::powers([0.001, 1e9].into_iter(), 0.0, 1.0);
        let texts: Vec<_> = wide.ticks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["0.001", "0.1", "10", "1000", "100k", "10M", "1e9"]);
        assert_eq!(Scale::powers([].into_iter(), 0.0, 1.0).ticks().len(), 2);
    }

    #[test]
    fn values_have_places() {
        let scale = Scale::numbers([0.0, 10.0].into_iter(), true, 200.0, 0.0);
        assert_eq!((scale.place(0.0), scale.place(10.0)), (200.0, 0.0));
        let names = Scale::names(2, 0.0, 100.0);
        assert_eq!((names.place(0.0), names.place(1.0)), (25.0, 75.0));
    }
}
