//! Futures of the library, polled by an event loop of Python.
//!
//! The loop polls an operation on its own thread, so a cancelled operation is a future that was dropped: what the
//! library promises about that holds in Python. Wakers take no lock of Python: they put the number of the operation
//! into a list, and write a byte into a socket that the loop watches.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::Runtime;

use crate::errors;
use crate::transport::Association;

/// The process, and its threads for endpoints.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The threads for endpoints. A fork has none of them.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    if RUNTIME.get().is_none() {
        let new = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("anabranch")
            .enable_all()
            .build()?;
        // If another thread was faster, its runtime is used.
        let _ = RUNTIME.set((std::process::id(), new));
    }
    match RUNTIME.get() {
        Some((process, runtime)) if *process == std::process::id() => Ok(runtime),
        _ => Err(errors::sctp(
            "this process was forked after it had used anabranch.aio: use it in one of both only, or start \
             processes with 'spawn'",
        )),
    }
}

/// What operations give.
pub(crate) enum Value {
    Nothing,
    Message(anabranch::Message),
    Association(anabranch::Association),
}

impl Value {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Nothing => Ok(py.None()),
            Self::Association(inner) => Ok(Py::new(py, Association { inner })?.into_any()),
            Self::Message(message) => {
                let (stream, ppid) = (message.stream, message.ppid.0);
                let (unordered, begin, end) = (message.unordered, message.begin, message.end);
                let data = PyBytes::new(py, &message.payload.into_bytes());
                let fields = (data, stream, ppid, unordered, begin, end);
                Ok(fields.into_pyobject(py)?.into_any().unbind())
            }
        }
    }
}

type Boxed = Pin<Box<dyn Future<Output = PyResult<Value>> + Send>>;

/// A future.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Operation(Mutex<Option<Boxed>>);

impl Operation {
    pub(crate) fn new(future: impl Future<Output = PyResult<Value>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(future))))
    }
}

#[pymethods]
impl Operation {
    /// Goes on. Returns whether it is done, and its value. If not, `wakeups` will have the number.
    fn poll(&self, py: Python<'_>, wakeups: &Wakeups, number: u64) -> PyResult<(bool, Py<PyAny>)> {
        let runtime = runtime()?;
        let list = Arc::clone(&wakeups.list);
        let polled = py.detach(|| {
            let _inside = runtime.enter();
            let waker = Waker::from(Arc::new(Alarm { number, list }));
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(future) = slot.as_mut() else {
                return Poll::Ready(Err(errors::sctp("this operation has ended")));
            };
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *slot = None;
            }
            polled
        });
        match polled {
            Poll::Ready(value) => Ok((true, value?.into_python(py)?)),
            Poll::Pending => Ok((false, py.None())),
        }
    }

    /// Drops it.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The numbers of operations that can go on.
struct List {
    numbers: Mutex<Vec<u64>>,
    bell: UnixStream,
}

struct Alarm {
    number: u64,
    list: Arc<List>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut numbers = self.list.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push(self.number);
        if numbers.len() == 1 {
            // A full socket has been heard, and of a closed loop nobody waits.
            let _ = (&self.list.bell).write(&[1]);
        }
    }
}

/// Tells an event loop which operations can go on.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Wakeups {
    list: Arc<List>,
    ear: UnixStream,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> PyResult<Self> {
        let (ear, bell) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Self { list: Arc::new(List { numbers: Mutex::default(), bell }), ear })
    }

    /// Readable if there are numbers.
    fn fileno(&self) -> RawFd {
        self.ear.as_raw_fd()
    }

    /// The numbers since the last call.
    fn drain(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        // First the bell: a number that is added now rings it again.
        let _ = (&self.ear).read(&mut bytes);
        std::mem::take(&mut *self.list.numbers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
