//! A socket registered with the runtime's reactor.
//!
//! Sending hardly ever blocks, but a socket registered for writing wakes the runtime once for every
//! packet that leaves the host. So a socket is registered only for reading, and for writing only
//! while a send is blocked.

use std::io;
use std::net::UdpSocket;
use std::task::{Context, Poll, ready};

#[cfg(unix)]
pub(super) use unix::Polled;

#[cfg(not(unix))]
pub(super) use other::Polled;

/// The result of polling a socket.
pub(super) struct Look<T> {
    /// The result.
    pub(super) value: T,
    /// The queue is empty, so polling again is useless before the next arrival.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(super) emptied: bool,
}

#[cfg(unix)]
mod unix {
    use std::cell::{Cell, RefCell};
    use std::fmt;
    use std::future::Future;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::pin::Pin;
    use std::sync::Arc;

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::*;

    /// Registers a descriptor for some of its events.
    #[expect(
        deprecated,
        reason = "its successor is unsafe code, to promise what the owners of descriptors of the \
                  standard library do anyway: they keep them open and never exchange them"
    )]
    fn watch<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
        AsyncFd::with_interest(owner, interest)
    }

    /// A non-blocking socket, registered with the runtime.
    #[derive(Debug)]
    pub(in crate::runtime) struct Polled {
        socket: Arc<AsyncFd<UdpSocket>>,
        /// The next call that receives does not wait for the reactor.
        looks_again: Cell<bool>,
        /// A second descriptor of the socket, registered for writing while a send is blocked.
        blocked: RefCell<Option<AsyncFd<OwnedFd>>>,
        /// The task that waits for the next error.
        failing: RefCell<Option<Failing>>,
    }

    /// Ready when the system reports an error.
    struct Failing(Pin<Box<dyn Future<Output = ()> + Send>>);

    impl fmt::Debug for Failing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Failing").finish_non_exhaustive()
        }
    }

    impl Polled {
        /// Registers a non-blocking socket. Must be called in the context of a runtime.
        pub(in crate::runtime) fn new(socket: UdpSocket) -> io::Result<Self> {
            Ok(Self {
                socket: Arc::new(watch(socket, Interest::READABLE)?),
                looks_again: Cell::new(false),
                blocked: RefCell::new(None),
                failing: RefCell::new(None),
            })
        }

        /// Ready when the system has reported an error after the last call of
        /// [`next_error`](Self::next_error) that found none.
        pub(in crate::runtime) fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
            let mut slot = self.failing.borrow_mut();
            let waiting = slot.get_or_insert_with(|| {
                let socket = self.socket.clone();
                Failing(Box::pin(async move {
                    // This fails only when the runtime ends; then nothing more is reported.
                    match socket.ready(Interest::ERROR).await {
                        Ok(mut guard) => guard.retain_ready(),
                        Err(_) => std::future::pending().await,
                    }
                }))
            });
            ready!(waiting.0.as_mut().poll(cx));
            *slot = None;
            Poll::Ready(())
        }

        /// Returns the result of `next`, which reads the socket's error reports, if there is one.
        pub(in crate::runtime) fn next_error<T>(
            &self,
            next: impl Fn(&UdpSocket) -> Option<T>,
        ) -> Option<T> {
            // An empty queue ends the readiness that `poll_error` waits for.
            let none = || io::Error::from(io::ErrorKind::WouldBlock);
            next(self.get()).or_else(|| {
                self.socket.try_io(Interest::ERROR, |socket| next(socket).ok_or_else(none)).ok()
            })
        }

        /// The socket itself.
        pub(in crate::runtime) fn get(&self) -> &UdpSocket {
            self.socket.get_ref()
        }

        /// Ready unless the last send was blocked and the socket has had no room since.
        pub(in crate::runtime) fn poll_writable(
            &self,
            cx: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            let mut blocked = self.blocked.borrow_mut();
            if let Some(watch) = &*blocked {
                // The second descriptor is no longer needed, whatever the guard reports.
                ready!(watch.poll_write_ready(cx))?.retain_ready();
                *blocked = None;
            }
            Poll::Ready(Ok(()))
        }

        /// Sends with `send`. If that blocks, registers for writing.
        pub(in crate::runtime) fn try_send<T>(
            &self,
            send: impl FnOnce() -> io::Result<T>,
        ) -> io::Result<T> {
            let result = send();
            if let Err(error) = &result
                && error.kind() == io::ErrorKind::WouldBlock
            {
                let mut blocked = self.blocked.borrow_mut();
                if blocked.is_none() {
                    let second = self.socket.as_fd().try_clone_to_owned();
                    // If that fails for lack of descriptors, the send is tried again after a while.
                    *blocked = second.and_then(|fd| watch(fd, Interest::WRITABLE)).ok();
                }
            }
            result
        }

        /// Makes the next [`poll_receive`](Self::poll_receive) ask the system, whatever the reactor knows.
        pub(in crate::runtime) fn look_again(&self) {
            self.looks_again.set(true);
        }

        /// Receives with `receive` once there is something.
        pub(in crate::runtime) fn poll_receive<T>(
            &self,
            cx: &mut Context<'_>,
            mut receive: impl FnMut() -> io::Result<Look<T>>,
        ) -> Poll<io::Result<T>> {
            if self.looks_again.take() {
                match receive() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    looked => return Poll::Ready(looked.map(|look| look.value)),
                }
            }
            loop {
                // Data that arrives after this is reported again, even if the guard is cleared
                // below.
                let mut guard = ready!(self.socket.poll_read_ready(cx))?;
                match receive() {
                    Ok(look) => {
                        if look.emptied {
                            guard.clear_ready();
                        }
                        return Poll::Ready(Ok(look.value));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::future::poll_fn;
        use std::os::unix::net::UnixDatagram;

        use super::*;

        fn pair() -> (Polled, UdpSocket) {
            let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
            let (watched, other) = (bind(), bind());
            watched.set_nonblocking(true).unwrap();
            watched.connect(other.local_addr().unwrap()).unwrap();
            other.connect(watched.local_addr().unwrap()).unwrap();
            (Polled::new(watched).unwrap(), other)
        }

        fn look(socket: &Polled, emptied: bool) -> io::Result<Look<u8>> {
            let mut byte = [0];
            socket.get().recv(&mut byte)?;
            Ok(Look { value: byte[0], emptied })
        }

        #[tokio::test]
        async fn an_emptied_socket_is_asked_again_only_after_an_arrival() {
            let (socket, other) = pair();
            for round in 0..3 {
                other.send(&[round]).unwrap();
                let got = poll_fn(|cx| socket.poll_receive(cx, || look(&socket, true))).await;
                assert_eq!(got.unwrap(), round);
                let mut looks = 0;
                poll_fn(|cx| {
                    let again = socket.poll_receive(cx, || {
                        looks += 1;
                        look(&socket, true)
                    });
                    assert!(again.is_pending());
                    Poll::Ready(())
                })
                .await;
                assert_eq!(looks, 0);
            }
        }

        /// Without waiting until the reactor has run; and afterwards the task is woken as ever.
        #[tokio::test]
        async fn who_looks_again_finds_what_the_reactor_does_not_know() {
            let (socket, other) = pair();
            for round in 0..3 {
                other.send(&[round]).unwrap();
                let got = poll_fn(|cx| {
                    assert!(
                        round > 0 || socket.poll_receive(cx, || look(&socket, true)).is_pending()
                    );
                    socket.look_again();
                    Poll::Ready(socket.poll_receive(cx, || look(&socket, true)))
                });
                assert!(matches!(got.await, Poll::Ready(Ok(byte)) if byte == round));
            }
            poll_fn(|cx| {
                socket.look_again();
                assert!(socket.poll_receive(cx, || look(&socket, true)).is_pending());
                Poll::Ready(())
            })
            .await;
            let sending = tokio::task::spawn_blocking(move || other.send(&[9]));
            let got = poll_fn(|cx| socket.poll_receive(cx, || look(&socket, true))).await;
            assert_eq!((got.unwrap(), sending.await.unwrap().unwrap()), (9, 1));
        }

        #[tokio::test]
        async fn what_is_left_behind_is_found() {
            let (socket, other) = pair();
            for round in 0..3 {
                other.send(&[round]).unwrap();
            }
            for round in 0..3 {
                let got = poll_fn(|cx| socket.poll_receive(cx, || look(&socket, false))).await;
                assert_eq!(got.unwrap(), round);
            }
        }

        /// Runs in a separate process, because other tests need descriptors.
        #[test]
        fn a_blocked_send_without_descriptors_is_blocked_all_the_same() {
            let test = concat!(module_path!(), "::out_of_descriptors");
            let (_, test) = test.split_once("::").unwrap();
            let this = std::env::current_exe().unwrap();
            let done = std::process::Command::new("sh")
                .args(["-c", "ulimit -n 64 && exec \"$0\" --exact \"$1\" --ignored"])
                .args([this.as_os_str(), test.as_ref()])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && told.contains("1 passed"), "{told}");
        }

        #[tokio::test]
        #[ignore = "uses up the descriptors of its process"]
        async fn out_of_descriptors() {
            let (sender, _receiver) = UnixDatagram::pair().unwrap();
            sender.set_nonblocking(true).unwrap();
            let polled = Polled::new(OwnedFd::from(sender).into()).unwrap();
            let open = || std::fs::File::open("/dev/null").ok();
            let files: Vec<_> = std::iter::from_fn(open).take(1000).collect();
            assert!(files.len() < 1000, "run by the test before");
            let send = || polled.try_send(|| polled.get().send(&[7; 1000]));
            let error = loop {
                if let Err(error) = send() {
                    break error;
                }
            };
            drop(files);
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        }

        #[tokio::test]
        async fn a_blocked_send_waits_for_room() {
            // With this address family it is easy to make a datagram send block.
            let (sender, receiver) = UnixDatagram::pair().unwrap();
            sender.set_nonblocking(true).unwrap();
            let polled = Polled::new(OwnedFd::from(sender).into()).unwrap();
            let send = || polled.try_send(|| polled.get().send(&[7; 1000]));
            poll_fn(|cx| polled.poll_writable(cx)).await.unwrap();
            let mut sent = 0;
            while send().is_ok() {
                sent += 1;
            }
            let pending = poll_fn(|cx| Poll::Ready(polled.poll_writable(cx).is_pending())).await;
            assert!(pending, "no room");
            let mut buffer = [0; 1000];
            for _ in 0..sent {
                assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);
            }
            poll_fn(|cx| polled.poll_writable(cx)).await.unwrap();
            assert_eq!(send().unwrap(), 1000);
        }
    }
}

#[cfg(not(unix))]
mod other {
    use tokio::io::Interest;

    use super::*;

    /// A non-blocking socket, registered with the runtime.
    #[derive(Debug)]
    pub(in crate::runtime) struct Polled {
        socket: tokio::net::UdpSocket,
    }

    impl Polled {
        /// Registers a non-blocking socket. Must be called in the context of a runtime.
        pub(in crate::runtime) fn new(socket: UdpSocket) -> io::Result<Self> {
            Ok(Self { socket: tokio::net::UdpSocket::from_std(socket)? })
        }

        /// Never ready: the system does not report errors separately.
        pub(in crate::runtime) fn poll_error(&self, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        /// Returns the result of `next`, which reads the socket's error reports, if there is one.
        pub(in crate::runtime) fn next_error<T>(
            &self,
            next: impl Fn(&tokio::net::UdpSocket) -> Option<T>,
        ) -> Option<T> {
            next(&self.socket)
        }

        /// The socket itself.
        pub(in crate::runtime) fn get(&self) -> &tokio::net::UdpSocket {
            &self.socket
        }

        /// Ready when there may be room to send.
        pub(in crate::runtime) fn poll_writable(
            &self,
            cx: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            self.socket.poll_send_ready(cx)
        }

        /// Sends with `send`, unless there is no room.
        pub(in crate::runtime) fn try_send<T>(
            &self,
            send: impl FnOnce() -> io::Result<T>,
        ) -> io::Result<T> {
            self.socket.try_io(Interest::WRITABLE, send)
        }

        /// No effect: the readiness that the reactor keeps cannot be passed over.
        pub(in crate::runtime) fn look_again(&self) {}

        /// Receives with `receive` once there is something.
        pub(in crate::runtime) fn poll_receive<T>(
            &self,
            cx: &mut Context<'_>,
            mut receive: impl FnMut() -> io::Result<Look<T>>,
        ) -> Poll<io::Result<T>> {
            loop {
                ready!(self.socket.poll_recv_ready(cx))?;
                match self.socket.try_io(Interest::READABLE, &mut receive) {
                    // `emptied` cannot be used here: the readiness is no longer that of the call.
                    Ok(Look { value, emptied: _ }) => return Poll::Ready(Ok(value)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
    }
}
