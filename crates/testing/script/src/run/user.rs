//! The user of an association: sending, receiving, and operations beyond the socket API.

use anabranch_proto::{Association, Message, PathState, Ppid, Reliability, SendErrorReason};
use anabranch_sockets::{AssocId, Error, ReceiveInfo, SendFlags, SendInfo, policy};
use bytes::{Buf, Bytes};

use super::sockets::Answer;
use super::world::World;
use crate::failure::Failure;
use crate::read::{Argument, Call, Route};

impl World {
    /// Calls on a connected socket.
    pub(crate) fn use_association(&mut self, call: &Call) -> Result<Answer, Failure> {
        match call.name.as_str() {
            "write" | "send" | "sendto" | "sctp_send" | "sctp_sendmsg" | "sctp_sendv" => {
                self.send(call)
            }
            "read" | "recv" | "recvfrom" | "sctp_recvmsg" | "sctp_recvv" => self.receive(call),
            "abort" => {
                let id = self.association(call)?;
                let reason = call.arguments.get(1).and_then(text).unwrap_or_default();
                if let Some(mut association) = self.endpoint.association_mut(self.now, id) {
                    association.abort(self.now, reason.as_bytes());
                }
                Ok(Answer::DONE)
            }
            "state" => {
                let id = self.association(call)?;
                let state = self.endpoint.association(id).map(|a| a.statistics().state.name());
                Ok(Answer::word(&state.unwrap_or("NONE").replace('-', "_")))
            }
            "event" => {
                let id = self.association(call)?;
                let event = self.links.get_mut(&id).and_then(|link| link.events.pop_front());
                Ok(Answer::word(event.as_deref().unwrap_or("NONE")))
            }
            "path" => self.path_state(call),
            "stat" => self.statistic(call),
            "add_address" | "remove_address" | "prefer_address" => self.change_address(call),
            "interface" => self.interface(call),
            "peer_key" => self.peer_key(call),
            "set_primary" | "heartbeat" => self.ask_path(call),
            "send_error" => {
                let (local, remote) = self.path(&call.place, route(call))?;
                let id = self.association(call)?;
                let association = self.endpoint.association(id);
                let quoted = association.map(Association::start_of_packet).unwrap_or_default();
                self.endpoint.handle_send_error(self.now, local, remote, &quoted);
                Ok(Answer::DONE)
            }
            name => Err(Failure::script(&call.place, format!("no call {name} is known here"))),
        }
    }

    fn send(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let (info, data) = outgoing(call)?;
        let length = data.len();
        let reliability = match info.check(length).and_then(|()| reliability(call, info.flags)) {
            Ok(reliability) => reliability,
            Err(error) => return Ok(Answer::error(error)),
        };
        let (now, flags) = (self.now, info.flags);
        let nonblocking = self.socket(call)?.1.nonblocking;
        let Some(mut association) = self.endpoint.association_mut(now, id) else {
            return Ok(Answer::error(Error::NotConnected));
        };
        if flags.contains(SendFlags::ABORT) {
            association.abort(now, &data);
            return Ok(Answer::number(length));
        }
        let sent = if data.is_empty() {
            Ok(())
        } else {
            association.send(now, info.message(data, reliability))
        };
        if sent.is_ok() && flags.contains(SendFlags::EOF) {
            association.shutdown(now);
        }
        Ok(match sent {
            Ok(()) => Answer::number(length),
            Err(error) if error.reason == SendErrorReason::Blocked && !nonblocking => Answer::Later,
            Err(error) => Answer::error(Error::from(&error.reason)),
        })
    }

    fn receive(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let nonblocking = self.socket(call)?.1.nonblocking;
        let size = call.arguments.get(2).and_then(number).unwrap_or(i64::MAX).max(0) as usize;
        let started = self.links.get_mut(&id).and_then(|link| link.rest.take());
        let now = self.now;
        let taken = started.or_else(|| {
            let mut association = self.endpoint.association_mut(now, id)?;
            association.receive().map(|message| (message, 0))
        });
        let Some((message, from)) = taken else {
            let Some(link) = self.links.get_mut(&id) else {
                return Ok(Answer::error(Error::NotConnected));
            };
            return Ok(match link.error() {
                Some(error) if !link.error_taken => {
                    link.error_taken = true;
                    Answer::error(error)
                }
                _ if link.peer_shut_down || link.closed.is_some() => Answer::DONE,
                _ if nonblocking => Answer::error(Error::WouldBlock),
                _ => Answer::Later,
            });
        };
        let whole = message.payload.clone().copy_to_bytes(message.payload.remaining());
        let part = whole.slice(from.min(whole.len())..whole.len().min(from.saturating_add(size)));
        self.check_message(call, &message, &part)?;
        let length = part.len();
        if from + length < whole.len() {
            if let Some(link) = self.links.get_mut(&id) {
                link.rest = Some((message, from + length));
            }
        } else if let Some(mut association) = self.endpoint.association_mut(now, id) {
            association.release(message.charge());
        }
        Ok(Answer::number(length))
    }

    /// Compares a message with its description in the call.
    fn check_message(&self, call: &Call, message: &Message, part: &Bytes) -> Result<(), Failure> {
        if let Some(expected) = call.arguments.get(1).and_then(text)
            && expected.as_bytes() != &part[..]
        {
            let shown = String::from_utf8_lossy(part);
            return Err(Failure::behaviour(&call.place, format!("the data are {shown:?}")));
        }
        let info = ReceiveInfo::of(message, AssocId::default());
        for argument in &call.arguments {
            let Argument::Structure(fields) = argument else { continue };
            for (key, expected) in fields {
                let actual = match key.as_str() {
                    "sinfo_stream" | "rcv_sid" => Argument::Number(i64::from(info.stream)),
                    "sinfo_ssn" | "rcv_ssn" => Argument::Number(i64::from(info.ssn)),
                    "sinfo_ppid" | "rcv_ppid" => Argument::Number(i64::from(info.ppid.0)),
                    "sinfo_flags" | "rcv_flags" if info.unordered => {
                        Argument::Words(vec!["SCTP_UNORDERED".to_owned()])
                    }
                    "sinfo_flags" | "rcv_flags" => Argument::Number(0),
                    _ => continue,
                };
                if *expected != Argument::Any && *expected != actual {
                    let message = format!("{key} is {actual}, not {expected}");
                    return Err(Failure::behaviour(&call.place, message));
                }
            }
        }
        Ok(())
    }

    fn path_state(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let wanted = self.path(&call.place, route(call))?;
        let association = self.endpoint.association(id);
        let state = association.and_then(|association| {
            association.paths().find(|(_, local, remote, _)| (*local, *remote) == wanted)
        });
        Ok(Answer::word(match state.map(|(_, _, _, state)| state) {
            Some(PathState::Active) => "ACTIVE",
            Some(PathState::PotentiallyFailed) => "PF",
            Some(PathState::Inactive) => "INACTIVE",
            Some(PathState::Unconfirmed) => "UNCONFIRMED",
            _ => "NONE",
        }))
    }

    /// `stat(fd, name, @path)`
    fn statistic(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let wanted = self.path(&call.place, route(call))?;
        let name = call.arguments.get(1).and_then(|argument| words(argument).first().cloned());
        let name = name.unwrap_or_default();
        let Some(association) = self.endpoint.association(id) else {
            return Ok(Answer::word("NONE"));
        };
        let statistics = association.statistics();
        let mut paths = statistics.paths.iter();
        let path = paths.find(|path| (path.local, path.remote) == wanted);
        let value = match (name.as_str(), path) {
            ("peer_rwnd", _) => Some(u64::from(statistics.peer_rwnd)),
            ("outstanding", _) => Some(statistics.outstanding_bytes as u64),
            ("queued", _) => Some(statistics.send_queue_bytes as u64),
            ("duplicates", _) => Some(statistics.counters.duplicate_chunks),
            ("in_streams", _) => Some(u64::from(association.inbound_streams())),
            ("out_streams", _) => Some(u64::from(association.outbound_streams())),
            ("cwnd", Some(path)) => Some(path.cwnd as u64),
            ("ssthresh", Some(path)) => Some(path.ssthresh as u64),
            ("flight", Some(path)) => Some(path.flight as u64),
            ("mtu", Some(path)) => Some(u64::from(path.mtu)),
            ("errors", Some(path)) => Some(u64::from(path.error_count)),
            ("rto", Some(path)) => Some(path.rto.as_millis() as u64),
            ("srtt", Some(path)) => Some(path.srtt.map_or(0, |srtt| srtt.as_millis() as u64)),
            _ => None,
        };
        let value = value.ok_or_else(|| {
            Failure::script(&call.place, format!("no figure {name} is known for this"))
        })?;
        Ok(Answer::number(value as usize))
    }

    fn ask_path(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let (_, remote) = self.path(&call.place, route(call))?;
        let now = self.now;
        let Some(mut association) = self.endpoint.association_mut(now, id) else {
            return Ok(Answer::error(Error::NotConnected));
        };
        let done = if call.name == "heartbeat" {
            association.request_heartbeat(now, remote)
        } else {
            association.set_primary(remote)
        };
        Ok(if done.is_ok() { Answer::DONE } else { Answer::error(Error::Invalid) })
    }
}

pub(super) fn number(argument: &Argument) -> Option<i64> {
    match argument {
        Argument::Number(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn text(argument: &Argument) -> Option<&str> {
    match argument {
        Argument::Text(text) => Some(text),
        _ => None,
    }
}

pub(super) fn words(argument: &Argument) -> &[String] {
    match argument {
        Argument::Words(words) => words,
        _ => &[],
    }
}

pub(super) fn route(call: &Call) -> Route {
    let route = call.arguments.iter().find_map(|argument| match argument {
        Argument::Path(route) => Some(*route),
        _ => None,
    });
    route.unwrap_or(Route::FIRST)
}

/// The number in a field, at any depth.
fn nested(argument: &Argument, names: &[&str]) -> Option<i64> {
    match argument {
        Argument::Structure(fields) => fields.iter().find_map(|(key, value)| match value {
            Argument::Number(number) if names.contains(&key.as_str()) => Some(*number),
            value => nested(value, names),
        }),
        Argument::List(list) => list.iter().find_map(|value| nested(value, names)),
        _ => None,
    }
}

fn constants(argument: &Argument) -> Vec<&str> {
    match argument {
        Argument::Words(words) => words.iter().map(String::as_str).collect(),
        Argument::Structure(fields) => fields.iter().flat_map(|(_, v)| constants(v)).collect(),
        Argument::List(list) => list.iter().flat_map(constants).collect(),
        _ => Vec::new(),
    }
}

/// When the message that a call sends is given up.
fn reliability(call: &Call, flags: SendFlags) -> Result<Reliability, Error> {
    let arguments = call.arguments.iter().skip(2);
    if arguments.clone().flat_map(constants).any(|name| name == "SCTP_PR_SCTP_NONE") {
        return Ok(Reliability::Full);
    }
    let mut arguments = arguments;
    let value = match call.arguments.get(8) {
        Some(argument) if call.name == "sctp_sendmsg" => number(argument),
        _ => arguments.find_map(|argument| nested(argument, &["sinfo_timetolive", "pr_value"])),
    };
    policy::of_sndrcv(flags, u32::try_from(value.unwrap_or(0)).map_err(|_| Error::Invalid)?)
}

/// The message that a call sends: ancillary data and payload.
fn outgoing(call: &Call) -> Result<(SendInfo, Bytes), Failure> {
    let arguments = &call.arguments;
    let at = |index: usize| arguments.get(index).and_then(number);
    let length = match arguments.get(1) {
        Some(buffers @ Argument::List(_)) => nested(buffers, &["iov_len"]),
        _ => at(2),
    };
    let data = match arguments.get(1).and_then(text) {
        Some(text) => Bytes::copy_from_slice(text.as_bytes()),
        None => {
            let length = length.unwrap_or(0);
            let limit = 64 << 20;
            if !(0..=limit).contains(&length) {
                let message = format!("a message of {length} bytes cannot be sent here");
                return Err(Failure::script(&call.place, message));
            }
            Bytes::from(vec![0; length as usize])
        }
    };
    let mut info = SendInfo::default();
    if call.name == "sctp_sendmsg" {
        info.ppid = Ppid(at(5).unwrap_or(0) as u32);
        info.stream = at(7).unwrap_or(0) as u16;
    } else {
        let find = |names: &[&str]| arguments.iter().skip(2).find_map(|a| nested(a, names));
        info.ppid = Ppid(find(&["sinfo_ppid", "snd_ppid"]).unwrap_or(0) as u32);
        info.stream = find(&["sinfo_stream", "snd_sid"]).unwrap_or(0) as u16;
    }
    let names = arguments.iter().flat_map(constants);
    info.flags = names.filter_map(SendFlags::named).collect();
    Ok((info, data))
}
