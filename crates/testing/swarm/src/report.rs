//! Totals of runs.

use std::fmt;

/// The totals of one or more runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of runs.
    pub runs: u64,
    /// Hash of everything sent; in a sum, of all runs in order.
    pub hash: u64,
    /// Virtual time in seconds.
    pub seconds: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets lost by loss models.
    pub lost: u64,
    /// Packets lost in cuts.
    pub cut: u64,
    /// Packets dropped at full queues.
    pub queue: u64,
    /// Packets too large for the path.
    pub too_big: u64,
    /// Packets that the host could not send or a router refused, with a notification of the sender.
    pub refused: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets overtaken.
    pub reordered: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Hosts that lost their state.
    pub reboots: u64,
    /// Clients that connected again after their association had failed.
    pub reconnects: u64,
    /// Restarts that the peer noticed.
    pub restarts: u64,
    /// Local addresses that were temporarily unusable.
    pub vanished: u64,
    /// Packets that a third party sent.
    pub forged: u64,
    /// Requests of users other than sending and reading.
    pub whims: u64,
    /// Aborts by a user.
    pub aborts: u64,
    /// Associations that were established, counted at each end.
    pub associations: u64,
    /// Ends that closed gracefully.
    pub graceful: u64,
    /// Ends that gave up an unreachable peer.
    pub unreachable: u64,
    /// Messages sent.
    pub messages: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Byte streams that have ended, by either side.
    pub byte_streams: u64,
    /// Byte streams that their reader stopped early.
    pub stopped: u64,
    /// Bytes delivered in byte streams.
    pub streamed: u64,
    /// Messages delivered in parts.
    pub in_parts: u64,
    /// Messages returned to their sender.
    pub failed: u64,
    /// Expiries of T3-rtx.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Probes of closed windows.
    pub window_probes: u64,
    /// Changes of a path's state.
    pub path_changes: u64,
    /// Datagrams that seals sent.
    pub sealed: u64,
    /// Handshakes begun or repeated.
    pub hellos: u64,
    /// Handshakes answered.
    pub welcomes: u64,
    /// Requests of a server under load to prove an address.
    pub cookies: u64,
    /// Datagrams to addresses that the client never had.
    pub astray: u64,
    /// Outer addresses that uplinks had after their first ones.
    pub moves: u64,
}

impl Report {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        self.hash = self.hash.rotate_left(5) ^ other.hash;
        macro_rules! sum {
            ($($field:ident),*) => { $(self.$field += other.$field;)* };
        }
        sum!(
            runs,
            seconds,
            packets,
            lost,
            cut,
            queue,
            too_big,
            refused,
            duplicated,
            reordered,
            corrupted,
            reboots,
            restarts,
            reconnects,
            vanished,
            forged,
            whims,
            aborts,
            associations,
            graceful,
            unreachable,
            messages,
            delivered,
            bytes,
            byte_streams,
            stopped,
            streamed,
            in_parts,
            failed,
            timeouts,
            fast_recoveries,
            window_probes,
            path_changes,
            sealed,
            hellos,
            welcomes,
            cookies,
            astray,
            moves
        );
    }
}

impl Report {
    /// Every total with its name. The components of a total are indented below it.
    pub fn totals(&self) -> [(&'static str, u64); 39] {
        [
            ("runs", self.runs),
            ("virtual seconds", self.seconds),
            ("packets sent", self.packets),
            ("  lost", self.lost),
            ("  lost on a link that was down", self.cut),
            ("  dropped at a full queue", self.queue),
            ("  larger than the path MTU", self.too_big),
            ("  refused by host or router", self.refused),
            ("  duplicated", self.duplicated),
            ("  overtaken", self.reordered),
            ("  damaged", self.corrupted),
            ("packets forged", self.forged),
            ("addresses vanished", self.vanished),
            ("hosts rebooted", self.reboots),
            ("clients that connected again", self.reconnects),
            ("restarts noticed", self.restarts),
            ("aborts", self.aborts),
            ("other wishes of users", self.whims),
            ("associations (ends)", self.associations),
            ("  shut down gracefully", self.graceful),
            ("  given up as unreachable", self.unreachable),
            ("messages sent", self.messages),
            ("  delivered", self.delivered),
            ("  delivered in parts", self.in_parts),
            ("  returned to the sender", self.failed),
            ("bytes delivered", self.bytes),
            ("byte streams", self.byte_streams),
            ("  not wanted to the end", self.stopped),
            ("  bytes delivered", self.streamed),
            ("T3-rtx expiries", self.timeouts),
            ("fast recoveries", self.fast_recoveries),
            ("window probes", self.window_probes),
            ("path state changes", self.path_changes),
            ("sealed datagrams sent", self.sealed),
            ("  hellos", self.hellos),
            ("  welcomes", self.welcomes),
            ("  cookies", self.cookies),
            ("  to addresses of others", self.astray),
            ("outer addresses changed", self.moves),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.totals() {
            writeln!(f, "{name:<34}{value:>16}")?;
        }
        writeln!(f, "hash {:016x}", self.hash)
    }
}
