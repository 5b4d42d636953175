//! Observes packets at the interfaces of hosts, and decides their fate.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_pcapng as pcapng;
use anabranch_proto::{Ecn, Encapsulation, Instant};
use anabranch_wire::Packet;

use crate::action::Action;
use crate::channel::LinkId;
use crate::endpoint::{EndpointId, UDP_PORT};

/// An SCTP packet at a host's interface.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The current time.
    pub now: Instant,
    /// The endpoint on that host.
    pub endpoint: EndpointId,
    /// The link at that interface.
    pub link: LinkId,
    /// Whether the endpoint sent it, or is about to receive it.
    pub point: Point,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// ECN codepoint.
    pub ecn: Option<Ecn>,
    /// The encapsulation of the packet.
    pub encapsulation: Encapsulation,
    /// The SCTP packet.
    pub bytes: &'a [u8],
}

/// Where a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// As its endpoint sent it.
    Sent,
    /// As passed to its endpoint.
    Received,
}

impl Sight<'_> {
    /// The decoded packet; `None` if it was damaged.
    pub fn packet(&self) -> Option<Packet<'_>> {
        Packet::parse(self.bytes).ok()
    }
}

/// The fate of a packet that an endpoint sends; see [`Network::script`](crate::Network::script).
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It continues unchanged.
    Pass,
    /// It is lost.
    Drop,
    /// It continues unchanged; after this time an action on a link follows.
    Then(Duration, Box<Action>),
}

/// Watches packets; see [`Network::tap`](crate::Network::tap). Closures are taps.
pub trait Tap {
    /// A packet was observed.
    fn packet(&mut self, sight: &Sight<'_>);
}

impl<F: FnMut(&Sight<'_>)> Tap for F {
    fn packet(&mut self, sight: &Sight<'_>) {
        self(sight);
    }
}

/// A tap that writes a capture in pcapng format, with one interface for each link. Times are
/// simulated, counted from 1970.
#[derive(Debug)]
pub struct Capture<W> {
    writer: W,
    /// Links in the order of their interfaces in the file.
    links: Vec<LinkId>,
    block: Vec<u8>,
    error: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// Begins a capture. The writer should be buffered.
    ///
    /// # Errors
    /// Fails if the writer does.
    pub fn new(mut writer: W) -> io::Result<Self> {
        let mut block = Vec::new();
        pcapng::section_header(&mut block);
        writer.write_all(&block)?;
        Ok(Self { writer, links: Vec::new(), block, error: None })
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Returns the writer's first error. Nothing was written after it.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => {
                self.writer.flush()?;
                Ok(self.writer)
            }
        }
    }
}

impl<W: Write> Tap for Capture<W> {
    fn packet(&mut self, sight: &Sight<'_>) {
        if self.error.is_some() {
            return;
        }
        self.block.clear();
        let known = self.links.iter().position(|link| *link == sight.link);
        let interface = known.unwrap_or_else(|| {
            pcapng::interface_description(&mut self.block, &format!("link {}", sight.link.index()));
            self.links.push(sight.link);
            self.links.len() - 1
        });
        let (carrier, port) = match sight.encapsulation {
            Encapsulation::Ip => (pcapng::Carrier::Ip, 0),
            Encapsulation::Udp => (pcapng::Carrier::Udp, UDP_PORT),
        };
        let headers = pcapng::Headers {
            carrier,
            from: SocketAddr::new(sight.from, port),
            to: SocketAddr::new(sight.to, port),
            ecn: sight.ecn.map_or(0, Ecn::bits),
        };
        let time = sight.now.as_nanos();
        pcapng::packet(&mut self.block, interface as u32, time, &headers, sight.bytes);
        self.error = self.writer.write_all(&self.block).err();
    }
}

/// Taps that can be read later: the network and its user share them.
impl<T: Tap> Tap for std::rc::Rc<std::cell::RefCell<T>> {
    fn packet(&mut self, sight: &Sight<'_>) {
        self.borrow_mut().packet(sight);
    }
}
