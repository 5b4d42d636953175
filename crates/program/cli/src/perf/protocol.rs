//! The messages besides data that the client and the server of `perf` exchange.
//!
//! The messages of a measurement have separate payload protocol identifiers. Control messages are JSON on
//! stream 0. The client begins with [`Control::Request`]; a side that has sent all its data ends with
//! [`Control::End`], and the side that has received all of it answers with [`Control::Report`].

use std::fmt;
use std::time::Duration;

use anabranch::{OutgoingMessage, Ppid, Reliability};
use bytes::{Buf, Bytes};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Payload protocol identifier of control messages ("anpc").
pub(crate) const CONTROL: Ppid = Ppid(0x616e_7063);

/// Payload protocol identifier of data ("anpd").
pub(crate) const DATA: Ppid = Ppid(0x616e_7064);

/// Payload protocol identifier of messages to be sent back ("anpe").
pub(crate) const ECHO: Ppid = Ppid(0x616e_7065);

/// The version of this protocol.
const VERSION: u32 = 1;

/// Maximum length of a control message.
const MOST_CONTROL: usize = 4096;

/// Maximum length of a message in a measurement.
pub(crate) const MOST_SIZE: usize = 64 << 20;

/// Direction of the messages, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// The client sends
    Send,
    /// The server sends
    Receive,
    /// Both send at the same time
    Both,
    /// The client sends a message and waits for its echo before it sends the next one
    Ping,
}

impl Mode {
    /// Whether the client sends data.
    pub(crate) fn sends(self) -> bool {
        matches!(self, Self::Send | Self::Both)
    }

    /// Whether the server sends data.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
            Self::Ping => "ping",
        })
    }
}

/// When a sender stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// This many seconds.
    Seconds(f64),
    /// This many bytes on each association; the last message is truncated to fit.
    Bytes(u64),
}

impl Limit {
    /// The time after which the sender ends, if the limit is a time.
    pub(crate) fn duration(self) -> Option<Duration> {
        match self {
            Self::Seconds(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Self::Bytes(_) => None,
        }
    }

    /// The bytes after which the sender ends.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Seconds(_) => u64::MAX,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The plan of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Number of streams; messages use them in turn.
    pub(crate) streams: u16,
    /// Messages are unordered.
    pub(crate) unordered: bool,
    pub(crate) limit: Limit,
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Control {
    /// The request of the client, its first message.
    Request {
        /// Version of this protocol.
        version: u32,
        mode: Mode,
        plan: Plan,
    },
    /// All data has been sent; contains the totals.
    End {
        messages: u64,
        bytes: u64,
        /// Messages were given up: nothing more comes, and what has not arrived is missing.
        #[serde(default, skip_serializing_if = "is_false")]
        partial: bool,
    },
    /// All data has been received.
    Report(Report),
}

/// The measurements of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Seconds from the request to the last byte.
    pub(crate) seconds: f64,
    /// The longest time without received data, between the request and the last byte; `None` if the peer does
    /// not report it.
    #[serde(default)]
    pub(crate) longest_gap_seconds: Option<f64>,
    /// Processor time of the whole process since the association was set up.
    pub(crate) cpu_seconds: Option<f64>,
}

impl Report {
    /// The other side's report, which arrived `seconds` after the request. Data that arrived within less than
    /// a round trip, perhaps together with the request, took no time that its receiver could measure. In that
    /// case `seconds` is used.
    pub(crate) fn known_after(self, seconds: f64) -> Self {
        if self.seconds < seconds / 2.0 { Self { seconds, ..self } } else { self }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Control {
    pub(crate) fn request(mode: Mode, plan: Plan) -> Self {
        Self::Request { version: VERSION, mode, plan }
    }

    /// Encodes the control message.
    pub(crate) fn message(&self) -> Result<OutgoingMessage, serde_json::Error> {
        // Data may be given up, but not this.
        Ok(OutgoingMessage::new(0, CONTROL, serde_json::to_vec(self)?)
            .with_reliability(Reliability::Full))
    }

    /// Decodes and validates a control message.
    pub(crate) fn read(mut payload: impl Buf) -> Result<Self, String> {
        if payload.remaining() > MOST_CONTROL {
            return Err("a control message is too long".to_owned());
        }
        let bytes: Bytes = payload.copy_to_bytes(payload.remaining());
        let control = serde_json::from_slice(&bytes)
            .map_err(|error| format!("a control message makes no sense: {error}"))?;
        match control {
            Self::Request { version, .. } if version != VERSION => {
                Err(format!("the client speaks version {version} of perf, not {VERSION}"))
            }
            Self::Request { plan, .. } => plan.check().map(|()| control),
            Self::End { .. } | Self::Report(_) => Ok(control),
        }
    }
}

impl Plan {
    /// Checks that a sender can carry out the plan.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=MOST_SIZE).contains(&self.size) {
            return Err(format!("a message has 1 to {MOST_SIZE} bytes"));
        }
        if self.streams == 0 {
            return Err("there is at least one stream".to_owned());
        }
        if let Limit::Seconds(seconds) = self.limit
            && !(seconds > 0.0 && seconds <= 1e9)
        {
            return Err("a time is above zero and below 30 years".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { size: 64, streams: 3, unordered: true, limit: Limit::Seconds(1.5) };

    fn read(text: &str) -> Result<Control, String> {
        Control::read(text.as_bytes())
    }

    #[test]
    fn control_messages_survive() {
        let report = Report {
            messages: 1,
            bytes: 2,
            seconds: 0.25,
            longest_gap_seconds: Some(0.125),
            cpu_seconds: None,
        };
        for control in [
            Control::request(Mode::Both, PLAN),
            Control::End { messages: 7, bytes: 9, partial: false },
            Control::End { messages: 7, bytes: 9, partial: true },
            Control::Report(report),
        ] {
            let message = control.message().unwrap();
            assert_eq!((message.stream, message.ppid), (0, CONTROL));
            assert_eq!(Control::read(message.data), Ok(control));
        }
    }

    #[test]
    fn what_came_at_once_took_a_round_trip() {
        let report = |seconds| Report { bytes: 10_000, seconds, ..Report::default() };
        assert_eq!(report(7e-6).known_after(0.01), report(0.01));
        assert_eq!(report(9.9).known_after(10.0), report(9.9));
    }

    #[test]
    fn nonsense_is_refused() {
        let request = |change: fn(&mut Plan)| {
            let mut plan = PLAN;
            change(&mut plan);
            Control::read(Control::request(Mode::Send, plan).message().unwrap().data).unwrap_err()
        };
        assert!(request(|plan| plan.size = 0).contains("1 to"));
        assert!(request(|plan| plan.size = MOST_SIZE + 1).contains("1 to"));
        assert!(request(|plan| plan.streams = 0).contains("at least one stream"));
        assert!(request(|plan| plan.limit = Limit::Seconds(0.0)).contains("above zero"));
        assert!(request(|plan| plan.limit = Limit::Seconds(1e10)).contains("30 years"));
        let other = Control::Request { version: 2, mode: Mode::Send, plan: PLAN };
        assert!(Control::read(other.message().unwrap().data).unwrap_err().contains("version 2"));
        assert!(read("").unwrap_err().contains("no sense"));
        assert!(read(r#"{"control":"stop"}"#).unwrap_err().contains("no sense"));
        assert!(read(&" ".repeat(MOST_CONTROL + 1)).unwrap_err().contains("too long"));
    }
}
