//! The client of `perf`.

use std::sync::Arc;
use std::time::Duration;

use anabranch::Association;
use anabranch_http::Authority;
use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use super::cpu;
use super::lines::Lines;
use super::meter::{Counts, Meter};
use super::protocol::{Control, Mode, Plan, Report};
use super::report::{AssociationReport, Direction, Event, Summary, fairness};
use super::traffic::Exchange;
use crate::address::resolve;
use crate::client::ClientOptions;
use crate::endpoint::{Watch, end};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::numbers::Numbers;
use crate::options::{Transport, refuse};
use crate::output::print_json;
use crate::sealed::SealOptions;
use crate::sockets::Sockets;

/// Maximum number of handshakes at the same time.
const CONNECTING: usize = 256;

/// Maximum number of errors reported individually.
const TOLD: usize = 5;

/// What to measure, and how.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) authority: Authority,
    /// How it is sealed, if it is.
    pub(crate) seal: Option<SealOptions>,
    pub(crate) transport: Transport,
    pub(crate) client: ClientOptions,
    pub(crate) mode: Mode,
    pub(crate) plan: Plan,
    /// The peer does not speak the perf protocol.
    pub(crate) plain: bool,
    pub(crate) associations: usize,
    /// Time between reports; `None` for no interim reports.
    pub(crate) interval: Option<Duration>,
    pub(crate) json: bool,
    /// Reports each path, and the sender's buffers.
    pub(crate) paths: bool,
}

/// One association of the measurement.
struct Member {
    association: Association,
    counts: Arc<Counts>,
    watch: Watch,
}

/// The result of a measurement over one association.
struct Done {
    /// What the peer received, if it reported that.
    report: Option<Report>,
    /// Time from the request until everything had arrived.
    seconds: f64,
}

impl Measurement {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let interrupt = Interrupt::install()?;
        let meter = Meter::new().map_err(Failure::failed)?;
        if self.transport == Transport::Sctp {
            let port = self.client.remote_udp_port.map(|_| "--remote-udp-port");
            refuse(port.into_iter(), self.transport)?;
        }
        let (hosts, port) = (self.authority.hosts.iter(), self.authority.udp_port);
        let sockets = Sockets::bind(hosts, port, self.transport, &self.client, self.seal.as_ref())?;
        let result = tokio::select! {
            connected = self.connect(&sockets, &meter) => match connected {
                Ok(members) => self.measure(members, &meter, &interrupt).await,
                Err(failure) => Err(failure),
            },
            () = interrupt.wait() => Err(Failure::Interrupted),
        };
        sockets.close().await;
        result
    }

    /// Establishes all associations.
    async fn connect(&self, sockets: &Sockets, meter: &Meter) -> Result<Vec<Member>, Failure> {
        let config = self.client.association_config()?;
        let options =
            self.client.connect_options(config, self.plan.streams, self.authority.udp_port)?;
        let (authority, patience) = (&self.authority, self.client.connect_timeout);
        let addresses = resolve(authority).await?;
        let connecting = (0..self.associations)
            .map(|_| sockets.associate(authority, addresses.clone(), options.clone(), patience));
        let mut connecting = stream::iter(connecting).buffer_unordered(CONNECTING);
        let mut members = Vec::with_capacity(self.associations);
        while let Some(connected) = connecting.next().await {
            let association = connected?;
            let streams = association.outbound_streams();
            if self.mode != Mode::Receive && streams < self.plan.streams {
                return Err(Failure::failed(format!("the peer allows {streams} streams only")));
            }
            let watch = Watch::connected(&association);
            members.push(Member { association, counts: Arc::new(Counts::new()), watch });
        }
        if self.json {
            print_json(&Event::Connected {
                peer: &self.authority.to_string(),
                transport: self.transport,
                associations: members.len(),
                seconds: meter.seconds(),
            })?;
        }
        Ok(members)
    }

    /// Runs the exchange over all associations until they are done or the user stops it.
    async fn measure(
        &self,
        members: Vec<Member>,
        meter: &Meter,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let connect_seconds = meter.seconds();
        let cpu = cpu::seconds();
        for member in &members {
            meter.add(&member.association, &member.counts);
        }
        let mut results: Vec<_> = members.iter().map(|_| None).collect();
        let (sends, receives) = (self.mode.sends(), self.mode.receives());
        let mut lines = Lines::new(self.json, self.paths, sends, receives);
        let working = async {
            let mut working: FuturesUnordered<_> = members
                .iter()
                .zip(&mut results)
                .map(|(member, result)| async move {
                    *result = Some(self.exchange(member, meter, cpu).await);
                })
                .collect();
            while working.next().await.is_some() {}
        };
        let interrupted = tokio::select! {
            () = working => false,
            failure = self.tell_intervals(meter, &mut lines) => return Err(failure),
            () = interrupt.wait() => true,
        };
        if let Some(interval) = self.interval {
            lines.tell_rest(&meter.interval(), interval)?;
        }
        let seconds = meter.seconds();
        let cpu_seconds = cpu::seconds().zip(cpu).map(|(now, then)| now - then);
        let paths = meter.whole().paths;
        let reports: Vec<_> =
            members.into_iter().zip(results).map(|(m, result)| self.report(m, result)).collect();
        let rates: Vec<_> = reports.iter().map(rate).collect();
        let summary = Summary {
            peer: self.authority.to_string(),
            transport: self.transport,
            mode: self.mode,
            plan: self.plan,
            seconds,
            connect_seconds,
            sent: Direction::of(reports.iter().filter_map(|report| report.sent.as_ref())),
            received: Direction::of(reports.iter().filter_map(|report| report.received.as_ref())),
            round_trip: meter.round_trips(),
            fairness: fairness(&rates),
            cpu_seconds,
            peer_cpu_seconds: peer_cpu(&reports),
            counters: sum(reports.iter().filter_map(|report| report.counters.as_ref())),
            paths,
            associations: reports,
        };
        let failed = complain_of(&summary.associations);
        summary.tell(self.json, self.paths)?;
        match (interrupted, failed) {
            (true, _) => Err(Failure::Interrupted),
            (false, true) => Err(Failure::Reported),
            (false, false) => Ok(()),
        }
    }

    /// Measures over one association, and shuts it down.
    async fn exchange(
        &self,
        member: &Member,
        meter: &Meter,
        cpu: Option<f64>,
    ) -> Result<Done, String> {
        let association = &member.association;
        let exchange = Exchange {
            association,
            counts: &member.counts,
            plan: self.mode.sends().then_some(self.plan),
            receives: self.mode.receives(),
            cooperative: !self.plain,
            cpu,
        };
        member.counts.start();
        if !self.plain {
            exchange.control(&Control::request(self.mode, self.plan)).await?;
        }
        let report = async {
            if self.mode == Mode::Ping {
                exchange.ping(self.plan, meter).await.map(|()| None)
            } else if self.plain && self.mode == Mode::Receive {
                self.receive_from_plain(&exchange).await.map(|()| None)
            } else {
                exchange.run().await
            }
        };
        let report = tokio::select! {
            report = report => report,
            silent = silence(member, self.client.silence(), !self.plain) => Err(silent),
        };
        // Check this only if there was time to receive something: echoes of a few messages may still be in
        // transit.
        let had_time = self.mode == Mode::Receive || self.plan.limit.duration().is_some();
        let nothing = had_time && member.counts.totals().bytes_received == 0;
        let report = match report {
            Ok(_) if self.plain && self.mode.receives() && nothing => {
                Err("the peer has sent nothing".to_owned())
            }
            report => report,
        };
        let seconds = member.counts.seconds();
        match report {
            Ok(report) => {
                let ended = tokio::select! {
                    ended = end(association) => ended,
                    never = discard(association) => never,
                };
                ended.map(|()| Done { report, seconds })
            }
            Err(error) => {
                association.abort(error.as_bytes());
                Err(error)
            }
        }
    }

    /// Receives from a peer that sends forever, until the limit is reached.
    async fn receive_from_plain(&self, exchange: &Exchange<'_>) -> Result<(), String> {
        let most = self.plan.limit.bytes();
        let enough = async {
            match self.plan.limit.duration() {
                Some(time) => tokio::time::sleep(time).await,
                None => exchange.counts.wait_for(most).await,
            }
        };
        tokio::select! {
            ended = exchange.run() => ended.map(|_| ()),
            () = enough => Ok(()),
        }
    }

    /// Reports intervals forever, or until that fails.
    async fn tell_intervals(&self, meter: &Meter, lines: &mut Lines) -> Failure {
        let Some(interval) = self.interval else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(interval);
        // After a suspension, report one long interval instead of many empty ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Err(failure) = lines.tell(&meter.interval()) {
                return failure;
            }
        }
    }

    fn report(&self, member: Member, result: Option<Result<Done, String>>) -> AssociationReport {
        let totals = member.counts.totals();
        let (seen, seconds, error) = match result {
            Some(Ok(done)) => (done.report, Some(done.seconds), None),
            Some(Err(error)) => (None, None, Some(error)),
            None => {
                member.association.abort(b"interrupted by the user");
                (None, None, Some("interrupted".to_owned()))
            }
        };
        // A plain peer does not report, but after its shutdown it is known to have received everything.
        let sent = seen.or_else(|| {
            (self.mode.sends() && self.plain && error.is_none()).then(|| Report {
                messages: totals.messages_sent,
                bytes: totals.bytes_sent,
                seconds: member.counts.seconds(),
                longest_gap_seconds: None,
                cpu_seconds: None,
            })
        });
        let received = self.mode.receives().then(|| Report {
            messages: totals.messages_received,
            bytes: totals.bytes_received,
            seconds: member.counts.receiving_seconds(),
            longest_gap_seconds: Some(member.counts.longest_gap_seconds()),
            cpu_seconds: None,
        });
        let counters = Some(Numbers::of(&member.association.statistics()));
        let events = member.watch.stop();
        AssociationReport { sent, received, seconds, error, counters, events }
    }
}

/// How long a server may take for its first answer after it has received everything. A busy server refuses before
/// that.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// Waits until an association has made no progress for `longest`, and returns a message about that. If the peer
/// `answers` as a perf server does, it must answer soon after it has received everything; otherwise it is another
/// kind of server.
async fn silence(member: &Member, longest: Option<Duration>, answers: bool) -> String {
    let Some(longest) = longest else { return std::future::pending().await };
    let moved = || {
        let waiting = member.association.statistics();
        let waiting = (waiting.send_queue_bytes, waiting.outstanding_bytes);
        let totals = member.counts.totals();
        (totals.bytes_sent, totals.bytes_received, waiting)
    };
    let mut last = (moved(), Instant::now());
    loop {
        sleep((longest.min(FIRST_ANSWER) / 8).max(Duration::from_millis(1))).await;
        let now = moved();
        if now != last.0 {
            last = (now, Instant::now());
        } else if answers && now.1 == 0 && now.2 == (0, 0) && last.1.elapsed() >= FIRST_ANSWER {
            return format!(
                "the peer accepted everything and has not answered for {FIRST_ANSWER:?}: if it is not a perf server, \
                 measure it with --plain"
            );
        } else if last.1.elapsed() >= longest {
            return format!("nothing moved for {longest:?}: the peer may be stuck or gone");
        }
    }
}

/// Receives and discards forever, because with a full receive buffer the shutdown could not complete.
async fn discard(association: &Association) -> Result<(), String> {
    while let Ok(Some(_)) = association.recv().await {}
    std::future::pending().await
}

/// Bytes per second of an association, both directions together, by this side's clock. By the other side's clock,
/// a few packets that arrived together took almost no time.
fn rate(report: &AssociationReport) -> f64 {
    let bytes: u64 = [&report.sent, &report.received].into_iter().flatten().map(|r| r.bytes).sum();
    report.seconds.filter(|seconds| *seconds > 0.0).map_or(0.0, |seconds| bytes as f64 / seconds)
}

/// The sum of the associations' counters.
fn sum<'a>(associations: impl Iterator<Item = &'a Numbers>) -> Option<Numbers> {
    associations.fold(None, |sum: Option<Numbers>, counters| {
        let mut sum = sum.unwrap_or_default();
        sum.add(counters);
        Some(sum)
    })
}

/// Processor time of the peer's process, if it reports that.
fn peer_cpu(reports: &[AssociationReport]) -> Option<f64> {
    let seconds = reports.iter().filter_map(|report| report.sent?.cpu_seconds);
    // All reports are about the same process, and the highest value includes the others.
    seconds.reduce(f64::max)
}

/// Reports errors, identical ones only once. Returns whether there were any.
fn complain_of(reports: &[AssociationReport]) -> bool {
    let mut errors: Vec<(&str, usize)> = Vec::new();
    for error in reports.iter().filter_map(|report| report.error.as_deref()) {
        match errors.iter_mut().find(|(known, _)| *known == error) {
            Some((_, count)) => *count += 1,
            None => errors.push((error, 1)),
        }
    }
    // The user knows about an interruption.
    errors.retain(|(error, _)| *error != "interrupted");
    for (error, count) in errors.iter().take(TOLD) {
        match count {
            1 => complain(error),
            count => complain(&format!("{error} ({count} associations)")),
        }
    }
    !errors.is_empty()
}
