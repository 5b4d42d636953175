//! Options of sockets.

use std::time::Duration;

use anabranch_proto::BurstControl;
use anabranch_proto::config::Bundling;

use super::sockets::Answer;
use super::world::World;
use crate::failure::Failure;
use crate::read::{Argument, Call};

/// The number of a field that is not zero, which would mean 'as it is'.
fn field(value: &Argument, name: &str) -> Option<u64> {
    let Argument::Structure(fields) = value else { return None };
    fields.iter().find_map(|(key, value)| match value {
        Argument::Number(number) if key == name && *number > 0 => u64::try_from(*number).ok(),
        _ => None,
    })
}

/// The number in `[5]`.
fn single(value: &Argument) -> Option<u64> {
    match value {
        Argument::List(list) => match list.first() {
            Some(Argument::Number(number)) => u64::try_from(*number).ok(),
            _ => None,
        },
        _ => field(value, "assoc_value"),
    }
}

/// The name and the value of an option.
fn named(call: &Call) -> Result<(&str, &Argument), Failure> {
    match (call.arguments.get(2), call.arguments.get(3)) {
        (Some(Argument::Words(words)), Some(value)) => {
            Ok((words.first().map_or("", String::as_str), value))
        }
        _ => Err(Failure::script(&call.place, "expected a socket, level, option and value")),
    }
}

impl World {
    #[expect(clippy::too_many_lines, reason = "one arm for each socket option")]
    pub(crate) fn set_option(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (name, value) = named(call)?;
        let (_, socket) = self.socket(call)?;
        match name {
            "SO_LINGER" => {
                let (on, off) = (field(value, "onoff"), field(value, "linger"));
                socket.abortive = on.is_some() && off.is_none();
                return Ok(Answer::DONE);
            }
            // Nothing in the engine depends on these.
            "SCTP_EVENTS"
            | "SCTP_EVENT"
            | "SCTP_RECVRCVINFO"
            | "SCTP_RECVNXTINFO"
            | "SO_REUSEADDR"
            | "SCTP_REUSE_PORT"
            | "SCTP_DISABLE_FRAGMENTS" => {
                return Ok(Answer::DONE);
            }
            _ => {}
        }
        let (before, live, listens) = (socket.config.clone(), socket.association, socket.listens);
        let config = &mut socket.config;
        let milliseconds = |name| field(value, name).map(Duration::from_millis);
        match name {
            "SCTP_RTOINFO" => {
                config.timers.rto_initial =
                    milliseconds("srto_initial").unwrap_or(config.timers.rto_initial);
                config.timers.rto_max = milliseconds("srto_max").unwrap_or(config.timers.rto_max);
                config.timers.rto_min = milliseconds("srto_min").unwrap_or(config.timers.rto_min);
            }
            "SCTP_INITMSG" => {
                let streams = |name| field(value, name).map(|streams| streams as u16);
                config.sending.outbound_streams =
                    streams("sinit_num_ostreams").unwrap_or(config.sending.outbound_streams);
                config.receiving.inbound_streams =
                    streams("sinit_max_instreams").unwrap_or(config.receiving.inbound_streams);
                if let Some(attempts) = field(value, "sinit_max_attempts") {
                    config.paths.max_init_retransmits = attempts as u32;
                }
            }
            "SCTP_ASSOCINFO" => {
                if let Some(retransmissions) = field(value, "sasoc_asocmaxrxt") {
                    config.paths.association_max_retrans = retransmissions as u32;
                }
            }
            "SCTP_PEER_ADDR_PARAMS" => {
                if let Some(interval) = milliseconds("spp_hbinterval") {
                    config.timers.heartbeat_interval = Some(interval);
                }
                if says(value, "SPP_HB_DISABLE") {
                    config.timers.heartbeat_interval = None;
                }
                if let Some(retransmissions) = field(value, "spp_pathmaxrxt") {
                    config.paths.path_max_retrans = retransmissions as u32;
                }
            }
            "SCTP_DELAYED_SACK" => {
                config.acknowledging.sack_delay =
                    milliseconds("sack_delay").unwrap_or(config.acknowledging.sack_delay);
                if let Some(frequency) = field(value, "sack_freq") {
                    config.acknowledging.sack_frequency = frequency as u32;
                }
            }
            "SCTP_NODELAY" => {
                config.sending.bundling = match single(value) {
                    Some(0) => Bundling::Nagle,
                    _ => Bundling::None,
                };
            }
            "SCTP_MAX_BURST" => {
                config.congestion.burst = match single(value) {
                    Some(0) | None => BurstControl::Unlimited,
                    Some(packets) => BurstControl::MaxBurst(packets as u32),
                };
            }
            "SCTP_ADAPTATION_LAYER" => {
                config.adaptation_indication =
                    field(value, "ssb_adaptation_ind").map(|code| code as u32);
            }
            "SCTP_AUTOCLOSE" => config.timers.autoclose = single(value).map(Duration::from_secs),
            "SO_RCVBUF" => config.receiving.receive_buffer = single(value).unwrap_or(0) as usize,
            "SO_SNDBUF" => config.sending.send_buffer = single(value).unwrap_or(0) as usize,
            _ => {
                let message = format!("the socket option {name} is not known here");
                return Err(Failure::script(&call.place, message));
            }
        }
        let valid = config.validate();
        valid.map_err(|error| Failure::script(&call.place, error.to_string()))?;
        let new = config.clone();
        let same = before.adjusted(&new) == new;
        if listens || (live.is_some() && !same) {
            let message = format!("{name} can only be set before connect and listen here");
            return Err(Failure::script(&call.place, message));
        }
        let now = self.now;
        if let Some(mut association) = live.and_then(|id| self.endpoint.association_mut(now, id)) {
            let done = association.reconfigure(now, &new);
            done.map_err(|error| Failure::script(&call.place, error.to_string()))?;
        }
        Ok(Answer::DONE)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each socket option")]
    pub(crate) fn get_option(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (name, expected) = named(call)?;
        let actual: Vec<(&str, Argument)> = match name {
            "SO_ERROR" => {
                let id = self.socket(call)?.1.association;
                let link = id.and_then(|id| self.links.get_mut(&id));
                let errno = link.filter(|link| !link.error_taken).and_then(|link| {
                    let errno = link.errno();
                    link.error_taken |= errno.is_some();
                    errno
                });
                let error =
                    errno.map_or(Argument::Number(0), |e| Argument::Words(vec![e.to_owned()]));
                vec![("", error)]
            }
            "SCTP_STATUS" => {
                let id = self.association(call)?;
                let Some(association) = self.endpoint.association(id) else {
                    return Ok(Answer::error("ENOTCONN"));
                };
                let statistics = association.statistics();
                let number = |number: u64| Argument::Number(number as i64);
                let state = format!("SCTP_{}", statistics.state.name().replace('-', "_"));
                vec![
                    ("sstat_state", Argument::Words(vec![state])),
                    ("sstat_rwnd", number(u64::from(statistics.peer_rwnd))),
                    ("sstat_unackdata", number(statistics.outstanding_chunks as u64)),
                    ("sstat_instrms", number(u64::from(association.inbound_streams()))),
                    ("sstat_outstrms", number(u64::from(association.outbound_streams()))),
                ]
            }
            "SCTP_RTOINFO" => {
                let config = &self.socket(call)?.1.config;
                let ms = |time: Duration| Argument::Number(time.as_millis() as i64);
                vec![
                    ("srto_initial", ms(config.timers.rto_initial)),
                    ("srto_max", ms(config.timers.rto_max)),
                    ("srto_min", ms(config.timers.rto_min)),
                ]
            }
            "SCTP_DELAYED_SACK" => {
                let config = &self.socket(call)?.1.config;
                vec![
                    (
                        "sack_delay",
                        Argument::Number(config.acknowledging.sack_delay.as_millis() as i64),
                    ),
                    ("sack_freq", Argument::Number(i64::from(config.acknowledging.sack_frequency))),
                ]
            }
            _ => {
                let message = format!("the socket option {name} cannot be asked here");
                return Err(Failure::script(&call.place, message));
            }
        };
        let expected: Vec<(String, Argument)> = match expected {
            Argument::Structure(fields) => fields.clone(),
            Argument::List(list) => list.iter().map(|v| (String::new(), v.clone())).collect(),
            _ => Vec::new(),
        };
        for (key, wanted) in &expected {
            let known = actual.iter().find(|(name, _)| name == key);
            match (known, wanted) {
                (_, Argument::Any) | (None, _) => {}
                (Some((_, value)), wanted) if value == wanted => {}
                (Some((_, value)), wanted) => {
                    let message = format!("{name}: {key} is {value}, not {wanted}");
                    return Err(Failure::behaviour(&call.place, message));
                }
            }
        }
        Ok(Answer::DONE)
    }
}

/// Whether one of the fields contains a constant.
fn says(value: &Argument, constant: &str) -> bool {
    match value {
        Argument::Words(words) => words.iter().any(|word| word == constant),
        Argument::Structure(fields) => fields.iter().any(|(_, value)| says(value, constant)),
        _ => false,
    }
}
