//! What both sides print.

use std::time::SystemTime;

use anabranch_gateway::{Access, Asked};
use serde::Serialize;

use crate::clock::rfc3339;
use crate::failure::{Failure, complain};
use crate::output::{grouped, json_line, log};

/// A line of the log in JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// A connection or request that has ended.
    Connection {
        time: String,
        asked: &'static str,
        client: Option<String>,
        target: &'a str,
        address: Option<String>,
        status: &'static str,
        code: Option<u16>,
        bytes_sent: u64,
        bytes_received: u64,
        seconds: f64,
        error: Option<&'a str>,
    },
    /// The near side has an association.
    Connected { time: String, far: &'a str },
    /// The near side has lost its association.
    Lost { time: String, error: &'a str },
    /// The near side could not set up an association.
    Unreachable { time: String, error: &'a str },
    /// The far side has accepted an association.
    Accepted { time: String, near: &'a str },
    /// An association of the far side has ended.
    Ended { time: String, near: &'a str, error: Option<&'a str> },
}

/// An event of the association of either side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    Connected { far: &'a str },
    Lost { error: &'a str },
    Unreachable { error: &'a str },
    Accepted { near: &'a str },
    Ended { near: &'a str, error: Option<&'a str> },
}

fn time() -> String {
    rfc3339(SystemTime::now())
}

fn write(line: Result<String, Failure>) {
    if let Err(Failure::Failed(sentence)) = line.and_then(|line| log(&line)) {
        complain(&sentence);
    }
}

/// Logs an event.
pub(super) fn tell(event: Event<'_>, json: bool) {
    let time = time();
    if json {
        return write(json_line(&match event {
            Event::Connected { far } => Line::Connected { time, far },
            Event::Lost { error } => Line::Lost { time, error },
            Event::Unreachable { error } => Line::Unreachable { time, error },
            Event::Accepted { near } => Line::Accepted { time, near },
            Event::Ended { near, error } => Line::Ended { time, near, error },
        }));
    }
    let text = match event {
        Event::Connected { far } => format!("connected to the far side at {far}"),
        Event::Lost { error } => format!("the far side is lost, connecting again: {error}"),
        Event::Unreachable { error } => format!("trying again: {error}"),
        Event::Accepted { near } => format!("{near} has connected"),
        Event::Ended { near, error: None } => format!("{near} has ended"),
        Event::Ended { near, error: Some(error) } => format!("{near} has ended: {error}"),
    };
    write(Ok(format!("{time} {text}\n")));
}

/// Logs a connection that has ended.
pub(super) fn access(access: &Access, json: bool) {
    let time = time();
    if json {
        return write(json_line(&Line::Connection {
            time,
            asked: access.asked.name(),
            client: access.client.map(|client| client.to_string()),
            target: &access.target,
            address: access.address.map(|address| address.to_string()),
            status: access.status.name(),
            code: access.code,
            bytes_sent: access.bytes_sent,
            bytes_received: access.bytes_received,
            seconds: access.took.as_secs_f64(),
            error: access.error.as_deref(),
        }));
    }
    write(Ok(format!("{time} {}\n", text(access))));
}

/// A line about a connection without the time.
fn text(access: &Access) -> String {
    let client = access.client.map_or_else(|| "-".to_owned(), |client| client.to_string());
    let how = match access.asked {
        Asked::Connect => "CONNECT ",
        Asked::Socks5 => "SOCKS5 ",
        Asked::Udp => "UDP ",
        _ => "",
    };
    let target = if access.target.is_empty() { "-" } else { &access.target };
    let address = access.address.map(|address| format!(" ({address})")).unwrap_or_default();
    let result = match access.code {
        Some(code) => code.to_string(),
        None => access.status.name().to_owned(),
    };
    let (sent, received) = (grouped(access.bytes_sent), grouped(access.bytes_received));
    let seconds = access.took.as_secs_f64();
    let error = access.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    format!(
        "{client} {how}{target}{address} {result}, {sent} bytes sent, {received} received, {seconds:.3} s{error}"
    )
}
