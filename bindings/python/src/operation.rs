//! Futures of the library, polled by an event loop of Python.
//!
//! The loop polls an operation on its own thread, so a cancelled operation is a future that was dropped: what the
//! library promises about that holds in Python. Wakers take no lock of Python: they put the number of the operation
//! into a list, and write a byte into a socket that the loop watches.

use std::cell::Cell;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::transport::Association;

/// Something of this module was used.
static USED: AtomicBool = AtomicBool::new(false);

/// This process is a fork of one that had used it.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Python calls this in the child after a fork.
#[pyfunction]
pub(crate) fn forked() {
    FORKED.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Fails in a fork of a process that has used this module: it has none of the threads, and shares the sockets.
pub(crate) fn check_process() -> PyResult<()> {
    if !FORKED.load(Ordering::Relaxed) {
        USED.store(true, Ordering::Relaxed);
        return Ok(());
    }
    Err(errors::sctp(
        "this process was forked after it had used anabranch.aio: use it in one of both only, or start processes with \
         'spawn'",
    ))
}

/// What operations give.
pub(crate) enum Value {
    Nothing,
    Message(anabranch::Message),
    Event(anabranch::Notification),
    Association(anabranch::Association),
}

impl Value {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Nothing => Ok(py.None()),
            Self::Association(inner) => Ok(Py::new(py, Association { inner })?.into_any()),
            Self::Message(message) => message_fields(py, &message),
            Self::Event(event) => {
                let json = serde_json::to_string(&event).map_err(errors::sctp)?;
                Ok((json, event.to_string()).into_pyobject(py)?.into_any().unbind())
            }
        }
    }
}

/// What Python's message has.
pub(crate) fn message_fields(py: Python<'_>, message: &anabranch::Message) -> PyResult<Py<PyAny>> {
    let (stream, ppid) = (message.stream, message.ppid.0);
    let (unordered, begin, end) = (message.unordered, message.begin, message.end);
    let data = bytes(py, &message.payload)?;
    let fields = (data, stream, ppid, unordered, begin, end);
    Ok(fields.into_pyobject(py)?.into_any().unbind())
}

/// The payload, copied once.
fn bytes<'py>(py: Python<'py>, payload: &anabranch::Payload) -> PyResult<Bound<'py, PyBytes>> {
    // `new_with` sets all bytes to zero first.
    let mut pieces = payload.pieces();
    if let (Some(only), None) = (pieces.next(), pieces.next()) {
        return Ok(PyBytes::new(py, only));
    }
    PyBytes::new_with(py, payload.len(), |mut rest| {
        for piece in payload.pieces() {
            let (now, after) = rest.split_at_mut(piece.len().min(rest.len()));
            now.copy_from_slice(&piece[..now.len()]);
            rest = after;
        }
        Ok(())
    })
}

type Boxed = Pin<Box<dyn Future<Output = PyResult<Value>> + Send>>;

/// A future.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Operation(Mutex<Option<Boxed>>);

impl Operation {
    pub(crate) fn new(future: impl Future<Output = PyResult<Value>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(future))))
    }

    /// Goes on. If it must wait, `wakeups` will have the number.
    pub(crate) fn advance(&self, wakeups: &Wakeups, number: u64) -> PyResult<Poll<Value>> {
        check_process()?;
        let list = Arc::clone(&wakeups.list);
        let waker = Waker::from(Arc::new(Alarm { number, list }));
        // Nothing in it waits for long, and nobody who holds a lock of the library waits for Python's.
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = slot.as_mut() else {
            return Err(errors::sctp("this operation has ended"));
        };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => {
                *slot = None;
                Ok(Poll::Ready(value?))
            }
            Poll::Pending => {
                // Its task waits, so what is sent next is sent at once.
                wakeups.list.has_sent.store(false, Ordering::Relaxed);
                Ok(Poll::Pending)
            }
        }
    }
}

#[pymethods]
impl Operation {
    /// Goes on. Returns whether it is done, and its value. If not, `wakeups` will have the number.
    fn poll(&self, py: Python<'_>, wakeups: &Wakeups, number: u64) -> PyResult<(bool, Py<PyAny>)> {
        match self.advance(wakeups, number)? {
            Poll::Ready(value) => Ok((true, value.into_python(py)?)),
            Poll::Pending => Ok((false, py.None())),
        }
    }

    /// Drops it.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

thread_local! {
    /// The list that this thread looks at next, by its address.
    static LISTENING: Cell<usize> = const { Cell::new(0) };
}

/// The numbers of operations that can go on.
struct List {
    numbers: Mutex<Vec<u64>>,
    /// A call has sent something since a task of the loop last waited.
    has_sent: AtomicBool,
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
        // The thread that runs the endpoints looks at the list of its loop afterwards.
        if numbers.len() == 1 && LISTENING.get() != Arc::as_ptr(&self.list).addr() {
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
        Ok(Self {
            list: Arc::new(List {
                numbers: Mutex::default(),
                has_sent: AtomicBool::new(false),
                bell,
            }),
            ear,
        })
    }

    /// Readable if there are numbers.
    fn fileno(&self) -> RawFd {
        self.ear.as_raw_fd()
    }

    /// The numbers since the last call, after the bell has rung.
    fn drain(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        // First the bell: a number that is added now rings it again.
        let _ = (&self.ear).read(&mut bytes);
        self.take()
    }
}

impl Wakeups {
    /// Calls `act` on the thread of the loop. Returns the numbers of operations that can go on, without a bell.
    pub(crate) fn during<T>(&self, act: impl FnOnce() -> T) -> (T, Vec<u64>) {
        let before = LISTENING.replace(Arc::as_ptr(&self.list).addr());
        let result = act();
        LISTENING.set(before);
        (result, self.take())
    }

    /// Whether there are numbers.
    pub(crate) fn any(&self) -> bool {
        !self.list.numbers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether what is sent now is the first since a task of the loop last waited.
    pub(crate) fn sends_first(&self) -> bool {
        !self.list.has_sent.swap(true, Ordering::Relaxed)
    }

    /// Has the loop told of these by the bell.
    pub(crate) fn put_back(&self, numbers: &[u64]) {
        for &number in numbers {
            Arc::new(Alarm { number, list: Arc::clone(&self.list) }).wake_by_ref();
        }
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.list.numbers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
