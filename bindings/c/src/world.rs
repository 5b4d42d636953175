//! State of a process: the table of descriptors, and the host of all sockets. A forked child starts
//! with neither, because the library's thread does not run in it. Its parent's descriptors are
//! unknown to it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock};

use crate::errno::Errno;
use anabranch_sockets::{Error, Host, Socket};

/// The sockets and the host of one process.
#[derive(Debug, Default)]
struct World {
    sockets: RwLock<HashMap<RawFd, Arc<Socket>>>,
    host: OnceLock<Result<Arc<Host>, Error>>,
}

/// The world of this process; null until it is first needed.
static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());

/// Runs in a forked child, where only the forking thread exists. Leaks the parent's world: threads that
/// no longer exist may hold its locks.
extern "C" fn forget_all() {
    WORLD.store(std::ptr::null_mut(), Ordering::SeqCst);
}

/// Adds a socket to the table. Returns its descriptor.
pub(crate) fn register(socket: Arc<Socket>) -> RawFd {
    let descriptor = socket.number();
    let mut table = world().sockets.write().unwrap_or_else(PoisonError::into_inner);
    table.insert(descriptor, socket);
    descriptor
}

/// The socket with this descriptor.
pub(crate) fn find(descriptor: RawFd) -> Result<Arc<Socket>, Errno> {
    let table = world().sockets.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&descriptor).cloned().ok_or(Errno::EBADF)
}

/// Removes a socket from the table and closes it.
pub(crate) fn close(descriptor: RawFd) -> Result<(), Errno> {
    let removed = {
        let mut table = world().sockets.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&descriptor)
    };
    Ok(removed.ok_or(Errno::EBADF)?.close()?)
}

/// Closes all sockets, as process exit does: without waiting, whatever SO_LINGER says.
pub(crate) fn close_all() {
    let all: Vec<_> = {
        let mut table = world().sockets.write().unwrap_or_else(PoisonError::into_inner);
        table.drain().map(|(_, socket)| socket).collect()
    };
    all.iter().for_each(|socket| socket.abandon());
}

/// The host of this process: the operating system's sockets, run by one thread that starts with the
/// first socket.
pub(crate) fn host() -> Result<Arc<Host>, Error> {
    world().host.get_or_init(Host::start).clone()
}

/// The host of this process if it has started. A forked child does not have a host, so it has nothing
/// to wait for.
pub(crate) fn started_host() -> Option<Arc<Host>> {
    world().host.get()?.as_ref().ok().cloned()
}

/// The world of this process.
fn world() -> &'static World {
    static FORKS: Once = Once::new();
    let known = WORLD.load(Ordering::SeqCst);
    // SAFETY: null, or from a box that is never freed.
    if let Some(world) = unsafe { known.as_ref() } {
        return world;
    }
    FORKS.call_once(|| {
        // If memory for the handler runs out, a child finds its parent's sockets, which do not work.
        // SAFETY: the handler only stores a pointer, as signal handlers may.
        unsafe { libc::pthread_atfork(None, None, Some(forget_all)) };
    });
    let new = Box::into_raw(Box::new(World::default()));
    let null = std::ptr::null_mut();
    match WORLD.compare_exchange(null, new, Ordering::SeqCst, Ordering::SeqCst) {
        // SAFETY: from the box above, which is never freed.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: from the box above, which was not shared.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: not null, and from a box that is never freed.
            unsafe { &*other }
        }
    }
}
