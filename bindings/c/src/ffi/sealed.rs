//! Endpoints with sealed paths (docs/sealed.md).

use std::ffi::{CStr, c_char};
use std::net::SocketAddr;
use std::path::Path;
use std::ptr;

use anabranch::seal::{
    Allow, Invitation, KeyFileError, PublicKey, Seal, SealHandle, SecretKey, Token, Uplink,
};
use anabranch_sockets::Error;
use libc::{c_int, sockaddr, socklen_t};

use super::endpoint::anabranch_endpoint;
use super::sctp::give;
use super::{done, guard};
use crate::address;
use crate::errno::Errno;
use crate::world;

/// A flag of a server: everyone who knows its public key may connect.
const ANYONE: c_int = 1;

/// A flag of an invitation: it admits one key that is not allowed yet.
const ONCE: c_int = 1;

/// What an endpoint with sealed paths has besides its sockets.
#[derive(Debug)]
pub(super) struct Sealed {
    handle: SealHandle,
    own: PublicKey,
    /// The server of a client.
    server: Option<PublicKey>,
    /// The real addresses of a server.
    listen: Vec<SocketAddr>,
}

/// An error with a text for the caller.
struct Refused {
    errno: Errno,
    reason: String,
}

impl Refused {
    fn invalid(reason: impl ToString) -> Self {
        Self { errno: Errno::EINVAL, reason: reason.to_string() }
    }
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self { errno, reason: std::io::Error::from_raw_os_error(errno.0).to_string() }
    }
}

/// Opens a server on `count` real addresses with their UDP ports, port 0 for a free one, or if `count` is 0, on port 9899 of
/// all addresses. The file has its secret key, and is made if it is missing. Nobody may connect before
/// `anabranch_endpoint_allow` or an invitation that works once says so, unless `flags` has ANABRANCH_SEALED_ANYONE. On
/// failure returns null, sets `errno`, and writes why to `reason`.
///
/// # Safety
/// `addresses` points to `count` addresses one after the other, `key_file` is null or a null-terminated text, and `reason`
/// is null or points to `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_sealed_server(
    addresses: *const sockaddr,
    count: c_int,
    key_file: *const c_char,
    flags: c_int,
    reason: *mut c_char,
    len: usize,
) -> *mut anabranch_endpoint {
    let open = || {
        let mut listen = vec![([0, 0, 0, 0], 9899).into(), ([0_u16; 8], 9899).into()];
        if count != 0 {
            // SAFETY: the caller's promise.
            listen = unsafe { address::read_packed(addresses, count) }?;
        }
        // SAFETY: the caller's promise.
        let secret = unsafe { secret(key_file) }?;
        let allow = match flags {
            0 => Allow::nobody(),
            ANYONE => Allow::Any,
            _ => return Err(Refused::invalid("unknown flags")),
        };
        let own = secret.public();
        let seal = Seal::listen(secret, listen.iter().copied()).allow(allow);
        let handle = seal.handle();
        opened(seal, Sealed { handle, own, server: None, listen })
    };
    // SAFETY: the caller's promise.
    unsafe { told(open, reason, len) }
}

/// Opens a client of the server whose invitation `line` is. Its uplinks are interfaces or local addresses with commas
/// between them, at most eight; null or an empty text leaves the choice to the system's routes. On failure returns null,
/// sets `errno`, and writes why to `reason`.
///
/// # Safety
/// As [`anabranch_endpoint_sealed_server`]; `line` and `uplinks` are null or null-terminated texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_sealed_client(
    line: *const c_char,
    key_file: *const c_char,
    uplinks: *const c_char,
    reason: *mut c_char,
    len: usize,
) -> *mut anabranch_endpoint {
    let open = || {
        // SAFETY: the caller's promise.
        let line = unsafe { text(line) }?.ok_or(Errno::EFAULT)?;
        let invitation: Invitation = line.trim().parse().map_err(Refused::invalid)?;
        // SAFETY: the caller's promise.
        let secret = unsafe { secret(key_file) }?;
        let own = secret.public();
        let mut seal = Seal::connect(secret, &invitation);
        // SAFETY: the caller's promise.
        if let Some(names) = unsafe { text(uplinks) }?.filter(|names| !names.is_empty()) {
            seal = seal.uplinks(names.split(',').map(|name| uplink(name.trim())));
        }
        let (handle, server) = (seal.handle(), Some(invitation.key()));
        opened(seal, Sealed { handle, own, server, listen: Vec::new() })
    };
    // SAFETY: the caller's promise.
    unsafe { told(open, reason, len) }
}

/// Lets the client with this public key, `anbk:...`, connect to a server.
///
/// # Safety
/// `endpoint` is null or an endpoint that is not freed, and `key` is null or a null-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_allow(
    endpoint: *const anabranch_endpoint,
    key: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    done(|| unsafe { with_key(endpoint, key) }.map(|(handle, key)| handle.allow(key)))
}

/// No longer lets the client with this public key connect, and ends its sessions and associations.
///
/// # Safety
/// As [`anabranch_endpoint_allow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_revoke(
    endpoint: *const anabranch_endpoint,
    key: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    done(|| unsafe { with_key(endpoint, key) }.map(|(handle, key)| handle.revoke(key)))
}

/// Writes an invitation to a server, a line for clients, with the `count` addresses under which they reach it; if `count` is
/// 0, with those that it listens on. With ANABRANCH_INVITE_ONCE in `flags` whoever uses it first may connect from then on.
/// Returns the length of the line. ERANGE: `len` is not larger than that. EINVAL: the server listens on all addresses of
/// the host, and none is given.
///
/// # Safety
/// `endpoint` as in [`anabranch_endpoint_allow`]; `addresses` points to `count` addresses; `line` is null or points to `len`
/// writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_invite(
    endpoint: *const anabranch_endpoint,
    addresses: *const sockaddr,
    count: c_int,
    flags: c_int,
    line: *mut c_char,
    len: usize,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?;
        let sealed = endpoint.sealed.as_ref().filter(|sealed| sealed.server.is_none());
        let sealed = sealed.ok_or(Errno::EINVAL)?;
        let port = endpoint.endpoint.udp_port();
        let reached = match count {
            0 => sealed.listen.iter().map(|to| SocketAddr::new(to.ip(), port)).collect(),
            // SAFETY: the caller's promise.
            count => unsafe { address::read_packed(addresses, count) }?,
        };
        if reached.iter().any(|to| to.ip().is_unspecified()) || !matches!(flags, 0 | ONCE) {
            return Err(Errno::EINVAL);
        }
        let mut invitation = Invitation::new(sealed.own, reached);
        let token = match flags {
            ONCE => Some(Token::generate().map_err(|_| Errno::EIO)?),
            _ => None,
        };
        if let Some(token) = &token {
            invitation = invitation.with_token(token.clone());
        }
        // SAFETY: the caller's promise.
        let written = unsafe { write(&invitation.to_string(), line, len) }?;
        // Only a line that was written counts.
        token.into_iter().for_each(|token| sealed.handle.invite(token));
        Ok(written)
    })
}

/// Stores the virtual addresses of a client's server with this SCTP port, in the host's byte order, for
/// `anabranch_sctp_connectx` on sockets of AF_INET6. Returns the number of addresses; free the list with
/// `anabranch_sctp_freepaddrs`.
///
/// # Safety
/// `endpoint` as in [`anabranch_endpoint_allow`]; `addresses` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_remotes(
    endpoint: *const anabranch_endpoint,
    port: u16,
    addresses: *mut *mut sockaddr,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let server = unsafe { sealed(endpoint) }?.server.ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { give(&server.remotes(port), addresses) }
    })
}

/// Writes the public key of the peer with this virtual address, or without an address that of this endpoint. Returns its
/// length. ERANGE: `size` is not larger than that. EADDRNOTAVAIL: no peer has the address.
///
/// # Safety
/// `endpoint` as in [`anabranch_endpoint_allow`]; `address` is null or points to `len` bytes; `key` is null or points to
/// `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_endpoint_key(
    endpoint: *const anabranch_endpoint,
    address: *const sockaddr,
    len: socklen_t,
    key: *mut c_char,
    size: usize,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let sealed = unsafe { sealed(endpoint) }?;
        let found = match address.is_null() {
            true => sealed.own,
            false => {
                // SAFETY: the caller's promise.
                let peer = unsafe { address::read(address, len) }?.ip();
                sealed.handle.peer_of(peer).ok_or(Error::AddressNotAvailable)?
            }
        };
        // SAFETY: the caller's promise.
        unsafe { write(&found.to_string(), key, size) }
    })
}

fn uplink(name: &str) -> Uplink {
    name.parse().map_or_else(|_| Uplink::interface(name), Uplink::address)
}

fn opened(seal: Seal, sealed: Sealed) -> Result<Box<anabranch_endpoint>, Refused> {
    let refused = |error: anabranch::BindError| {
        let reason = error.to_string();
        Refused { errno: Error::from(error).into(), reason }
    };
    let host = world::host().map_err(Errno::from)?;
    let endpoint = host.sealed_endpoint(seal).map_err(refused)?;
    Ok(Box::new(anabranch_endpoint { endpoint, sealed: Some(sealed) }))
}

/// Runs a call, and writes why it was refused.
///
/// # Safety
/// `reason` is null or points to `len` writable bytes.
unsafe fn told(
    open: impl FnOnce() -> Result<Box<anabranch_endpoint>, Refused>,
    reason: *mut c_char,
    len: usize,
) -> *mut anabranch_endpoint {
    guard(ptr::null_mut(), || {
        let result = open();
        let why = result.as_ref().err().map_or("", |refused| refused.reason.as_str());
        // SAFETY: the caller's promise.
        unsafe { super::tell(why, reason, len) };
        result.map(Box::into_raw).map_err(|refused| refused.errno)
    })
}

/// # Safety
/// `endpoint` is null or an endpoint that is not freed.
unsafe fn sealed<'a>(endpoint: *const anabranch_endpoint) -> Result<&'a Sealed, Errno> {
    // SAFETY: the caller's promise.
    let endpoint = unsafe { endpoint.as_ref() }.ok_or(Errno::EFAULT)?;
    endpoint.sealed.as_ref().ok_or(Errno::EINVAL)
}

/// # Safety
/// As [`sealed`] and [`text`].
unsafe fn with_key<'a>(
    endpoint: *const anabranch_endpoint,
    key: *const c_char,
) -> Result<(&'a SealHandle, PublicKey), Errno> {
    // SAFETY: the caller's promise.
    let sealed = unsafe { sealed(endpoint) }?;
    // SAFETY: the caller's promise.
    let key = unsafe { text(key) }?.ok_or(Errno::EFAULT)?;
    let key = key.trim().parse().map_err(|_| Errno::EINVAL)?;
    if sealed.server.is_some() { Err(Errno::EINVAL) } else { Ok((&sealed.handle, key)) }
}

/// # Safety
/// `text` is null or a null-terminated text.
unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Errno> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| Errno::EINVAL)
}

/// The secret key in a file, which is made if it is missing.
///
/// # Safety
/// As [`text`].
unsafe fn secret(file: *const c_char) -> Result<SecretKey, Refused> {
    // SAFETY: the caller's promise.
    let file = unsafe { text(file) }?.ok_or(Errno::EFAULT)?;
    let refused = |error: KeyFileError| {
        let errno = match &error {
            KeyFileError::Io { source, .. } => source.raw_os_error().map_or(Errno::EIO, Errno),
            KeyFileError::Open { .. } => Errno::EACCES,
            KeyFileError::Content { .. } => Errno::EINVAL,
        };
        Refused { errno, reason: error.to_string() }
    };
    SecretKey::load_or_create(Path::new(file)).map_err(refused)
}

/// Writes a text with a 0 at its end. Returns its length.
///
/// # Safety
/// `to` is null or points to `len` writable bytes.
unsafe fn write(text: &str, to: *mut c_char, len: usize) -> Result<c_int, Errno> {
    if to.is_null() {
        return Err(Errno::EFAULT);
    }
    if text.len() >= len {
        return Err(Errno::ERANGE);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { super::tell(text, to, len) };
    c_int::try_from(text.len()).map_err(|_| Errno::ERANGE)
}
