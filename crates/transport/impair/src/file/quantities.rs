//! Keys with units in their values, as in programs and scenarios: `delay = "40 ms"`. Each is
//! equivalent to a key that has the unit in its name.

use anabranch_units::{Kind, Quantity};
use toml::Spanned;

use super::schema::{Checked, RawPath, exclusive, problem};

/// A text with a quantity.
pub(super) type Text = Option<Spanned<String>>;

/// How a key with a unit in its value is converted.
struct Meaning {
    key: &'static str,
    /// The equivalent key with the unit in its name, and the number of base units in that unit.
    plain: (&'static str, f64),
    kind: Kind,
    /// In base units.
    least: f64,
    most: f64,
}

const HOUR: f64 = 3_600e9;
const YEAR: f64 = 31_536_000e9;

impl Meaning {
    const fn new(key: &'static str, plain: (&'static str, f64), kind: Kind) -> Self {
        let (least, most) = match kind {
            Kind::Time => (0.0, HOUR),
            Kind::Rate => (1.0, 1e12),
            Kind::Share => (0.0, 1.0),
            Kind::Size | Kind::Packets | Kind::Bdp => (0.0, (1_u64 << 40) as f64),
        };
        Self { key, plain, kind, least, most }
    }

    /// Converts the text to the number for the equivalent key.
    fn read(&self, text: &Spanned<String>) -> Checked<f64> {
        let value = Quantity::expect(text.get_ref(), self.kind, self.least, self.most);
        let value = value.or_else(|what| problem(text.span(), format!("{} {what}", self.key)))?;
        Ok(value / self.plain.1)
    }

    fn number(&self, text: &Text, plain: &mut Option<Spanned<f64>>) -> Checked<()> {
        exclusive(self.plain.0, plain, self.key, text)?;
        if let Some(text) = text {
            *plain = Some(Spanned::new(text.span(), self.read(text)?));
        }
        Ok(())
    }

    fn whole(&self, text: &Text, plain: &mut Option<Spanned<u64>>) -> Checked<()> {
        exclusive(self.plain.0, plain, self.key, text)?;
        if let Some(text) = text {
            let number = self.read(text)?;
            if number.fract() > 0.0 {
                return problem(text.span(), format!("{} is not a whole number", self.key));
            }
            *plain = Some(Spanned::new(text.span(), number as u64));
        }
        Ok(())
    }
}

impl RawPath {
    /// Converts texts with units into the equivalent keys.
    pub(super) fn take_quantities(&mut self) -> Checked<()> {
        let time = |key, plain| Meaning::new(key, (plain, 1e6), Kind::Time);
        time("delay", "delay_ms").number(&self.delay, &mut self.delay_ms)?;
        time("jitter", "jitter_ms").number(&self.jitter, &mut self.jitter_ms)?;
        let held = time("reorder_delay", "reorder_delay_ms");
        held.number(&self.reorder_delay, &mut self.reorder_delay_ms)?;
        for (key, plain, text, into) in [
            ("cut_at", "cut_at_s", &self.cut_at, &mut self.cut_at_s),
            ("repair_at", "repair_at_s", &self.repair_at, &mut self.repair_at_s),
        ] {
            let cut = Meaning { most: YEAR, ..Meaning::new(key, (plain, 1e9), Kind::Time) };
            cut.number(text, into)?;
        }
        let share = |key, plain| Meaning::new(key, (plain, 0.01), Kind::Share);
        share("loss", "loss_percent").number(&self.loss, &mut self.loss_percent)?;
        let counted = |text: &Spanned<String>| text.get_ref().contains("packet");
        if self.loss_burst.as_ref().is_some_and(counted) {
            exclusive("loss_burst_ms", &self.loss_burst_ms, "loss_burst", &self.loss_burst)?;
            let packets = Meaning::new("loss_burst", ("loss_burst_packets", 1.0), Kind::Packets);
            packets.number(&self.loss_burst, &mut self.loss_burst_packets)?;
        } else {
            exclusive(
                "loss_burst_packets",
                &self.loss_burst_packets,
                "loss_burst",
                &self.loss_burst,
            )?;
            time("loss_burst", "loss_burst_ms")
                .number(&self.loss_burst, &mut self.loss_burst_ms)?;
        }
        share("reorder", "reorder_percent").number(&self.reorder, &mut self.reorder_percent)?;
        share("corrupt", "corrupt_percent").number(&self.corrupt, &mut self.corrupt_percent)?;
        let twice = share("duplicate", "duplicate_percent");
        twice.number(&self.duplicate, &mut self.duplicate_percent)?;
        exclusive("rate_mbit", &self.rate_mbit, "rate", &self.rate)?;
        let rate = Meaning::new("rate", ("rate_kbit", 1000.0), Kind::Rate);
        rate.number(&self.rate, &mut self.rate_kbit)?;
        let size = |key, plain| Meaning::new(key, (plain, 1.0), Kind::Size);
        size("mtu", "mtu_bytes").whole(&self.mtu, &mut self.mtu_bytes)?;
        size("overhead", "overhead_bytes").whole(&self.overhead, &mut self.overhead_bytes)?;
        exclusive("queue_packets", &self.queue_packets, "queue", &self.queue)?;
        if self.queue.as_ref().is_some_and(counted) {
            exclusive("queue_bytes", &self.queue_bytes, "queue", &self.queue)?;
            let packets = Meaning::new("queue", ("queue_packets", 1.0), Kind::Packets);
            return packets.whole(&self.queue, &mut self.queue_packets);
        }
        size("queue", "queue_bytes").whole(&self.queue, &mut self.queue_bytes)
    }
}
