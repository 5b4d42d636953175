//! What all sockets of this process share: the table of descriptors, and the host that they stand
//! on. The child of a fork has neither, as the library's thread is not in it: it begins anew, and
//! descriptors of its parent are unknown to it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once, OnceLock, RwLock};

use crate::errno::Errno;
use crate::host::Host;
use crate::socket::Socket;

/// The sockets and the host of one process.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) sockets: RwLock<HashMap<RawFd, Arc<Socket>>>,
    pub(crate) host: OnceLock<Result<Arc<Host>, Errno>>,
}

/// This process's, once something was asked for.
static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());

/// Runs in the child of a fork, where only the thread that forked is left. What it leaves behind
/// is not freed: locks in it may be held by threads that are no more.
extern "C" fn forget_all() {
    WORLD.store(std::ptr::null_mut(), Ordering::SeqCst);
}

/// The world of this process.
pub(crate) fn world() -> &'static World {
    static FORKS: Once = Once::new();
    let known = WORLD.load(Ordering::SeqCst);
    // SAFETY: null, or from a box that is never freed.
    if let Some(world) = unsafe { known.as_ref() } {
        return world;
    }
    FORKS.call_once(|| {
        // Without memory for the handler a child would find its parent's sockets, silent ones.
        // SAFETY: the handler only stores a pointer, as signal handlers may.
        unsafe { libc::pthread_atfork(None, None, Some(forget_all)) };
    });
    let new = Box::into_raw(Box::new(World::default()));
    let null = std::ptr::null_mut();
    match WORLD.compare_exchange(null, new, Ordering::SeqCst, Ordering::SeqCst) {
        // SAFETY: from the box above, which is never freed.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: from the box above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: not null, and from a box that is never freed.
            unsafe { &*other }
        }
    }
}
