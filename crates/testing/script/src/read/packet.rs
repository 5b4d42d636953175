//! Parses packets: `@path ports sctp(...)/udp(...): CHUNK[...]; CHUNK[...]`.

use std::net::IpAddr;

use anabranch_proto::Ecn;

use super::Reader;
use super::lex::Token;
use crate::failure::{Failure, Place};
use crate::node::Item;

/// A packet in a script.
#[derive(Clone, Debug)]
pub(crate) struct PacketSpec {
    pub(crate) place: Place,
    pub(crate) route: Route,
    /// Source and destination port.
    pub(crate) ports: Option<(u16, u16)>,
    /// The ECN codepoint, if the script says it; the inner `None` is 'not ECN-capable'.
    pub(crate) ecn: Option<Option<Ecn>>,
    pub(crate) bad_checksum: bool,
    /// Verification tag.
    pub(crate) tag: Option<u64>,
    /// UDP source and destination port.
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) body: Body,
}

/// The contents of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Chunks(Vec<Item>),
    /// The bytes after the common header.
    Bytes(Vec<u8>),
}

/// The path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// This local and this remote address.
    Pair(End, End),
    /// `@*`: any path.
    Any,
}

impl Route {
    /// The path of packets that do not name one.
    pub(crate) const FIRST: Self = Self::Pair(End::Index(0), End::Index(0));
}

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// An address from the option `--local` or `--remote`, by its index from 0.
    Index(usize),
    Address(IpAddr),
}

/// An ICMP message about a packet of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Icmp {
    pub(crate) place: Place,
    pub(crate) route: Route,
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) kind: String,
    pub(crate) mtu: Option<u16>,
    /// Verification tag of the quoted packet.
    pub(crate) tag: Option<u64>,
    /// Initiate tag of the quoted packet, if that is an INIT.
    pub(crate) init: Option<u64>,
}

impl Reader {
    /// `@*`, `@1`, `@0-1` (local and remote), `@0-192.0.2.9`.
    pub(super) fn route(&mut self) -> Result<Route, Failure> {
        self.sign('@')?;
        if self.eat('*') {
            return Ok(Route::Any);
        }
        let local = self.end_of_path()?;
        let remote = if self.eat('-') { self.end_of_path()? } else { local };
        Ok(Route::Pair(local, remote))
    }

    fn end_of_path(&mut self) -> Result<End, Failure> {
        match self.address() {
            Some(address) => Ok(End::Address(address)),
            None => Ok(End::Index(self.number("the number of an address", 255)? as usize)),
        }
    }

    fn optional_route(&mut self) -> Result<Route, Failure> {
        if self.peek() == Some(&Token::Sign('@')) { self.route() } else { Ok(Route::FIRST) }
    }

    fn ports(&mut self) -> Result<Option<(u16, u16)>, Failure> {
        if !matches!(self.peek(), Some(Token::Number(_))) {
            return Ok(None);
        }
        let source = self.number("a port", 65_535)? as u16;
        self.sign('>')?;
        Ok(Some((source, self.number("a port", 65_535)? as u16)))
    }

    /// `[ce]` or `(ecn ce)`.
    fn ecn(&mut self) -> Result<Option<Option<Ecn>>, Failure> {
        let end = match self.peek() {
            Some(Token::Sign('[')) => ']',
            Some(Token::Sign('(')) => ')',
            _ => return Ok(None),
        };
        self.at += 1;
        let mut word = self.word("an ECN codepoint")?;
        if word == "ecn" || word == "ECN" {
            word = self.word("an ECN codepoint")?;
        }
        let ecn = match word.as_str() {
            "ect0" => Some(Ecn::Ect0),
            "ect1" => Some(Ecn::Ect1),
            "ce" => Some(Ecn::Ce),
            "noecn" => None,
            _ => return Err(self.unexpected("ect0, ect1, ce or noecn before this")),
        };
        self.sign(end)?;
        Ok(Some(ecn))
    }

    pub(super) fn packet(&mut self) -> Result<PacketSpec, Failure> {
        let place = self.place();
        let route = self.optional_route()?;
        let ecn = self.ecn()?;
        let ports = self.ports()?;
        match self.word("'sctp'")?.as_str() {
            "sctp" => {}
            other => {
                let message = format!("expected 'sctp', found '{other}'");
                return Err(Failure::script(&place, message));
            }
        }
        let (mut bad_checksum, mut tag) = (false, None);
        if self.eat('(') {
            loop {
                match self.word("'tag' or 'bad_crc32c'")?.as_str() {
                    "bad_crc32c" => bad_checksum = true,
                    "tag" => {
                        self.sign('=')?;
                        tag = Some(self.number("a tag", u64::from(u32::MAX))?);
                    }
                    _ => return Err(self.unexpected("'tag' or 'bad_crc32c' before this")),
                }
                if self.eat(')') {
                    break;
                }
                self.sign(',')?;
            }
        }
        let udp = self.encapsulation()?;
        self.sign(':')?;
        let body = if self.peek() == Some(&Token::Sign('[')) {
            Body::Bytes(self.bytes()?.unwrap_or_default())
        } else {
            Body::Chunks(self.chunks()?)
        };
        Ok(PacketSpec { place, route, ports, ecn, bad_checksum, tag, udp, body })
    }

    /// `/udp(9899>9899)`
    fn encapsulation(&mut self) -> Result<Option<(u16, u16)>, Failure> {
        if !self.eat('/') {
            return Ok(None);
        }
        if self.word("'udp'")? != "udp" {
            return Err(self.unexpected("'udp' before this"));
        }
        self.sign('(')?;
        let ports = self.ports()?;
        self.sign(')')?;
        ports.map(Some).ok_or_else(|| self.unexpected("two UDP ports before this"))
    }

    fn chunks(&mut self) -> Result<Vec<Item>, Failure> {
        let mut chunks = Vec::new();
        loop {
            if self.eat_gap() {
                chunks.push(Item::Gap);
            } else if matches!(self.peek(), Some(Token::Word(_))) {
                chunks.push(Item::Node(self.node()?));
            } else if chunks.is_empty() {
                // A packet may have no chunks.
                return Ok(chunks);
            } else {
                return Err(self.unexpected("a chunk"));
            }
            if !self.eat(';') {
                return Ok(chunks);
            }
        }
    }

    /// `@1 icmp unreachable frag_needed mtu 1300 [sctp(2)]`, if that is next.
    pub(super) fn icmp(&mut self) -> Result<Option<Icmp>, Failure> {
        let (start, place) = (self.at, self.place());
        let route = self.optional_route()?;
        let ports = self.ports()?;
        if self.peek() != Some(&Token::Word("icmp".to_owned())) {
            self.at = start;
            return Ok(None);
        }
        self.at += 1;
        let mut kind = self.word("the type of the message")?;
        let (mut mtu, mut tag, mut init) = (None, None, None);
        while let Some(Token::Word(word)) = self.peek() {
            let word = word.clone();
            self.at += 1;
            if word == "mtu" {
                mtu = Some(self.number("an MTU", 65_535)? as u16);
            } else {
                kind = format!("{kind} {word}");
            }
        }
        if self.eat('[') {
            match self.word("'sctp' or 'init'")?.as_str() {
                "sctp" => {
                    self.sign('(')?;
                    tag = Some(self.number("a tag", u64::from(u32::MAX))?);
                }
                "init" => {
                    self.sign('(')?;
                    init = Some(self.number("a tag", u64::from(u32::MAX))?);
                }
                _ => return Err(self.unexpected("'sctp' or 'init' before this")),
            }
            self.sign(')')?;
            self.sign(']')?;
        }
        Ok(Some(Icmp { place, route, ports, kind, mtu, tag, init }))
    }
}
