//! One run in detail: packets, windows and timeouts over time.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anabranch_chart::{Chart, Curve, Dot, Style, escape, page, picture, thinned};
use anabranch_proto::PathStatistics;
use anabranch_qlog::{EventLog, Observer, Writer};
use anabranch_sim::{
    Capture, Direction, Instant, Network, Point as Place, SeriesId, Sight, Tap as _, TcpFlowId,
    TcpStats, Transfer,
};
use anabranch_wire::{Chunk, Packet};

use super::build::{self, Built, Measured};
use super::measure;
use super::packets::TracedPacket;
use crate::export;
use crate::metrics::Metrics;
use crate::provenance::{self, Provenance};
use crate::report::link;
use crate::scenario::{Point, Scenario};
use crate::setup::Setup;

/// Interval between readings of windows and timeouts.
const INTERVAL: Duration = Duration::from_millis(50);
/// Averaging interval of goodput.
const GOODPUT: Duration = Duration::from_millis(500);

/// The data of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The seed of the run.
    pub seed: u64,
    /// The metrics that every run measures.
    pub metrics: Metrics,
    /// Fingerprint of all packets.
    pub hash: u64,
    /// Name of each path.
    pub paths: Vec<String>,
    /// Chunks that the sender sent: time in seconds, TSN counted from 0, index of the path, and whether it is a
    /// retransmission.
    pub sent: Vec<(f64, u32, usize, bool)>,
    /// Cumulative acknowledgements that the sender received: time and TSN.
    pub acknowledged: Vec<(f64, u32)>,
    /// All SCTP packets of the first transfer.
    pub packets: Vec<TracedPacket>,
    /// Congestion window of each path over time, in bytes.
    pub cwnd: Vec<Vec<(f64, f64)>>,
    /// Bytes in flight on each path over time.
    pub flight: Vec<Vec<(f64, f64)>>,
    /// Smoothed round-trip time of each path over time in seconds, from its first measurement.
    pub srtt: Vec<Vec<(f64, f64)>>,
    /// Retransmission timeout of each path over time, in seconds.
    pub rto: Vec<Vec<(f64, f64)>>,
    /// Packets queued at the core of each path over time, in the direction of the data.
    pub queue: Vec<Vec<(f64, f64)>>,
    /// Name of each transfer.
    pub flows: Vec<String>,
    /// Goodput of each transfer over time in kbit/s.
    pub goodput: Vec<Vec<(f64, f64)>>,
}

#[derive(Default)]
struct Seen {
    first: Option<u32>,
    known: HashSet<u32>,
    sent: Vec<(f64, u32, usize, bool)>,
    acknowledged: Vec<(f64, u32)>,
    packets: Vec<TracedPacket>,
}

/// Executes one run. Writes the sender's packets as pcapng, and its actions and decisions as a log of events.
///
/// # Errors
/// Fails if the network cannot be built, or if the capture or the log cannot be written.
pub fn trace<W: Write + 'static>(
    point: &Point,
    seed: u64,
    capture: Option<W>,
    log: Option<EventLog>,
) -> Result<Trace, String> {
    let setup = &point.setup;
    let mut built = build::build(setup, seed).map_err(|error| error.to_string())?;
    let unwritable = |error: std::io::Error| format!("the capture cannot be written: {error}");
    let capture = capture.map(Capture::new).transpose().map_err(unwritable)?;
    let capture = Rc::new(RefCell::new(capture));
    let seen = Rc::new(RefCell::new(Seen::default()));
    let pairs = built.pairs.clone();
    let (writer, eyes) = (capture.clone(), seen.clone());
    built.net.tap(Some(built.sender), move |sight: &Sight<'_>| {
        if let Some(capture) = writer.borrow_mut().as_mut() {
            capture.packet(sight);
        }
        eyes.borrow_mut().look(sight, &pairs);
    });
    let log = log.map(|log| Logged::begin(&log, &mut built)).transpose()?;
    let gauges = Gauges::record(setup, &mut built);
    super::advance(setup, &mut built, None, None)?;
    let metrics = measure::metrics(&built, None);
    let [cwnd, flight, srtt, rto, queue, arrived] =
        gauges.0.map(|ids| ids.into_iter().map(|id| points(&built.net, id)).collect::<Vec<_>>());
    let goodput = arrived.iter().map(|bytes| rates(bytes)).collect();
    let hash = built.net.trace_hash();
    drop(built);
    if let Some(capture) = capture.borrow_mut().take() {
        capture.finish().map_err(unwritable)?;
    }
    log.map_or(Ok(()), Logged::end)?;
    let seen = std::mem::take(&mut *seen.borrow_mut());
    let paths = setup.network.paths.iter().map(|path| path.name.clone()).collect();
    let flows = setup.transfers.iter().map(|transfer| transfer.name.clone()).collect();
    let (sent, acknowledged) = (seen.sent, seen.acknowledged);
    Ok(Trace {
        seed,
        metrics,
        hash,
        paths,
        flows,
        sent,
        acknowledged,
        packets: seen.packets,
        cwnd,
        flight,
        srtt,
        rto,
        queue,
        goodput,
    })
}

/// The log of the sending endpoint. Writing blocks until the disk accepts it.
struct Logged(Arc<Mutex<Option<Writer<BufWriter<File>>>>>);

impl Logged {
    fn unwritable(error: io::Error) -> String {
        format!("the event log cannot be written: {error}")
    }

    fn begin(log: &EventLog, built: &mut Built) -> Result<Self, String> {
        let file = File::create(log.path()).map_err(Self::unwritable)?;
        let header = log.header((UNIX_EPOCH, Instant::ZERO));
        let writer = Writer::new(BufWriter::new(file), &header).map_err(Self::unwritable)?;
        let writer = Arc::new(Mutex::new(Some(writer)));
        let observer = Observer::new(Arc::clone(&writer), None);
        built.net.set_log(built.sender, Box::new(observer));
        Ok(Self(writer))
    }

    fn end(self) -> Result<(), String> {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        writer.map_or(Ok(()), |writer| writer.finish().map(drop).map_err(Self::unwritable))
    }
}

/// The series recorded during the run: cwnd, flight, SRTT, RTO and queue of each path, and the received bytes of each
/// transfer.
struct Gauges([Vec<SeriesId>; 6]);

impl Gauges {
    fn record(setup: &Setup, built: &mut Built) -> Self {
        let queue = queues(setup, built);
        let arrived = built.measured.clone().into_iter().map(|measured| {
            built.net.record(GOODPUT, move |net: &mut Network| Some(measured.delivered(net) as f64))
        });
        let arrived = arrived.collect();
        if let Some(Measured::Connection(id)) = built.measured.first() {
            let [cwnd, flight, srtt] = of_connection(&mut built.net, *id).map(|id| vec![id]);
            return Self([cwnd, flight, srtt, Vec::new(), queue, arrived]);
        }
        let mut of_paths = |read: fn(&PathStatistics) -> f64| {
            let Some(id) = built.transfers.first().copied() else { return Vec::new() };
            let gauge = |(near, far): (IpAddr, IpAddr)| {
                built.net.record(INTERVAL, move |net: &mut Network| {
                    let paths = net.sender(id)?.statistics().paths;
                    let on = |path: &&PathStatistics| [near, far].contains(&path.remote);
                    paths.iter().find(on).map(read).filter(|value| !value.is_nan())
                })
            };
            built.pairs.clone().into_iter().map(gauge).collect()
        };
        let (cwnd, flight) = (of_paths(|p| p.cwnd as f64), of_paths(|p| p.flight as f64));
        let (srtt, rto) = (of_paths(round_trip), of_paths(|p| p.rto.as_secs_f64()));
        Self([cwnd, flight, srtt, rto, queue, arrived])
    }
}

/// The same for a TCP connection, which does not expose its RTO.
fn of_connection(net: &mut Network, id: TcpFlowId) -> [SeriesId; 3] {
    let mut record = |read: fn(&TcpStats) -> Option<f64>| {
        net.record(INTERVAL, move |net: &mut Network| read(&net.tcp_flow(id).stats))
    };
    [
        record(|stats| Some(stats.cwnd as f64)),
        record(|stats| Some(stats.outstanding as f64)),
        record(|stats| stats.srtt.map(|srtt| srtt.as_secs_f64())),
    ]
}

/// The recorded values.
fn points(net: &Network, id: SeriesId) -> Vec<(f64, f64)> {
    net.series(id).iter().map(|(at, value)| (seconds(*at), *value)).collect()
}

/// Records the queues of the paths' cores in the direction of the first transfer's data.
fn queues(setup: &Setup, built: &mut Built) -> Vec<SeriesId> {
    let back = setup.transfers.first().is_some_and(|first| first.back);
    let cores = setup.network.paths.iter().filter_map(|path| {
        let reversed = path.links.iter().any(|(link, reversed)| *link == path.core && *reversed);
        let way = if reversed == back { Direction::Forward } else { Direction::Backward };
        Some((*built.links.get(path.core)?, way))
    });
    let cores: Vec<_> = cores.collect();
    cores
        .into_iter()
        .map(|(link, way)| {
            built
                .net
                .record(INTERVAL, move |net: &mut Network| Some(net.queue_len(link, way) as f64))
        })
        .collect()
}

/// Converts arrived bytes to kbit/s between two readings, placed at the end of each interval.
fn rates(bytes: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    pairs.map(|((from, had), (at, has))| (*at, (has - had) * 8e-3 / (at - from))).collect()
}

/// NaN before the first measurement.
fn round_trip(path: &PathStatistics) -> f64 {
    path.srtt.map_or(f64::NAN, |srtt| srtt.as_secs_f64())
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 * 1e-9
}

impl Seen {
    fn look(&mut self, sight: &Sight<'_>, pairs: &[(IpAddr, IpAddr)]) {
        let Ok(packet) = Packet::parse(sight.bytes) else { return };
        // Other transfers use other ports.
        let header = packet.header();
        let theirs = match sight.point {
            Place::Sent => header.destination_port,
            Place::Received => header.source_port,
        };
        if theirs != Transfer::FIRST_PORT {
            return;
        }
        let is_sent = sight.point == Place::Sent;
        let remote = if is_sent { sight.to } else { sight.from };
        let on = |(near, far): &(IpAddr, IpAddr)| [near, far].contains(&&remote);
        let path = pairs.iter().position(on).unwrap_or(0);
        let mut traced = TracedPacket {
            time: seconds(sight.now),
            is_sent,
            from: sight.from,
            to: sight.to,
            path,
            bytes: sight.bytes.len(),
            chunks: Vec::new(),
            tsn: None,
            again: false,
        };
        for chunk in packet.chunks().flatten() {
            traced.chunks.push(chunk.kind);
            if let Ok(chunk) = chunk.decode() {
                self.chunk(&chunk, &mut traced);
            }
        }
        self.packets.push(traced);
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, packet: &mut TracedPacket) {
        let cumulative = match chunk {
            Chunk::Sack(sack) => Some(sack.cumulative_tsn_ack.0),
            Chunk::NrSack(sack) => Some(sack.cumulative_tsn_ack.0),
            _ => None,
        };
        let data = match chunk {
            Chunk::Data(data) => Some(data.tsn.0),
            _ => None,
        };
        if let (Some(tsn), true) = (data, packet.is_sent) {
            let first = *self.first.get_or_insert(tsn);
            let number = tsn.wrapping_sub(first);
            let again = !self.known.insert(number);
            if packet.tsn.is_none() {
                (packet.tsn, packet.again) = (Some(number), again);
            }
            self.sent.push((packet.time, number, packet.path, again));
        }
        if let (Some(cumulative), Some(first), false) = (cumulative, self.first, packet.is_sent) {
            let number = cumulative.wrapping_sub(first);
            // TSNs before the first chunk wrap around. With several paths, older acknowledgements may arrive later.
            if number < u32::MAX / 2 {
                packet.tsn = packet.tsn.or(Some(number));
            }
            let newest = self.acknowledged.last().map_or(0, |(_, newest)| *newest);
            if (newest..u32::MAX / 2).contains(&number) {
                self.acknowledged.push((packet.time, number));
            }
        }
    }
}

impl Trace {
    /// The charts as an HTML page. Its data are without columns about what made them, because the page says it.
    pub fn html(&self, title: &str, scenario: &Scenario, made_by: &Provenance) -> String {
        let mut body = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(body, "<h1>{}</h1>\n{}", escape(title), made_by.html());
        let _ = writeln!(body, "{}", provenance::scenario_html(scenario));
        let _ = writeln!(
            body,
            "<p>Seed of this run: {}; fingerprint of all packets: {:016x}</p>",
            self.seed, self.hash
        );
        let _ = write!(body, "<p class=\"source\">Data: ");
        let _ = link(&mut body, "trace.csv", "all over time", &self.rows("", ""));
        let _ = writeln!(body, " (CSV)</p>");
        for chart in self.charts() {
            let caption = escape(&chart.title);
            let svg = chart.svg();
            let _ = writeln!(
                body,
                "<figure class=\"large\"><figcaption>{caption}</figcaption>{svg}</figure>"
            );
        }
        page(title, &body)
    }

    /// All series over time as CSV, one after the other: `time_s,series,path,value`. `sent` and `sent_again` have the
    /// TSN counted from 0, `acknowledged` the cumulative TSN and no path. `goodput_kbit_s` has the name of a transfer
    /// as its path, and is the mean of the last 500 ms. The others are read every 50 ms. Each row ends with the seed
    /// and what made the run: with empty fields, readers would see columns of several types.
    pub fn csv(&self, scenario: &Scenario, made_by: &Provenance) -> String {
        let (mut heading, mut made) = (",seed".to_owned(), format!(",{}", self.seed));
        for (name, text) in made_by.columns(scenario) {
            // Writing to a string does not fail.
            let _ = write!(heading, ",{name}");
            let _ = write!(made, ",{}", export::quoted(&text));
        }
        self.rows(&heading, &made)
    }

    /// The rows, with more columns at the end.
    fn rows(&self, heading: &str, more: &str) -> String {
        let mut text = format!("time_s,series,path,value{heading}\n");
        // Writing to a string does not fail.
        let mut row = |time: f64, series: &str, path: &str, value: f64| {
            let _ = writeln!(text, "{time},{series},{path},{value}{more}");
        };
        let name = |path: usize| self.paths.get(path).map_or("", String::as_str);
        for (time, number, path, again) in &self.sent {
            let series = if *again { "sent_again" } else { "sent" };
            row(*time, series, name(*path), f64::from(*number));
        }
        for (time, number) in &self.acknowledged {
            row(*time, "acknowledged", "", f64::from(*number));
        }
        for (series, values) in [
            ("cwnd_bytes", &self.cwnd),
            ("flight_bytes", &self.flight),
            ("srtt_s", &self.srtt),
            ("rto_s", &self.rto),
            ("queue_packets", &self.queue),
        ] {
            for (path, values) in values.iter().enumerate() {
                values.iter().for_each(|(time, value)| row(*time, series, name(path), *value));
            }
        }
        for (flow, values) in self.flows.iter().zip(&self.goodput) {
            values.iter().for_each(|(time, value)| row(*time, "goodput_kbit_s", flow, *value));
        }
        text
    }

    /// The charts as separate SVG pictures, with their titles. Those without curves are left out.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let charts = self.charts().into_iter().filter(|chart| !chart.curves.is_empty());
        charts.map(|chart| (chart.title.clone(), picture(&chart))).collect()
    }

    fn charts(&self) -> [Chart; 7] {
        [
            Chart::over_time("Time and sequence", "chunk", self.sequence()),
            Chart::over_time("Goodput", "goodput (kbit/s)", series(&self.flows, &self.goodput)),
            Chart::over_time("Congestion windows", "cwnd (bytes)", self.series(&self.cwnd)),
            Chart::over_time("Bytes in flight", "flight (bytes)", self.series(&self.flight)),
            Chart::over_time("Round-trip times", "SRTT (s)", self.series(&self.srtt)),
            Chart::over_time("Queues of the cores", "queue (packets)", self.series(&self.queue)),
            Chart::over_time("Retransmission timeouts", "RTO (s)", self.series(&self.rto)),
        ]
    }

    fn sequence(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for (path, name) in self.paths.iter().enumerate() {
            for (again, what) in [(false, "sent"), (true, "sent again")] {
                let all: Vec<Dot> = self
                    .sent
                    .iter()
                    .filter(|(_, _, on, known)| *on == path && *known == again)
                    .map(|(x, number, _, _)| Dot::at(*x, f64::from(*number)))
                    .collect();
                if !all.is_empty() {
                    // Retransmissions are the most interesting part, so all of them are drawn.
                    let dots = if again { all } else { thinned(all) };
                    curves.push(Curve {
                        name: format!("{what}, {name}"),
                        color: 2 * path + usize::from(again),
                        style: Style::Points,
                        dots,
                    });
                }
            }
        }
        let acknowledged = self.acknowledged.iter().map(|(x, number)| (*x, f64::from(*number)));
        curves.push(Curve::over_time("acknowledged", 7, acknowledged));
        curves
    }

    fn series(&self, values: &[Vec<(f64, f64)>]) -> Vec<Curve> {
        series(&self.paths, values)
    }
}

/// A curve over time for each name.
fn series(names: &[String], values: &[Vec<(f64, f64)>]) -> Vec<Curve> {
    values
        .iter()
        .zip(names)
        .enumerate()
        .map(|(number, (values, name))| {
            Curve::over_time(name.clone(), 2 * number, values.iter().copied())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Experiment as _;
    use crate::scenario::tests::{read, text};
    use crate::simulation::{Simulation, trace_hash};

    #[test]
    fn a_connection_has_a_window_and_a_rate_over_time() {
        let over_tcp = ("message = \"1452 B\"", "message = \"1452 B\"\nover = \"tcp\"");
        let text = text().replace(over_tcp.0, over_tcp.1);
        let scenario = read(&text, &[]).unwrap();
        let trace = trace(&scenario.points[0], 3, None::<File>, None).unwrap();
        assert!(trace.cwnd[0].len() > 10 && trace.cwnd.len() == trace.flight.len());
        assert!(trace.cwnd[0].iter().any(|(_, cwnd)| *cwnd > 10_000.0));
        assert!(
            trace.flight[0]
                .iter()
                .zip(&trace.cwnd[0])
                .any(|(flight, cwnd)| flight.1 > cwnd.1 / 2.0)
        );
        assert!(trace.goodput[0].iter().any(|(_, rate)| *rate > 100.0), "{:?}", trace.goodput);
        assert!(trace.srtt[0].iter().all(|(_, srtt)| *srtt >= 0.09));
    }

    #[test]
    fn a_run_is_the_same_whether_it_is_watched_or_not() {
        let scenario = read(&text().replace("\"4 MiB\"", "\"200 kB\""), &[]).unwrap();
        let point = &scenario.points[2];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.pcapng");
        let log = dir.path().join("t.qlog");
        let capture = Some(File::create(&file).unwrap());
        let trace = trace(point, 3, capture, Some(EventLog::new(&log))).unwrap();
        assert_eq!(trace.hash, trace_hash(point, 3).unwrap());
        let metrics = Simulation.run(point, 3).unwrap();
        assert_eq!(metrics.get("transfer_time_s"), trace.metrics.get("transfer_time_s"));
        // 138 chunks of 1452 bytes, each one sent for the first time once.
        assert_eq!(trace.sent.iter().filter(|(_, _, _, again)| !again).count(), 138);
        // The run ends before the last acknowledgement arrives.
        assert!(trace.acknowledged.last().is_some_and(|(_, number)| (100..138).contains(number)));
        assert!(trace.cwnd[0].iter().any(|(_, cwnd)| *cwnd > 2000.0));
        check_packets(&trace, &scenario);
        let log = std::fs::read_to_string(&log).unwrap();
        let logged = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        assert_eq!(logged("\"chunk_type\":\"DATA\""), trace.sent.len(), "one chunk fills a packet");
        assert!(logged("recovery:packet_lost") > 0 && logged("\"smoothed_rtt\":") > 10);
        assert!(log.lines().last().is_some_and(|last| last.contains("anabranch:log_ended")));
        let capture = std::fs::read(&file).unwrap();
        assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        let made_by = Provenance { command: "trace a,b".to_owned(), ..Provenance::default() };
        let html = trace.html("t", &scenario, &made_by);
        assert_eq!(html.matches("<svg").count(), 7);
        assert!(html.contains("Seed of this run: 3;") && html.contains("<pre>trace a,b</pre>"));
        let csv = trace.csv(&scenario, &made_by);
        let made = format!(",3,,,{},\"trace a,b\"", scenario.sha256());
        assert!(csv.lines().skip(1).all(|line| line.ends_with(&made)), "{csv}");
        let rows = |series: &str| csv.lines().filter(|line| line.contains(series)).count();
        assert_eq!((rows(",sent,"), rows(",sent_again,")), (138, trace.sent.len() - 138));
        assert_eq!(rows(",cwnd_bytes,primary,"), trace.cwnd[0].len());
        // No round-trip time is known before the first measurement.
        assert!(rows(",srtt_s,primary,") < trace.rto[0].len() && rows(",srtt_s,primary,") > 10);
        assert!(rows(",flight_bytes,alternate,") > 10, "{csv}");
        assert_eq!(rows(",queue_packets,primary,"), trace.cwnd[0].len());
        // All bytes that arrived were sent, except for the last part of half a second.
        let bits: f64 = trace.goodput[0].iter().map(|(_, rate)| rate * 0.5).sum();
        assert!((0.0..=1600.0).contains(&bits) && rows(",goodput_kbit_s,file,") > 1, "{bits}");
        assert!(trace.queue[0].iter().any(|(_, packets)| *packets > 0.0));
    }

    fn check_packets(trace: &Trace, scenario: &Scenario) {
        let columns = trace.packet_columns(scenario, &Provenance::default());
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let first = ["time_s", "way", "path", "from", "to", "bytes", "chunks", "tsn", "again"];
        assert_eq!(names[..9], first);
        assert!(columns.iter().all(|column| column.values.len() == trace.packets.len()));
        let data: Vec<_> =
            trace.packets.iter().filter(|one| one.is_sent && one.tsn.is_some()).collect();
        assert_eq!(data.len(), trace.sent.len(), "one chunk fills a packet");
        let again = data.iter().filter(|packet| packet.again).count();
        assert_eq!(again, trace.sent.len() - 138);
        let received = trace.packets.iter().filter(|packet| !packet.is_sent);
        let last = received.filter_map(|packet| packet.tsn).max();
        assert_eq!(last, trace.acknowledged.last().map(|(_, number)| *number));
    }
}
