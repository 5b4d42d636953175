//! Counters of an association, grouped by the part of the engine that counts them.

use super::table::{row, rows};
use super::{Counter, Statistics};

/// Declares [`Counters`], what each part of the engine counts for it, and the rows.
macro_rules! association_counters {
    (
        $(
            $(#[$meta:meta])*
            struct $part:ident {
                $($(#[doc = $doc:literal])* $field:ident: $type:ty, $unit:ident;)*
            }
        )*
        derived {
            $($(#[doc = $derived_doc:literal])* $derived:ident, $derived_unit:ident;)*
        }
    ) => {
        /// Totals of an association.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Counters {
            $($($(#[doc = $doc])* pub $field: u64,)*)*
            $($(#[doc = $derived_doc])* pub $derived: u64,)*
        }

        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default)]
            pub(crate) struct $part {
                $(pub(crate) $field: $type,)*
            }

            impl $part {
                /// Adds them to an association's.
                pub(crate) fn add_to(&self, counters: &mut Counters) {
                    $(counters.$field += u64::from(self.$field);)*
                }
            }
        )*

        /// The rows of [`Counters`].
        pub(super) const TOTALS: &[Counter<Statistics>] = &[
            $($(row!($field, Counter, $unit, &[$($doc),*], [], |of| of.counters.$field),)*)*
            $(row!($derived, Counter, $derived_unit, &[$($derived_doc),*], [], |of| of.counters.$derived),)*
        ];
    };
}

association_counters! {
    /// Counters of the association itself.
    struct AssociationCounters {
        /// Messages given by the user.
        messages_sent: u64, Messages;
        /// SACK and NR-SACK chunks sent.
        sacks_sent: u64, Chunks;
        /// SACK and NR-SACK chunks received.
        sacks_received: u64, Chunks;
        /// NR-SACK chunks among the SACK and NR-SACK chunks sent.
        nr_sacks_sent: u64, Chunks;
        /// NR-SACK chunks among the SACK and NR-SACK chunks received.
        nr_sacks_received: u64, Chunks;
        /// Gap ack blocks in the SACK and NR-SACK chunks received.
        gap_blocks_received: u64, Events;
        /// Chunks sent other than DATA: SACKs among them, but neither padding nor timestamps.
        control_chunks_sent: u64, Chunks;
        /// Chunks received other than DATA, without those that are answered before an association
        /// exists (INIT, COOKIE ECHO).
        control_chunks_received: u64, Chunks;
        /// Packets discarded, for any reason.
        packets_discarded: u32, Packets;
        /// Expiries of T1-init and T1-cookie after which a chunk of the handshake was sent again.
        handshake_retransmissions: u16, Packets;
    }

    /// Counters of stream reconfiguration (RFC 6525).
    struct ReconfigurationCounters {
        /// RE-CONFIG chunks sent.
        reconfigurations_sent: u32, Chunks;
        /// RE-CONFIG chunks received.
        reconfigurations_received: u32, Chunks;
        /// Times that a request for a reconfiguration was sent again because no answer came.
        reconfiguration_timeouts: u32, Events;
    }

    /// Counters of address reconfiguration (RFC 5061).
    struct AddressCounters {
        /// ASCONF chunks sent.
        address_changes_sent: u32, Chunks;
        /// ASCONF chunks received, authentic ones only.
        address_changes_received: u32, Chunks;
    }

    /// Counters of authentication (RFC 4895).
    struct AuthenticationCounters {
        /// Packets sent with an AUTH chunk.
        authenticated_packets_sent: u64, Packets;
        /// AUTH chunks received that were wrong: the MAC, the algorithm, the key, or a second one in a packet.
        authentication_failures: u32, Chunks;
        /// Chunks discarded because this side accepts them only if they are authenticated.
        unauthenticated_chunks: u32, Chunks;
    }

    /// Counters of the sender.
    struct SenderCounters {
        /// Chunks that the peer reported missing after it had acknowledged them in gap blocks, as far as
        /// it was believed.
        taken_back_chunks: u32, Chunks;
        /// Retransmissions that proved to be needless, because the acknowledgement answers an
        /// earlier transmission: with timestamps, or by duplicates where an option has them read.
        spurious_retransmissions: u32, Chunks;
        /// FORWARD TSN chunks sent.
        forward_tsns_sent: u32, Chunks;
        /// Recoveries undone because all their retransmissions were needless.
        undone_recoveries: u32, Events;
        /// Those timeouts that F-RTO found to be spurious.
        spurious_timeouts: u32, Events;
        /// Tail loss probes sent, with new data or retransmissions.
        tail_probes: u32, Events;
        /// Expiries of T3-rtx.
        timeouts: u32, Events;
        /// Times that fast recovery was entered.
        fast_recoveries: u32, Events;
        /// Probes of a closed receive window.
        zero_window_probes: u32, Events;
        /// Chunks sent on a second path as well.
        copied_chunks: u32, Chunks;
        /// Chunks that were to be sent on a second path, but none had room.
        uncopied_chunks: u32, Chunks;
    }

    /// Counters of the receiver.
    struct ReceiverCounters {
        /// Messages (not parts) handed to the user.
        messages_received: u64, Messages;
        /// User bytes handed to the user.
        message_bytes_received: u64, Bytes;
        /// DATA chunks received for the first time.
        data_chunks_received: u64, Chunks;
        /// DATA chunks received again.
        duplicate_chunks: u64, Chunks;
        /// DATA chunks accepted out of sequence, because earlier TSNs were missing.
        out_of_sequence_chunks: u64, Chunks;
        /// DATA chunks dropped for lack of room.
        dropped_chunks: u32, Chunks;
        /// DATA chunks dropped after they had been acknowledged by gap ack blocks (reneging).
        reneged_chunks: u32, Chunks;
    }

    // Sums of what `sender/lose.rs` counts by cause.
    derived {
        /// Chunks retransmitted after enough missing reports, or because time proved them lost.
        fast_retransmitted_chunks, Chunks;
        /// Those of them that needed fewer reports than usual (early retransmit).
        early_retransmitted_chunks, Chunks;
        /// Chunks retransmitted as a tail loss probe.
        probe_retransmitted_chunks, Chunks;
        /// Chunks retransmitted after a timeout.
        timeout_retransmitted_chunks, Chunks;
        /// Chunks retransmitted because they cannot have arrived, without a sign of loss: the path MTU
        /// fell, or they probed a window that was closed.
        useless_retransmitted_chunks, Chunks;
    }
}

rows! {
    /// Buffers and windows, and what [`Statistics`] has in structures of its own.
    const BUFFERS: Statistics, |of|
    /// Bytes that wait to be sent for the first time.
    send_queue_bytes: Amount, Bytes = of.send_queue_bytes;
    /// User bytes sent and not acknowledged.
    outstanding_bytes: Amount, Bytes = of.outstanding_bytes;
    /// Chunks sent and not acknowledged.
    outstanding_chunks: Amount, Chunks = of.outstanding_chunks;
    /// The peer's receive window as this side sees it.
    peer_rwnd: Gauge, Bytes = of.peer_rwnd;
    /// Receive buffer in use.
    receive_buffer_used: Amount, Bytes = of.receive_buffer_used;
    /// Bytes in the retransmission queue.
    retransmission_queue_bytes: Amount, Bytes = of.retransmission_queue.bytes;
    /// Most bytes that were ever in the retransmission queue.
    retransmission_queue_peak_bytes: Amount, Bytes = of.retransmission_queue.peak_bytes;
    /// Mean of the retransmission queue while there was something in it.
    retransmission_queue_mean_bytes: Amount, Bytes = of.retransmission_queue.mean_bytes;
    /// Share of the retransmission queue that gap ack blocks acknowledge, by bytes and time.
    retransmission_queue_acknowledged_share: Gauge, Share = of.retransmission_queue.acknowledged_share;
    /// Time with something in the retransmission queue.
    retransmission_queue_used: Counter, Seconds = of.retransmission_queue.time;
    /// RtxQ_Util: necessary share of the retransmission queue, averaged over time.
    retransmission_queue_utilization: Gauge, Share = of.retransmission_queue.utilization;
    /// Time in loss recovery, as gaps in acknowledgements show it.
    recovery: Counter, Seconds = of.retransmission_queue.recovery_time;
    /// RtxQ_Util_L: the utilization of the retransmission queue in loss recovery.
    recovery_utilization: Gauge, Share = of.retransmission_queue.recovery_utilization;
    /// Times that a full send buffer left cwnd unused.
    send_buffer_blocks: Counter, Events = of.blocking.send_buffer.times;
    /// Time in which a full send buffer left cwnd unused.
    send_buffer_blocked: Counter, Seconds = of.blocking.send_buffer.time;
    /// The part of that time in loss recovery.
    send_buffer_blocked_recovery: Counter, Seconds = of.blocking.send_buffer.in_recovery;
    /// The part of that time around timeouts.
    send_buffer_blocked_timeouts: Counter, Seconds = of.blocking.send_buffer.with_timeouts;
    /// Times that the peer's receive window left cwnd unused.
    receive_window_blocks: Counter, Events = of.blocking.receive_window.times;
    /// Time in which the peer's receive window left cwnd unused.
    receive_window_blocked: Counter, Seconds = of.blocking.receive_window.time;
    /// The part of that time in loss recovery.
    receive_window_blocked_recovery: Counter, Seconds = of.blocking.receive_window.in_recovery;
    /// The part of that time around timeouts.
    receive_window_blocked_timeouts: Counter, Seconds = of.blocking.receive_window.with_timeouts;
    /// Times that messages were held back to share a packet.
    held_back_times: Counter, Events = of.bundling.times;
    /// Time for which messages were held back to share a packet.
    held_back: Counter, Seconds = of.bundling.time;
    /// Messages that this side gave up before any part of them was sent.
    given_up_unsent: Counter, Messages = of.given_up.unsent;
    /// Messages that this side gave up after a part of them was sent, so that the peer may have them.
    given_up_sent: Counter, Messages = of.given_up.sent;
    /// Packets that were not needed because chunks shared one.
    packets_saved: Amount, Packets = of.packets_saved();
}
