//! Sockets as scripts use them.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_proto::{
    AssociationConfig, AssociationId, CloseReason, ConnectError, ConnectRequest, Event, Message,
    Notification, PathState,
};
use anabranch_sockets::Error;

use super::world::World;
use crate::failure::Failure;
use crate::read::{Argument, Call, Route};

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Now(Result<Argument, Error>),
    /// The call blocks.
    Later,
}

impl Answer {
    pub(crate) const DONE: Self = Self::Now(Ok(Argument::Number(0)));

    pub(crate) fn number(number: usize) -> Self {
        Self::Now(Ok(Argument::Number(i64::try_from(number).unwrap_or(i64::MAX))))
    }

    pub(crate) fn word(word: &str) -> Self {
        Self::Now(Ok(Argument::Words(vec![word.to_owned()])))
    }

    pub(crate) const fn error(error: Error) -> Self {
        Self::Now(Err(error))
    }
}

/// A one-to-one socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    pub(crate) config: AssociationConfig,
    pub(crate) port: Option<u16>,
    pub(crate) listens: bool,
    pub(crate) association: Option<AssociationId>,
    pub(crate) nonblocking: bool,
    /// Whether `close` aborts.
    pub(crate) abortive: bool,
    /// SCTP_FRAGMENT_INTERLEAVE.
    pub(crate) interleave: u64,
}

/// State of an association in addition to the engine's.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) connected: bool,
    pub(crate) peer_shut_down: bool,
    pub(crate) closed: Option<CloseReason>,
    /// Whether `SO_ERROR` has been read since the end.
    pub(crate) error_taken: bool,
    /// The rest of a message that the user has partly read.
    pub(crate) rest: Option<(Message, usize)>,
    /// The port where it waits for `accept`.
    pub(crate) waits_at: Option<u16>,
    pub(crate) events: VecDeque<String>,
}

impl Link {
    /// The error that the end of the association means for its user.
    pub(crate) fn error(&self) -> Option<Error> {
        let reason = self.closed.as_ref()?;
        if self.connected {
            return Error::of_end(reason);
        }
        // An association that was shut down before it was up is not an error.
        (*reason != CloseReason::Shutdown).then(|| Error::of_failed_setup(reason))
    }
}

impl World {
    /// Processes an event of the engine.
    pub(crate) fn told(&mut self, id: AssociationId, event: Event) {
        let Event::Notification(event) = event else { return };
        let port = self.endpoint.association(id).map(anabranch_proto::Association::local_port);
        let path = |local, remote| {
            let index = |list: &[std::net::IpAddr], address| {
                list.iter().position(|known| *known == address).unwrap_or(usize::MAX)
            };
            let local = index(&self.options.locals, local);
            let remote = index(&self.options.remotes, remote);
            if local == remote { format!("{local}") } else { format!("{local}_{remote}") }
        };
        let name = match &event {
            Notification::Up { .. } => "CONNECTED".to_owned(),
            Notification::Restarted { .. } => "RESTARTED".to_owned(),
            Notification::SendFailed { sent: true, .. } => "SEND_FAILED_SENT".to_owned(),
            Notification::SendFailed { sent: false, .. } => "SEND_FAILED_UNSENT".to_owned(),
            Notification::PartialDeliveryAborted { .. } => "PARTIAL_DELIVERY_ABORTED".to_owned(),
            Notification::StreamsReset { outgoing, streams, result } => {
                let direction = if *outgoing { "OUTGOING" } else { "INCOMING" };
                let streams: Vec<_> = streams.iter().map(u16::to_string).collect();
                let streams = if streams.is_empty() { "ALL".into() } else { streams.join("_") };
                format!("RESET_{direction}_{streams}_{}", result.name().to_uppercase())
            }
            Notification::AssociationReset { result, .. } => {
                format!("ASSOCIATION_RESET_{}", result.name().to_uppercase())
            }
            Notification::StreamsAdded { result, .. } => {
                format!("STREAMS_ADDED_{}", result.name().to_uppercase())
            }
            Notification::PathChanged { local, remote, state, .. } => {
                let state = match state {
                    PathState::Active => "ACTIVE",
                    PathState::PotentiallyFailed => "PF",
                    PathState::Inactive => "INACTIVE",
                    _ => "OTHER",
                };
                format!("PATH_{}_{state}", path(*local, *remote))
            }
            Notification::ActivePathChanged { remote, .. } => {
                let index = self.options.remotes.iter().position(|known| known == remote);
                format!("SENDS_TO_{}", index.unwrap_or(usize::MAX))
            }
            Notification::PeerError { code, .. } => {
                format!("PEER_ERROR_{code}")
            }
            Notification::AdaptationIndication(code) => {
                format!("ADAPTATION_{code}")
            }
            Notification::PeerShutdown => "PEER_SHUTDOWN".to_owned(),
            Notification::Closed(reason) => {
                format!("CLOSED_{}", close_name(reason))
            }
            event => self.name_of_change(event),
        };
        let link = self.links.entry(id).or_default();
        match event {
            Notification::Up { incoming, .. } => {
                link.connected = true;
                link.waits_at = port.filter(|_| incoming);
            }
            Notification::PeerShutdown => link.peer_shut_down = true,
            Notification::Closed(reason) => link.closed = Some(reason),
            _ => {}
        }
        if !name.is_empty() {
            link.events.push_back(name);
        }
    }

    /// The socket in a call's first argument.
    pub(crate) fn socket(&mut self, call: &Call) -> Result<(i64, &mut Socket), Failure> {
        let Some(Argument::Number(fd)) = call.arguments.first() else {
            return Err(Failure::script(&call.place, "the first argument is not a socket"));
        };
        let known = self.sockets.get_mut(fd).map(|socket| (*fd, socket));
        known.ok_or_else(|| Failure::script(&call.place, format!("there is no socket {fd}")))
    }

    /// The association of the socket in a call's first argument.
    pub(crate) fn association(&mut self, call: &Call) -> Result<AssociationId, Failure> {
        let (fd, socket) = self.socket(call)?;
        let message = || Failure::script(&call.place, format!("socket {fd} is not connected"));
        socket.association.ok_or_else(message)
    }

    /// Makes a call, or checks whether a blocking call can return.
    pub(crate) fn call(&mut self, call: &Call) -> Result<Answer, Failure> {
        let answer = match call.name.as_str() {
            "socket" => self.open(call),
            "bind" | "sctp_bindx" => self.bind(call),
            "listen" => self.listen(call),
            "connect" | "sctp_connectx" => self.connect(call),
            "accept" => self.accept(call),
            "close" => self.close(call),
            "shutdown" => {
                let id = self.association(call)?;
                if let Some(mut association) = self.endpoint.association_mut(self.now, id) {
                    association.shutdown(self.now);
                }
                Ok(Answer::DONE)
            }
            "fcntl" => self.fcntl(call),
            "getpeername" | "getsockname" => self.socket(call).map(|_| Answer::DONE),
            "setsockopt" => self.set_option(call),
            "getsockopt" => self.get_option(call),
            _ => self.use_association(call),
        };
        self.drain();
        answer
    }

    /// Compares the result of a call with the expected one.
    pub(crate) fn check(
        &self,
        call: &Call,
        result: &Result<Argument, Error>,
    ) -> Result<(), Failure> {
        let (value, errno) = match result {
            Ok(value) => (value.clone(), None),
            Err(error) => (Argument::Number(-1), Some(error.name())),
        };
        let wanted = call.errno.as_deref();
        if (call.result == Argument::Any || call.result == value) && wanted == errno {
            return Ok(());
        }
        let shown = errno.map_or_else(|| value.to_string(), |errno| format!("-1 {errno}"));
        Err(Failure::behaviour(&call.place, format!("{} returned {shown}", call.name)))
    }

    /// The descriptor of a new socket is the expected one.
    fn descriptor(&self, call: &Call) -> i64 {
        match call.result {
            Argument::Number(fd) if fd >= 0 => fd,
            _ => self.sockets.keys().last().map_or(3, |fd| fd + 1),
        }
    }

    fn open(&mut self, call: &Call) -> Result<Answer, Failure> {
        let says = |at: usize, name: &str| matches!(call.arguments.get(at), Some(Argument::Words(words)) if words.contains(&name.to_owned()));
        if says(1, "SOCK_SEQPACKET") {
            let message = "one-to-many sockets (SOCK_SEQPACKET) cannot be scripted here";
            return Err(Failure::script(&call.place, message));
        }
        let fd = self.descriptor(call);
        let socket = Socket {
            config: self.options.association.clone(),
            port: None,
            listens: false,
            association: None,
            nonblocking: says(1, "SOCK_NONBLOCK"),
            abortive: false,
            interleave: 0,
        };
        self.sockets.insert(fd, socket);
        Ok(Answer::Now(Ok(Argument::Number(fd))))
    }

    fn bind(&mut self, call: &Call) -> Result<Answer, Failure> {
        let default = self.options.bind_port;
        let port = call.arguments.iter().find_map(port_of).unwrap_or(default);
        let (_, socket) = self.socket(call)?;
        socket.port = Some(port);
        self.ports.0 = port;
        Ok(Answer::DONE)
    }

    fn listen(&mut self, call: &Call) -> Result<Answer, Failure> {
        let default = self.options.bind_port;
        let (_, socket) = self.socket(call)?;
        let port = *socket.port.get_or_insert(default);
        socket.listens = true;
        let config = Arc::new(socket.config.clone());
        self.endpoint.stop_listening(port);
        let done = self.endpoint.listen(port, config);
        done.map_err(|error| Failure::script(&call.place, error.to_string()))?;
        Ok(Answer::DONE)
    }

    fn connect(&mut self, call: &Call) -> Result<Answer, Failure> {
        let port = call.arguments.iter().find_map(port_of).unwrap_or(self.options.connect_port);
        let mut remotes = self.options.remotes.clone();
        let route = call.arguments.iter().find_map(|argument| match argument {
            Argument::Path(route) => Some(*route),
            _ => None,
        });
        if call.name == "connect" {
            let (_, remote) = self.path(&call.place, route.unwrap_or(Route::FIRST))?;
            remotes = vec![remote];
        }
        let udp_port = self.options.udp.map_or(0, |(_, remote)| remote);
        let (fd, socket) = self.socket(call)?;
        if let Some(id) = socket.association {
            let nonblocking = socket.nonblocking;
            let link = self.links.entry(id).or_default();
            return Ok(match link.error() {
                Some(error) => {
                    link.error_taken = true;
                    Answer::error(error)
                }
                None if link.connected => Answer::DONE,
                None if nonblocking => Answer::error(Error::AlreadyConnecting),
                None => Answer::Later,
            });
        }
        let mut request = ConnectRequest::new(remotes, port);
        request.remote_udp_port = udp_port;
        request.local_port = socket.port;
        request.config = Arc::new(socket.config.clone());
        let nonblocking = socket.nonblocking;
        let id = match self.endpoint.connect(self.now, request) {
            Ok(id) => id,
            Err(ConnectError::AlreadyConnected) => return Ok(Answer::error(Error::AddressInUse)),
            Err(error) => return Err(Failure::script(&call.place, error.to_string())),
        };
        let local = self.endpoint.association(id).map_or(0, |association| association.local_port());
        self.ports = (local, port);
        self.links.entry(id).or_default();
        if let Some(socket) = self.sockets.get_mut(&fd) {
            socket.association = Some(id);
        }
        Ok(if nonblocking { Answer::error(Error::InProgress) } else { Answer::Later })
    }

    fn accept(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (_, socket) = self.socket(call)?;
        let (port, nonblocking) = (socket.port, socket.nonblocking);
        let config = socket.config.clone();
        if !socket.listens {
            return Ok(Answer::error(Error::Invalid));
        }
        let waiting = self.links.iter_mut().find(|(_, link)| link.waits_at == port);
        let Some((id, link)) = waiting else {
            return Ok(if nonblocking { Answer::error(Error::WouldBlock) } else { Answer::Later });
        };
        link.waits_at = None;
        let socket = Socket {
            config,
            port,
            listens: false,
            association: Some(*id),
            nonblocking: false,
            abortive: false,
            interleave: 0,
        };
        let fd = self.descriptor(call);
        self.sockets.insert(fd, socket);
        Ok(Answer::Now(Ok(Argument::Number(fd))))
    }

    fn close(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (fd, socket) = self.socket(call)?;
        let socket = socket.clone();
        self.sockets.remove(&fd);
        if let (true, Some(port)) = (socket.listens, socket.port) {
            self.endpoint.stop_listening(port);
            let unaccepted: Vec<_> = self
                .links
                .iter_mut()
                .filter(|(_, link)| link.waits_at == Some(port))
                .map(|(id, link)| {
                    link.waits_at = None;
                    *id
                })
                .collect();
            for id in unaccepted {
                if let Some(mut association) = self.endpoint.association_mut(self.now, id) {
                    association.abort(self.now, b"");
                }
            }
        }
        if let Some(id) = socket.association
            && let Some(mut association) = self.endpoint.association_mut(self.now, id)
        {
            if socket.abortive {
                association.abort(self.now, b"");
            } else {
                association.shutdown(self.now);
            }
        }
        Ok(Answer::DONE)
    }

    fn fcntl(&mut self, call: &Call) -> Result<Answer, Failure> {
        let words = |at: usize| match call.arguments.get(at) {
            Some(Argument::Words(words)) => words.clone(),
            _ => Vec::new(),
        };
        let (command, flags) = (words(1), words(2));
        let (_, socket) = self.socket(call)?;
        match command.first().map(String::as_str) {
            Some("F_SETFL") => {
                socket.nonblocking = flags.iter().any(|flag| flag == "O_NONBLOCK");
                Ok(Answer::DONE)
            }
            // The answer depends on the host, so accept any.
            Some("F_GETFL") => Ok(Answer::Now(Ok(call.result.clone()))),
            _ => Err(Failure::script(&call.place, "only F_GETFL and F_SETFL are known here")),
        }
    }
}

/// The port in an address: `{sa_family=..., sin_port=htons(80), ...}`.
fn port_of(argument: &Argument) -> Option<u16> {
    let Argument::Structure(fields) = argument else { return None };
    fields.iter().find_map(|(key, value)| match (key.as_str(), value) {
        ("sin_port" | "port", Argument::Number(port)) => u16::try_from(*port).ok(),
        _ => None,
    })
}

fn close_name(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Shutdown => "SHUTDOWN",
        CloseReason::LocalAbort => "LOCAL_ABORT",
        CloseReason::PeerAbort { .. } => "PEER_ABORT",
        CloseReason::ConnectTimeout => "CONNECT_TIMEOUT",
        CloseReason::NoSctp => "NO_SCTP",
        CloseReason::HandshakeFailed(_) => "HANDSHAKE_FAILED",
        CloseReason::Unreachable => "UNREACHABLE",
        CloseReason::ProtocolViolation(_) => "PROTOCOL_VIOLATION",
        CloseReason::ShutdownTimeout => "SHUTDOWN_TIMEOUT",
        _ => "OTHER",
    }
}
