//! What sockets stand on: a runtime, and the endpoints that they share.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::runtime::{Runtime, TokioRuntime};
use anabranch::{AssociationConfig, Encapsulation, Endpoint, SCTP_UDP_PORT};

use crate::endpoints::{Binding, Endpoints, Lease};
use crate::error::Error;

/// Locks a mutex; what a panic left behind is still good to read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What sockets stand on: a runtime that runs their associations, and the endpoints that they share. Sockets
/// keep it alive. When it goes, nothing more is delivered: see [`finish`](Self::finish).
pub struct Host {
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Lets all tasks run that can, and returns when none can any more. For runtimes whose tasks
    /// nobody else runs.
    pub(crate) settle: Option<Box<dyn Fn() + Send + Sync>>,
    /// In place of what sockets want.
    pub(crate) only: Option<Binding>,
    /// What new sockets begin with.
    pub(crate) config: Mutex<AssociationConfig>,
    /// UDP port of peers, unless a socket is told another.
    pub(crate) remote_udp_port: u16,
    endpoints: Endpoints,
    /// Runs the tasks while this lives.
    threads: Option<tokio::runtime::Runtime>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

impl Host {
    /// A host on another runtime, which `settle` runs until no task can go on, and whose only endpoint is
    /// bound to `only`.
    pub fn on(
        runtime: Arc<dyn Runtime>,
        settle: Box<dyn Fn() + Send + Sync>,
        only: Binding,
    ) -> Self {
        Self {
            runtime,
            settle: Some(settle),
            only: Some(only),
            config: Mutex::default(),
            remote_udp_port: 0,
            endpoints: Endpoints::default(),
            threads: None,
        }
    }

    /// A host on the sockets of the operating system, with a thread that runs it.
    pub fn start() -> Result<Arc<Self>, Error> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("anabranch")
            .enable_all()
            .build()?;
        let runtime = {
            let _within = threads.enter();
            TokioRuntime::current().ok_or(Error::Io)?
        };
        Ok(Arc::new(Self {
            runtime: Arc::new(runtime),
            settle: None,
            only: None,
            config: Mutex::default(),
            remote_udp_port: SCTP_UDP_PORT,
            endpoints: Endpoints::default(),
            threads: Some(threads),
        }))
    }

    /// Changes the options that new sockets begin with.
    pub fn configure(&self, change: impl FnOnce(&mut AssociationConfig)) {
        change(&mut lock(&self.config));
    }

    /// Runs a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(Box::pin(task));
    }

    /// Lets all tasks run that can, if they need to be told.
    pub(crate) fn settle(&self) {
        if let Some(settle) = &self.settle {
            settle();
        }
    }

    /// The endpoints on it.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Whether endpoints stay open without sockets: where somebody else decides what there is.
    pub(crate) fn keeps_endpoints(&self) -> bool {
        self.only.is_some()
    }

    /// Opens an endpoint.
    pub(crate) fn bind(&self, binding: &Binding) -> Result<Endpoint, Error> {
        let mut builder =
            Endpoint::builder().runtime(self.runtime.clone()).traffic_class(binding.traffic_class);
        for local in &binding.addresses {
            builder = match (local.ip, &local.link) {
                (IpAddr::V6(ip), Some(link)) => builder.link_local_address(ip, link.clone()),
                (ip, _) => builder.local_addresses([ip]),
            };
        }
        if let Some(interface) = &binding.interface {
            builder = builder.interface(interface.clone());
        }
        builder = match binding.udp_port {
            Some(port) => builder.udp_port(port),
            None => builder.encapsulation(Encapsulation::Ip),
        };
        Ok(builder.bind()?)
    }

    /// The endpoint with this binding, which is opened if there is none.
    pub(crate) fn endpoint(self: &Arc<Self>, binding: &Binding) -> Result<Arc<Lease>, Error> {
        Endpoints::shared(self, self.only.as_ref().unwrap_or(binding))
    }

    /// Waits until all associations have ended, and closes the endpoints that sockets share. Gives up when within
    /// `limit` none has ended or delivered anything. Returns whether all have ended.
    pub fn finish(&self, limit: Option<Duration>) -> bool {
        let endpoints = self.endpoints.to_finish();
        let mut least = held(&endpoints);
        let idle = loop {
            let waiting = endpoints.clone();
            let idle = self.within(limit, async move {
                for endpoint in &waiting {
                    endpoint.wait_idle().await;
                }
            });
            // A slow link takes as long as it needs.
            let now = held(&endpoints);
            if idle || (now.0 >= least.0 && now.1 >= least.1) {
                break idle;
            }
            least = (now.0.min(least.0), now.1.min(least.1));
        };
        if idle {
            let endpoints = self.endpoints.finish();
            // Returns when the last packets have been sent.
            self.within(None, async move {
                for endpoint in &endpoints {
                    endpoint.close().await;
                }
            });
        }
        idle
    }

    /// Waits until the library's thread has carried a future out, for so long at the most. Returns
    /// whether it is done.
    ///
    /// The calling thread only sleeps, so that this may be called when its thread-local variables
    /// are gone: from handlers of `atexit` and from destructors of libraries.
    pub fn within(
        &self,
        limit: Option<Duration>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let Some(threads) = &self.threads else { return false };
        let result = Arc::new((Mutex::new(None), Condvar::new()));
        let told = Told(result.clone());
        threads.spawn(async move {
            let mut told = told;
            let done = match limit {
                Some(limit) => tokio::time::timeout(limit, future).await.is_ok(),
                None => {
                    future.await;
                    true
                }
            };
            // An endpoint tells that an association has ended before it sends the last packet to
            // the peer. That is done when its thread turns to something else, and the program may
            // end then.
            let _ = tokio::spawn(async {}).await;
            told.tell(done);
        });
        let (done, changed) = &*result;
        let mut done = lock(done);
        loop {
            if let Some(done) = *done {
                return done;
            }
            done = changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Host {
    /// Does not wait for tasks: one of them may drop the last reference.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// Where the outcome of a task goes; one that is dropped before was not done.
struct Told(Arc<(Mutex<Option<bool>>, Condvar)>);

impl Told {
    fn tell(&mut self, done: bool) {
        lock(&self.0.0).get_or_insert(done);
        self.0.1.notify_all();
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.tell(false);
    }
}

/// Associations, and bytes that their buffers hold.
fn held(endpoints: &[Endpoint]) -> (usize, usize) {
    let statistics = endpoints.iter().map(Endpoint::statistics);
    statistics.fold((0, 0), |all, one| (all.0 + one.associations, all.1 + one.memory_used))
}
