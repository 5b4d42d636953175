//! Simulated networks.
//!
//! Python holds the network, and is called back by taps, events and controllers while it runs. What they raise ends the
//! run with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::AssociationConfig;
use anabranch::congestion::ControllerChoice;
use anabranch_impair::file::ImpairmentFile;
use anabranch_sim::{
    Action, Direction, EndpointId, Instant, LinkConfig, LinkId, NodeId, Outcome, Point, Sight,
    Transfer, TransferId, Workload,
};
use anabranch_units::{MOST_TEXT, parse_size, parse_time};
use anabranch_wire::kind;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use controller::Taught;

mod controller;

/// What a callback raised.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps the first exception.
    fn note(&self, result: PyResult<()>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn take(&self) -> PyResult<()> {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), Err)
    }
}

/// How many steps are taken between two looks at signals.
const STEPS: u32 = 10_000;

/// The parts of a network by their numbers, which taps know, too.
#[derive(Default)]
struct Names {
    links: Vec<LinkId>,
    hosts: Vec<(EndpointId, String)>,
}

/// Hosts, routers and links.
#[pyclass(unsendable, module = "anabranch._anabranch")]
pub(crate) struct Network {
    inner: anabranch_sim::Network,
    nodes: Vec<(NodeId, Option<EndpointId>)>,
    names: Rc<RefCell<Names>>,
    transfers: Vec<TransferId>,
    events: BTreeMap<(Instant, u64), Py<PyAny>>,
    /// How many events there were: those at the same time happen in this order.
    planned: u64,
    has_routes: bool,
    raised: Raised,
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn time(text: &str) -> PyResult<Duration> {
    parse_time(text).ok_or_else(|| wrong(format!("'{text}' is no time, such as '250 ms'")))
}

fn size(text: &str) -> PyResult<u64> {
    parse_size(text).ok_or_else(|| wrong(format!("'{text}' is no size, such as '64 kB'")))
}

/// A link as in files of impairments.
fn link_config(text: &str) -> PyResult<LinkConfig> {
    let mut load = |name: &str| {
        let text = anabranch_units::read_text(name, MOST_TEXT).map(String::into_bytes);
        text.map_err(|error| format!("{name} cannot be read: {error}"))
    };
    let file = ImpairmentFile::read(text, &mut load).map_err(|error| wrong(error.reason))?;
    let first = file.paths.into_iter().next();
    first.map(|path| path.config).ok_or_else(|| wrong("there is no link"))
}

fn direction(text: &str) -> PyResult<Direction> {
    match text {
        "forward" => Ok(Direction::Forward),
        "backward" => Ok(Direction::Backward),
        "both" => Ok(Direction::Both),
        _ => Err(wrong(format!("direction is '{text}', not 'forward', 'backward' or 'both'"))),
    }
}

#[pymethods]
impl Network {
    #[new]
    fn new(seed: u64) -> Self {
        Self {
            inner: anabranch_sim::Network::new(seed),
            nodes: Vec::new(),
            names: Rc::default(),
            transfers: Vec::new(),
            events: BTreeMap::new(),
            planned: 0,
            has_routes: false,
            raised: Raised::default(),
        }
    }

    /// Virtual time in seconds.
    #[getter]
    fn now(&self) -> f64 {
        self.inner.now().as_nanos() as f64 * 1e-9
    }

    /// A fingerprint of all packets so far.
    #[getter]
    fn hash(&self) -> u64 {
        self.inner.trace_hash()
    }

    fn host(&mut self, name: &str) -> usize {
        self.nodes.push((self.inner.add_host(name), None));
        self.nodes.len() - 1
    }

    fn router(&mut self, name: &str) -> usize {
        self.nodes.push((self.inner.add_router(name), None));
        self.nodes.len() - 1
    }

    fn link(&mut self, a: usize, b: usize, forward: &str, backward: &str) -> PyResult<usize> {
        if self.has_routes {
            return Err(wrong("links come before transfers"));
        }
        let (a, b) = (self.node(a)?, self.node(b)?);
        let (forward, backward) = (link_config(forward)?, link_config(backward)?);
        let link = self.inner.connect(a, b, forward, backward).map_err(wrong)?;
        let links = &mut self.names.borrow_mut().links;
        links.push(link);
        Ok(links.len() - 1)
    }

    fn addresses(&self, host: usize) -> PyResult<Vec<String>> {
        let host = self.node(host)?;
        Ok(self.inner.addresses_of(host).map(|address: IpAddr| address.to_string()).collect())
    }

    /// A transfer of `bytes`, or of messages at an interval.
    #[allow(clippy::too_many_arguments, reason = "the arguments of Python's function")]
    fn transfer(
        &mut self,
        from: usize,
        to: usize,
        bytes: &str,
        message: &str,
        every: Option<&str>,
        start: &str,
        options: Vec<(String, String)>,
        controller: Option<Py<PyAny>>,
    ) -> PyResult<usize> {
        let (bytes, message) = (size(bytes)?, size(message)?.max(1));
        let (from, to) = (self.endpoint(from)?, self.endpoint(to)?);
        let mut transfer = Transfer::bulk(from, to, bytes.max(1));
        transfer.message_size = usize::try_from(message).map_err(wrong)?;
        transfer.start = Instant::ZERO + time(start)?;
        if let Some(every) = every {
            let (interval, messages) = (time(every)?, bytes.div_ceil(message).max(1));
            transfer.workload = Workload::Periodic { interval, messages };
        }
        let mut sender = AssociationConfig::clone(&transfer.sender);
        let mut receiver = AssociationConfig::clone(&transfer.receiver);
        for (name, text) in &options {
            sender.set(name, text).map_err(wrong)?;
            receiver.set(name, text).map_err(wrong)?;
        }
        if let Some(make) = controller {
            sender.controller = ControllerChoice::new(Taught { make, raised: self.raised.clone() });
        }
        (transfer.sender, transfer.receiver) = (Arc::new(sender), Arc::new(receiver));
        self.transfers.push(self.inner.add_transfer(transfer).map_err(wrong)?);
        Ok(self.transfers.len() - 1)
    }

    /// Passes each packet at the interfaces of a host, or of all hosts, to a function.
    fn tap(&mut self, call: Py<PyAny>, host: Option<usize>) -> PyResult<()> {
        let endpoint = host.map(|host| self.endpoint(host)).transpose()?;
        let (names, raised) = (Rc::clone(&self.names), self.raised.clone());
        self.inner.tap(endpoint, move |sight: &Sight<'_>| {
            if !raised.is_there() {
                let packet = Packet::new(sight, &names.borrow());
                raised.note(Python::attach(|py| call.call1(py, (packet,)).map(|_| ())));
            }
        });
        Ok(())
    }

    /// Calls a function at a time.
    fn at(&mut self, when: &str, call: Py<PyAny>) -> PyResult<()> {
        let when = Instant::ZERO + time(when)?;
        if when < self.inner.now() {
            return Err(wrong(format!("the network is at {} s already", self.now())));
        }
        self.events.insert((when, self.planned), call);
        self.planned += 1;
        Ok(())
    }

    fn cut(&mut self, link: usize, way: &str) -> PyResult<()> {
        let (link, direction) = (self.link_id(link)?, direction(way)?);
        self.act(Action::Cut { link, direction })
    }

    fn repair(&mut self, link: usize, way: &str) -> PyResult<()> {
        let (link, direction) = (self.link_id(link)?, direction(way)?);
        self.act(Action::Repair { link, direction })
    }

    fn change(&mut self, link: usize, way: &str, config: &str) -> PyResult<()> {
        let (link, direction) = (self.link_id(link)?, direction(way)?);
        self.act(Action::Configure { link, direction, config: link_config(config)? })
    }

    /// How many packets wait at a link.
    fn queued(&self, link: usize, way: &str) -> PyResult<usize> {
        Ok(self.inner.queue_len(self.link_id(link)?, direction(way)?))
    }

    /// Runs until all transfers are done and all events have happened, but not beyond a time.
    fn run(slf: &Bound<'_, Self>, limit: &str) -> PyResult<()> {
        let limit = Instant::ZERO + time(limit)?;
        loop {
            let event = {
                let mut network = slf.borrow_mut();
                let network = &mut *network;
                let next = network.events.first_key_value().map(|((at, _), _)| *at);
                let next = next.filter(|at| *at <= limit);
                network.advance(slf.py(), next, limit)?;
                match next {
                    Some(_) => network.events.pop_first().map(|(_, call)| call),
                    None => None,
                }
            };
            match event {
                // The function may use the network.
                Some(call) => call.call0(slf.py()).map(|_| ())?,
                None => break,
            }
        }
        let mut network = slf.borrow_mut();
        network.inner.run(limit);
        network.raised.take()
    }

    /// How a transfer went: outcome, bytes, messages, seconds from its start to the last byte, the longest time between
    /// two deliveries, delays of messages (mean and largest), and the sender's statistics as JSON.
    #[allow(clippy::type_complexity, reason = "a tuple for Python")]
    fn result(
        &self,
        transfer: usize,
    ) -> PyResult<(String, u64, u64, Option<f64>, f64, Option<String>)> {
        let id = self.transfers.get(transfer).copied();
        let id = id.ok_or_else(|| PyIndexError::new_err("there is no such transfer"))?;
        let result = self.inner.transfer(id);
        let outcome = match &result.outcome {
            Outcome::Running => "running".to_owned(),
            Outcome::Complete => "complete".to_owned(),
            Outcome::TimedOut => "timed out".to_owned(),
            Outcome::Aborted(reason) => format!("aborted: {reason}"),
        };
        let statistics = match (&result.sender, self.inner.sender(id)) {
            (Some(ended), _) => serde_json::to_string(ended).ok(),
            (None, Some(sender)) => serde_json::to_string(&sender.statistics()).ok(),
            (None, None) => None,
        };
        Ok((
            outcome,
            result.bytes,
            result.messages,
            result.transfer_time().map(|time| time.as_secs_f64()),
            result.longest_gap.as_secs_f64(),
            statistics,
        ))
    }
}

impl Network {
    fn node(&self, number: usize) -> PyResult<NodeId> {
        let node = self.nodes.get(number).map(|(node, _)| *node);
        node.ok_or_else(|| PyIndexError::new_err("there is no such host"))
    }

    fn link_id(&self, number: usize) -> PyResult<LinkId> {
        let link = self.names.borrow().links.get(number).copied();
        link.ok_or_else(|| PyIndexError::new_err("there is no such link"))
    }

    /// The endpoint of a host, which is made with the routes.
    fn endpoint(&mut self, number: usize) -> PyResult<EndpointId> {
        let node = self.node(number)?;
        if !std::mem::replace(&mut self.has_routes, true) {
            self.inner.routes_by_hops();
        }
        let Some((_, endpoint)) = self.nodes.get_mut(number) else { return Err(wrong("no host")) };
        if let Some(endpoint) = endpoint {
            return Ok(*endpoint);
        }
        let new = self.inner.add_endpoint(node).map_err(wrong)?;
        *endpoint = Some(new);
        self.names.borrow_mut().hosts.push((new, self.inner.name(node).to_owned()));
        Ok(new)
    }

    fn act(&mut self, action: Action) -> PyResult<()> {
        self.inner.schedule(self.inner.now(), action).map_err(wrong)
    }

    /// Runs to the next event; without one, until everything is done, or to the limit.
    fn advance(&mut self, py: Python<'_>, next: Option<Instant>, limit: Instant) -> PyResult<()> {
        let (raised, mut steps) = (self.raised.clone(), 0);
        self.inner.run_until_or(next.unwrap_or(limit), |network| {
            steps += 1;
            if steps % STEPS == 0 {
                raised.note(py.check_signals());
            }
            raised.is_there() || (next.is_none() && network.is_done())
        });
        self.raised.take()
    }
}

/// An SCTP packet at an interface of a host.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Packet {
    /// Seconds.
    #[pyo3(get)]
    time: f64,
    /// The host at whose interface it was seen.
    #[pyo3(get)]
    host: String,
    /// Number of the link.
    #[pyo3(get)]
    link: usize,
    /// Whether the host sent it.
    #[pyo3(get)]
    is_sent: bool,
    #[pyo3(get)]
    source: String,
    #[pyo3(get)]
    destination: String,
    bytes: Vec<u8>,
}

impl Packet {
    fn new(sight: &Sight<'_>, names: &Names) -> Self {
        let host = names.hosts.iter().find(|(endpoint, _)| *endpoint == sight.endpoint);
        Self {
            time: sight.now.as_nanos() as f64 * 1e-9,
            host: host.map_or(String::new(), |(_, name)| name.clone()),
            link: names.links.iter().position(|link| *link == sight.link).unwrap_or(0),
            is_sent: sight.point == Point::Sent,
            source: sight.from.to_string(),
            destination: sight.to.to_string(),
            bytes: sight.bytes.to_vec(),
        }
    }

    fn parsed(&self) -> Option<anabranch_wire::Packet<'_>> {
        anabranch_wire::Packet::parse(&self.bytes).ok()
    }
}

#[pymethods]
impl Packet {
    /// Bytes of SCTP, with the common header.
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    /// The SCTP packet as bytes.
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The types of its chunks, in their order.
    #[getter]
    fn chunks(&self) -> Vec<String> {
        let Some(packet) = self.parsed() else { return Vec::new() };
        packet.chunks().flatten().map(|chunk| kind::Name(chunk.kind).to_string()).collect()
    }

    /// The packet as text, with all fields.
    fn __str__(&self) -> String {
        self.parsed().map_or_else(|| "a damaged packet".to_owned(), |packet| packet.to_string())
    }
}
