//! Endpoints of a program's own choice, and the end of all.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_sockets::{Binding, Lease, Local, Socket};
use libc::{c_int, sockaddr};

use super::{guard, socket};
use crate::address;
use crate::errno::Errno;
use crate::world;

/// An endpoint: UDP sockets of one port on some local addresses. Opaque to C.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "C's name")]
pub struct anabranch_endpoint {
    endpoint: Arc<Lease>,
}

/// Opens an endpoint on `count` local addresses, whose ports mean nothing, or with 0 on all of the
/// host. `udp_port` 0 takes a free port, -1 is IP protocol 132 (needs raw sockets). Returns null
/// with `errno` set on failure.
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
        Ok(Box::into_raw(Box::new(anabranch_endpoint { endpoint })))
    })
}

/// Lets an endpoint go. It runs on for its sockets and until they have nothing to send; without
/// any, its UDP port is free at once.
///
/// # Safety
/// `endpoint` is null or from `anabranch_endpoint_new`, not freed yet and used by nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_free(endpoint: *mut anabranch_endpoint) {
    guard((), || {
        if endpoint.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise; it came from a box.
        let endpoint = unsafe { Box::from_raw(endpoint) }.endpoint;
        if world::started_host().is_some_and(|host| host.has(&endpoint)) {
            endpoint.let_go();
        } else {
            // It is the parent's, and so are the threads that hold its locks.
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

/// Associations of an endpoint that have not ended.
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

/// Waits until an endpoint has no associations, `milliseconds` at the most, or with a negative
/// number for ever. Returns -1 with ETIMEDOUT if it has some then.
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

/// Opens a socket on an endpoint; what it is bound to is the endpoint's, save the SCTP port.
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

/// Waits until what closed sockets sent is delivered, and closes the endpoints that sockets shared.
/// Call it before the program ends. Gives up when nothing has moved for `milliseconds`, or with a
/// negative number never. Returns -1 with ETIMEDOUT if something was not delivered.
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
