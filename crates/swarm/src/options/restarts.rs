//! A node that loses its state, at moments that matter.

use std::time::Duration;

use anabranch_wire::kind;

use super::{Draw, Kind, Options, policies};

/// Node and time of a loss of state, and the time until the node is back.
pub(super) fn reboot(d: &mut Draw, faults: Duration) -> (usize, Duration, Duration) {
    (d.node(), d.moment(faults), Duration::from_millis(d.scale(1, 20_000)))
}

/// Moves the loss of state into a handshake or a shutdown.
pub(super) fn amid_procedure(d: &mut Draw, options: &mut Options) {
    let Some((node, at, away)) = &mut options.reboot else { return };
    match d.between(0, 3) {
        // In the middle of a handshake whose COOKIE ECHO comes when there is another one.
        0 => {
            options.kind = d.of(&[options.kind, Kind::Collision]);
            (*at, *away) = (d.millis(1, 500), d.millis(1, 500));
            let late = *away + d.millis(1, 1000);
            options.straggler = Some((*node, kind::COOKIE_ECHO, late));
        }
        // Right after a shutdown has begun, which the peer learns of in the next handshake.
        1 => {
            let before = d.millis(1, 200);
            options.shutdown[*node] = Some(at.saturating_sub(before));
            *away = d.millis(1, 100);
            let late = before + *away + d.millis(1, 200);
            options.straggler = Some((*node, kind::SHUTDOWN, late));
        }
        _ => {}
    }
}

/// The host may have other addresses when it comes back. In half of these cases all paths are in use then.
pub(super) fn with_other_addresses(d: &mut Draw, options: &mut Options) {
    let addresses = options.addresses[0].len();
    options.addresses_after = amid(d, &mut options.reboot, &mut options.shutdown, addresses);
    if options.addresses_after.is_some() && d.one_in(2) {
        policies::all_paths(d, &mut options.configs);
        // The peer has something to send on all of them, before and afterwards.
        if let Some((node, ..)) = options.reboot {
            let traffic = &mut options.traffic[1 - node];
            (traffic.messages, traffic.longest) = (400, 5000);
            (traffic.bytes, traffic.burst) = (1_000_000, 20);
            options.shutdown = [None; 2];
        }
    }
}

/// A loss of state: the peer closes at about the same time, or the host has other addresses when it
/// comes back; returns the numbers of these.
fn amid(
    d: &mut Draw,
    reboot: &mut Option<(usize, Duration, Duration)>,
    shutdown: &mut [Option<Duration>; 2],
    addresses: usize,
) -> Option<Vec<usize>> {
    let (node, at, away) = reboot.as_mut()?;
    if d.one_in(3) {
        let apart = d.millis(1, 300);
        let closes = if d.one_in(2) { *at + apart } else { at.saturating_sub(apart) };
        shutdown[1 - *node] = Some(closes);
        *away = d.millis(1, 500);
    }
    if addresses < 2 || d.one_in(2) {
        return None;
    }
    // Soon, and mostly as the client, so that its peer has not noticed yet: that is a restart.
    *away = d.millis(1, 3000);
    *node = d.of(&[0, 0, *node]);
    let mut left: Vec<usize> = (0..addresses).filter(|_| d.one_in(2)).collect();
    if left.is_empty() {
        left.push(d.0.below(addresses as u64) as usize);
    }
    Some(left)
}
