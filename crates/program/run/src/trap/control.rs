//! `getsockopt` and `setsockopt`, and the calls that Linux makes by them.

use std::os::fd::AsFd as _;

use anabranch_c::layout;
use anabranch_channel::call::{BIND_LESS, BIND_MORE};
use anabranch_channel::linux::by_option::{
    BINDX_ADD, BINDX_REM, CONNECTX, CONNECTX_OLD, CONNECTX3, GET_LOCAL_ADDRS, GET_PEER_ADDRS,
    PEELOFF, PEELOFF_FLAGS,
};
use anabranch_sockets::AssocId;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::calls::{Returns, Trapped};
use super::process;
use crate::answer;

/// Maximum bytes of an option that is read from the program: a list of 256 addresses, and more than any other has.
const MOST: u64 = 256 * 28;

/// Whether the kernel keeps an option of the channel.
fn is_kernels(level: i32, name: i32) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
}

impl Trapped {
    pub(super) async fn set_option(&self) -> Result<Returns, i32> {
        let [_, level, name, value, length, _] = self.arguments;
        let (level, name) = (level as i32, name as i32);
        if is_kernels(level, name) {
            return Ok(Returns::Continue);
        }
        let length = u64::try_from(length as i32).map_err(|_| libc::EINVAL)?;
        let data = self.memory.read(value, length.min(MOST))?;
        let socket = &self.open.socket;
        if level == libc::IPPROTO_SCTP {
            let how = match name {
                BINDX_ADD => Some(BIND_MORE),
                BINDX_REM => Some(BIND_LESS),
                _ => None,
            };
            if let Some(how) = how {
                answer::bind(socket, how, &layout::addresses(&data)?)?;
                return Ok(().into());
            }
            if matches!(name, CONNECTX | CONNECTX_OLD) {
                let id = self.connect(layout::addresses(&data)?, |_| Ok(())).await?;
                return Ok(Returns::Value(if name == CONNECTX { id.0.into() } else { 0 }));
            }
        }
        if (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF) {
            // It also limits the length of a message.
            let size = data.first_chunk().copied().map(i32::from_ne_bytes).unwrap_or_default();
            let size = usize::try_from(size).map_err(|_| libc::EINVAL)?;
            let _ = set_socket_send_buffer_size(self.program()?, size);
        }
        layout::set_option(socket, level, name, &data)?;
        if answer::stamps(level, name) {
            self.open.restamp(&self.program()?);
        }
        Ok(().into())
    }

    pub(super) async fn option(&self) -> Result<Returns, i32> {
        let [_, level, name, value, length, _] = self.arguments;
        let (level, name) = (level as i32, name as i32);
        if is_kernels(level, name) {
            return Ok(Returns::Continue);
        }
        if value == 0 || length == 0 {
            return Err(libc::EFAULT);
        }
        let room = u64::try_from(self.memory.number(length)? as i32).map_err(|_| libc::EINVAL)?;
        let given = self.memory.read(value, room.min(MOST))?;
        let found = match (level, name) {
            (libc::IPPROTO_SCTP, GET_PEER_ADDRS | GET_LOCAL_ADDRS) => self.list(name, &given)?,
            (libc::IPPROTO_SCTP, CONNECTX3) => return self.connectx(value, &given).await,
            (libc::IPPROTO_SCTP, PEELOFF | PEELOFF_FLAGS) => return self.peel(value, &given),
            _ => answer::option(&self.open, (level, name), &given, room as i32)?.data,
        };
        if found.len() as u64 > room {
            return Err(libc::ENOMEM);
        }
        self.memory.write(value, &found)?;
        self.memory.write(length, &(found.len() as u32).to_ne_bytes())?;
        Ok(().into())
    }

    /// An association and the number of its addresses, then these.
    fn list(&self, name: i32, given: &[u8]) -> Result<Vec<u8>, i32> {
        let id = AssocId(number(given, 0).ok_or(libc::EINVAL)?);
        let socket = &self.open.socket;
        let addresses = match name {
            GET_PEER_ADDRS => socket.peer_addresses(id),
            _ => socket.local_addresses(id),
        };
        let addresses = addresses.map_err(layout::number)?;
        let mut bytes = [id.0, addresses.len() as i32].map(i32::to_ne_bytes).concat();
        addresses.into_iter().for_each(|each| bytes.extend(layout::address(each)));
        Ok(bytes)
    }

    /// An association to store, the length of the addresses, and a pointer to them.
    async fn connectx(&self, at: u64, given: &[u8]) -> Result<Returns, i32> {
        let length = u64::try_from(number(given, 4).ok_or(libc::EINVAL)?);
        let place = given.get(8..).and_then(<[u8]>::first_chunk).copied().ok_or(libc::EINVAL)?;
        let place = usize::from_ne_bytes(place) as u64;
        let length = length.map_err(|_| libc::EINVAL)?.min(MOST);
        let remotes = layout::addresses(&self.memory.read(place, length)?)?;
        let begun = |id: AssocId| self.memory.write(at, &id.0.to_ne_bytes());
        self.connect(remotes, begun).await.map(|_| ().into())
    }

    /// An association, and a place for the descriptor, which the call also returns; in the newer form flags.
    fn peel(&self, at: u64, given: &[u8]) -> Result<Returns, i32> {
        let (id, flags) = (number(given, 0).ok_or(libc::EINVAL)?, number(given, 8).unwrap_or(0));
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 || given.len() < 8 {
            return Err(libc::EINVAL);
        }
        let answer = answer::peel_off(&self.trap.shared, &self.open, id, Some(self.program()?))?;
        let peeled = answer.descriptor.ok_or(libc::EMFILE)?;
        process::set_nonblocking(&peeled, flags & libc::SOCK_NONBLOCK != 0);
        let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
        let listener = self.trap.listener.get_ref();
        let given = listener.give(self.id, peeled.as_fd(), close_on_exec);
        let fd = given.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        self.memory.write(at + 4, &fd.to_ne_bytes())?;
        Ok(Returns::Value(fd.into()))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().copied().map(i32::from_ne_bytes)
}
