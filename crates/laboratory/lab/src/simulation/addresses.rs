//! Addresses of the hosts that come and go.

use std::net::IpAddr;

use anabranch_sim::{Action, Instant, Network, SimError};

use crate::setup::{AddressAction, Setup, is_there_at_first};

/// Takes away the addresses that the hosts do not have at the beginning, and schedules the events of all of them.
pub(super) fn schedule(
    setup: &Setup,
    net: &mut Network,
    pairs: &[(IpAddr, IpAddr)],
) -> Result<(), SimError> {
    for (path, pair) in pairs.iter().enumerate() {
        for (of_receiver, address) in [(false, pair.0), (true, pair.1)] {
            if !is_there_at_first(&setup.addresses, path, of_receiver) {
                let absent = Action::SetUsable { address, usable: false };
                net.schedule(Instant::ZERO, absent)?;
            }
        }
    }
    for event in &setup.addresses {
        let Some(pair) = pairs.get(event.path) else { continue };
        let address = if event.of_receiver { pair.1 } else { pair.0 };
        let action = match event.what {
            AddressAction::Appears => Action::SetUsable { address, usable: true },
            AddressAction::Disappears => Action::SetUsable { address, usable: false },
            AddressAction::Asks(change) => Action::Readdress { address, change },
        };
        net.schedule(Instant::ZERO + event.at, action)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::metrics::Metrics;
    use crate::runner::Experiment;
    use crate::scenario::Scenario;
    use crate::scenario::tests::text;
    use crate::simulation::Simulation;

    const MOVES: &str = "[event.appears]\nat = \"500 ms\"\nappears = \"alternate\"\n\
                         [event.disappears]\nat = \"1 s\"\ndisappears = \"primary\"\n";

    fn run(roam: bool) -> Metrics {
        let options = format!(
            "profile = \"rfc2960\"\nauthentication = true\naddress_reconfiguration = true\nroam = {roam}"
        );
        let text = text()
            .replace("\"4 MiB\"", "\"2 MB\"")
            .replace("profile = \"rfc2960\"", &options)
            .replace("\"1 %\", \"3 %\"", "\"0 %\"");
        let text = format!("{text}{MOVES}[measure]\ntime_limit = \"30 s\"\n");
        let scenario = Scenario::read(&text, Path::new("t.toml"), "t/1", &[]).unwrap();
        Simulation.run(&scenario.points[0], 1).unwrap()
    }

    #[test]
    fn a_transfer_follows_the_addresses_if_the_host_roams() {
        let metrics = run(true);
        assert_eq!(metrics.get("complete"), Some(1.0), "{metrics:?}");
        assert!(metrics.get("data_packets_sent_path2").unwrap() > 0.0, "{metrics:?}");
        // The old address goes before the new one has been verified, and the host waits for 2 s for it to come back.
        assert!(metrics.get("longest_gap_s").unwrap() < 3.0, "{metrics:?}");
        let metrics = run(false);
        assert_eq!(metrics.get("complete"), Some(0.0), "{metrics:?}");
        assert_eq!(metrics.get("data_packets_sent_path2"), None, "{metrics:?}");
    }
}
