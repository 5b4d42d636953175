//! Endpoints, listeners and associations.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anabranch::{
    AssociationConfig, ConnectOptions, OutgoingMessage, Ppid, SendError, SendErrorReason,
    StreamDirection,
};
use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors;
use crate::home::{Home, HomeRuntime};
use crate::operation::{Operation, Value, Wakeups, check_process, message_fields};

/// Options by their names, as texts.
type Options = Vec<(String, String)>;

fn config(options: &Options) -> PyResult<AssociationConfig> {
    let mut config = AssociationConfig::default();
    for (name, text) in options {
        config.set(name, text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(config)
}

fn address(text: &str) -> PyResult<IpAddr> {
    let reason = || format!("'{text}' is no IP address: look names up with loop.getaddrinfo");
    text.parse().map_err(|_| PyValueError::new_err(reason()))
}

fn addresses(texts: &[String]) -> PyResult<Vec<IpAddr>> {
    texts.iter().map(|text| address(text)).collect()
}

/// Where endpoints live: one for each event loop, whose thread runs them.
#[pyclass(frozen, module = "anabranch._anabranch", name = "Home")]
pub(crate) struct PyHome(Arc<Home>);

#[pymethods]
impl PyHome {
    #[new]
    fn new() -> PyResult<Self> {
        check_process()?;
        Ok(Self(Home::new()?))
    }

    /// Readable if there is something to do; -1 if the system has no such descriptor.
    fn fileno(&self) -> i32 {
        self.0.descriptor().unwrap_or(-1)
    }

    /// Does it. Returns the numbers of operations that can go on.
    fn drive(&self, wakeups: &Wakeups) -> PyResult<Vec<u64>> {
        check_process()?;
        Ok(wakeups.during(|| self.0.drive(wakeups)).1)
    }
}

/// One or more sockets with the associations on them.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Endpoint {
    inner: Arc<anabranch::Endpoint>,
}

#[pymethods]
impl Endpoint {
    /// Binds sockets: on all addresses if the list is empty, and on any port if `udp_port` is 0. `over_ip` is for IP
    /// protocol 132 in place of UDP.
    #[new]
    fn new(home: &PyHome, local: Vec<String>, udp_port: u16, over_ip: bool) -> PyResult<Self> {
        check_process()?;
        let runtime = Arc::new(HomeRuntime(Arc::clone(&home.0)));
        let mut builder = anabranch::Endpoint::builder().udp_port(udp_port).runtime(runtime);
        if !local.is_empty() {
            builder = builder.local_addresses(addresses(&local)?);
        }
        if over_ip {
            builder = builder.encapsulation(anabranch::Encapsulation::Ip);
        }
        let inner = builder.bind().map_err(errors::sctp)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    #[getter]
    fn udp_port(&self) -> u16 {
        self.inner.udp_port()
    }

    /// Accepts associations at this port.
    fn listen(&self, py: Python<'_>, port: u16, options: Options) -> PyResult<Listener> {
        let config = config(&options)?;
        py.detach(|| {
            let listener = self.inner.listen(port, config).map_err(errors::sctp)?;
            Ok(Listener { port: listener.port(), inner: Mutex::new(Some(Arc::new(listener))) })
        })
    }

    /// Connects to a peer with these addresses.
    fn connect(
        &self,
        remotes: Vec<String>,
        port: u16,
        udp_port: u16,
        options: Options,
    ) -> PyResult<Operation> {
        let config = config(&options)?;
        let remotes: Vec<SocketAddr> =
            addresses(&remotes)?.into_iter().map(|ip| (ip, port).into()).collect();
        let options = ConnectOptions::from(config).with_remote_udp_port(udp_port);
        let inner = Arc::clone(&self.inner);
        Ok(Operation::new(async move {
            let association = inner.connect(remotes, options).await.map_err(errors::sctp)?;
            Ok(Value::Association(association))
        }))
    }

    /// Shuts all associations down, and closes the sockets.
    fn close(&self) -> Operation {
        let inner = Arc::clone(&self.inner);
        Operation::new(async move {
            inner.close().await;
            Ok(Value::Nothing)
        })
    }
}

/// Accepts associations.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Listener {
    port: u16,
    inner: Mutex<Option<Arc<anabranch::Listener>>>,
}

#[pymethods]
impl Listener {
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// The next association; `None` when the endpoint is closed.
    fn accept(&self) -> PyResult<Operation> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(inner) = inner else { return Err(errors::sctp("the listener is closed")) };
        Ok(Operation::new(async move {
            Ok(inner.accept().await.map_or(Value::Nothing, Value::Association))
        }))
    }

    /// Accepts no more associations.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A message to send: its data, stream, PPID, whether it is unordered, its lifetime in seconds, and its context.
type Fields = (PyBackedBytes, u16, u32, bool, Option<f64>, u64);

/// Shorter messages are copied: that costs less than to keep an object of Python.
const COPIED: usize = 1024;

fn payload(data: PyBackedBytes) -> Bytes {
    if data.len() <= COPIED { Bytes::copy_from_slice(&data) } else { Bytes::from_owner(data) }
}

fn message(fields: Fields) -> PyResult<OutgoingMessage> {
    let (data, stream, ppid, unordered, lifetime, context) = fields;
    let mut message = OutgoingMessage::new(stream, Ppid(ppid), payload(data));
    message.unordered = unordered;
    message.context = context;
    if let Some(seconds) = lifetime {
        let time = Duration::try_from_secs_f64(seconds);
        let time = time.map_err(|error| PyValueError::new_err(format!("lifetime: {error}")))?;
        message = message.with_lifetime(time);
    }
    Ok(message)
}

/// An association.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Association {
    pub(crate) inner: anabranch::Association,
}

#[pymethods]
impl Association {
    /// Sends messages while the send buffer has room for them. Returns how many, and the numbers of operations that can
    /// go on. `home` is that of the loop whose thread this is.
    fn offer(
        &self,
        home: &PyHome,
        wakeups: &Wakeups,
        messages: Vec<Fields>,
    ) -> PyResult<(usize, Vec<u64>)> {
        let messages = messages.into_iter().map(message).collect::<PyResult<Vec<_>>>()?;
        let at_once = wakeups.sends_first();
        let mut sent = 0;
        let offer = || {
            messages.into_iter().try_for_each(|message| {
                self.inner.try_send(message)?;
                sent += 1;
                Ok(())
            })
        };
        let (ended, numbers) = wakeups.during(|| home.0.send(at_once, wakeups, offer));
        match ended {
            Ok(()) => Ok((sent, numbers)),
            Err(SendError { reason: SendErrorReason::Blocked, .. }) => Ok((sent, numbers)),
            Err(error) => {
                wakeups.put_back(&numbers);
                Err(errors::sctp(error))
            }
        }
    }

    /// Sends one message, as `offer` does. Returns the numbers, or `None` if the send buffer has no room.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python passes these cheaper than a tuple of them"
    )]
    fn offer_one(
        &self,
        home: &PyHome,
        wakeups: &Wakeups,
        data: PyBackedBytes,
        stream: u16,
        ppid: u32,
        unordered: bool,
        lifetime: Option<f64>,
        context: u64,
    ) -> PyResult<Option<Vec<u64>>> {
        let message = message((data, stream, ppid, unordered, lifetime, context))?;
        let at_once = wakeups.sends_first();
        let offer = || self.inner.try_send(message);
        let (ended, numbers) = wakeups.during(|| home.0.send(at_once, wakeups, offer));
        match ended {
            Ok(()) => Ok(Some(numbers)),
            Err(error) => {
                wakeups.put_back(&numbers);
                let is_blocked = matches!(error.reason, SendErrorReason::Blocked);
                if is_blocked { Ok(None) } else { Err(errors::sctp(error)) }
            }
        }
    }

    /// The next message if one is there.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.inner.try_recv().map(|message| message_fields(py, &message)).transpose()
    }

    /// Sends a message, as soon as the send buffer has room for it.
    fn send(&self, fields: Fields) -> PyResult<Operation> {
        let message = message(fields)?;
        let inner = self.inner.clone();
        Ok(Operation::new(async move {
            inner.send(message).await.map_err(errors::sctp)?;
            Ok(Value::Nothing)
        }))
    }

    /// The next message; `None` when the peer has shut down and everything was received.
    fn recv(&self) -> Operation {
        let inner = self.inner.clone();
        Operation::new(async move {
            let message = inner.recv().await.map_err(errors::sctp)?;
            Ok(message.map_or(Value::Nothing, Value::Message))
        })
    }

    /// As `recv`, after a first `poll`: whether that was enough, and the value, or else the operation.
    fn receive(
        &self,
        py: Python<'_>,
        wakeups: &Wakeups,
        number: u64,
    ) -> PyResult<(bool, Py<PyAny>)> {
        let operation = self.recv();
        match operation.advance(wakeups, number)? {
            Poll::Ready(value) => Ok((true, value.into_python(py)?)),
            Poll::Pending => Ok((false, Py::new(py, operation)?.into_any())),
        }
    }

    /// Shuts down when everything that was sent is acknowledged.
    fn close(&self) -> Operation {
        let inner = self.inner.clone();
        Operation::new(async move {
            inner.close().await.map_err(errors::sctp)?;
            Ok(Value::Nothing)
        })
    }

    /// Ends at once, and tells the peer.
    fn abort(&self, py: Python<'_>, reason: &[u8]) {
        py.detach(|| self.inner.abort(reason));
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.is_closed())
    }

    /// The streams that can be sent on, and received from.
    #[getter]
    fn streams(&self, py: Python<'_>) -> (u16, u16) {
        py.detach(|| (self.inner.outbound_streams(), self.inner.inbound_streams()))
    }

    /// The addresses of this side and of the peer.
    #[getter]
    fn addresses(&self, py: Python<'_>) -> (Vec<String>, Vec<String>) {
        let texts = |list: Vec<SocketAddr>| list.iter().map(|a| a.ip().to_string()).collect();
        py.detach(|| (texts(self.inner.local_addresses()), texts(self.inner.peer_addresses())))
    }

    /// Makes this address of the peer the primary one.
    fn set_primary(&self, py: Python<'_>, remote: &str) -> PyResult<()> {
        let remote = address(remote)?;
        py.detach(|| self.inner.set_primary(remote)).map_err(errors::sctp)
    }

    /// What happens to the association from now on.
    fn events(&self, py: Python<'_>) -> Events {
        Events(Slot::new(py.detach(|| self.inner.events())))
    }

    /// Receives this stream apart from the others.
    fn stream(&self, py: Python<'_>, stream: u16) -> PyResult<ReceivedStream> {
        let halves = py.detach(|| self.inner.stream(stream)).map_err(errors::sctp)?;
        Ok(ReceivedStream(Slot::new(halves.1)))
    }

    /// Resets streams in one direction; all if the list is empty.
    fn reset_streams(&self, py: Python<'_>, outgoing: bool, streams: Vec<u16>) -> PyResult<()> {
        let direction =
            if outgoing { StreamDirection::Outgoing } else { StreamDirection::Incoming };
        py.detach(|| self.inner.reset_streams(direction, &streams)).map_err(errors::sctp)
    }

    /// Adds streams in both directions.
    fn add_streams(&self, py: Python<'_>, outgoing: u16, incoming: u16) -> PyResult<()> {
        py.detach(|| self.inner.add_streams(outgoing, incoming)).map_err(errors::sctp)
    }

    /// All counters, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let statistics = py.detach(|| self.inner.statistics());
        serde_json::to_string(&statistics).map_err(errors::sctp)
    }
}

/// A handle that one operation at a time uses. One that is cancelled gives it back.
struct Slot<T>(Arc<Mutex<Option<T>>>);

struct Loan<T> {
    value: Option<T>,
    slot: Arc<Mutex<Option<T>>>,
}

impl<T> Slot<T> {
    fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(Some(value))))
    }

    fn borrow(&self) -> PyResult<Loan<T>> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reason = "it is closed, or another task waits for it";
        let value = value.ok_or_else(|| errors::sctp(reason))?;
        Ok(Loan { value: Some(value), slot: Arc::clone(&self.0) })
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl<T> Drop for Loan<T> {
    fn drop(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.value.take();
    }
}

/// The events of an association.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Events(Slot<anabranch::Events>);

#[pymethods]
impl Events {
    /// The next one, as JSON and as a sentence; `None` after the last.
    fn next(&self) -> PyResult<Operation> {
        let mut loan = self.0.borrow()?;
        Ok(Operation::new(async move {
            let Some(events) = loan.value.as_mut() else { return Ok(Value::Nothing) };
            Ok(events.next().await.map_or(Value::Nothing, Value::Event))
        }))
    }
}

/// The receiving half of a stream.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct ReceivedStream(Slot<anabranch::RecvStream>);

#[pymethods]
impl ReceivedStream {
    /// The stream's next message; `None` at its end.
    fn recv(&self) -> PyResult<Operation> {
        let mut loan = self.0.borrow()?;
        Ok(Operation::new(async move {
            let Some(stream) = loan.value.as_mut() else { return Ok(Value::Nothing) };
            let message = stream.recv().await.map_err(errors::sctp)?;
            Ok(message.map_or(Value::Nothing, Value::Message))
        }))
    }

    /// Has the association receive its messages again.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}
