//! The operations on two endpoints, decoded from the fuzzer's bytes.

use arbitrary::Arbitrary;

/// One of the two ends.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The setup of the two endpoints.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) struct Setup {
    pub(crate) profile: u8,
    /// Small receive buffers.
    pub(crate) small: [bool; 2],
    /// Few streams.
    pub(crate) few_streams: bool,
    /// Its highest bit means that messages are interleaved.
    pub(crate) scheduler: u8,
    pub(crate) bundling: u8,
    pub(crate) large_mtu: bool,
    pub(crate) autoclose: bool,
    pub(crate) partial_delivery: bool,
    /// Raw IP instead of UDP encapsulation.
    pub(crate) raw: bool,
}

/// The verification tag of a packet from a third party or a man in the middle.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Tag {
    Zero,
    /// The tag of packets to this side.
    Right,
    /// The tag of the other direction, as in a reflected packet.
    Reflected,
    Other(u32),
}

/// A chunk of such a packet.
#[derive(Clone, Debug, Arbitrary)]
pub(crate) enum Forged {
    /// DATA near the last TSN seen: offset, stream, SSN, flags, bytes.
    Data {
        tsn: i16,
        stream: u16,
        ssn: u16,
        flags: u8,
        len: u8,
    },
    /// FORWARD TSN near the last TSN seen.
    ForwardTsn {
        tsn: i16,
        streams: [(u16, u16); 3],
        count: u8,
    },
    /// I-DATA near the last TSN seen: message identifiers and positions are small numbers, so that they meet.
    IData {
        tsn: i16,
        stream: u16,
        mid: u8,
        fsn: u8,
        flags: u8,
        len: u8,
    },
    /// I-FORWARD-TSN near the last TSN seen.
    IForwardTsn {
        tsn: i16,
        messages: [(u16, bool, u8); 3],
        count: u8,
    },
    /// SACK near the last TSN seen.
    Sack {
        tsn: i16,
        rwnd: u32,
        gaps: [(u16, u16); 3],
        count: u8,
    },
    /// A chunk of any type with any value.
    Any {
        kind: u8,
        flags: u8,
        value: [u8; 16],
        len: u8,
    },
    Init {
        tag: u32,
        rwnd: u32,
        streams: (u16, u16),
        tsn: u32,
        parameters: [u8; 24],
    },
    /// The last State Cookie again.
    Cookie,
    Shutdown {
        tsn: i16,
    },
    /// A chunk header only.
    Bare {
        kind: u8,
        flags: u8,
    },
    Abort {
        reflected: bool,
        cause: [u8; 8],
    },
    HeartbeatAck {
        info: [u8; 12],
    },
}

/// The contents of an ICMP message.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Icmp {
    TooBig(u16),
    Protocol,
    Port,
    Other,
}

/// One step.
#[derive(Clone, Debug, Arbitrary)]
pub(crate) enum Operation {
    Connect {
        side: Side,
        fixed_port: bool,
        second_address: bool,
    },
    Send {
        side: Side,
        stream: u8,
        len: u16,
        unordered: bool,
        immediately: bool,
        lifetime: u8,
    },
    Receive {
        side: Side,
        messages: u8,
        keep: bool,
    },
    Shutdown(Side),
    Abort(Side),
    Remove(Side),
    StopListening,
    SetPrimary {
        side: Side,
        second: bool,
    },
    Heartbeat {
        side: Side,
        second: bool,
    },
    SendError {
        side: Side,
        second: bool,
    },
    TooBig {
        side: Side,
        second: bool,
        mtu: u16,
    },
    /// Advances the time and handles due deadlines.
    Advance {
        milliseconds: u16,
    },
    /// Advances to the next deadline.
    Deadline,
    /// Delivers packets in order.
    Deliver {
        packets: u8,
    },
    /// Delivers one packet out of order.
    DeliverOne {
        packet: u8,
    },
    Lose {
        packet: u8,
    },
    /// Delivers a packet that was delivered or lost before.
    Replay {
        packet: u8,
    },
    /// Changes a byte of a packet in flight; with `mend` the checksum is corrected.
    Mutate {
        packet: u8,
        at: u16,
        mask: u8,
        mend: bool,
    },
    /// Truncates a packet in flight.
    Cut {
        packet: u8,
        len: u16,
        mend: bool,
    },
    Inject {
        to: Side,
        tag: Tag,
        known_address: bool,
        chunks: [Option<Forged>; 3],
    },
    Icmp {
        to: Side,
        kind: Icmp,
        tag: Tag,
        second: bool,
    },
}
