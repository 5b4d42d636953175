//! Exchanges the messages of a measurement over one association.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anabranch::{Association, Notification, OutgoingMessage, Reliability};
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::cpu;
use super::meter::{Counts, Meter};
use super::protocol::{CONTROL, Control, DATA, ECHO, Plan, Report};
use crate::parts::{Parts, Refused};

/// The error if the peer echoes our own request.
const NO_SERVER: &str =
    "the peer echoes what it receives: it is not a perf server, measure it with --plain";

/// The error if the peer answers anything else.
const OTHER_SERVER: &str = "the peer does not speak the perf protocol: is another server there? start \
    'anabranch perf server', or measure with --plain";

/// One side of an exchange.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) association: &'a Association,
    pub(crate) counts: &'a Counts,
    /// The plan of this side, if it sends.
    pub(crate) plan: Option<Plan>,
    /// The other side sends.
    pub(crate) receives: bool,
    /// The other side speaks the perf protocol.
    pub(crate) cooperative: bool,
    /// Processor time used when the measurement began.
    pub(crate) cpu: Option<f64>,
}

impl Exchange<'_> {
    /// Sends and receives everything. Returns what the other side received, if it reports that.
    pub(crate) async fn run(&self) -> Result<Option<Report>, String> {
        if !self.cooperative {
            return self.one_sided().await.map(|()| None);
        }
        let send = async {
            match self.plan {
                Some(plan) => {
                    self.send_data(plan).await?;
                    let partial = self.gives_up();
                    if partial {
                        self.settled().await;
                    }
                    let totals = self.counts.totals();
                    let (messages, bytes) = (totals.messages_sent, totals.bytes_sent);
                    self.control(&Control::End { messages, bytes, partial }).await
                }
                None => Ok(()),
            }
        };
        let ((), report) = tokio::try_join!(send, self.receive_data())?;
        Ok(report)
    }

    /// Whether messages of this side may be given up.
    fn gives_up(&self) -> bool {
        !matches!(
            self.association.config().sending.reliability,
            Reliability::Usual | Reliability::Full
        )
    }

    /// Waits until everything is acknowledged or given up, so that nothing of it arrives later. Ends as well if the
    /// association does.
    async fn settled(&self) {
        let mut events = self.association.events();
        if self.association.tell_when_dry(true) {
            return;
        }
        while let Some(event) = events.next().await {
            if matches!(event, Notification::SenderDry) {
                return;
            }
        }
    }

    /// Measures against a peer that only discards or only sends.
    async fn one_sided(&self) -> Result<(), String> {
        let count = async {
            while let Some(message) =
                self.association.recv().await.map_err(|error| error.to_string())?
            {
                self.counts.received(message.payload.len(), message.end);
            }
            Ok(())
        };
        match self.plan {
            Some(plan) if self.receives => tokio::select! {
                sent = self.send_data(plan) => sent,
                ended = count => ended,
            },
            Some(plan) => self.send_data(plan).await,
            None => count.await,
        }
    }

    /// Sends according to plan.
    async fn send_data(&self, plan: Plan) -> Result<(), String> {
        let filler = filler(plan.size);
        let mut left = plan.limit.bytes();
        let deadline = plan.limit.duration().map(after);
        let mut timer = pin!(until(deadline));
        for number in 0_u64.. {
            if left == 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let length = usize::try_from(left).map_or(plan.size, |left| left.min(plan.size));
            let message = data(&filler, DATA, number, length, &plan);
            tokio::select! {
                biased;
                sent = self.association.send(message) => sent.map_err(|e| e.to_string())?,
                () = &mut timer => break,
            }
            self.counts.sent(length);
            left -= length as u64;
        }
        Ok(())
    }

    /// Receives until the other side has sent everything, and has reported that it received
    /// everything.
    async fn receive_data(&self) -> Result<Option<Report>, String> {
        let mut expected = None;
        let mut report = None;
        let mut told = !self.receives;
        while !told || (self.plan.is_some() && report.is_none()) {
            let message = self.association.recv().await.map_err(|error| error.to_string())?;
            let Some(message) = message else {
                return Err("the peer shut down before it was done".to_owned());
            };
            if message.ppid == CONTROL {
                match Control::read(message.payload)? {
                    Control::End { partial: true, .. } => {
                        let totals = self.counts.totals();
                        expected = Some((totals.messages_received, totals.bytes_received));
                    }
                    Control::End { messages, bytes, .. } => expected = Some((messages, bytes)),
                    Control::Report(seen) => {
                        report = Some(seen.known_after(self.counts.seconds()));
                    }
                    Control::Request { .. } => return Err(NO_SERVER.to_owned()),
                }
            } else if message.ppid == DATA && self.receives {
                self.counts.received(message.payload.len(), message.end);
            } else {
                return Err(OTHER_SERVER.to_owned());
            }
            let totals = self.counts.totals();
            let all = expected == Some((totals.messages_received, totals.bytes_received));
            if all && !told {
                told = true;
                self.control(&Control::Report(self.report())).await?;
            }
        }
        Ok(report)
    }

    fn report(&self) -> Report {
        let totals = self.counts.totals();
        Report {
            messages: totals.messages_received,
            bytes: totals.bytes_received,
            seconds: self.counts.receiving_seconds(),
            longest_gap_seconds: Some(self.counts.longest_gap_seconds()),
            cpu_seconds: cpu::seconds().zip(self.cpu).map(|(now, then)| now - then),
        }
    }

    /// Sends a control message.
    pub(crate) async fn control(&self, control: &Control) -> Result<(), String> {
        let message = control.message().map_err(|error| error.to_string())?;
        self.association.send(message).await.map_err(|error| error.to_string())
    }

    /// Sends messages, each after the echo of the previous one.
    pub(crate) async fn ping(&self, plan: Plan, meter: &Meter) -> Result<(), String> {
        if self.gives_up() {
            return Err("ping waits for every echo, so no message may be given up".to_owned());
        }
        let filler = filler(plan.size);
        let mut left = plan.limit.bytes();
        let deadline = plan.limit.duration().map(after);
        for number in 0_u64.. {
            if left == 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let length = usize::try_from(left).map_or(plan.size, |left| left.min(plan.size));
            let begun = Instant::now();
            let message = data(&filler, ECHO, number, length, &plan);
            let round_trip = async {
                self.association.send(message).await.map_err(|error| error.to_string())?;
                self.counts.sent(length);
                self.echo_of(length).await
            };
            tokio::select! {
                biased;
                done = round_trip => done?,
                // The time is over, and an echo is missing. If the peer has echoed before, this is
                // the normal end; otherwise the peer does not echo, which is an error.
                () = until(deadline) => {
                    if number == 0 {
                        return Err("the peer sends no echo".to_owned());
                    }
                    break;
                }
            }
            meter.round_trip(begun.elapsed());
            left -= length as u64;
        }
        Ok(())
    }

    /// Waits for a message of this length.
    async fn echo_of(&self, length: usize) -> Result<(), String> {
        let mut received = 0;
        loop {
            let message = self.association.recv().await.map_err(|error| error.to_string())?;
            let Some(message) = message else {
                return Err("the peer shut down".to_owned());
            };
            if message.ppid == CONTROL {
                return Err(NO_SERVER.to_owned());
            }
            if self.cooperative && message.ppid != ECHO {
                return Err(OTHER_SERVER.to_owned());
            }
            received += message.payload.len();
            self.counts.received(message.payload.len(), message.end);
            if received > length || (message.end && received < length) {
                return Err("the peer does not echo messages unchanged".to_owned());
            }
            if message.end {
                return Ok(());
            }
        }
    }

    /// Echoes messages of at most `most` bytes until the other side shuts down.
    pub(crate) async fn echo(&self, most: usize) -> Result<(), String> {
        let mut parts = Parts::new(self.association, most);
        while let Some(message) =
            self.association.recv().await.map_err(|error| error.to_string())?
        {
            self.counts.received(message.payload.len(), message.end);
            let whole = parts.add(message).await.map_err(|refused| match refused {
                Refused::TooLong => "a message is too long".to_owned(),
                Refused::NoMemory => "the server has no memory for a message".to_owned(),
                Refused::TooMany => "too many messages are incomplete".to_owned(),
            })?;
            let Some(whole) = whole else {
                continue;
            };
            let _until_sent = whole.reserved;
            let length = whole.data.len();
            let mut answer = OutgoingMessage::new(whole.stream, whole.ppid, whole.data);
            answer.unordered = whole.unordered;
            self.association.send(answer).await.map_err(|error| error.to_string())?;
            self.counts.sent(length);
        }
        Ok(())
    }
}

/// Message number `number` of a plan.
fn data(
    filler: &Bytes,
    ppid: anabranch::Ppid,
    number: u64,
    length: usize,
    plan: &Plan,
) -> OutgoingMessage {
    // The remainder fits in 16 bits.
    let stream = (number % u64::from(plan.streams.max(1))) as u16;
    let mut message = OutgoingMessage::new(stream, ppid, filler.slice(..length.min(filler.len())));
    message.unordered = plan.unordered;
    message
}

/// The content of messages. All messages of all associations share the same bytes, so that queued
/// messages together need no more memory than the longest one.
fn filler(size: usize) -> Bytes {
    static LONGEST: Mutex<Bytes> = Mutex::new(Bytes::new());
    let mut longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
    if longest.len() < size {
        let length = size.next_power_of_two();
        *longest = (0..length).map(|index| index as u8).collect();
    }
    longest.slice(..size)
}

fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    // The deadline is out of range: a year is long enough.
    now.checked_add(duration).unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
