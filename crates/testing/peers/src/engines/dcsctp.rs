//! [`Engine`] for dcsctp.
//!
//! The crate takes a message as a vector, so each message is copied once here. It sends a packet as
//! soon as it gets a message, so messages are collected until the next [`Engine::transmit`] and
//! passed together (`send_many`), which lets it bundle small ones.
//!
//! The published crate formats every packet as text before it checks the log level, so its CPU
//! figures are not those of its protocol code. Its interface has no option to turn that off.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime,
    StreamId,
};

use crate::config::{Config, Role};
use crate::engine::{Body, Engine, Packets, Received};

/// WebRTC binary, the identifier that the other engines also send.
const PPID: PpId = PpId(53);

pub(crate) struct DcSctp {
    socket: Box<dyn DcSctpSocket>,
    connected: bool,
    ended: bool,
    /// Messages of one ordering that have not been passed to the socket yet.
    waiting: Vec<Message>,
    waiting_ordered: bool,
    streams: BTreeSet<u16>,
    /// Bytes passed since the socket was last queried, plus those that it held then.
    buffered: usize,
    send_buffer: usize,
    packets: Vec<Bytes>,
    /// Streams that the other side has reset.
    reset: VecDeque<u16>,
}

impl DcSctp {
    pub(crate) fn new(config: &Config, role: Role) -> Self {
        let options = Options {
            announced_maximum_incoming_streams: config.streams,
            announced_maximum_outgoing_streams: config.streams,
            mtu: config.packet,
            max_message_size: config.message,
            max_receiver_window_buffer_size: config.receive_window,
            // The limit is enforced here, so that no message is copied and then refused.
            max_send_buffer_size: usize::MAX,
            per_stream_send_queue_limit: usize::MAX,
            rto_min: Duration::from_millis(config.rto_min),
            enable_message_interleaving: config.interleaving,
            ..Options::default()
        };
        let name = match role {
            Role::Client => "client",
            Role::Server => "server",
        };
        DcSctp {
            socket: dcsctp::new_socket(name, &options),
            connected: false,
            ended: false,
            waiting: Vec::new(),
            waiting_ordered: true,
            streams: BTreeSet::new(),
            buffered: 0,
            send_buffer: config.send_buffer,
            packets: Vec::new(),
            reset: VecDeque::new(),
        }
    }

    fn advance(&mut self, now: u64) {
        let now = SocketTime::zero() + Duration::from_nanos(now);
        self.socket.advance_time(now);
    }

    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let options = SendOptions { unordered: !self.waiting_ordered, ..SendOptions::default() };
        let messages = std::mem::take(&mut self.waiting);
        self.waiting.reserve(messages.len());
        // Fails only if the association is ending, which `closed` reports.
        let _ = self.socket.send_many(messages, &options);
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.socket.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => self.packets.push(packet.into()),
                SocketEvent::OnConnected() => self.connected = true,
                SocketEvent::OnIncomingStreamReset(streams) => {
                    self.reset.extend(streams.iter().map(|stream| stream.0));
                }
                SocketEvent::OnClosed() | SocketEvent::OnAborted(..) => self.ended = true,
                _ => {}
            }
        }
    }

    fn recount(&mut self) {
        self.flush();
        let held = |&stream: &u16| self.socket.buffered_amount(StreamId(stream));
        self.buffered = self.streams.iter().map(held).sum();
    }
}

impl Engine for DcSctp {
    fn name(&self) -> &'static str {
        "dcsctp"
    }

    fn connect(&mut self, now: u64) {
        self.advance(now);
        self.socket.connect();
    }

    fn established(&self) -> bool {
        self.socket.state() == SocketState::Connected
    }

    fn closed(&self) -> bool {
        self.ended || self.connected && self.socket.state() == SocketState::Closed
    }

    fn send(&mut self, now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool {
        if self.buffered >= self.send_buffer {
            self.advance(now);
            self.recount();
            if self.buffered >= self.send_buffer {
                return false;
            }
        }
        if ordered != self.waiting_ordered {
            self.advance(now);
            self.flush();
            self.waiting_ordered = ordered;
        }
        self.streams.insert(stream);
        self.buffered += message.len();
        self.waiting.push(Message::new(StreamId(stream), PPID, message.to_vec()));
        true
    }

    fn buffered(&mut self) -> usize {
        self.recount();
        self.buffered
    }

    fn receive(&mut self) -> Option<Received> {
        let message = self.socket.get_next_message()?;
        Some(Received { stream: message.stream_id.0, body: Body::Vec(message.payload) })
    }

    fn handle(&mut self, now: u64, packets: Packets) {
        self.advance(now);
        for packet in packets.each() {
            self.socket.handle_input(&packet);
        }
        self.poll_events();
    }

    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets)) {
        self.advance(now);
        self.flush();
        self.poll_events();
        for packet in self.packets.drain(..) {
            out(Packets::one(packet));
        }
    }

    fn deadline(&mut self) -> Option<u64> {
        let at = self.socket.poll_timeout();
        if at == SocketTime::infinite_future() {
            return None;
        }
        u64::try_from((at - SocketTime::zero()).as_nanos()).ok()
    }

    fn timeout(&mut self, now: u64) {
        self.advance(now);
        self.poll_events();
    }

    fn shutdown(&mut self, now: u64) {
        self.advance(now);
        self.flush();
        self.socket.shutdown();
        self.poll_events();
    }

    fn reset_stream(&mut self, now: u64, stream: u16) -> bool {
        self.advance(now);
        self.flush();
        let begun = self.socket.reset_streams(&[StreamId(stream)]).is_ok();
        self.poll_events();
        begun
    }

    fn next_reset(&mut self) -> Option<u16> {
        self.reset.pop_front()
    }

    fn abort(&mut self, now: u64) {
        self.advance(now);
        self.socket.close();
        self.poll_events();
    }
}
