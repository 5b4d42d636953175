//! The expected throughput of a path, for an informed choice between two paths (caro 3.4.2).

use std::time::Duration;

/// Expected throughput in packets per second, from the RTT and the loss rate of a path: 1/RTT *
/// sqrt(3/(4p)), the simplified model of Padhye et al. (caro 3.4.2, with delayed acknowledgements).
/// Infinite if the loss is 0.
pub fn padhye_throughput(rtt: Duration, loss: f64) -> f64 {
    (3.0 / (4.0 * loss.max(0.0))).sqrt() / rtt.as_secs_f64().max(1e-9)
}

/// Whether a path with the second pair of RTT and loss promises more throughput than one with the
/// first; `None` while a value is unknown.
pub(crate) fn is_better(
    one: (Option<Duration>, Option<f64>),
    other: (Option<Duration>, Option<f64>),
) -> Option<bool> {
    let promise =
        |(rtt, loss): (Option<Duration>, Option<f64>)| Some(padhye_throughput(rtt?, loss?));
    Some(promise(other)? > promise(one)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model() {
        let rtt = Duration::from_millis(100);
        assert!((padhye_throughput(rtt, 0.03) - 50.0).abs() < 1e-9);
        assert!((padhye_throughput(rtt * 2, 0.03) - 25.0).abs() < 1e-9);
        assert_eq!(padhye_throughput(rtt, 0.0), f64::INFINITY);
    }

    #[test]
    fn rtt_and_loss_both_count() {
        let path = |millis, loss| (Some(Duration::from_millis(millis)), Some(loss));
        // A path with 210 ms instead of 90 ms needs a loss lower by (210/90)^2, about 5.4.
        assert_eq!(is_better(path(90, 0.05), path(210, 0.01)), Some(false));
        assert_eq!(is_better(path(90, 0.05), path(210, 0.009)), Some(true));
        assert_eq!(is_better(path(90, 0.05), path(90, 0.05)), Some(false));
        assert_eq!(is_better((None, Some(0.1)), path(90, 0.0)), None);
        assert_eq!(is_better(path(90, 0.0), (Some(Duration::ZERO), None)), None);
    }
}
