//! Accepts associations.

use anabranch_channel::call::Operation;
use anabranch_channel::name::Channel;
use anabranch_channel::record::{HEADER, Header, Kind};
use libc::c_int;

use crate::records::{self, Taken};
use crate::{engine, known, next};

/// Accepts an association. Returns its descriptor, and the record with the peer's address.
///
/// # Errors
/// As `accept`.
pub(crate) fn accept(fd: c_int, channel: Channel, flags: c_int) -> Result<(c_int, Header), c_int> {
    if channel.one_to_many {
        return Err(libc::EOPNOTSUPP);
    }
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(libc::EINVAL);
    }
    has_room(fd)?;
    let mut listens = false;
    loop {
        let first = match records::look(fd, if listens { 0 } else { libc::MSG_DONTWAIT }) {
            Err(libc::EAGAIN) if listens || records::is_nonblocking(fd) => {
                return Err(libc::EAGAIN);
            }
            // Before it waits: on another socket nothing would come.
            Err(libc::EAGAIN) => {
                listens = engine::ask_interruptibly(Operation::Listens, channel.handle)? != 0;
                if !listens {
                    return Err(libc::EINVAL);
                }
                continue;
            }
            first => first?,
        };
        match first.kind {
            Kind::Accepted => {}
            Kind::Look => {
                records::drop_first(fd);
                engine::take_error(channel.handle)?;
                continue;
            }
            _ => return Err(libc::EINVAL),
        }
        match take(fd, flags) {
            // Another thread or process has taken it.
            Err(libc::EAGAIN) => {}
            taken => return taken,
        }
    }
}

fn take(fd: c_int, flags: c_int) -> Result<(c_int, Header), c_int> {
    let mut bytes = [0; HEADER];
    let cloexec = if flags & libc::SOCK_CLOEXEC != 0 { libc::MSG_CMSG_CLOEXEC } else { 0 };
    let pieces = &mut [records::room(&mut bytes)];
    // SAFETY: the piece is this function's own memory.
    let Taken { descriptor, .. } =
        unsafe { records::take(fd, pieces, libc::MSG_DONTWAIT | cloexec) }?;
    // Other threads have used up the descriptors since `has_room`: the association is lost.
    let descriptor = descriptor.ok_or(libc::EMFILE)?;
    known::forget(descriptor);
    set_nonblocking(descriptor, flags);
    Ok((descriptor, Header::decode(&bytes).ok_or(libc::EIO)?))
}

/// Sets O_NONBLOCK if SOCK_NONBLOCK is in the flags.
pub(crate) fn set_nonblocking(fd: c_int, flags: c_int) {
    if flags & libc::SOCK_NONBLOCK != 0 {
        // The descriptor is new, so it has no other flags.
        let argument = std::ptr::without_provenance_mut(libc::O_NONBLOCK.cast_unsigned() as usize);
        // SAFETY: the argument of this command is a number.
        unsafe { next::fcntl(fd, libc::F_SETFL, argument) };
    }
}

/// Fails if the process cannot have another descriptor. The kernel would drop the descriptor in a record.
fn has_room(fd: c_int) -> Result<(), c_int> {
    // SAFETY: the argument of this command is a number.
    let copy = unsafe { next::fcntl(fd, libc::F_DUPFD_CLOEXEC, std::ptr::null_mut()) };
    if copy < 0 {
        return Err(next::errno());
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(copy) };
    Ok(())
}
