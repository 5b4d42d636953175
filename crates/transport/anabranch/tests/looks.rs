//! How often an endpoint reads the host's addresses, on a host that does not always report them.

mod common;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use anabranch::Endpoint;
use anabranch::runtime::{
    AddressWatch, Binding, Instant, LocalAddress, PacketSocket, Runtime, Timer, TokioRuntime,
};
use common::soon;

/// Returns one address, then none, then two, and notifies of no change.
#[derive(Debug)]
struct Forgetful {
    inner: Arc<TokioRuntime>,
    asked: AtomicUsize,
}

#[derive(Debug)]
struct Silent;

impl AddressWatch for Silent {
    fn poll_changed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Runtime for Forgetful {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.inner.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        self.inner.clone().timer()
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(task);
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        self.inner.bind(binding)
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        let loopback = |last| LocalAddress {
            ip: IpAddr::from([127, 0, 0, last]),
            interface: "lo".to_owned(),
            index: 1,
        };
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![loopback(1)]),
            1 => Err(io::ErrorKind::QuotaExceeded.into()),
            _ => Ok(vec![loopback(1), loopback(2)]),
        }
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        Some(Box::new(Silent))
    }
}

/// A change before the watch existed is found, and so is one that could not be read at first.
#[tokio::test]
async fn addresses_that_could_not_be_read_are_read_again() {
    soon(async {
        let inner = Arc::new(TokioRuntime::current().unwrap());
        let runtime = Arc::new(Forgetful { inner, asked: AtomicUsize::new(0) });
        let endpoint = Endpoint::builder().runtime(runtime.clone()).bind().unwrap();
        while endpoint.local_addresses().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // And then no more, until a change is notified.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(runtime.asked.load(Ordering::Relaxed), 3);
    })
    .await;
}
