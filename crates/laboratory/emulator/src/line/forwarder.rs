//! Forwards packets between the devices of all lines.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_impair::Link;
use anabranch_impair::file::{Direction, ImpairmentFile};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tokio::sync::watch;
use tun_rs::SyncDevice;

use super::{LineAddress, device};
use crate::stop::stopped;
use crate::{Error, LinkReport};

/// Largest IP packet.
const MOST_BYTES: usize = 65_535;

/// Packets read from one device before the next device is served.
const READ: usize = 64;

/// Maximum number of address pairs with links of their own; packets of further pairs pass unimpaired.
const MOST_PATHS: usize = 65_536;

/// Maximum number of packets in one link.
const MOST_HELD: usize = 1 << 20;

/// Interval for checking the stop flag.
const LOOK: Duration = Duration::from_millis(100);

type Key = (IpAddr, IpAddr, Side);

/// The side of a line where a packet came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn direction(self) -> Direction {
        match self {
            Self::Left => Direction::Send,
            Self::Right => Direction::Receive,
        }
    }
}

/// A line and the links of all its traffic.
#[derive(Debug)]
struct Line<D> {
    left: D,
    right: D,
    links: BTreeMap<Key, Link<Vec<u8>>>,
}

/// Forwards packets between the devices of all lines.
pub struct Forwarder {
    file: ImpairmentFile,
    seed: u64,
    lines: Vec<Line<SyncDevice>>,
}

/// A device at one end of a line.
trait Device {
    /// The next packet, if one is there.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends a packet. It is lost if there is no room.
    fn send(&self, packet: &[u8]);
}

impl Device for SyncDevice {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        SyncDevice::recv(self, buffer)
    }

    fn send(&self, packet: &[u8]) {
        // A device that is down or whose peer does not read loses packets, as a cable does.
        let _ = SyncDevice::send(self, packet);
    }
}

impl<D: Device> Line<D> {
    /// Reads the packets that arrived at a side and passes them to its links.
    fn take_in(
        &mut self,
        now: u64,
        side: Side,
        buffer: &mut [u8],
        file: &ImpairmentFile,
        seed: u64,
    ) -> io::Result<bool> {
        for _ in 0..READ {
            let (from, to) = match side {
                Side::Left => (&self.left, &self.right),
                Side::Right => (&self.right, &self.left),
            };
            let length = match from.receive(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let packet = buffer.get(..length).unwrap_or_default();
            let Some((source, destination)) = addresses(packet) else {
                continue;
            };
            let (local, remote) = match side {
                Side::Left => (source, destination),
                Side::Right => (destination, source),
            };
            let key = (local, remote, side);
            if !self.links.contains_key(&key) && self.links.len() < MOST_PATHS {
                // The file was checked when it was read, so its links can be created.
                if let Ok(Some(link)) = file.link(local, remote, side.direction(), seed) {
                    self.links.insert(key, link);
                }
            }
            match self.links.get_mut(&key) {
                Some(link) if link.in_transit() < MOST_HELD => {
                    link.send(now, packet.to_vec());
                }
                Some(_) => {}
                None => to.send(packet),
            }
        }
        Ok(true)
    }

    /// Forwards the packets that have reached the ends of their links.
    fn hand_on(&mut self, now: u64) {
        for ((_, _, side), link) in &mut self.links {
            let to = match side {
                Side::Left => &self.right,
                Side::Right => &self.left,
            };
            while let Some(packet) = link.poll(now) {
                to.send(&packet);
            }
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        self.links.values().filter_map(Link::next_deadline).min()
    }

    fn reports(&self, file: &ImpairmentFile) -> impl Iterator<Item = LinkReport> {
        self.links.iter().map(|(&(local, remote, side), link)| LinkReport {
            name: file.find(local, remote, side.direction()).and_then(|entry| entry.name.clone()),
            local,
            remote,
            direction: match side {
                Side::Left => "send",
                Side::Right => "receive",
            },
            statistics: *link.stats(),
        })
    }
}

impl Forwarder {
    /// A forwarder without lines. In the file, `local` is the address on the left side of a line, and `send` is the
    /// direction from left to right. `seed` is for links without a seed in the file.
    pub fn new(file: ImpairmentFile, seed: u64) -> Self {
        Self { file, seed, lines: Vec::new() }
    }

    /// Adds a line between two devices and creates the devices.
    ///
    /// # Errors
    /// Fails if a device cannot be created or a namespace does not exist.
    pub fn add(&mut self, line: &LineAddress, mtu: u16) -> Result<(), Error> {
        let left = device::create(&line.left, mtu)?;
        let right = device::create(&line.right, mtu)?;
        self.lines.push(Line { left, right, links: BTreeMap::new() });
        Ok(())
    }

    /// Forwards until `stop` becomes `true`. Returns the statistics of the links.
    ///
    /// # Errors
    /// Fails if a device fails.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Vec<LinkReport>, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        // Use a separate thread: it waits more precisely than the runtime's timers.
        let mut forwarding = tokio::task::spawn_blocking(move || self.forward(&flag));
        let ended = tokio::select! {
            ended = &mut forwarding => ended,
            () = stopped(&stop) => {
                over.store(true, Ordering::Relaxed);
                forwarding.await
            }
        };
        ended.map_err(Error::Task)?
    }

    /// Forwards until the flag is set.
    fn forward(mut self, stop: &AtomicBool) -> Result<Vec<LinkReport>, Error> {
        let begun = Instant::now();
        let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut buffer = vec![0; MOST_BYTES];
        while !stop.load(Ordering::Relaxed) {
            let mut more = false;
            for line in &mut self.lines {
                for side in [Side::Left, Side::Right] {
                    more |= line
                        .take_in(now(), side, &mut buffer, &self.file, self.seed)
                        .map_err(Error::DeviceFailed)?;
                }
                line.hand_on(now());
            }
            if !more {
                let deadline = self.lines.iter().filter_map(Line::next_deadline).min();
                let wait =
                    deadline.map_or(LOOK, |at| Duration::from_nanos(at.saturating_sub(now())));
                self.wait(wait.min(LOOK))?;
            }
        }
        Ok(self.lines.iter().flat_map(|line| line.reports(&self.file)).collect())
    }

    /// Waits at most `time` for a packet at any device.
    fn wait(&self, time: Duration) -> Result<(), Error> {
        let devices = self.lines.iter().flat_map(|line| [&line.left, &line.right]);
        let mut waited: Vec<_> =
            devices.map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN)).collect();
        match ppoll(&mut waited, Some(TimeSpec::from_duration(time)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(Error::Wait(error.to_string())),
        }
    }
}

/// Source and destination of an IP packet; `None` if it is not an IP packet.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some((source.into(), destination.into()))
        }
        6 => {
            let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let destination: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some((source.into(), destination.into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    #[derive(Debug, Default)]
    struct Fake {
        arriving: RefCell<VecDeque<Vec<u8>>>,
        sent: RefCell<Vec<Vec<u8>>>,
    }

    impl Device for Fake {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let packet = self.arriving.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            buffer[..packet.len()].copy_from_slice(&packet);
            Ok(packet.len())
        }

        fn send(&self, packet: &[u8]) {
            self.sent.borrow_mut().push(packet.to_vec());
        }
    }

    fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45; 28];
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        packet
    }

    #[test]
    fn both_versions_have_addresses() {
        let expected = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(addresses(&packet([10, 0, 0, 1], [10, 0, 0, 2])), Some(expected));
        let mut six = vec![0x60; 40];
        six[8..24].fill(1);
        six[24..40].fill(2);
        assert_eq!(addresses(&six), Some(([1; 16].into(), [2; 16].into())));
        assert_eq!(addresses(&six[..39]), None);
        assert_eq!(addresses(&[0x45; 19]), None);
        assert_eq!(addresses(&[0x70; 40]), None);
        assert_eq!(addresses(&[]), None);
    }

    #[test]
    fn packets_go_through_the_link_of_their_direction() {
        let file: ImpairmentFile = "[[path]]\nname = \"slow\"\nlocal = \"10.0.0.1\"\n\
            direction = \"send\"\ndelay_ms = 1\nlose_packets = [2]"
            .parse()
            .unwrap();
        let mut line =
            Line { left: Fake::default(), right: Fake::default(), links: BTreeMap::new() };
        let (there, back) =
            (packet([10, 0, 0, 1], [10, 0, 0, 2]), packet([10, 0, 0, 2], [10, 0, 0, 1]));
        let other = packet([10, 0, 0, 9], [10, 0, 0, 2]);
        let noise = vec![0; 9];
        let arriving = [there.clone(), noise, there.clone(), other.clone(), there.clone()];
        line.left.arriving = RefCell::new(arriving.into());
        line.right.arriving = RefCell::new([back.clone()].into());
        let mut buffer = vec![0; MOST_BYTES];
        for side in [Side::Left, Side::Right] {
            assert!(!line.take_in(0, side, &mut buffer, &file, 1).unwrap());
        }
        line.hand_on(999_999);
        // A packet that matches no entry passes immediately.
        assert_eq!(*line.right.sent.borrow(), std::slice::from_ref(&other));
        assert_eq!(*line.left.sent.borrow(), [back]);
        assert_eq!(line.next_deadline(), Some(1_000_000));
        line.hand_on(1_000_000);
        assert_eq!(*line.right.sent.borrow(), [other, there.clone(), there]);
        let reports: Vec<_> = line.reports(&file).collect();
        assert_eq!((reports.len(), reports[0].direction), (1, "send"));
        assert_eq!(reports[0].name.as_deref(), Some("slow"));
        assert_eq!((reports[0].statistics.offered, reports[0].statistics.lost_model), (3, 1));
    }
}
