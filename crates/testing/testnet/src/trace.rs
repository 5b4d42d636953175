//! The packets sent, as a hash and as text.

use anabranch_proto::Instant;
use anabranch_wire::Packet;

use crate::Datagram;

/// A record of all packets that entered the network.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    packets: u64,
    text: Option<Vec<String>>,
    print: bool,
    kept: Option<Vec<(Instant, Datagram)>>,
}

impl Trace {
    /// Starts to keep lines of text.
    pub fn keep_text(&mut self) {
        self.text.get_or_insert_default();
    }

    /// Starts to keep packets.
    pub fn keep_packets(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Prints each line to standard output.
    pub fn print(&mut self) {
        self.print = true;
    }

    /// A hash of the times, addresses and bytes of all packets so far, and of all notes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The lines that were kept.
    pub fn text(&self) -> &[String] {
        self.text.as_deref().unwrap_or_default()
    }

    /// The packets that were kept, with the times at which they were sent.
    pub fn kept(&self) -> &[(Instant, Datagram)] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// Forgets the packets kept so far.
    pub fn forget(&mut self) {
        self.kept.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn sent(&mut self, now: Instant, node: usize, packet: &Datagram, fate: &str) {
        self.packets += 1;
        self.word(now.as_nanos());
        self.bytes(packet.from.to_string().as_bytes());
        self.bytes(packet.to.to_string().as_bytes());
        self.bytes(&packet.bytes);
        if self.print || self.text.is_some() {
            let parsed = match Packet::parse(&packet.bytes) {
                Ok(packet) => packet.to_string(),
                Err(error) => error.to_string(),
            };
            let fate = if fate.is_empty() { String::new() } else { format!(" [{fate}]") };
            self.line(format!(
                "{now:?} {node} {} > {} {}{fate} {parsed}",
                packet.from,
                packet.to,
                packet.bytes.len()
            ));
        }
        if let Some(kept) = &mut self.kept {
            kept.push((now, packet.clone()));
        }
    }

    /// Records a datagram of a layer below the endpoints. Its content is not part of the hash, because the algorithm of a
    /// layer may depend on the processor.
    pub(crate) fn carried(&mut self, now: Instant, node: usize, datagram: &Datagram, fate: &str) {
        self.word(now.as_nanos());
        self.bytes(datagram.from.to_string().as_bytes());
        self.bytes(datagram.to.to_string().as_bytes());
        self.word(datagram.bytes.len() as u64);
        if self.print || self.text.is_some() {
            let (from, to, len) = (datagram.from, datagram.to, datagram.bytes.len());
            let fate = if fate.is_empty() { String::new() } else { format!(" [{fate}]") };
            self.line(format!("{now:?} {node} {from} > {to} {len}{fate} sealed"));
        }
    }

    /// Adds a note about another event.
    pub fn note(&mut self, now: Instant, what: std::fmt::Arguments<'_>) {
        self.word(now.as_nanos());
        if self.print || self.text.is_some() {
            self.line(format!("{now:?} {what}"));
        }
    }

    fn line(&mut self, line: String) {
        if self.print {
            println!("{line}");
        }
        if let Some(text) = &mut self.text {
            text.push(line);
        }
    }

    fn word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.word(u64::from(*byte)));
    }
}
