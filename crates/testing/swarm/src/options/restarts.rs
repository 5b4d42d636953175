//! A node that loses its state at critical moments.

use std::time::Duration;

use anabranch_wire::kind;

use super::{Draw, Kind, Options, policies};

/// Node and time of a loss of state, and how long the node is away.
pub(super) fn reboot(d: &mut Draw, faults: Duration) -> (usize, Duration, Duration) {
    (d.node(), d.moment(faults), Duration::from_millis(d.scale(1, 20_000)))
}

/// Moves the loss of state into a handshake or a shutdown.
pub(super) fn amid_procedure(d: &mut Draw, options: &mut Options) {
    let Some((node, at, away)) = &mut options.reboot else { return };
    match d.between(0, 3) {
        // In the middle of a handshake, whose COOKIE ECHO arrives during another one.
        0 => {
            options.kind = d.of(&[options.kind, Kind::Collision]);
            (*at, *away) = (d.millis(1, 500), d.millis(1, 500));
            let late = *away + d.millis(1, 1000);
            options.straggler = Some((*node, kind::COOKIE_ECHO, late));
        }
        // Right after the start of a shutdown. The peer learns of it in the next handshake.
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

/// Gives the host other addresses when it returns. In half of these cases all paths are then in use.
pub(super) fn with_other_addresses(d: &mut Draw, options: &mut Options) {
    let addresses = options.addresses[0].len();
    options.addresses_after = amid(d, &mut options.reboot, &mut options.shutdown, addresses);
    if options.addresses_after.is_some() && d.one_in(2) {
        policies::all_paths(d, &mut options.configs);
        // The peer has data to send on all of them, before and afterwards.
        if let Some((node, ..)) = options.reboot {
            let traffic = &mut options.traffic[1 - node];
            (traffic.messages, traffic.longest) = (400, 5000);
            (traffic.bytes, traffic.burst) = (1_000_000, 20);
            options.shutdown = [None; 2];
        }
    }
}

/// A loss of state at about the same time as the peer closes, or after which the host has other addresses. Returns the
/// numbers of these.
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
    // The node returns soon and is usually the client, so that its peer has not noticed: this is a restart.
    *away = d.millis(1, 3000);
    *node = d.of(&[0, 0, *node]);
    let mut left: Vec<usize> = (0..addresses).filter(|_| d.one_in(2)).collect();
    if left.is_empty() {
        left.push(d.0.below(addresses as u64) as usize);
    }
    Some(left)
}
