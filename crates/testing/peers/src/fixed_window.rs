//! A controller of anabranch with a constant window.

use anabranch_proto::Instant;
use anabranch_proto::congestion::{Acked, CongestionEvent, Controller, ControllerFactory, NewPath};

/// A congestion window in bytes that nothing changes, to measure the cost of a window of that size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedWindow(pub(crate) usize);

impl ControllerFactory for FixedWindow {
    fn build(&self, _: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

impl Controller for FixedWindow {
    fn cwnd(&self) -> usize {
        self.0
    }

    fn on_acked(&mut self, _: &Acked<'_>) {}

    fn on_congestion_event(&mut self, _: &CongestionEvent<'_>) {}

    fn on_pmdcs_change(&mut self, _: Instant, _: usize) {}

    fn reinitialize(&mut self, _: Instant) {}
}
