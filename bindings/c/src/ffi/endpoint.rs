//! Explicit endpoints, and waiting for all sockets to finish.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_sockets::{Binding, Lease, Local, Socket};
use libc::{c_int, sockaddr};

use super::sealed::Sealed;
use super::{guard, socket};
use crate::address;
use crate::errno::Errno;
use crate::world;

/// An endpoint: UDP sockets with the same port on some local addresses. Opaque to C.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "C's name")]
pub struct anabranch_endpoint {
    pub(super) endpoint: Arc<Lease>,
    pub(super) sealed: Option<Sealed>,
}

/// Opens an endpoint on `count` local addresses, or if `count` is 0, on all addresses of the host. Their
/// ports are ignored. `udp_port` 0 picks a free port, -1 selects IP protocol 132 (needs raw sockets).
/// On failure returns null and sets `errno`.
///
/// # Safety
/// `addresses` points to `count` addresses one after the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_new(
    addresses: *const sockaddr,
    count: c_int,
    udp_port: c_int,
) -> *mut anabranch_endpoint {
    guard(ptr::null_mut(), || {
        let mut local = Vec::new();
        if count != 0 {
            // SAFETY: the caller's promise.
            let list = unsafe { address::read_packed(addresses, count) }?;
            for address in list {
                local.push(Local::of(address)?);
            }
        }
        let udp_port = match udp_port {
            -1 => None,
            port => Some(u16::try_from(port).map_err(|_| Errno::EINVAL)?),
        };
        let binding = Binding { addresses: local, udp_port, ..Binding::default() };
        let endpoint = world::host()?.own_endpoint(&binding)?;
        Ok(Box::into_raw(Box::new(anabranch_endpoint { endpoint, sealed: None })))
    })
}

/// Frees an endpoint. It keeps running until its sockets are closed and have sent everything; if it
/// has no sockets, its UDP port is free immediately.
///
/// # Safety
/// `endpoint` is null or from `anabranch_endpoint_new`, not freed yet and not in use by another call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_free(endpoint: *mut anabranch_endpoint) {
    guard((), || {
        if endpoint.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise; it came from a box.
        let anabranch_endpoint { endpoint, .. } = *unsafe { Box::from_raw(endpoint) };
        if world::started_host().is_some_and(|host| host.has(&endpoint)) {
            endpoint.let_go();
        } else {
            // It belongs to the parent process, and its locks may be held by threads there.
            std::mem::forget(endpoint);
        }
        Ok(())
    });
}

/// The UDP port of an endpoint, 0 for IP protocol 132.
///
/// # Safety
/// `endpoint` is null or from `anabranch_endpoint_new` and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_udp_port(endpoint: *const anabranch_endpoint) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?;
        Ok(c_int::from(endpoint.endpoint.udp_port()))
    })
}

/// The number of associations of an endpoint that have not ended.
///
/// # Safety
/// As [`anabranch_endpoint_udp_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_associations(
    endpoint: *const anabranch_endpoint,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?;
        Ok(c_int::try_from(endpoint.endpoint.associations()).unwrap_or(c_int::MAX))
    })
}

/// Waits at most `milliseconds` until an endpoint has no associations; a negative number waits
/// forever. Returns -1 with ETIMEDOUT if some are left then.
///
/// # Safety
/// As [`anabranch_endpoint_udp_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_wait_idle(
    endpoint: *const anabranch_endpoint,
    milliseconds: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?;
        let idle = world::host()?.wait_idle(&endpoint.endpoint, limit(milliseconds));
        if idle { Ok(0) } else { Err(Errno::ETIMEDOUT) }
    })
}

/// Opens a socket on an endpoint. The socket uses the endpoint's addresses; only its SCTP port is its own.
///
/// # Safety
/// As [`anabranch_endpoint_udp_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_socket(
    endpoint: *const anabranch_endpoint,
    domain: c_int,
    kind: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?.endpoint.clone();
        let (style, family, nonblocking) = socket::parse(domain, kind, 0)?;
        let socket = Socket::open(world::host()?, style, family, nonblocking, Some(endpoint))?;
        Ok(world::register(socket))
    })
}

/// Waits until the data that closed sockets sent is delivered, then closes the shared endpoints. Call
/// it before the program ends. Gives up after `milliseconds` without progress; a negative number
/// waits forever. Returns -1 with ETIMEDOUT if some data was not delivered.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_finish(milliseconds: c_int) -> c_int {
    guard(-1, || {
        let idle = world::started_host().is_none_or(|host| host.finish(limit(milliseconds)));
        if idle { Ok(0) } else { Err(Errno::ETIMEDOUT) }
    })
}

fn limit(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The version of the library, as text.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
