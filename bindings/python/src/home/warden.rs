//! One thread that runs the endpoints of event loops that do not.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;

use super::Home;

/// How long a loop may be busy: small enough for the timers of the protocol, and longer than what loops usually do
/// between two looks.
const GRACE: Duration = Duration::from_millis(10);

/// Watches a home.
pub(super) fn watch(home: &Arc<Home>) -> io::Result<()> {
    static WARDEN: OnceLock<Runtime> = OnceLock::new();
    if WARDEN.get().is_none() {
        let new = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("anabranch")
            .enable_all()
            .build()?;
        // If another thread was faster, its runtime is used.
        let _ = WARDEN.set(new);
    }
    if let Some(warden) = WARDEN.get() {
        let gone = Arc::clone(&home.gone);
        let task = attend(Arc::downgrade(home), home.descriptor);
        warden.spawn(async move {
            tokio::select! {
                () = task => {}
                () = gone.notified() => {}
            }
        });
    }
    Ok(())
}

/// Stands in for the loop whenever it leaves the descriptor readable for too long.
async fn attend(home: Weak<Home>, descriptor: Option<RawFd>) {
    let Some(descriptor) = descriptor else {
        while drives(&home).is_some() {
            stand_in(home.clone()).await;
            tokio::time::sleep(GRACE).await;
        }
        return;
    };
    loop {
        if readable(descriptor).await.is_err() {
            return;
        }
        let Some(before) = drives(&home) else { return };
        tokio::time::sleep(GRACE).await;
        let Some(after) = drives(&home) else { return };
        if after == before && is_readable(descriptor).await {
            stand_in(home.clone()).await;
        }
    }
}

fn drives(home: &Weak<Home>) -> Option<u64> {
    home.upgrade().map(|home| home.drives.load(Ordering::Relaxed))
}

async fn stand_in(home: Weak<Home>) {
    let run = move || {
        if let Some(home) = home.upgrade() {
            home.stand_in();
        }
    };
    // It ends in an error only with a panic, and then there is nobody left to tell.
    let _ = tokio::task::spawn_blocking(run).await;
}

/// Waits until the descriptor is readable. It is not watched in between: every packet would wake this thread.
#[expect(
    deprecated,
    reason = "its successor is unsafe code, to promise that the descriptor stays open: the home, at \
              whose end this stops, keeps it open"
)]
async fn readable(descriptor: RawFd) -> io::Result<()> {
    let watch = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    watch.readable().await?.retain_ready();
    Ok(())
}

async fn is_readable(descriptor: RawFd) -> bool {
    tokio::time::timeout(Duration::from_millis(1), readable(descriptor)).await.is_ok()
}
