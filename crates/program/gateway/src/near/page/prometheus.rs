//! The numbers of the status page for Prometheus.

use super::Page;
use super::view::{UplinkView, View};
use crate::near::Near;
use crate::prometheus::{label, metric};

/// The text of version 0.0.4.
pub(super) fn text(page: &Page, near: &Near) -> String {
    let view = View::new(page, near);
    let mut text = String::new();
    let connected = f64::from(u8::from(view.connected));
    metric(
        &mut text,
        "connected",
        "gauge",
        "1 with an association, else 0.",
        [(String::new(), connected)],
    );
    let mut of_uplinks = |name: &str, kind, help, of: &dyn Fn(&UplinkView) -> Option<f64>| {
        let sample =
            |uplink: &UplinkView| Some((label("uplink", &uplink.uplink.name), of(uplink)?));
        metric(&mut text, name, kind, help, view.uplinks.iter().filter_map(sample));
    };
    let active = |uplink: &UplinkView| Some(f64::from(u8::from(uplink.state == "active")));
    of_uplinks("uplink_active", "gauge", "1 if the uplink carries data, else 0.", &active);
    let help = "Smoothed round-trip time.";
    of_uplinks("uplink_srtt_seconds", "gauge", help, &|uplink| uplink.srtt_seconds);
    let help = "Estimated share of packets lost towards the far side.";
    of_uplinks("uplink_loss_ratio", "gauge", help, &|uplink| uplink.loss);
    let help = "Bytes sent over the uplink.";
    of_uplinks("uplink_bytes_sent_total", "counter", help, &|uplink| {
        Some(uplink.bytes_sent as f64)
    });
    let help = "Bytes received over the uplink.";
    let received = |uplink: &UplinkView| Some(uplink.bytes_received as f64);
    of_uplinks("uplink_bytes_received_total", "counter", help, &received);
    let help = "Packets with data that were considered lost.";
    let lost = |uplink: &UplinkView| Some(uplink.lost_packets as f64);
    of_uplinks("uplink_lost_packets_total", "counter", help, &lost);
    text.push_str(&near.traffic.prometheus());
    text
}
