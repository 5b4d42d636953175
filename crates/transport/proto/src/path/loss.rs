//! Estimates the loss rate of a path from its traffic, and from heartbeats while it is idle.

/// Weight of the past after each packet: about the last 256 packets count.
const DECAY: f64 = 1.0 - 1.0 / 256.0;

/// Number of packets (or probes) after which there is an estimate.
const ENOUGH: f64 = 8.0;

/// Estimate of the share of packets that a path loses in the forward direction.
///
/// Data chunks count as delivered when they are acknowledged, and as lost when they are considered
/// lost. A heartbeat is lost when it or its answer is lost; to estimate one direction, the loss is
/// attributed equally to both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossEstimator {
    /// Weighted numbers of packets sent, and of those lost.
    sent: f64,
    lost: f64,
    /// The same for heartbeats, which can be lost in either direction.
    probes: f64,
    probes_lost: f64,
}

impl LossEstimator {
    /// Records that data chunks were acknowledged.
    pub(crate) fn on_delivered(&mut self, chunks: u32) {
        self.decay(chunks);
        self.sent += f64::from(chunks);
    }

    /// Records that data chunks were lost.
    pub(crate) fn on_lost(&mut self, chunks: u32) {
        self.decay(chunks);
        self.sent += f64::from(chunks);
        self.lost += f64::from(chunks);
    }

    /// Records that chunks that were considered lost had arrived.
    pub(crate) fn on_not_lost(&mut self, chunks: u32) {
        self.lost = (self.lost - f64::from(chunks)).max(0.0);
    }

    /// Records whether a heartbeat was answered in time.
    pub(crate) fn on_probe(&mut self, answered: bool) {
        self.decay(1);
        self.probes += 1.0;
        self.probes_lost += f64::from(u8::from(!answered));
    }

    fn decay(&mut self, packets: u32) {
        let factor = DECAY.powi(i32::try_from(packets).unwrap_or(i32::MAX));
        self.sent *= factor;
        self.lost *= factor;
        self.probes *= factor;
        self.probes_lost *= factor;
    }

    /// Share of packets lost, 0 to 1; `None` if too little is known. Half a packet is added to the
    /// lost ones and one to the sent ones, so a path without losses so far is not considered perfect.
    pub(crate) fn loss(&self) -> Option<f64> {
        let packets = self.sent + self.probes;
        if packets < ENOUGH {
            return None;
        }
        let both_ways = if self.probes > 0.0 { self.probes_lost / self.probes } else { 0.0 };
        let one_way = 1.0 - (1.0 - both_ways).max(0.0).sqrt();
        let lost = self.lost + one_way * self.probes;
        Some(((lost + 0.5) / (packets + 1.0)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_nothing() {
        let mut loss = LossEstimator::default();
        assert_eq!(loss.loss(), None);
        loss.on_delivered(7);
        assert_eq!(loss.loss(), None);
        loss.on_delivered(2);
        assert!(loss.loss().is_some_and(|loss| loss < 0.06));
    }

    #[test]
    fn data_and_probes_measure_the_same_loss() {
        // Every 20th data packet is lost; of heartbeats, which are lost in either direction, 39 of
        // 400.
        let mut data = LossEstimator::default();
        for packet in 0..4000 {
            if packet % 20 == 0 { data.on_lost(1) } else { data.on_delivered(1) }
        }
        let mut probes = LossEstimator::default();
        for probe in 0..4000 {
            probes.on_probe(probe % 400 % 10 != 0 || probe % 400 == 0);
        }
        for loss in [data.loss(), probes.loss()] {
            assert!(loss.is_some_and(|loss| (0.04..0.06).contains(&loss)), "{loss:?}");
        }
    }

    #[test]
    fn the_past_is_forgotten_and_mistakes_are_taken_back() {
        let mut loss = LossEstimator::default();
        (0..100).for_each(|_| loss.on_lost(1));
        assert!(loss.loss().is_some_and(|loss| loss > 0.95));
        (0..2000).for_each(|_| loss.on_delivered(1));
        assert!(loss.loss().is_some_and(|loss| loss < 0.01));
        loss.on_lost(50);
        loss.on_not_lost(50);
        assert!(loss.loss().is_some_and(|loss| loss < 0.01));
        loss.on_not_lost(50);
        assert!(loss.loss().is_some_and(|loss| loss > 0.0));
    }
}
