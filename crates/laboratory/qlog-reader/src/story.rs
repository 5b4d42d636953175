//! The history of an association in a log: values over time, losses, states, totals.

use std::collections::BTreeMap;

use crate::read::{Data, Event};

/// Values over time in seconds.
pub type Series = Vec<(f64, f64)>;

/// An association.
#[derive(Debug, Default)]
pub struct Story {
    /// Its name in the log.
    pub id: String,
    /// Seconds from the start of the log to its first event.
    pub begin: f64,
    /// Seconds from the start of the log to its last event.
    pub end: f64,
    /// Whether the peer started it.
    pub incoming: bool,
    /// The local port and the peer's.
    pub ports: (u16, u16),
    /// How it ended, if the log contains its end.
    pub reason: Option<String>,
    /// The association's own counters, if the log contains its end.
    counters: BTreeMap<String, f64>,
    /// Its paths by number.
    pub paths: BTreeMap<u16, PathStory>,
    /// The peer's receive window in bytes.
    pub peer_rwnd: Series,
    /// Changes of its state or of its paths, with their times.
    pub states: Vec<(f64, String)>,
    first_tsn: Option<u32>,
}

/// A path of an association.
#[derive(Debug, Default)]
pub struct PathStory {
    /// The local address and the remote one.
    pub ends: (String, String),
    /// Its last logged state.
    pub state: String,
    /// Congestion window in bytes.
    pub cwnd: Series,
    /// Slow start threshold in bytes.
    pub ssthresh: Series,
    /// Bytes in flight.
    pub flight: Series,
    /// Smoothed round-trip time in milliseconds.
    pub srtt: Series,
    /// Minimum round-trip time in milliseconds.
    pub min_rtt: Series,
    /// Retransmission timeout in milliseconds.
    pub rto: Series,
    /// Chunks sent, by number relative to the first one.
    pub sent: Series,
    /// Chunks lost, by cause.
    pub lost: BTreeMap<String, Series>,
    /// Expiries of T3-rtx, with the RTO in milliseconds.
    pub timeouts: Series,
    /// Its states as numbers: 3 active, 2 potentially failed, 1 inactive, 0 unconfirmed.
    pub states: Series,
    /// Number of packets sent and received.
    pub packets: (u64, u64),
}

impl PathStory {
    /// A name for the path.
    pub fn name(&self, id: u16) -> String {
        match self.ends.1.is_empty() {
            true => format!("path {id}"),
            false => format!("path {id}, {} to {}", self.ends.0, self.ends.1),
        }
    }
}

/// The histories of all associations, in the order in which they started.
#[derive(Debug, Default)]
pub struct Stories {
    /// The associations.
    pub all: Vec<Story>,
    places: BTreeMap<String, usize>,
    /// Number of events missing from the log.
    pub left_out: u64,
}

impl Stories {
    /// Adds an event of the log.
    pub fn take(&mut self, event: &Event) {
        if event.group_id.is_empty() {
            self.left_out += event.data.records.unwrap_or(0);
            return;
        }
        let at = event.time / 1000.0;
        let place = *self.places.entry(event.group_id.clone()).or_insert_with(|| {
            self.all.push(Story { id: event.group_id.clone(), begin: at, ..Story::default() });
            self.all.len() - 1
        });
        if let Some(story) = self.all.get_mut(place) {
            story.end = at;
            story.take(at, event);
        }
    }
}

impl Story {
    fn path(&mut self, data: &Data) -> &mut PathStory {
        self.paths.entry(data.path_id.unwrap_or(0)).or_default()
    }

    fn take(&mut self, at: f64, event: &Event) {
        let data = &event.data;
        match event.name.as_str() {
            "connectivity:association_started" => {
                self.incoming = data.initiator.as_deref() == Some("remote");
                self.ports = (data.local_port.unwrap_or(0), data.remote_port.unwrap_or(0));
            }
            "connectivity:association_state_updated" => {
                let new = data.new.as_deref().unwrap_or_default();
                self.states.push((at, format!("the association is {new}")));
            }
            "connectivity:association_restarted" => {
                self.states.push((at, "the peer has restarted".to_owned()));
            }
            "connectivity:active_path_updated" => {
                let (path, primary) = (data.path_id.unwrap_or(0), data.primary_path_id);
                let primary = if Some(path) == primary { " (primary)" } else { "" };
                self.states.push((at, format!("new data takes path {path}{primary}")));
            }
            "connectivity:path_updated" => self.take_path(at, data),
            "connectivity:association_closed" => {
                self.reason.clone_from(&data.reason);
                self.counters.clone_from(&data.counters);
            }
            "transport:peer_window_updated" => push(&mut self.peer_rwnd, at, data.peer_rwnd),
            "transport:packet_sent" => self.take_sent(at, data),
            "transport:packet_received" => self.path(data).packets.1 += 1,
            "recovery:metrics_updated" => self.path(data).take_metrics(at, data),
            "recovery:packet_lost" => {
                let number = self.number(data.tsn.unwrap_or(0));
                let cause = data.trigger.clone().unwrap_or_default();
                self.path(data).lost.entry(cause).or_default().push((at, number));
            }
            "recovery:loss_timer_updated" => push(&mut self.path(data).timeouts, at, data.rto),
            // Ignore events of later versions.
            _ => {}
        }
    }

    fn take_path(&mut self, at: f64, data: &Data) {
        let new = data.new.clone().unwrap_or_default();
        let number = data.path_id.unwrap_or(0);
        let path = self.path(data);
        path.ends = (
            data.local_address.clone().unwrap_or_default(),
            data.remote_address.clone().unwrap_or_default(),
        );
        path.state.clone_from(&new);
        path.states.push((at, height(&new)));
        let name = path.name(number);
        self.states.push((at, format!("{name} is {new}")));
    }

    /// A chunk's number relative to the first one.
    fn number(&mut self, tsn: u32) -> f64 {
        let first = *self.first_tsn.get_or_insert(tsn);
        f64::from(tsn.wrapping_sub(first) as i32)
    }

    fn take_sent(&mut self, at: f64, data: &Data) {
        let tsns = data.chunks.iter().filter_map(|chunk| chunk.tsn);
        let numbers: Vec<f64> = tsns.map(|tsn| self.number(tsn)).collect();
        let path = self.path(data);
        path.packets.0 += 1;
        path.sent.extend(numbers.into_iter().map(|number| (at, number)));
    }

    /// The causes of losses, with the number of chunks for each.
    pub fn causes(&self) -> BTreeMap<&str, u64> {
        let mut causes = BTreeMap::new();
        for (cause, chunks) in self.paths.values().flat_map(|path| &path.lost) {
            *causes.entry(cause.as_str()).or_default() += chunks.len() as u64;
        }
        causes
    }

    /// Whether the number of losses in the events equals the association's counters; `None` if the
    /// log does not contain its end.
    pub fn agrees(&self) -> Option<bool> {
        let counted: u64 = self
            .counters
            .iter()
            // Early retransmissions are included in the fast ones.
            .filter(|(name, _)| {
                name.ends_with("_retransmitted_chunks") && !name.starts_with("early")
            })
            .map(|(_, chunks)| *chunks as u64)
            .sum();
        (!self.counters.is_empty()).then(|| self.causes().values().sum::<u64>() == counted)
    }
}

impl PathStory {
    fn take_metrics(&mut self, at: f64, data: &Data) {
        push(&mut self.cwnd, at, data.congestion_window);
        push(&mut self.ssthresh, at, data.ssthresh);
        push(&mut self.flight, at, data.bytes_in_flight);
        push(&mut self.srtt, at, data.smoothed_rtt);
        push(&mut self.min_rtt, at, data.min_rtt);
        push(&mut self.rto, at, data.rto);
    }
}

/// The height of a state in its chart: better states are higher.
fn height(state: &str) -> f64 {
    match state {
        "active" => 3.0,
        "potentially-failed" => 2.0,
        "inactive" => 1.0,
        _ => 0.0,
    }
}

fn push(series: &mut Series, at: f64, value: Option<f64>) {
    series.extend(value.map(|value| (at, value)));
}
