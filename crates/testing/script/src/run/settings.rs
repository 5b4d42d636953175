//! Socket options.

use std::time::Duration;

use anabranch_proto::config::SharedKeys;
use anabranch_proto::{
    AssociationConfig, AssociationId, Features, Reliability, SchedulerKind, StreamDirection,
};
use anabranch_sockets::{
    AdaptationLayer, AssocId, AssocParams, AssociationOption, AutoClose, DelayedSack, Error,
    InitMsg, InterleavingSupported, MaxBurst, NoDelay, PathInfo, PathParameters, PrSupported,
    ReceiveBuffer, RtoInfo, SendBuffer, SendFlags, Setting, Status, StreamScheduler, policy,
};

use super::sockets::Answer;
use super::world::World;
use crate::failure::Failure;
use crate::read::{Argument, Call};

/// The number in a field, unless it is zero, which would mean no change.
fn field(value: &Argument, name: &str) -> Option<u64> {
    let Argument::Structure(fields) = value else { return None };
    fields.iter().find_map(|(key, value)| match value {
        Argument::Number(number) if key == name && *number > 0 => u64::try_from(*number).ok(),
        _ => None,
    })
}

/// The numbers of a list in a structure.
fn listed(value: &Argument, name: &str) -> Vec<u16> {
    let Argument::Structure(fields) = value else { return Vec::new() };
    let lists = fields.iter().filter(|(key, _)| key == name);
    let numbers = lists.flat_map(|(_, list)| match list {
        Argument::List(list) => list.as_slice(),
        _ => &[],
    });
    let stream = |number: &Argument| match number {
        Argument::Number(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    numbers.filter_map(stream).collect()
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

/// The name and value of an option.
fn named(call: &Call) -> Result<(&str, &Argument), Failure> {
    match (call.arguments.get(2), call.arguments.get(3)) {
        (Some(Argument::Words(words)), Some(value)) => {
            Ok((words.first().map_or("", String::as_str), value))
        }
        _ => Err(Failure::script(&call.place, "expected a socket, level, option and value")),
    }
}

/// SCTP_DEFAULT_PRINFO; `None` if the value is too large for the policy.
fn default_reliability(value: &Argument) -> Option<Reliability> {
    let names = ["SCTP_PR_SCTP_TTL", "SCTP_PR_SCTP_RTX", "SCTP_PR_SCTP_PRIO"];
    let policy = names.into_iter().filter(|name| says(value, name)).find_map(SendFlags::named);
    let number = u32::try_from(field(value, "pr_value").unwrap_or(0)).ok()?;
    policy::reliability(policy.unwrap_or_default(), number).ok()
}

/// The values of SCTP_STREAM_SCHEDULER (RFC 8260 section 4.3.2). The last three are other names for schedulers above
/// them.
const SCHEDULERS: [(&str, SchedulerKind); 9] = [
    ("SCTP_SS_FCFS", SchedulerKind::Fifo),
    ("SCTP_SS_RR", SchedulerKind::RoundRobin),
    ("SCTP_SS_RR_PKT", SchedulerKind::RoundRobinPacket),
    ("SCTP_SS_PRIO", SchedulerKind::Priority),
    ("SCTP_SS_FC", SchedulerKind::Fair),
    ("SCTP_SS_WFQ", SchedulerKind::WeightedFair),
    ("SCTP_SS_DEFAULT", SchedulerKind::Fifo),
    ("SCTP_SS_FB", SchedulerKind::Fair),
    ("SCTP_SS_FIRST_COME", SchedulerKind::Fifo),
];

/// The scheduler that a value names.
fn scheduler(value: &Argument) -> Option<SchedulerKind> {
    SCHEDULERS.into_iter().find(|(name, _)| says(value, name)).map(|(_, kind)| kind)
}

/// The identifier of a key, and its secret.
fn secret(value: &Argument) -> (u16, Option<&[u8]>) {
    let id = field(value, "sca_keynumber").or(field(value, "scact_keynumber")).unwrap_or(0);
    let Argument::Structure(fields) = value else { return (id as u16, None) };
    let secret = fields.iter().find_map(|(name, value)| match value {
        Argument::Text(text) if name == "sca_key" => Some(text.as_bytes()),
        _ => None,
    });
    (id as u16, secret)
}

/// SCTP_AUTH_KEY, SCTP_AUTH_ACTIVE_KEY or SCTP_AUTH_DELETE_KEY; `None` if that is refused.
fn change_keys(keys: &mut SharedKeys, option: &str, value: &Argument) -> Option<()> {
    match (option, secret(value)) {
        ("SCTP_AUTH_KEY", (id, Some(secret))) => keys.set(id, secret).ok(),
        ("SCTP_AUTH_ACTIVE_KEY", (id, _)) => keys.activate(id).ok(),
        ("SCTP_AUTH_DELETE_KEY", (id, _)) => keys.delete(id).ok(),
        _ => None,
    }
}

/// Sets an option of associations. Returns whether the option is known.
fn apply(config: &mut AssociationConfig, name: &str, value: &Argument) -> bool {
    let milliseconds = |name| field(value, name).map(Duration::from_millis);
    let number = |name| field(value, name).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let streams = |name| field(value, name).map(|count| u16::try_from(count).unwrap_or(u16::MAX));
    let positive = || single(value).filter(|number| *number > 0);
    let bytes = || single(value).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    match name {
        "SCTP_RTOINFO" => RtoInfo {
            initial: milliseconds("srto_initial"),
            max: milliseconds("srto_max"),
            min: milliseconds("srto_min"),
        }
        .apply(config),
        "SCTP_INITMSG" => InitMsg {
            outbound_streams: streams("sinit_num_ostreams"),
            inbound_streams: streams("sinit_max_instreams"),
            max_attempts: number("sinit_max_attempts"),
        }
        .apply(config),
        "SCTP_ASSOCINFO" => AssocParams { max_retrans: number("sasoc_asocmaxrxt") }.apply(config),
        "SCTP_PEER_ADDR_PARAMS" => {
            let heartbeats = match milliseconds("spp_hbinterval") {
                _ if says(value, "SPP_HB_DISABLE") => Setting::Off,
                Some(interval) => Setting::On(Some(interval)),
                None => Setting::Keep,
            };
            let max_retrans = number("spp_pathmaxrxt");
            PathParameters { heartbeats, max_retrans, ..PathParameters::default() }.apply(config);
        }
        "SCTP_DELAYED_SACK" => {
            let (delay, frequency) = (milliseconds("sack_delay"), number("sack_freq"));
            DelayedSack { delay, frequency }.apply(config);
        }
        "SCTP_NODELAY" => NoDelay(single(value) != Some(0)).apply(config),
        "SCTP_MAX_BURST" => {
            let packets = positive().map(|packets| u32::try_from(packets).unwrap_or(u32::MAX));
            MaxBurst(packets).apply(config);
        }
        "SCTP_ADAPTATION_LAYER" => AdaptationLayer(number("ssb_adaptation_ind")).apply(config),
        "SCTP_PR_SUPPORTED" => PrSupported(field(value, "assoc_value").is_some()).apply(config),
        "SCTP_INTERLEAVING_SUPPORTED" => {
            InterleavingSupported(field(value, "assoc_value").is_some()).apply(config);
        }
        "SCTP_STREAM_SCHEDULER" => match scheduler(value) {
            Some(kind) => StreamScheduler(kind).apply(config),
            None => return false,
        },
        "SCTP_DEFAULT_PRINFO" => match default_reliability(value) {
            Some(reliability) => config.sending.reliability = reliability,
            None => return false,
        },
        "SCTP_RECONFIG_SUPPORTED" => {
            config.sending.stream_reconfiguration = single(value) != Some(0);
        }
        "SCTP_ECN_SUPPORTED" => config.congestion.ecn = single(value) != Some(0),
        "SCTP_ENABLE_STREAM_RESET" => {
            let receiving = &mut config.receiving;
            receiving.accept_stream_resets = says(value, "SCTP_ENABLE_RESET_STREAM_REQ");
            receiving.accept_association_resets = says(value, "SCTP_ENABLE_RESET_ASSOC_REQ");
            receiving.accept_added_streams = says(value, "SCTP_ENABLE_CHANGE_ASSOC_REQ");
        }
        "SCTP_AUTH_KEY" | "SCTP_AUTH_ACTIVE_KEY" | "SCTP_AUTH_DELETE_KEY" => {
            return change_keys(&mut config.keys, name, value).is_some();
        }
        "SCTP_AUTOCLOSE" => AutoClose(positive().map(Duration::from_secs)).apply(config),
        "SO_RCVBUF" => ReceiveBuffer(bytes()).apply(config),
        "SO_SNDBUF" => SendBuffer(bytes()).apply(config),
        _ => return false,
    }
    true
}

impl World {
    pub(crate) fn set_option(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (name, value) = named(call)?;
        let (_, socket) = self.socket(call)?;
        match name {
            "SO_LINGER" => {
                let (on, off) = (field(value, "onoff"), field(value, "linger"));
                socket.abortive = on.is_some() && off.is_none();
                return Ok(Answer::DONE);
            }
            "SCTP_FRAGMENT_INTERLEAVE" => {
                socket.interleave = single(value).unwrap_or(0);
                return Ok(Answer::DONE);
            }
            "SCTP_INTERLEAVING_SUPPORTED"
                if field(value, "assoc_value").is_some() && socket.interleave < 2 =>
            {
                return Ok(Answer::error(Error::NotPermitted));
            }
            "SCTP_STREAM_SCHEDULER_VALUE" => return self.set_stream_value(call, value),
            // The engine does not depend on these.
            "SCTP_EVENTS"
            | "SCTP_EVENT"
            | "SCTP_RECVRCVINFO"
            | "SCTP_RECVNXTINFO"
            | "SO_REUSEADDR"
            | "SCTP_REUSE_PORT"
            | "SCTP_DISABLE_FRAGMENTS" => {
                return Ok(Answer::DONE);
            }
            "SCTP_RESET_STREAMS" | "SCTP_RESET_ASSOC" | "SCTP_ADD_STREAMS" => {
                return self.change_streams(call, name, value);
            }
            "SCTP_AUTH_KEY" | "SCTP_AUTH_ACTIVE_KEY" | "SCTP_AUTH_DELETE_KEY"
                if change_keys(&mut socket.config.keys.clone(), name, value).is_none() =>
            {
                return Ok(Answer::error(Error::Invalid));
            }
            _ => {}
        }
        let (before, live, listens) = (socket.config.clone(), socket.association, socket.listens);
        let config = &mut socket.config;
        if !apply(config, name, value) {
            let message = format!("the socket option {name} is not known here");
            return Err(Failure::script(&call.place, message));
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
        if let ("SCTP_AUTH_KEY", (id, Some(secret))) = (name, secret(value)) {
            self.secrets.insert(id, secret.to_vec());
        }
        Ok(Answer::DONE)
    }

    pub(crate) fn get_option(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (name, expected) = named(call)?;
        let actual: Vec<(&str, Argument)> = match name {
            "SO_ERROR" => {
                let id = self.socket(call)?.1.association;
                let link = id.and_then(|id| self.links.get_mut(&id));
                let error = link.filter(|link| !link.error_taken).and_then(|link| {
                    let error = link.error();
                    link.error_taken |= error.is_some();
                    error
                });
                let word = |error: Error| Argument::Words(vec![error.name().to_owned()]);
                vec![("", error.map_or(Argument::Number(0), word))]
            }
            "SCTP_STATUS" => {
                let id = self.association(call)?;
                let Some(association) = self.endpoint.association(id) else {
                    return Ok(Answer::error(Error::NotConnected));
                };
                let statistics = association.statistics();
                let streams = (association.inbound_streams(), association.outbound_streams());
                let id = AssocId::default();
                let path = statistics.path(statistics.primary).map(|path| {
                    PathInfo::of(id, (path.remote, self.options.connect_port).into(), path)
                });
                let Some(path) = path else { return Ok(Answer::error(Error::NotConnected)) };
                let status = Status::of(id, &statistics, streams, path);
                let state = format!("SCTP_{}", status.state.name().replace('-', "_"));
                let chunks = i64::try_from(status.outstanding_chunks).unwrap_or(i64::MAX);
                vec![
                    ("sstat_state", Argument::Words(vec![state])),
                    ("sstat_rwnd", Argument::Number(status.peer_rwnd.into())),
                    ("sstat_unackdata", Argument::Number(chunks)),
                    ("sstat_instrms", Argument::Number(status.inbound_streams.into())),
                    ("sstat_outstrms", Argument::Number(status.outbound_streams.into())),
                ]
            }
            "SCTP_PR_SUPPORTED" | "SCTP_RECONFIG_SUPPORTED" | "SCTP_ECN_SUPPORTED" => {
                vec![("assoc_value", Argument::Number(self.has_extension(call, name)?.into()))]
            }
            "SCTP_INTERLEAVING_SUPPORTED"
            | "SCTP_FRAGMENT_INTERLEAVE"
            | "SCTP_STREAM_SCHEDULER" => vec![self.interleaving_option(call, name)?],
            "SCTP_PR_ASSOC_STATUS" | "SCTP_PR_STREAM_STATUS" => {
                let id = self.association(call)?;
                match self.given_up(id, name, expected) {
                    Ok(counts) => counts,
                    Err(error) => return Ok(Answer::error(error)),
                }
            }
            "SCTP_RTOINFO" => {
                let rto = RtoInfo::of(&self.socket(call)?.1.config);
                vec![
                    ("srto_initial", milliseconds(rto.initial)),
                    ("srto_max", milliseconds(rto.max)),
                    ("srto_min", milliseconds(rto.min)),
                ]
            }
            "SCTP_DELAYED_SACK" => {
                let sack = DelayedSack::of(&self.socket(call)?.1.config);
                let frequency = Argument::Number(sack.frequency.unwrap_or(0).into());
                vec![("sack_delay", milliseconds(sack.delay)), ("sack_freq", frequency)]
            }
            _ => {
                let message = format!("the socket option {name} cannot be asked here");
                return Err(Failure::script(&call.place, message));
            }
        };
        compare(call, name, expected, &actual)?;
        Ok(Answer::DONE)
    }
}

impl World {
    /// `peer_key(5, "secret")`: a secret that only the peer has, or has in place of this side's.
    pub(super) fn peer_key(&mut self, call: &Call) -> Result<Answer, Failure> {
        match call.arguments.as_slice() {
            [Argument::Number(id), Argument::Text(secret)] if (0..65_536).contains(id) => {
                self.secrets.insert(*id as u16, secret.as_bytes().to_vec());
                Ok(Answer::DONE)
            }
            _ => Err(Failure::script(&call.place, "expected a key identifier and a text")),
        }
    }

    /// SCTP_RESET_STREAMS, SCTP_RESET_ASSOC or SCTP_ADD_STREAMS (RFC 6525 section 6.3).
    fn change_streams(
        &mut self,
        call: &Call,
        option: &str,
        value: &Argument,
    ) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let now = self.now;
        let Some(mut association) = self.endpoint.association_mut(now, id) else {
            return Ok(Answer::error(Error::NotConnected));
        };
        let count = |name| field(value, name).map_or(0, |n| u16::try_from(n).unwrap_or(u16::MAX));
        let done = match option {
            "SCTP_RESET_STREAMS" => {
                let (out, inc) = ("SCTP_STREAM_RESET_OUTGOING", "SCTP_STREAM_RESET_INCOMING");
                let direction = match (says(value, out), says(value, inc)) {
                    (true, true) => StreamDirection::Both,
                    (true, false) => StreamDirection::Outgoing,
                    (false, true) => StreamDirection::Incoming,
                    (false, false) => return Ok(Answer::error(Error::Invalid)),
                };
                association.reset_streams(now, direction, &listed(value, "srs_stream_list"))
            }
            "SCTP_ADD_STREAMS" => {
                association.add_streams(now, count("sas_outstrms"), count("sas_instrms"))
            }
            _ => association.reset_association(now),
        };
        let failed = |error| Answer::error(Error::of_reconfiguration(error));
        Ok(done.map_or_else(failed, |()| Answer::DONE))
    }

    /// Whether both sides agreed on an extension, or before there is an association, whether this side wants it.
    fn has_extension(&mut self, call: &Call, option: &str) -> Result<bool, Failure> {
        let socket = self.socket(call)?.1;
        let sending = &socket.config.sending;
        let (wanted, feature) = match option {
            "SCTP_PR_SUPPORTED" => (sending.partial_reliability, Features::PARTIAL_RELIABILITY),
            "SCTP_INTERLEAVING_SUPPORTED" => (sending.interleaving, Features::INTERLEAVING),
            "SCTP_ECN_SUPPORTED" => (socket.config.congestion.ecn, Features::ECN),
            _ => (sending.stream_reconfiguration, Features::STREAM_RECONFIGURATION),
        };
        let live = socket.association.and_then(|id| self.endpoint.association(id));
        let agreed = live.map(|live| live.statistics().features);
        Ok(agreed.map_or(wanted, |all| all.has(feature)))
    }

    /// The name and value of the field of an option of RFC 8260, or of SCTP_FRAGMENT_INTERLEAVE.
    fn interleaving_option(
        &mut self,
        call: &Call,
        option: &str,
    ) -> Result<(&'static str, Argument), Failure> {
        Ok(match option {
            "SCTP_FRAGMENT_INTERLEAVE" => {
                let level = self.socket(call)?.1.interleave;
                ("", Argument::Number(i64::try_from(level).unwrap_or(i64::MAX)))
            }
            "SCTP_STREAM_SCHEDULER" => {
                let StreamScheduler(kind) = StreamScheduler::of(&self.socket(call)?.1.config);
                let name = SCHEDULERS.iter().find(|(_, known)| *known == kind);
                let name = name.map_or("", |(name, _)| name);
                ("assoc_value", Argument::Words(vec![name.to_owned()]))
            }
            _ => ("assoc_value", Argument::Number(self.has_extension(call, option)?.into())),
        })
    }

    /// SCTP_STREAM_SCHEDULER_VALUE: the priority or the weight of a stream of an association.
    fn set_stream_value(&mut self, call: &Call, value: &Argument) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let number = |name| u16::try_from(field(value, name).unwrap_or(0));
        let Some(mut association) = self.endpoint.association_mut(self.now, id) else {
            return Ok(Answer::error(Error::NotConnected));
        };
        match (number("stream_id"), number("stream_value")) {
            (Ok(stream), Ok(value)) if stream < association.outbound_streams() => {
                association.set_stream_priority(stream, value);
                Ok(Answer::DONE)
            }
            _ => Ok(Answer::error(Error::Invalid)),
        }
    }

    /// SCTP_PR_ASSOC_STATUS or SCTP_PR_STREAM_STATUS, where `asked` has the policy and the stream.
    fn given_up(
        &self,
        id: AssociationId,
        option: &str,
        asked: &Argument,
    ) -> Result<Vec<(&'static str, Argument)>, Error> {
        let association = self.endpoint.association(id).ok_or(Error::NotConnected)?;
        let stream = field(asked, "sprstat_sid").unwrap_or(0);
        let stream = u16::try_from(stream).map_err(|_| Error::Invalid)?;
        let stream = (option == "SCTP_PR_STREAM_STATUS").then_some(stream);
        if stream.is_some_and(|stream| stream >= association.outbound_streams()) {
            return Err(Error::Invalid);
        }
        let names = ["SCTP_PR_SCTP_TTL", "SCTP_PR_SCTP_RTX", "SCTP_PR_SCTP_PRIO"];
        let named = names.into_iter().filter(|name| says(asked, name)).find_map(SendFlags::named);
        let all = says(asked, "SCTP_PR_SCTP_ALL").then_some(SendFlags::POLICY_ALL);
        let (mut unsent, mut sent) = (0, 0);
        for by in policy::counters(named.or(all).unwrap_or_default())? {
            let count = association.given_up(*by, stream);
            unsent += i64::from(count.unsent);
            sent += i64::from(count.sent);
        }
        Ok(vec![
            ("sprstat_abandoned_unsent", Argument::Number(unsent)),
            ("sprstat_abandoned_sent", Argument::Number(sent)),
        ])
    }
}

/// Compares the fields of an option with the expected ones.
fn compare(
    call: &Call,
    name: &str,
    expected: &Argument,
    actual: &[(&str, Argument)],
) -> Result<(), Failure> {
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
    Ok(())
}

/// A time in milliseconds, as used in socket options.
fn milliseconds(time: Option<Duration>) -> Argument {
    let milliseconds = time.unwrap_or_default().as_millis();
    Argument::Number(i64::try_from(milliseconds).unwrap_or(i64::MAX))
}

/// Whether one of the fields contains a constant.
fn says(value: &Argument, constant: &str) -> bool {
    match value {
        Argument::Words(words) => words.iter().any(|word| word == constant),
        Argument::Structure(fields) => fields.iter().any(|(_, value)| says(value, constant)),
        _ => false,
    }
}
