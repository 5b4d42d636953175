//! The report about a page that was loaded.

use std::time::Duration;

use anabranch::Statistics;
use anabranch_http::{ObjectLoad, PageLoad, Url};
use serde::Serialize;

use super::filmstrip::Frame;
use crate::options::Transport;
use crate::output::{count, table};

/// Percentages of all objects whose times are reported.
const PARTS: [u64; 4] = [25, 50, 75, 100];

/// How the connections carried the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Carried {
    /// The value of `--transport`, or `http3`.
    transport: String,
    /// Time from the start of the handshake until the first stream was open.
    connecting_s: f64,
    /// Number of associations, or of TCP or QUIC connections.
    connections: u64,
    /// What this side retransmitted on the last connection. Absent for TCP, where only the kernel
    /// knows.
    #[serde(flatten)]
    repairs: Option<Repairs>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Repairs {
    /// `None` becomes null: QUIC does not report timeouts.
    timeouts: Option<u64>,
    /// For QUIC, the packets that it considered lost.
    fast_retransmits: u64,
    handshake_retransmissions: Option<u64>,
}

impl Carried {
    pub(super) fn tcp(transport: Transport, connecting: Duration, connections: u64) -> Self {
        let connecting_s = connecting.as_secs_f64();
        let transport = transport.to_string();
        Self { transport, connecting_s, connections, repairs: None }
    }

    pub(super) fn sctp(
        transport: Transport,
        connecting: Duration,
        connections: u64,
        statistics: &Statistics,
    ) -> Self {
        let counters = &statistics.counters;
        let repairs = Repairs {
            timeouts: Some(counters.timeouts),
            fast_retransmits: counters.fast_retransmitted_chunks,
            handshake_retransmissions: Some(counters.handshake_retransmissions),
        };
        let connecting_s = connecting.as_secs_f64();
        let transport = transport.to_string();
        Self { transport, connecting_s, connections, repairs: Some(repairs) }
    }

    pub(super) fn http3(connecting: Duration, lost: u64) -> Self {
        let repairs =
            Repairs { timeouts: None, fast_retransmits: lost, handshake_retransmissions: None };
        let connecting_s = connecting.as_secs_f64();
        let transport = "http3".to_owned();
        Self { transport, connecting_s, connections: 1, repairs: Some(repairs) }
    }
}

/// When a percentage of every object had arrived.
#[derive(Debug, Serialize)]
struct Part {
    percent: u64,
    /// Seconds after the request for the document; null if it never arrived.
    ppage_s: Option<f64>,
    /// Seconds after the request for the first object.
    pren_s: Option<f64>,
}

/// One object.
#[derive(Debug, Serialize)]
struct Object {
    target: String,
    stream: u16,
    status: Option<u16>,
    bytes: u64,
    requested_s: f64,
    completed_s: Option<f64>,
    error: Option<String>,
    /// Pairs of seconds after the request for the document, and bytes received by then.
    curve: Vec<(f64, u64)>,
}

impl Object {
    fn new(object: &ObjectLoad) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        Self {
            target: object.target.clone(),
            stream: object.stream,
            status: object.status,
            bytes: object.bytes(),
            requested_s: seconds(object.requested),
            completed_s: object.completed.map(seconds),
            error: object.error.clone(),
            curve: object.arrivals.iter().map(|(at, bytes)| (seconds(*at), *bytes)).collect(),
        }
    }

    fn row(&self) -> Vec<String> {
        let seconds =
            |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.3} s"));
        let first = self.curve.first().map(|(at, _)| *at);
        vec![
            self.target.clone(),
            self.stream.to_string(),
            self.bytes.to_string(),
            seconds(Some(self.requested_s)),
            seconds(first),
            seconds(self.completed_s),
        ]
    }
}

/// A page that was loaded.
#[derive(Debug, Serialize)]
pub(super) struct PageReport {
    page: String,
    #[serde(flatten)]
    carried: Carried,
    bytes: u64,
    /// Seconds after the request for the document; null if the page is incomplete.
    page_s: Option<f64>,
    speed_index_ms: Option<f64>,
    parts: Vec<Part>,
    index: Object,
    objects: Vec<Object>,
    /// Embedded objects on other servers, which were not requested.
    left_out: Vec<String>,
    /// Objects on the same server beyond the limit on the number of objects.
    beyond: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filmstrip: Option<Vec<Frame>>,
}

impl PageReport {
    pub(super) fn new(url: &Url, page: &PageLoad, carried: Carried) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        let index = Object::new(&page.index);
        let objects: Vec<_> = page.objects.iter().map(Object::new).collect();
        Self {
            page: url.to_string(),
            carried,
            bytes: index.bytes + objects.iter().map(|object| object.bytes).sum::<u64>(),
            page_s: page.page_time().map(seconds),
            speed_index_ms: page.speed_index().map(|time| seconds(time) * 1e3),
            parts: PARTS
                .map(|percent| Part {
                    percent,
                    ppage_s: page.ppage(percent).map(seconds),
                    pren_s: page.pren(percent).map(seconds),
                })
                .into(),
            index,
            objects,
            left_out: page.left_out.clone(),
            beyond: page.beyond.clone(),
            filmstrip: None,
        }
    }

    /// The report as text; with `objects`, also a table of them.
    pub(super) fn summary(&self, objects: bool) -> String {
        let all = self.objects.len() as u64 + 1;
        let here = self.objects.iter().chain([&self.index]).filter(|o| o.completed_s.is_some());
        let here = here.count() as u64;
        let files = match here == all {
            true => count(all, "file"),
            false => format!("{here} of {}", count(all, "file")),
        };
        let came = match self.page_s {
            Some(page) => format!(" in {page:.3} s"),
            None => String::new(),
        };
        let Carried { transport, connections, connecting_s, .. } = &self.carried;
        let mut text = format!(
            "{files}, {}{came} over {transport}, {}, {} used; connecting took {connecting_s:.3} s\n",
            count(self.bytes, "byte"),
            count(
                *connections,
                if transport.starts_with("sctp") { "association" } else { "connection" }
            ),
            count(self.streams(), "stream"),
        );
        for part in self.parts.iter().filter(|part| part.percent < 100) {
            if let Some(time) = part.ppage_s {
                text.push_str(&format!(
                    "{} % of every object was there after {time:.3} s\n",
                    part.percent
                ));
            }
        }
        if !self.left_out.is_empty() {
            let left = self.left_out.len() as u64;
            text.push_str(&format!("left out, since it is elsewhere: {}\n", count(left, "object")));
        }
        if !self.beyond.is_empty() {
            let beyond = self.beyond.len() as u64;
            text.push_str(&format!(
                "left out, since a page may have at most {}: {}\n",
                count(self.objects.len() as u64, "object"),
                count(beyond, "object")
            ));
        }
        for frame in self.filmstrip.iter().flatten() {
            text.push_str(&format!("after {:.3} s: {}\n", frame.at_s, frame.file));
        }
        if objects {
            let heading = ["object", "stream", "bytes", "asked", "first byte", "complete"];
            let mut rows = vec![heading.map(str::to_owned).to_vec()];
            rows.extend([&self.index].into_iter().chain(&self.objects).map(Object::row));
            text.push_str(&table(&rows));
        }
        text
    }

    /// Number of streams that carried at least one object.
    fn streams(&self) -> u64 {
        let used: std::collections::BTreeSet<_> =
            self.objects.iter().chain([&self.index]).map(|object| object.stream).collect();
        used.len() as u64
    }
}
