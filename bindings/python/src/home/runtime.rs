//! What the library asks of a home: the sockets and clock of tokio, tasks that the home runs, and timers whose expiry makes
//! the descriptor of the home readable.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use anabranch::runtime::{
    AddressWatch, Binding, Encapsulation, Instant, LocalAddress, PacketSocket, Runtime, Timer,
};

use super::Home;
use super::task::Task;

/// A home as a runtime of the library.
#[derive(Clone)]
pub(crate) struct HomeRuntime(pub(crate) Arc<Home>);

impl std::fmt::Debug for HomeRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HomeRuntime").finish_non_exhaustive()
    }
}

impl Runtime for HomeRuntime {
    fn now(&self) -> Instant {
        self.0.tokio.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.0.tokio.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        super::timer::new(&self.0.handle, &self.0.tokio)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let task = Task::new(future, Arc::downgrade(&self.0));
        self.0.tasks().push(task);
        self.0.task_woken();
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        self.0.tokio.bind(binding)
    }

    fn adopt(
        &self,
        encapsulation: Encapsulation,
        socket: UdpSocket,
    ) -> io::Result<Box<dyn PacketSocket>> {
        self.0.tokio.adopt(encapsulation, socket)
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        self.0.tokio.local_addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        self.0.tokio.watch_addresses()
    }

    fn kernel_has_sctp(&self) -> bool {
        self.0.tokio.kernel_has_sctp()
    }
}
