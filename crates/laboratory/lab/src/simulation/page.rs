//! Loads a page with the HTTP code in virtual time.

use anabranch_web as web;

use crate::metrics::Metrics;
use crate::setup::{Carriage, Page, Setup};

/// Loads the page of a setup.
pub(super) fn run(setup: &Setup, page: &Page, seed: u64) -> Result<Metrics, String> {
    let path = setup.network.paths.first().and_then(|path| path.links.first());
    let link = path.and_then(|(link, reversed)| Some((setup.network.links.get(*link)?, *reversed)));
    let Some((link, reversed)) = link else {
        return Err("there is no link to the server".to_owned());
    };
    let (down, up) =
        if reversed { (&link.backward, &link.forward) } else { (&link.forward, &link.backward) };
    let carriage = match page.carriage {
        Carriage::Sctp => web::Carriage::Sctp { streams: page.streams },
        Carriage::Tcp => {
            web::Carriage::Tcp { connections: page.streams, pipelined: page.pipelined }
        }
        Carriage::Http3 => web::Carriage::Http3 { congestion: page.quic_congestion },
    };
    let site = web::Site::of_sizes(&page.objects, page.index);
    let mut load = web::Load::new(site, carriage);
    (load.down, load.up, load.seed) = (down.config(), up.config(), seed);
    // The server sends.
    (load.sctp_server, load.sctp_client) = (setup.sender.clone(), setup.receiver.clone());
    load.tcp = setup.tcp.config.clone();
    load.limit = setup.time_limit;
    match load.run() {
        Ok(loaded) => Ok(metrics(&loaded)),
        // Like an incomplete transfer: measurements that are not possible are missing.
        Err(web::LoadError::Limit(_) | web::LoadError::Connect(_) | web::LoadError::Fetch(_)) => {
            Ok(Metrics::default().with("complete", 0.0))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn metrics(loaded: &web::Loaded) -> Metrics {
    let page = &loaded.page;
    let mut metrics = Metrics::default();
    metrics.set("complete", f64::from(u8::from(page.is_complete())));
    metrics.set("connect_s", loaded.connecting.as_secs_f64());
    let mut set = |name: &str, time: Option<std::time::Duration>| {
        if let Some(time) = time {
            metrics.set(name, time.as_secs_f64());
        }
    };
    set("page_s", page.page_time());
    for percent in [25, 50, 75, 100] {
        set(&format!("ppage{percent}_s"), page.ppage(percent));
        set(&format!("pren{percent}_s"), page.pren(percent));
    }
    set("speed_index_s", page.speed_index());
    let [client, server] = &loaded.transport;
    if let Some(timeouts) = server.timeouts {
        metrics.set("timeouts", timeouts as f64);
    }
    metrics.set("fast_retransmitted_chunks", server.fast_retransmits as f64);
    let resent = client.handshake_retransmissions + server.handshake_retransmissions;
    metrics.set("handshake_retransmissions", resent as f64);
    metrics
}

#[cfg(test)]
mod tests {
    use super::super::Simulation;
    use crate::runner::Experiment;
    use crate::scenario::tests::read;
    use crate::setup::Carriage;

    const SCENARIO: &str = r#"
title = "A page"
[run]
seeds = 3
[network]
shape = "links"
hosts = ["server", "client"]
[link.hop]
ends = ["server", "client"]
rate = "56 kb/s"
delay = "540 ms"
queue = "50 packets"
loss = "3 %"
[path.only]
links = ["hop"]
[association]
profile = "rfc4960"
scheduler = "round-robin"
[page]
objects = 5
object = "5 kB"
[axis.carriage.variants]
SCTP = { page.carriage = "sctp" }
TCP = { page.carriage = "tcp" }
HTTP3 = { page.carriage = "http3" }
[figure]
x = "carriage"
y = "page_s"
"#;

    #[test]
    fn a_page_is_measured_again_the_same() {
        let scenario = read(SCENARIO, &[]).unwrap();
        for point in &scenario.points {
            let run = |seed| Simulation.run(point, seed).unwrap();
            assert_eq!(run(1), run(1));
            let metrics = run(2);
            let get = |name: &str| metrics.get(name).unwrap();
            assert_eq!(get("complete"), 1.0);
            assert!(get("ppage25_s") <= get("ppage100_s") && get("ppage100_s") <= get("page_s"));
            // At least a round trip for the index.
            assert!(get("ppage25_s") - get("pren25_s") >= 1.08, "{metrics:?}");
            assert!(get("connect_s") >= 1.08 && get("speed_index_s") > 0.0, "{metrics:?}");
            // Values that are not reported are left out.
            let is_told = point.setup.page.as_ref().unwrap().carriage != Carriage::Http3;
            assert_eq!(metrics.get("timeouts").is_some(), is_told, "{metrics:?}");
        }
    }

    #[test]
    fn a_page_that_takes_too_long_is_incomplete() {
        let scenario = read(&format!("{SCENARIO}[measure]\ntime_limit = \"2 s\"\n"), &[]).unwrap();
        let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
        assert_eq!((metrics.get("complete"), metrics.get("page_s")), (Some(0.0), None));
    }
}
