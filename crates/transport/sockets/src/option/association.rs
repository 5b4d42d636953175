//! Association options.

use std::time::Duration;

use anabranch_proto::config::{AssociationConfig, Bundling, CongestionControl};
use anabranch_proto::{BurstControl, MtuConfig, SchedulerKind};

use super::AssociationOption;
use crate::error::Error;

/// Sets an option if there is a value.
fn set<T>(option: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *option = value;
    }
}

/// SCTP_RTOINFO (RFC 6458 section 8.1.1): bounds of the retransmission timeout, with
/// `min <= initial <= max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtoInfo {
    /// Before the first measurement.
    pub initial: Option<Duration>,
    /// The largest.
    pub max: Option<Duration>,
    /// The smallest.
    pub min: Option<Duration>,
}

impl AssociationOption for RtoInfo {
    fn apply(&self, config: &mut AssociationConfig) {
        set(&mut config.timers.rto_initial, self.initial);
        set(&mut config.timers.rto_max, self.max);
        set(&mut config.timers.rto_min, self.min);
    }

    fn of(config: &AssociationConfig) -> Self {
        let timers = &config.timers;
        let (initial, max, min) = (timers.rto_initial, timers.rto_max, timers.rto_min);
        Self { initial: Some(initial), max: Some(max), min: Some(min) }
    }
}

/// The settable part of SCTP_ASSOCINFO (RFC 6458 section 8.1.2).
/// [`Socket::assoc_info`](crate::Socket::assoc_info) returns the read-only part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssocParams {
    /// Retransmissions in a row after which the association fails.
    pub max_retrans: Option<u32>,
}

impl AssociationOption for AssocParams {
    fn apply(&self, config: &mut AssociationConfig) {
        set(&mut config.paths.association_max_retrans, self.max_retrans);
    }

    fn of(config: &AssociationConfig) -> Self {
        Self { max_retrans: Some(config.paths.association_max_retrans) }
    }
}

/// SCTP_INITMSG (RFC 6458 section 8.1.3), also as ancillary data (section 5.3.1). It cannot change once an
/// association has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitMsg {
    /// Streams that this side wants to send on, at least 1.
    pub outbound_streams: Option<u16>,
    /// Streams that the peer may send on, at least 1.
    pub inbound_streams: Option<u16>,
    /// Retransmissions of INIT after which the setup fails.
    pub max_attempts: Option<u32>,
}

impl AssociationOption for InitMsg {
    fn apply(&self, config: &mut AssociationConfig) {
        set(&mut config.sending.outbound_streams, self.outbound_streams);
        set(&mut config.receiving.inbound_streams, self.inbound_streams);
        set(&mut config.paths.max_init_retransmits, self.max_attempts);
    }

    fn of(config: &AssociationConfig) -> Self {
        Self {
            outbound_streams: Some(config.sending.outbound_streams),
            inbound_streams: Some(config.receiving.inbound_streams),
            max_attempts: Some(config.paths.max_init_retransmits),
        }
    }
}

/// SCTP_NODELAY (RFC 6458 section 8.1.5): whether small messages are sent immediately, without Nagle's
/// algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDelay(pub bool);

impl AssociationOption for NoDelay {
    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.bundling = if self.0 { Bundling::None } else { Bundling::Nagle };
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.bundling == Bundling::None)
    }
}

/// SCTP_AUTOCLOSE (RFC 6458 section 8.1.8): how long an association may be idle before it is shut down; `None`
/// means forever. Only one-to-many sockets have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoClose(pub Option<Duration>);

impl AssociationOption for AutoClose {
    const ONE_TO_MANY_ONLY: bool = true;

    fn apply(&self, config: &mut AssociationConfig) {
        config.timers.autoclose = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.timers.autoclose)
    }
}

/// SCTP_PARTIAL_DELIVERY_POINT (RFC 6458 section 8.1.21): an incomplete message with at least this many bytes is
/// delivered in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialDeliveryPoint(pub usize);

impl AssociationOption for PartialDeliveryPoint {
    fn apply(&self, config: &mut AssociationConfig) {
        config.receiving.partial_delivery_point = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.receiving.partial_delivery_point)
    }
}

/// SCTP_ADAPTATION_LAYER (RFC 6458 section 8.1.10): the indication to send to the peer, if any. It cannot change
/// once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptationLayer(pub Option<u32>);

impl AssociationOption for AdaptationLayer {
    fn apply(&self, config: &mut AssociationConfig) {
        config.adaptation_indication = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.adaptation_indication)
    }
}

/// SCTP_NRSACK_SUPPORTED: whether to offer NR-SACKs to the peer. It cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrSackSupported(pub bool);

impl AssociationOption for NrSackSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.acknowledging.nr_sack = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.acknowledging.nr_sack)
    }
}

/// SCTP_PR_SUPPORTED (RFC 7496 section 4.5): whether to offer partial reliability to the peer. It cannot change once an
/// association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrSupported(pub bool);

impl AssociationOption for PrSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.partial_reliability = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.partial_reliability)
    }
}

/// SCTP_INTERLEAVING_SUPPORTED (RFC 8260 section 4.3.1): whether to offer the interleaving of messages to the peer. It
/// cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterleavingSupported(pub bool);

impl AssociationOption for InterleavingSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.interleaving = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.interleaving)
    }
}

/// SCTP_STREAM_SCHEDULER (RFC 8260 section 4.3.2): the order in which streams send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamScheduler(pub SchedulerKind);

impl AssociationOption for StreamScheduler {
    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.scheduler = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.scheduler)
    }
}

/// SCTP_RECONFIG_SUPPORTED: whether to offer stream reconfiguration to the peer (RFC 6525). It cannot change once an
/// association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconfigSupported(pub bool);

impl AssociationOption for ReconfigSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.stream_reconfiguration = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.stream_reconfiguration)
    }
}

/// SCTP_ECN_SUPPORTED of Linux and FreeBSD: whether to offer explicit congestion notification to the peer (RFC 4960
/// appendix A). It cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnSupported(pub bool);

impl AssociationOption for EcnSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.congestion.ecn = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.congestion.ecn)
    }
}

/// SCTP_AUTH_SUPPORTED of Linux and FreeBSD: whether to offer the authentication of chunks to the peer (RFC 4895). It
/// cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSupported(pub bool);

impl AssociationOption for AuthSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.authentication.authentication = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.authentication.authentication)
    }
}

/// SCTP_ASCONF_SUPPORTED of Linux and FreeBSD: whether to offer changes of addresses to the peer (RFC 5061), and with them
/// the authentication that they need. It cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsconfSupported(pub bool);

impl AssociationOption for AsconfSupported {
    fn apply(&self, config: &mut AssociationConfig) {
        config.authentication.authentication |= self.0;
        config.addresses.address_reconfiguration = self.0;
        config.addresses.roam &= self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.addresses.address_reconfiguration)
    }
}

/// SCTP_AUTO_ASCONF (RFC 6458 section 8.1.23): whether associations follow the addresses of the host. On, it offers changes
/// of addresses to the peer as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoAsconf(pub bool);

impl AssociationOption for AutoAsconf {
    fn apply(&self, config: &mut AssociationConfig) {
        if self.0 {
            AsconfSupported(true).apply(config);
        }
        config.addresses.roam = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.addresses.roam)
    }
}

/// SCTP_ENABLE_STREAM_RESET (RFC 6525 section 6.3.1): which requests of the peer are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnableStreamReset {
    /// SCTP_ENABLE_RESET_STREAM_REQ: resets of streams.
    pub streams: bool,
    /// SCTP_ENABLE_RESET_ASSOC_REQ: resets of all TSNs.
    pub association: bool,
    /// SCTP_ENABLE_CHANGE_ASSOC_REQ: more streams.
    pub change: bool,
}

impl AssociationOption for EnableStreamReset {
    fn apply(&self, config: &mut AssociationConfig) {
        let receiving = &mut config.receiving;
        receiving.accept_stream_resets = self.streams;
        receiving.accept_association_resets = self.association;
        receiving.accept_added_streams = self.change;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self {
            streams: config.receiving.accept_stream_resets,
            association: config.receiving.accept_association_resets,
            change: config.receiving.accept_added_streams,
        }
    }
}

/// SCTP_DELAYED_SACK (RFC 6458 section 8.1.19). A frequency of 1 also sets the delay to 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayedSack {
    /// Maximum delay of an acknowledgement, at most 500 ms.
    pub delay: Option<Duration>,
    /// Send an acknowledgement after this many packets with data.
    pub frequency: Option<u32>,
}

impl AssociationOption for DelayedSack {
    fn apply(&self, config: &mut AssociationConfig) {
        let delay = if self.frequency == Some(1) { Some(Duration::ZERO) } else { self.delay };
        set(&mut config.acknowledging.sack_delay, delay);
        set(&mut config.acknowledging.sack_frequency, self.frequency);
    }

    fn of(config: &AssociationConfig) -> Self {
        Self {
            delay: Some(config.acknowledging.sack_delay),
            frequency: Some(config.acknowledging.sack_frequency),
        }
    }
}

/// SCTP_MAX_BURST (RFC 6458 section 8.1.24): maximum number of packets in a burst; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxBurst(pub Option<u32>);

impl AssociationOption for MaxBurst {
    fn apply(&self, config: &mut AssociationConfig) {
        config.congestion.burst = self.0.map_or(BurstControl::Unlimited, BurstControl::MaxBurst);
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(match config.congestion.burst {
            BurstControl::MaxBurst(packets) | BurstControl::MaxBurstCutsCwnd(packets) => {
                Some(packets)
            }
            BurstControl::Pacing { quantum } => Some(quantum),
            BurstControl::Unlimited => None,
        })
    }
}

/// SCTP_PLUGGABLE_CC, as in FreeBSD and usrsctp: the congestion control. It cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluggableCc(pub CongestionControl);

impl AssociationOption for PluggableCc {
    fn apply(&self, config: &mut AssociationConfig) {
        config.congestion.congestion_control = self.0;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.congestion_control())
    }
}

/// SCTP_MAXSEG (RFC 6458 section 8.1.16): maximum user data of a fragment. The engine bounds packets instead; the
/// fragment is what the headers leave. It cannot change once an association has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxSegment {
    /// Bytes of an IP packet; `None` means the default bound.
    packet: Option<u16>,
}

impl MaxSegment {
    /// An SCTP common header and the header of a DATA chunk.
    pub(crate) const DATA_OVERHEAD: u32 = 12 + 16;

    /// Bytes of an IPv4 header, the smallest encapsulation. Over UDP or IPv6, fragments are smaller.
    const IPV4_HEADER: u32 = 20;

    /// At most this many bytes; 0 means as many as the path allows.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the fragment does not fit into an IP packet.
    pub fn new(bytes: u32) -> Result<Self, Error> {
        let packet = bytes.saturating_add(Self::DATA_OVERHEAD + Self::IPV4_HEADER);
        let packet = u16::try_from(packet).map_err(|_| Error::Invalid)?;
        Ok(Self { packet: (bytes > 0).then_some(packet) })
    }
}

impl AssociationOption for MaxSegment {
    fn apply(&self, config: &mut AssociationConfig) {
        let usual = MtuConfig::default();
        config.mtu.max = self.packet.unwrap_or(usual.max).min(usual.max);
        config.mtu.base = usual.base.min(config.mtu.max);
    }

    fn of(config: &AssociationConfig) -> Self {
        let most = config.mtu.max;
        Self { packet: (most < MtuConfig::default().max).then_some(most) }
    }
}

/// SO_RCVBUF (RFC 6458 section 8.1.23.2): bytes of the receive window. Values below 1,500 are raised to that. An
/// association that has begun keeps its window. As with TCP on Linux, a window that was set does not grow; until then
/// the value is the size with which windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer(pub usize);

impl AssociationOption for ReceiveBuffer {
    const HINT: bool = true;

    fn apply(&self, config: &mut AssociationConfig) {
        config.receiving.receive_buffer = self.0.max(1500);
        config.receiving.receive_buffer_start = None;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.receiving.first_receive_buffer())
    }
}

/// SO_SNDBUF (RFC 6458 section 8.1.23.1): maximum bytes that wait to be sent or acknowledged, at least 1.
/// An association that has begun keeps its buffer. As with TCP on Linux, a buffer that was set does not grow; until then
/// the value is the size with which buffers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBuffer(pub usize);

impl AssociationOption for SendBuffer {
    const HINT: bool = true;

    fn apply(&self, config: &mut AssociationConfig) {
        config.sending.send_buffer = self.0.max(1);
        config.sending.send_buffer_start = None;
    }

    fn of(config: &AssociationConfig) -> Self {
        Self(config.sending.first_send_buffer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets an option in the configuration of RFC 9260, which must stay valid, and reads it back.
    fn back<O: AssociationOption>(option: O) -> O {
        let mut config = AssociationConfig::rfc9260();
        option.apply(&mut config);
        config.validate().unwrap();
        O::of(&config)
    }

    #[test]
    fn options_come_back_as_they_were_set() {
        let (short, long) = (Duration::from_millis(300), Duration::from_millis(900));
        let rto = RtoInfo { initial: Some(short), max: Some(long), min: Some(short) };
        assert_eq!(back(rto), rto);
        let init =
            InitMsg { outbound_streams: Some(3), inbound_streams: Some(4), max_attempts: Some(0) };
        assert_eq!(back(init), init);
        let sack = DelayedSack { delay: Some(short), frequency: Some(3) };
        assert_eq!(back(sack), sack);
        let named = |control: &&_| **control != CongestionControl::Usual;
        for control in CongestionControl::ALL.iter().filter(named) {
            assert_eq!(back(PluggableCc(*control)), PluggableCc(*control));
        }
        for on in [false, true] {
            assert_eq!(back(NoDelay(on)), NoDelay(on));
            assert_eq!(back(NrSackSupported(on)), NrSackSupported(on));
            assert_eq!(back(PrSupported(on)), PrSupported(on));
            assert_eq!(back(InterleavingSupported(on)), InterleavingSupported(on));
            assert_eq!(back(ReconfigSupported(on)), ReconfigSupported(on));
            assert_eq!(back(EcnSupported(on)), EcnSupported(on));
            let enabled = EnableStreamReset { streams: on, association: !on, change: on };
            assert_eq!(back(enabled), enabled);
        }
        for scheduler in SchedulerKind::ALL {
            assert_eq!(back(StreamScheduler(*scheduler)), StreamScheduler(*scheduler));
        }
        for packets in [None, Some(1), Some(4)] {
            assert_eq!(back(MaxBurst(packets)), MaxBurst(packets));
        }
        for time in [None, Some(short)] {
            assert_eq!(back(AutoClose(time)), AutoClose(time));
        }
        for code in [None, Some(0), Some(u32::MAX)] {
            assert_eq!(back(AdaptationLayer(code)), AdaptationLayer(code));
        }
        let params = AssocParams { max_retrans: Some(7) };
        assert_eq!(back(params), params);
        assert_eq!(back(PartialDeliveryPoint(0)), PartialDeliveryPoint(0));
    }

    #[test]
    fn fields_that_are_not_given_keep_their_values() {
        let usual = RtoInfo::of(&AssociationConfig::rfc9260());
        assert_eq!(back(RtoInfo::default()), usual);
        let changed = back(RtoInfo { max: Some(Duration::from_secs(99)), ..RtoInfo::default() });
        assert_eq!(changed, RtoInfo { max: Some(Duration::from_secs(99)), ..usual });
    }

    #[test]
    fn what_has_a_least_value_is_raised_to_it() {
        assert_eq!(back(ReceiveBuffer(0)), ReceiveBuffer(1500));
        assert_eq!(back(SendBuffer(0)), SendBuffer(1));
    }

    /// As with TCP on Linux.
    #[test]
    fn buffers_that_are_set_do_not_grow() {
        let mut config = AssociationConfig::default();
        let before = (ReceiveBuffer::of(&config), SendBuffer::of(&config));
        assert_eq!(before, (ReceiveBuffer(1 << 20), SendBuffer(1 << 20)), "what they begin with");
        ReceiveBuffer(4 << 20).apply(&mut config);
        SendBuffer(5 << 20).apply(&mut config);
        assert_eq!(ReceiveBuffer::of(&config), ReceiveBuffer(4 << 20));
        assert_eq!(SendBuffer::of(&config), SendBuffer(5 << 20));
        assert_eq!(config.receiving.receive_buffer, 4 << 20);
        assert_eq!(config.sending.send_buffer, 5 << 20);
    }

    #[test]
    fn a_frequency_of_one_switches_the_delay_off() {
        let delay = Some(Duration::from_millis(100));
        let sack = back(DelayedSack { delay, frequency: Some(1) });
        assert_eq!(sack, DelayedSack { delay: Some(Duration::ZERO), frequency: Some(1) });
    }

    #[test]
    fn segments_are_bounded_by_the_packet_around_them() {
        let mut config = AssociationConfig::default();
        MaxSegment::new(1000).unwrap().apply(&mut config);
        assert_eq!(config.mtu.max, 1048);
        MaxSegment::new(0).unwrap().apply(&mut config);
        assert_eq!(config.mtu.max, MtuConfig::default().max);
        assert_eq!(MaxSegment::new(65_536), Err(Error::Invalid));
        assert_eq!(MaxSegment::new(u32::MAX), Err(Error::Invalid));
    }
}
