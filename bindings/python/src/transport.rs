//! Endpoints, listeners and associations.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::{AssociationConfig, ConnectOptions, OutgoingMessage, Ppid};
use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::operation::{Operation, Value, runtime};

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

/// One or more sockets with the associations on them.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Endpoint {
    inner: Arc<anabranch::Endpoint>,
}

#[pymethods]
impl Endpoint {
    /// Binds sockets: on all addresses if the list is empty, and on any port if `udp_port` is 0.
    #[new]
    fn new(local: Vec<String>, udp_port: u16) -> PyResult<Self> {
        let _inside = runtime()?.enter();
        let mut builder = anabranch::Endpoint::builder().udp_port(udp_port);
        if !local.is_empty() {
            builder = builder.local_addresses(addresses(&local)?);
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
        let runtime = runtime()?;
        py.detach(|| {
            let _inside = runtime.enter();
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

/// An association.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Association {
    pub(crate) inner: anabranch::Association,
}

#[pymethods]
impl Association {
    /// Sends a message, as soon as the send buffer has room for it.
    fn send(
        &self,
        data: &[u8],
        stream: u16,
        ppid: u32,
        unordered: bool,
        lifetime: Option<f64>,
    ) -> PyResult<Operation> {
        let data = Bytes::copy_from_slice(data);
        let mut message = OutgoingMessage::new(stream, Ppid(ppid), data);
        message.unordered = unordered;
        if let Some(seconds) = lifetime {
            let time = Duration::try_from_secs_f64(seconds);
            let time = time.map_err(|error| PyValueError::new_err(format!("lifetime: {error}")))?;
            message = message.with_lifetime(time);
        }
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

    /// All counters, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let statistics = py.detach(|| self.inner.statistics());
        serde_json::to_string(&statistics).map_err(errors::sctp)
    }
}
