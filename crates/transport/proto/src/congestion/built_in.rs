//! The built-in controllers, which have names: each has a file, and a row in the table.

mod bbr;
mod cubic;
mod rfc9260;

use bbr::Bbr;
use cubic::Cubic;
use rfc9260::Rfc9260;

use super::{Controller, NewPath};
use crate::named::named;
use crate::options::words;

/// Generates the enum, its names, and [`CongestionControl::build`] from a table of controllers.
macro_rules! controllers {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal => $new:path,)*) => {
        /// How the congestion window of a path changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
        #[non_exhaustive]
        pub enum CongestionControl {
            $($(#[doc = $doc])* $name,)*
        }

        named!(CongestionControl { $($name = $text,)* });
        words!(CongestionControl);

        impl CongestionControl {
            /// Makes the controller that the path's options name.
            pub(super) fn build(path: &NewPath<'_>) -> Box<dyn Controller> {
                match path.options.congestion_control.meant(path.coupled) {
                    $(Self::$name => Box::new($new(path)),)*
                }
            }
        }
    };
}

impl CongestionControl {
    /// The controller that `Usual` stands for; others stand for themselves. `coupled`: a coupling changes how the
    /// windows of the paths grow.
    pub(crate) fn meant(self, coupled: bool) -> Self {
        match self {
            Self::Usual if coupled => Self::Rfc9260,
            Self::Usual => Self::Cubic,
            other => other,
        }
    }

    pub(crate) fn is_bbr(self) -> bool {
        matches!(self, Self::Bbr | Self::BbrLossy)
    }
}

controllers! {
    /// `cubic`, or `rfc9260` where a coupling changes how the windows of the paths grow.
    Usual = "usual" => Cubic::new,
    /// Slow start and additive increase, half at a loss (RFC 9260 section 7.2).
    Rfc9260 = "rfc9260" => Rfc9260::new,
    /// CUBIC: after a loss the window returns to where it was within a time that hardly depends on
    /// the round-trip time (RFC 9438).
    Cubic = "cubic" => Cubic::new,
    /// BBR version 3: sends at the rate that the path delivers, whatever random losses do
    /// (draft-ietf-ccwg-bbr).
    Bbr = "bbr" => Bbr::new,
    /// BBR for paths that lose packets at random, such as satellites and radio: up to a tenth of a round
    /// is not taken for congestion.
    BbrLossy = "bbr-lossy" => Bbr::lossy,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::config::AssociationConfig;
    use crate::congestion::{
        Acked, CongestionEvent, Idle, Loss, LossSample, LostData, RateSample, Rtt, Sent,
    };
    use crate::time::Instant;

    const PMDCS: usize = 1400;

    /// An event with anything that a peer, a path or a clock can bring about.
    #[derive(Clone, Debug)]
    struct Event {
        kind: u8,
        /// Time since the last event in nanoseconds.
        later: u64,
        bytes: usize,
        in_flight: usize,
        rtt: u64,
        interval: u64,
        flags: u8,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        // From nothing to the most, at every scale.
        let scale = |most: u32| (0..most, any::<u64>()).prop_map(|(bits, x)| x & ((1 << bits) - 1));
        let bytes = || scale(40).prop_map(|bytes| bytes as usize);
        let event = (0..10_u8, scale(40), bytes(), bytes(), scale(40), scale(63), any::<u8>());
        let event = event.prop_map(|(kind, later, bytes, in_flight, rtt, interval, flags)| Event {
            kind,
            later,
            bytes,
            in_flight,
            rtt,
            interval,
            flags,
        });
        prop::collection::vec(event, 1..200)
    }

    fn apply(controller: &mut dyn Controller, now: Instant, event: &Event, delivered: &mut u64) {
        let &Event { bytes, in_flight, flags, .. } = event;
        let has = |bit: u8| flags & bit != 0;
        let rtt = Some(Duration::from_nanos(event.rtt));
        let times = Rtt { latest: rtt, smoothed: rtt, min: rtt };
        let cause = if has(1) { Loss::Timeout } else { Loss::Reported };
        match event.kind {
            0..=3 => {
                *delivered += bytes as u64;
                let rate = has(1).then_some(RateSample {
                    bytes: event.interval,
                    interval: Duration::from_nanos(event.interval.max(1)),
                    app_limited: has(2),
                    delivered: *delivered,
                    delivered_before: event.interval.min(*delivered),
                    in_flight: in_flight as u64,
                    lost: event.interval >> 20,
                });
                controller.on_acked(&Acked {
                    flight_before: in_flight.saturating_add(bytes),
                    in_flight,
                    rate,
                    rtt: times,
                    packet_rtt: rtt.filter(|_| has(4)),
                    in_fast_recovery: has(8),
                    cumulative_advanced: has(16),
                    ..Acked::new(now, bytes)
                });
            }
            4 => controller.on_sent(&Sent { now, bytes, in_flight, app_limited: has(2) }),
            5 => controller.on_congestion_event(&CongestionEvent::new(now, cause, in_flight)),
            6 => {
                let (lost, app_limited) = (event.interval, has(2));
                let sample = Some(LossSample { in_flight: event.rtt, lost, app_limited });
                controller.on_lost(&LostData { now, cause, bytes, in_flight, sample });
            }
            7 => controller.undo(now),
            8 => controller.on_idle(&Idle { now, rtos: 1 + u32::from(flags) % 64 }),
            _ => controller.on_pmdcs_change(now, 500 + usize::from(flags) * 100),
        }
    }

    proptest! {
        /// Whatever acknowledgements say and clocks do, a window is at least a packet, and has at most grown by what
        /// was acknowledged, besides its least size in packets.
        #[test]
        fn windows_are_bounded(events in events()) {
            for control in CongestionControl::ALL {
                let mut config = AssociationConfig::default();
                config.congestion.congestion_control = *control;
                let path = NewPath::new(&config.congestion, config.revision, PMDCS);
                let mut controller = CongestionControl::build(&path);
                let (mut now, mut delivered, mut flight) = (Instant::ZERO, 0, 0);
                let initial = controller.cwnd();
                for event in &events {
                    now += Duration::from_nanos(event.later);
                    apply(&mut *controller, now, event, &mut delivered);
                    let cwnd = controller.cwnd();
                    let least = 4 * (500 + 255 * 100);
                    prop_assert!(cwnd >= 500, "{control}: {cwnd}");
                    flight = flight.max(event.in_flight as u64);
                    let most = (initial + least) as u64 + delivered + flight;
                    prop_assert!(cwnd as u64 <= most, "{control}: {cwnd}");
                    if let Some(rate) = controller.pacing_rate() {
                        prop_assert!((125..=1 << 40).contains(&rate), "{control}: {rate}");
                    }
                }
            }
        }
    }
}
