//! The memory of a program, by `/proc/PID/mem`: what has been opened stays the memory of the same process, whatever
//! becomes of its number.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;

use libc::{iovec, msghdr, sockaddr_in, sockaddr_in6};

/// IOV_MAX of Linux.
const MOST_PIECES: u64 = 1024;

/// Most bytes of ancillary data that are read.
const MOST_CONTROL: u64 = 4096;

/// Bytes of a pointer or a `size_t`. Programs with others have other numbers of calls.
const WORD: usize = size_of::<usize>();

/// The memory of a program.
#[derive(Debug)]
pub(super) struct Memory(File);

/// A buffer of the program: its address and length.
pub(super) type Piece = (u64, u64);

/// A `struct msghdr` of the program.
#[derive(Debug)]
pub(super) struct Message {
    at: u64,
    pub(super) name: Piece,
    pub(super) pieces: Vec<Piece>,
    pub(super) control: Piece,
}

impl Memory {
    /// The memory of a thread.
    pub(super) fn of(thread: i32) -> io::Result<Self> {
        File::options().read(true).write(true).open(format!("/proc/{thread}/mem")).map(Self)
    }

    /// # Errors
    /// EFAULT: there is no such memory.
    pub(super) fn read(&self, at: u64, length: u64) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| libc::EFAULT)?];
        if !bytes.is_empty() {
            self.0.read_exact_at(&mut bytes, at).map_err(|_| libc::EFAULT)?;
        }
        Ok(bytes)
    }

    /// # Errors
    /// EFAULT: there is no such memory.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), i32> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.0.write_all_at(bytes, at).map_err(|_| libc::EFAULT)
    }

    /// A number of 32 bits, such as a length.
    pub(super) fn number(&self, at: u64) -> Result<u32, i32> {
        Ok(u32::from_ne_bytes(field(&self.read(at, 4)?, 0)))
    }

    /// The address in a `struct sockaddr` of this many bytes, as many as its family has.
    ///
    /// # Errors
    /// EINVAL: it is too short. EAFNOSUPPORT: neither IPv4 nor IPv6.
    pub(super) fn address(&self, at: u64, length: u32) -> Result<Vec<u8>, i32> {
        if at == 0 {
            return Err(libc::EFAULT);
        }
        let mut bytes = self.read(at, u64::from(length.min(128)))?;
        let family = bytes.first_chunk().copied().ok_or(libc::EINVAL)?;
        let size = match i32::from(u16::from_ne_bytes(family)) {
            libc::AF_INET => size_of::<sockaddr_in>(),
            libc::AF_INET6 => size_of::<sockaddr_in6>(),
            _ => return Err(libc::EAFNOSUPPORT),
        };
        if bytes.len() < size {
            return Err(libc::EINVAL);
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    /// Stores an address, cut to the room, and its length. Does nothing if a pointer is null.
    pub(super) fn give_address(&self, bytes: &[u8], to: u64, length: u64) -> Result<(), i32> {
        if to == 0 || length == 0 {
            return Ok(());
        }
        let room = self.number(length)? as usize;
        self.write(to, bytes.get(..room).unwrap_or(bytes))?;
        self.write(length, &(bytes.len() as u32).to_ne_bytes())
    }

    /// A `struct msghdr`.
    pub(super) fn message(&self, at: u64) -> Result<Message, i32> {
        let head = self.read(at, size_of::<msghdr>() as u64)?;
        let count = word(&head, offset_of!(msghdr, msg_iovlen));
        let pieces = match count {
            0 => Vec::new(),
            1..=MOST_PIECES => self.pieces(word(&head, offset_of!(msghdr, msg_iov)), count)?,
            _ => return Err(libc::EMSGSIZE),
        };
        let name_length = u32::from_ne_bytes(field(&head, offset_of!(msghdr, msg_namelen)));
        let name = (word(&head, offset_of!(msghdr, msg_name)), u64::from(name_length));
        let control = word(&head, offset_of!(msghdr, msg_control));
        let control = (control, word(&head, offset_of!(msghdr, msg_controllen)));
        Ok(Message { at, name, pieces, control })
    }

    fn pieces(&self, at: u64, count: u64) -> Result<Vec<Piece>, i32> {
        let list = self.read(at, count * size_of::<iovec>() as u64)?;
        let pieces = list.chunks_exact(size_of::<iovec>()).map(|piece| {
            (word(piece, offset_of!(iovec, iov_base)), word(piece, offset_of!(iovec, iov_len)))
        });
        Ok(pieces.collect())
    }

    /// Ancillary data.
    pub(super) fn control(&self, (at, length): Piece) -> Result<Vec<u8>, i32> {
        match length {
            _ if at == 0 => Ok(Vec::new()),
            0..=MOST_CONTROL => self.read(at, length),
            _ => Err(libc::ENOBUFS),
        }
    }

    /// What is in the buffers.
    pub(super) fn gather(&self, pieces: &[Piece]) -> Result<Vec<u8>, i32> {
        let mut all = Vec::new();
        for (at, length) in pieces {
            all.append(&mut self.read(*at, *length)?);
        }
        Ok(all)
    }

    /// Fills the buffers, one after the other.
    pub(super) fn scatter(&self, pieces: &[Piece], mut bytes: &[u8]) -> Result<(), i32> {
        for (at, length) in pieces {
            let used = usize::try_from(*length).map_or(bytes.len(), |room| room.min(bytes.len()));
            let (now, rest) = bytes.split_at(used);
            self.write(*at, now)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Stores what `recvmsg` tells besides the data: the name, ancillary data that fit, and flags.
    pub(super) fn tell(
        &self,
        message: &Message,
        name: &[u8],
        control: &[u8],
        flags: i32,
    ) -> Result<(), i32> {
        let Message { at, name: (to, room), control: (control_to, _), .. } = message;
        if *to != 0 {
            let fits = usize::try_from(*room).map_or(name.len(), |room| room.min(name.len()));
            self.write(*to, name.get(..fits).unwrap_or(name))?;
        }
        self.write(*control_to, control)?;
        let put = |offset: usize, bytes: &[u8]| self.write(at + offset as u64, bytes);
        put(offset_of!(msghdr, msg_namelen), &(name.len() as u32).to_ne_bytes())?;
        put(offset_of!(msghdr, msg_controllen), &control.len().to_ne_bytes())?;
        put(offset_of!(msghdr, msg_flags), &flags.to_ne_bytes())
    }
}

/// Bytes of all buffers.
pub(super) fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |all, (_, length)| all.saturating_add(*length))
}

/// The bytes at an offset; zeros after the end.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn word(bytes: &[u8], at: usize) -> u64 {
    usize::from_ne_bytes(field::<WORD>(bytes, at)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Memory {
        Memory::of(std::process::id().cast_signed()).unwrap()
    }

    #[test]
    fn addresses_are_as_long_as_their_family() {
        let memory = own();
        let mut address = [7_u8; 128];
        address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        let at = address.as_ptr() as u64;
        assert_eq!(memory.address(at, 128).unwrap().len(), 16);
        assert_eq!(memory.address(at, 15), Err(libc::EINVAL));
        assert_eq!(memory.address(at, 1), Err(libc::EINVAL));
        assert_eq!(memory.address(at + 2, 128), Err(libc::EAFNOSUPPORT));
        assert_eq!(memory.address(0, 16), Err(libc::EFAULT));
        assert_eq!(memory.read(u64::MAX - 7, 4), Err(libc::EFAULT));
        assert_eq!(memory.read(8, 4), Err(libc::EFAULT));
        assert_eq!(memory.read(8, 0), Ok(Vec::new()));
    }

    #[test]
    fn buffers_are_filled_in_their_order() {
        let (mut first, mut second) = ([0_u8; 3], [0_u8; 5]);
        let memory = own();
        let pieces = [(first.as_mut_ptr() as u64, 3), (second.as_mut_ptr() as u64, 5)];
        assert_eq!(length(&pieces), 8);
        memory.scatter(&pieces, b"abcdef").unwrap();
        assert_eq!(memory.gather(&pieces).unwrap(), b"abcdef\0\0");
        assert_eq!(length(&[(0, u64::MAX), (0, 1)]), u64::MAX);
    }
}
