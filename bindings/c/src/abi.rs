//! Constants and structures of `<linux/sctp.h>` and `<netinet/sctp.h>`. The tests compare them with
//! the C compiler's.

#![allow(missing_docs, reason = "RFC 6458 and the header say what they are")]

use libc::c_int;

/// A C type of only numbers and arrays of numbers, without padding: any bytes are a valid value, and
/// all bytes of a value are initialised.
///
/// # Safety
/// The type is `repr(C)`, valid for all bytes and without padding.
pub(crate) unsafe trait Plain: Copy {}

/// Reads a value at the start of some bytes.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, and any bytes are a valid value.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// The bytes of a value.
pub(crate) fn to_bytes<T: Plain>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<T>()];
    let from = std::ptr::from_ref(value).cast();
    // SAFETY: the buffer has room for the value, all of whose bytes are initialised.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

/// A value of zeros.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: any bytes are a valid value.
    unsafe { std::mem::zeroed() }
}

macro_rules! plain {
    ($($(#[$meta:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }

        // Padding must be an explicit field.
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);

        // SAFETY: only numbers and arrays of them, with C's layout and no padding.
        unsafe impl Plain for $name {}

        impl Default for $name {
            fn default() -> Self { zeroed() }
        }
    )*};
}

// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: two numbers, with C's layout.
unsafe impl Plain for libc::linger {}
// SAFETY: two numbers, with C's layout.
unsafe impl Plain for libc::timeval {}

/// A `struct sockaddr_storage` within a packed structure.
pub(crate) type Storage = [u8; crate::address::STORAGE];

plain! {
    struct Initmsg { num_ostreams: u16, max_instreams: u16, max_attempts: u16, max_init_timeo: u16, }
    struct Sndrcvinfo {
        stream: u16, ssn: u16, flags: u16, pad: u16, ppid: u32, context: u32, timetolive: u32,
        tsn: u32, cumtsn: u32, assoc_id: i32,
    }
    struct Sndinfo { sid: u16, flags: u16, ppid: u32, context: u32, assoc_id: i32, }
    struct Rcvinfo {
        sid: u16, ssn: u16, flags: u16, pad: u16, ppid: u32, tsn: u32, cumtsn: u32, context: u32,
        assoc_id: i32,
    }
    struct Nxtinfo { sid: u16, flags: u16, ppid: u32, length: u32, assoc_id: i32, }
    /// RFC 6458 section 5.3.3; Linux has no such structure.
    struct Extrcvinfo {
        stream: u16, ssn: u16, flags: u16, pad: u16, ppid: u32, context: u32, pr_value: u32,
        tsn: u32, cumtsn: u32, next_flags: u16, next_stream: u16, next_aid: i32,
        next_length: u32, next_ppid: u32, assoc_id: i32,
    }
    struct Prinfo { policy: u16, pad: u16, value: u32, }
    /// For SCTP_PR_ASSOC_STATUS and SCTP_PR_STREAM_STATUS.
    struct Prstatus { assoc_id: i32, sid: u16, policy: u16, unsent: u64, sent: u64, }
    /// For SCTP_STREAM_SCHEDULER_VALUE.
    struct StreamValue { assoc_id: i32, stream: u16, value: u16, }
    struct DefaultPrinfo { assoc_id: i32, value: u32, policy: u16, pad: u16, }
    struct Authinfo { keynumber: u16, }
    struct SendvSpa {
        flags: u32, sndinfo: Sndinfo, prinfo: Prinfo, authinfo: Authinfo, pad: u16,
    }
    struct RecvvRn { rcvinfo: Rcvinfo, nxtinfo: Nxtinfo, }
    struct Rtoinfo { assoc_id: i32, initial: u32, max: u32, min: u32, }
    struct Assocparams {
        assoc_id: i32, asocmaxrxt: u16, number_peer_destinations: u16, peer_rwnd: u32,
        local_rwnd: u32, cookie_life: u32,
    }
    struct SackInfo { assoc_id: i32, delay: u32, freq: u32, }
    struct AssocValue { assoc_id: i32, value: u32, }
    /// Our own, for ANABRANCH_OPTION: both texts are null-terminated.
    struct NamedOption { assoc_id: i32, name: [u8; 60], value: [u8; 192], }
    /// Our own, for ANABRANCH_COUNTER: the name is null-terminated.
    struct NamedCounter {
        assoc_id: i32, pad: u32, address: AlignedStorage, name: [u8; 60], pad2: u32, value: f64,
    }
    struct Setadaptation { ind: u32, }
    struct Event { assoc_id: i32, kind: u16, on: u8, pad: u8, }
    struct AssocChange {
        kind: u16, flags: u16, length: u32, state: u16, error: u16, outbound_streams: u16,
        inbound_streams: u16, assoc_id: i32,
    }
    struct RemoteError {
        kind: u16, flags: u16, length: u32, error: u16, pad: u16, assoc_id: i32,
    }
    struct SendFailed {
        kind: u16, flags: u16, length: u32, error: u32, info: Sndrcvinfo, assoc_id: i32,
    }
    struct SendFailedEvent {
        kind: u16, flags: u16, length: u32, error: u32, info: Sndinfo, assoc_id: i32,
    }
    struct PdapiEvent {
        kind: u16, flags: u16, length: u32, indication: u32, assoc_id: i32, stream: u32, seq: u32,
    }
    /// The streams follow (RFC 6525 section 6.1.1).
    struct StreamResetEvent { kind: u16, flags: u16, length: u32, assoc_id: i32, }
    struct AssocResetEvent {
        kind: u16, flags: u16, length: u32, assoc_id: i32, local_tsn: u32, remote_tsn: u32,
    }
    struct StreamChangeEvent {
        kind: u16, flags: u16, length: u32, assoc_id: i32, inbound_streams: u16,
        outbound_streams: u16,
    }
    /// For SCTP_RESET_STREAMS; the streams follow (RFC 6525 section 6.3.2).
    struct ResetStreams { assoc_id: i32, flags: u16, number_streams: u16, }
    /// For SCTP_ADD_STREAMS (RFC 6525 section 6.3.4).
    struct AddStreams { assoc_id: i32, inbound: u16, outbound: u16, }
    /// For SCTP_AUTH_KEY; the secret follows (RFC 6458 section 8.3.3).
    struct Authkey { assoc_id: i32, number: u16, length: u16, }
    struct AuthkeyId { assoc_id: i32, number: u16, pad: u16, }
    /// For SCTP_LOCAL_AUTH_CHUNKS and SCTP_PEER_AUTH_CHUNKS; the types follow.
    struct Authchunks { assoc_id: i32, number_of_chunks: u32, }
    struct AuthkeyEvent {
        kind: u16, flags: u16, length: u32, number: u16, other: u16, indication: u32,
        assoc_id: i32,
    }
    struct ShutdownEvent { kind: u16, flags: u16, length: u32, assoc_id: i32, }
    struct SenderDryEvent { kind: u16, flags: u16, length: u32, assoc_id: i32, }
    /// Our own: the name is null-terminated, and a text follows.
    struct NamedEvent { kind: u16, flags: u16, length: u32, assoc_id: i32, name: [u8; 32], }
    struct AdaptationEvent { kind: u16, flags: u16, length: u32, ind: u32, assoc_id: i32, }
    /// For SCTP_REMOTE_UDP_ENCAPS_PORT (RFC 6951 section 6.1).
    struct Udpencaps {
        assoc_id: i32, pad: u32, address: AlignedStorage, port: u16, pad2: [u16; 3],
    }
    /// For SCTP_PEER_ADDR_THLDS, in which the last threshold is padding, and for
    /// SCTP_PEER_ADDR_THLDS_V2 (RFC 7829 section 7.2).
    struct Paddrthlds {
        assoc_id: i32, pad: u32, address: AlignedStorage, pathmaxrxt: u16, pathpfthld: u16,
        pathcpthld: u16, pad2: u16,
    }
    #[repr(packed)]
    struct PaddrChange {
        kind: u16, flags: u16, length: u32, address: Storage, state: i32, error: i32,
        assoc_id: i32,
    }
    #[repr(packed)]
    struct Prim { assoc_id: i32, address: Storage, }
    #[repr(packed)]
    struct Paddrparams {
        assoc_id: i32, address: Storage, hbinterval: u32, pathmaxrxt: u16, pathmtu: u32,
        sackdelay: u32, flags: u32, ipv6_flowlabel: u32, dscp: u8, pad: u8,
    }
    #[repr(packed)]
    struct Paddrinfo {
        assoc_id: i32, address: Storage, state: i32, cwnd: u32, srtt: u32, rto: u32, mtu: u32,
    }
    /// For SCTP_GET_ASSOC_STATS, which only Linux has.
    struct AssocStats {
        assoc_id: i32, pad: u32, address: AlignedStorage, maxrto: u64, isacks: u64, osacks: u64,
        opackets: u64, ipackets: u64, rtxchunks: u64, outofseqtsns: u64, idupchunks: u64,
        gapcnt: u64, ouodchunks: u64, iuodchunks: u64, oodchunks: u64, iodchunks: u64,
        octrlchunks: u64, ictrlchunks: u64,
    }
    struct Status {
        assoc_id: i32, state: i32, rwnd: u32, unackdata: u16, penddata: u16, instrms: u16,
        outstrms: u16, fragmentation_point: u32, primary: Paddrinfo,
    }
}

/// A `struct sockaddr_storage` with its alignment.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlignedStorage(pub(crate) Storage);

/// The level of SCTP options.
pub(crate) const IPPROTO_SCTP: c_int = 132;

pub(crate) mod option {
    pub(crate) const RTOINFO: i32 = 0;
    pub(crate) const ASSOCINFO: i32 = 1;
    pub(crate) const INITMSG: i32 = 2;
    pub(crate) const NODELAY: i32 = 3;
    pub(crate) const AUTOCLOSE: i32 = 4;
    pub(crate) const SET_PEER_PRIMARY_ADDR: i32 = 5;
    pub(crate) const PRIMARY_ADDR: i32 = 6;
    pub(crate) const ADAPTATION_LAYER: i32 = 7;
    pub(crate) const DISABLE_FRAGMENTS: i32 = 8;
    pub(crate) const PEER_ADDR_PARAMS: i32 = 9;
    pub(crate) const DEFAULT_SEND_PARAM: i32 = 10;
    pub(crate) const EVENTS: i32 = 11;
    pub(crate) const I_WANT_MAPPED_V4_ADDR: i32 = 12;
    pub(crate) const MAXSEG: i32 = 13;
    pub(crate) const STATUS: i32 = 14;
    pub(crate) const GET_PEER_ADDR_INFO: i32 = 15;
    pub(crate) const DELAYED_SACK: i32 = 16;
    pub(crate) const CONTEXT: i32 = 17;
    pub(crate) const FRAGMENT_INTERLEAVE: i32 = 18;
    pub(crate) const PARTIAL_DELIVERY_POINT: i32 = 19;
    pub(crate) const MAX_BURST: i32 = 20;
    pub(crate) const AUTH_CHUNK: i32 = 21;
    pub(crate) const HMAC_IDENT: i32 = 22;
    pub(crate) const AUTH_KEY: i32 = 23;
    pub(crate) const AUTH_ACTIVE_KEY: i32 = 24;
    pub(crate) const AUTH_DELETE_KEY: i32 = 25;
    pub(crate) const PEER_AUTH_CHUNKS: i32 = 26;
    pub(crate) const LOCAL_AUTH_CHUNKS: i32 = 27;
    pub(crate) const GET_ASSOC_NUMBER: i32 = 28;
    pub(crate) const GET_ASSOC_ID_LIST: i32 = 29;
    pub(crate) const AUTO_ASCONF: i32 = 30;
    pub(crate) const PEER_ADDR_THLDS: i32 = 31;
    pub(crate) const RECVRCVINFO: i32 = 32;
    pub(crate) const RECVNXTINFO: i32 = 33;
    pub(crate) const DEFAULT_SNDINFO: i32 = 34;
    pub(crate) const AUTH_DEACTIVATE_KEY: i32 = 35;
    pub(crate) const PEER_ADDR_THLDS_V2: i32 = 37;
    pub(crate) const NRSACK_SUPPORTED: i32 = 0x30;
    pub(crate) const GET_ASSOC_STATS: i32 = 112;
    pub(crate) const PR_SUPPORTED: i32 = 113;
    pub(crate) const DEFAULT_PRINFO: i32 = 114;
    pub(crate) const PR_ASSOC_STATUS: i32 = 115;
    pub(crate) const PR_STREAM_STATUS: i32 = 116;
    pub(crate) const RECONFIG_SUPPORTED: i32 = 117;
    pub(crate) const ENABLE_STREAM_RESET: i32 = 118;
    pub(crate) const RESET_STREAMS: i32 = 119;
    pub(crate) const RESET_ASSOC: i32 = 120;
    pub(crate) const ADD_STREAMS: i32 = 121;
    pub(crate) const STREAM_SCHEDULER: i32 = 123;
    pub(crate) const STREAM_SCHEDULER_VALUE: i32 = 124;
    pub(crate) const INTERLEAVING_SUPPORTED: i32 = 125;
    pub(crate) const EVENT: i32 = 127;
    pub(crate) const ASCONF_SUPPORTED: i32 = 128;
    pub(crate) const AUTH_SUPPORTED: i32 = 129;
    pub(crate) const ECN_SUPPORTED: i32 = 130;
    /// The number of FreeBSD and usrsctp.
    pub(crate) const PLUGGABLE_CC: i32 = 0x1202;
    pub(crate) const EXPOSE_POTENTIALLY_FAILED_STATE: i32 = 131;
    pub(crate) const REMOTE_UDP_ENCAPS_PORT: i32 = 132;
    /// Our own: the local UDP port, an int.
    pub(crate) const LOCAL_UDP_PORT: i32 = 0x4100;
    /// Our own: IP protocol 132 instead of UDP, a boolean int.
    pub(crate) const RAW_IP: i32 = 0x4101;
    /// Our own: an option of the engine by name, a [`NamedOption`](super::NamedOption).
    pub(crate) const NAMED: i32 = 0x4102;
    /// Linux has no such option; the number is ours.
    pub(crate) const USE_EXT_RCVINFO: i32 = 0x4103;
    /// Our own: a counter by name, a [`NamedCounter`](super::NamedCounter).
    pub(crate) const COUNTER: i32 = 0x4104;
    /// Linux has no such option, and FreeBSD's number is another one's there; the number is ours.
    pub(crate) const EXPLICIT_EOR: i32 = 0x4105;
}

/// Values of SCTP_PLUGGABLE_CC.
pub(crate) mod control {
    pub(crate) const RFC2581: u32 = 0;
    /// Our own.
    pub(crate) const CUBIC: u32 = 0x4100;
    pub(crate) const BBR: u32 = 0x4101;
    pub(crate) const BBR_LOSSY: u32 = 0x4102;
}

/// Values of SCTP_STREAM_SCHEDULER.
pub(crate) mod scheduler {
    pub(crate) const FCFS: u32 = 0;
    pub(crate) const PRIO: u32 = 1;
    pub(crate) const RR: u32 = 2;
    pub(crate) const FC: u32 = 3;
    pub(crate) const WFQ: u32 = 4;
    /// Linux has no such scheduler; the number is ours.
    pub(crate) const RR_PKT: u32 = 0x4100;
}

/// Flags of stream reconfiguration (RFC 6525 section 6).
pub(crate) mod reset {
    /// SCTP_RESET_STREAMS.
    pub(crate) const INCOMING: u16 = 1;
    pub(crate) const OUTGOING: u16 = 2;
    /// SCTP_ENABLE_STREAM_RESET.
    pub(crate) const ENABLE_STREAMS: u32 = 1;
    pub(crate) const ENABLE_ASSOC: u32 = 2;
    pub(crate) const ENABLE_CHANGE: u32 = 4;
    /// Events. Those of resets of streams have the direction as well, as above.
    pub(crate) const DENIED: u16 = 4;
    pub(crate) const FAILED: u16 = 8;
}

/// Message flags that are not in `SendFlags`.
pub(crate) mod flag {
    /// `nxt_length` is the length of the whole message. Linux has no such flag; the number is ours.
    pub(crate) const COMPLETE: u16 = 1 << 8;
    pub(crate) const MSG_NOTIFICATION: i32 = 0x8000;
    /// The next message, in `serinfo_next_flags`: there is one, it is complete, it is unordered.
    pub(crate) const NEXT_MSG_AVAIL: u16 = 1;
    pub(crate) const NEXT_MSG_ISCOMPLETE: u16 = 1 << 1;
    pub(crate) const NEXT_MSG_IS_UNORDERED: u16 = 1 << 2;
}

/// Notification types.
pub(crate) mod event {
    pub(crate) const DATA_IO: u16 = 0x8000;
    pub(crate) const ASSOC_CHANGE: u16 = 0x8001;
    pub(crate) const PEER_ADDR_CHANGE: u16 = 0x8002;
    pub(crate) const SEND_FAILED: u16 = 0x8003;
    pub(crate) const REMOTE_ERROR: u16 = 0x8004;
    pub(crate) const SHUTDOWN: u16 = 0x8005;
    pub(crate) const PARTIAL_DELIVERY: u16 = 0x8006;
    /// The only value of `pdapi_indication`.
    pub(crate) const ABORTED: u16 = 0;
    pub(crate) const ADAPTATION: u16 = 0x8007;
    pub(crate) const AUTHENTICATION: u16 = 0x8008;
    pub(crate) const SENDER_DRY: u16 = 0x8009;
    pub(crate) const STREAM_RESET: u16 = 0x800a;
    pub(crate) const ASSOC_RESET: u16 = 0x800b;
    /// SCTP_AUTH_NEW_KEY and the other values of `auth_indication`.
    pub(crate) const NEW_KEY: u32 = 0;
    pub(crate) const FREE_KEY: u32 = 1;
    pub(crate) const NO_AUTH: u32 = 2;
    pub(crate) const STREAM_CHANGE: u16 = 0x800c;
    pub(crate) const SEND_FAILED_EVENT: u16 = 0x800d;
    /// Our own.
    pub(crate) const NAMED: u16 = 0x8100;
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    use super::*;
    use anabranch_sockets::SendFlags;

    /// Assertions for the C compiler: sizes and offsets of fields.
    fn layouts() -> Vec<String> {
        let mut all = Vec::new();
        macro_rules! same {
            ($($rust:ident = $c:literal { $($field:ident = $name:literal)* })*) => {$(
                all.push(format!("sizeof(struct {}) == {}", $c, size_of::<$rust>()));
                $(all.push(format!(
                    "offsetof(struct {}, {}) == {}", $c, $name, offset_of!($rust, $field)
                ));)*
            )*};
        }
        same! {
            Initmsg = "sctp_initmsg" { max_init_timeo = "sinit_max_init_timeo" }
            Sndrcvinfo = "sctp_sndrcvinfo" { ppid = "sinfo_ppid" assoc_id = "sinfo_assoc_id" }
            Sndinfo = "sctp_sndinfo" { ppid = "snd_ppid" assoc_id = "snd_assoc_id" }
            Rcvinfo = "sctp_rcvinfo" { ppid = "rcv_ppid" assoc_id = "rcv_assoc_id" }
            Nxtinfo = "sctp_nxtinfo" { length = "nxt_length" assoc_id = "nxt_assoc_id" }
            Extrcvinfo = "sctp_extrcvinfo" { ppid = "sinfo_ppid" next_flags = "serinfo_next_flags" assoc_id = "sinfo_assoc_id" }
            Prinfo = "sctp_prinfo" { value = "pr_value" }
            Prstatus = "sctp_prstatus" { sid = "sprstat_sid" policy = "sprstat_policy" unsent = "sprstat_abandoned_unsent" sent = "sprstat_abandoned_sent" }
            StreamValue = "sctp_stream_value" { stream = "stream_id" value = "stream_value" }
            DefaultPrinfo = "sctp_default_prinfo" { value = "pr_value" policy = "pr_policy" }
            Authinfo = "sctp_authinfo" {}
            SendvSpa = "sctp_sendv_spa" { prinfo = "sendv_prinfo" authinfo = "sendv_authinfo" }
            RecvvRn = "sctp_recvv_rn" { nxtinfo = "recvv_nxtinfo" }
            Rtoinfo = "sctp_rtoinfo" { initial = "srto_initial" min = "srto_min" }
            Assocparams = "sctp_assocparams" { cookie_life = "sasoc_cookie_life" }
            SackInfo = "sctp_sack_info" { delay = "sack_delay" freq = "sack_freq" }
            AssocValue = "sctp_assoc_value" { value = "assoc_value" }
            NamedOption = "anabranch_option" { name = "name" value = "value" }
            NamedCounter = "anabranch_counter" { address = "address" name = "name" value = "value" }
            Setadaptation = "sctp_setadaptation" {}
            Event = "sctp_event" { kind = "se_type" on = "se_on" }
            AssocChange = "sctp_assoc_change" { state = "sac_state" assoc_id = "sac_assoc_id" }
            RemoteError = "sctp_remote_error" { error = "sre_error" assoc_id = "sre_assoc_id" }
            SendFailed = "sctp_send_failed" { info = "ssf_info" assoc_id = "ssf_assoc_id" }
            SendFailedEvent = "sctp_send_failed_event" { info = "ssfe_info" assoc_id = "ssf_assoc_id" }
            PdapiEvent = "sctp_pdapi_event" { indication = "pdapi_indication" assoc_id = "pdapi_assoc_id" stream = "pdapi_stream" seq = "pdapi_seq" }
            ShutdownEvent = "sctp_shutdown_event" { assoc_id = "sse_assoc_id" }
            SenderDryEvent = "sctp_sender_dry_event" { assoc_id = "sender_dry_assoc_id" }
            NamedEvent = "anabranch_event" { assoc_id = "ae_assoc_id" name = "ae_name" }
            AdaptationEvent = "sctp_adaptation_event" { ind = "sai_adaptation_ind" assoc_id = "sai_assoc_id" }
            Udpencaps = "sctp_udpencaps" { address = "sue_address" port = "sue_port" }
            PaddrChange = "sctp_paddr_change" { address = "spc_aaddr" state = "spc_state" assoc_id = "spc_assoc_id" }
            Paddrthlds = "sctp_paddrthlds" { address = "spt_address" pathpfthld = "spt_pathpfthld" }
            Paddrthlds = "sctp_paddrthlds_v2" { pathmaxrxt = "spt_pathmaxrxt" pathcpthld = "spt_pathcpthld" }
            Prim = "sctp_prim" { address = "ssp_addr" }
            Prim = "sctp_setpeerprim" { address = "sspp_addr" }
            Paddrparams = "sctp_paddrparams" { pathmaxrxt = "spp_pathmaxrxt" pathmtu = "spp_pathmtu" flags = "spp_flags" dscp = "spp_dscp" }
            Paddrinfo = "sctp_paddrinfo" { state = "spinfo_state" mtu = "spinfo_mtu" }
            AssocStats = "sctp_assoc_stats" { address = "sas_obs_rto_ipaddr" rtxchunks = "sas_rtxchunks" ictrlchunks = "sas_ictrlchunks" }
            Status = "sctp_status" { instrms = "sstat_instrms" primary = "sstat_primary" }
        }
        all
    }

    /// Names of options with their numbers.
    fn options() -> impl Iterator<Item = (&'static str, i64)> {
        let options = [
            ("SCTP_RTOINFO", option::RTOINFO),
            ("SCTP_ASSOCINFO", option::ASSOCINFO),
            ("SCTP_INITMSG", option::INITMSG),
            ("SCTP_NODELAY", option::NODELAY),
            ("SCTP_AUTOCLOSE", option::AUTOCLOSE),
            ("SCTP_PRIMARY_ADDR", option::PRIMARY_ADDR),
            ("SCTP_ADAPTATION_LAYER", option::ADAPTATION_LAYER),
            ("SCTP_DISABLE_FRAGMENTS", option::DISABLE_FRAGMENTS),
            ("SCTP_PEER_ADDR_PARAMS", option::PEER_ADDR_PARAMS),
            ("SCTP_DEFAULT_SEND_PARAM", option::DEFAULT_SEND_PARAM),
            ("SCTP_EVENTS", option::EVENTS),
            ("SCTP_I_WANT_MAPPED_V4_ADDR", option::I_WANT_MAPPED_V4_ADDR),
            ("SCTP_MAXSEG", option::MAXSEG),
            ("SCTP_STATUS", option::STATUS),
            ("SCTP_GET_PEER_ADDR_INFO", option::GET_PEER_ADDR_INFO),
            ("SCTP_DELAYED_SACK", option::DELAYED_SACK),
            ("SCTP_CONTEXT", option::CONTEXT),
            ("SCTP_FRAGMENT_INTERLEAVE", option::FRAGMENT_INTERLEAVE),
            ("SCTP_PARTIAL_DELIVERY_POINT", option::PARTIAL_DELIVERY_POINT),
            ("SCTP_MAX_BURST", option::MAX_BURST),
            ("SCTP_PLUGGABLE_CC", option::PLUGGABLE_CC),
            ("SCTP_GET_ASSOC_NUMBER", option::GET_ASSOC_NUMBER),
            ("SCTP_GET_ASSOC_ID_LIST", option::GET_ASSOC_ID_LIST),
            ("SCTP_PEER_ADDR_THLDS", option::PEER_ADDR_THLDS),
            ("SCTP_PEER_ADDR_THLDS_V2", option::PEER_ADDR_THLDS_V2),
            ("SCTP_NRSACK_SUPPORTED", option::NRSACK_SUPPORTED),
            ("SCTP_EXPOSE_POTENTIALLY_FAILED_STATE", option::EXPOSE_POTENTIALLY_FAILED_STATE),
            ("SCTP_RECVRCVINFO", option::RECVRCVINFO),
            ("SCTP_RECVNXTINFO", option::RECVNXTINFO),
            ("SCTP_DEFAULT_SNDINFO", option::DEFAULT_SNDINFO),
            ("SCTP_GET_ASSOC_STATS", option::GET_ASSOC_STATS),
            ("SCTP_PR_SUPPORTED", option::PR_SUPPORTED),
            ("SCTP_DEFAULT_PRINFO", option::DEFAULT_PRINFO),
            ("SCTP_PR_ASSOC_STATUS", option::PR_ASSOC_STATUS),
            ("SCTP_PR_STREAM_STATUS", option::PR_STREAM_STATUS),
            ("SCTP_RECONFIG_SUPPORTED", option::RECONFIG_SUPPORTED),
            ("SCTP_ENABLE_STREAM_RESET", option::ENABLE_STREAM_RESET),
            ("SCTP_RESET_STREAMS", option::RESET_STREAMS),
            ("SCTP_RESET_ASSOC", option::RESET_ASSOC),
            ("SCTP_ADD_STREAMS", option::ADD_STREAMS),
            ("SCTP_STREAM_SCHEDULER", option::STREAM_SCHEDULER),
            ("SCTP_STREAM_SCHEDULER_VALUE", option::STREAM_SCHEDULER_VALUE),
            ("SCTP_INTERLEAVING_SUPPORTED", option::INTERLEAVING_SUPPORTED),
            ("SCTP_EVENT", option::EVENT),
            ("SCTP_ECN_SUPPORTED", option::ECN_SUPPORTED),
            ("SCTP_REMOTE_UDP_ENCAPS_PORT", option::REMOTE_UDP_ENCAPS_PORT),
            ("ANABRANCH_LOCAL_UDP_PORT", option::LOCAL_UDP_PORT),
            ("ANABRANCH_RAW_IP", option::RAW_IP),
            ("ANABRANCH_OPTION", option::NAMED),
            ("ANABRANCH_COUNTER", option::COUNTER),
            ("SCTP_USE_EXT_RCVINFO", option::USE_EXT_RCVINFO),
            ("SCTP_EXPLICIT_EOR", option::EXPLICIT_EOR),
            ("MSG_NOTIFICATION", flag::MSG_NOTIFICATION),
        ];
        let schedulers = [
            ("SCTP_SS_DEFAULT", scheduler::FCFS),
            ("SCTP_SS_FCFS", scheduler::FCFS),
            ("SCTP_SS_PRIO", scheduler::PRIO),
            ("SCTP_SS_RR", scheduler::RR),
            ("SCTP_SS_FC", scheduler::FC),
            ("SCTP_SS_FB", scheduler::FC),
            ("SCTP_SS_WFQ", scheduler::WFQ),
            ("SCTP_SS_RR_PKT", scheduler::RR_PKT),
        ];
        let schedulers = schedulers.into_iter().map(|(name, value)| (name, value.into()));
        options.into_iter().map(|(name, value)| (name, value.into())).chain(schedulers)
    }

    /// The same of options of authentication and addresses.
    fn options_of_authentication() -> impl Iterator<Item = (&'static str, i64)> {
        let options = [
            ("SCTP_AUTH_CHUNK", option::AUTH_CHUNK),
            ("SCTP_HMAC_IDENT", option::HMAC_IDENT),
            ("SCTP_AUTH_KEY", option::AUTH_KEY),
            ("SCTP_AUTH_ACTIVE_KEY", option::AUTH_ACTIVE_KEY),
            ("SCTP_AUTH_DELETE_KEY", option::AUTH_DELETE_KEY),
            ("SCTP_AUTH_DEACTIVATE_KEY", option::AUTH_DEACTIVATE_KEY),
            ("SCTP_PEER_AUTH_CHUNKS", option::PEER_AUTH_CHUNKS),
            ("SCTP_LOCAL_AUTH_CHUNKS", option::LOCAL_AUTH_CHUNKS),
            ("SCTP_AUTH_SUPPORTED", option::AUTH_SUPPORTED),
            ("SCTP_ASCONF_SUPPORTED", option::ASCONF_SUPPORTED),
            ("SCTP_AUTO_ASCONF", option::AUTO_ASCONF),
            ("SCTP_SET_PEER_PRIMARY_ADDR", option::SET_PEER_PRIMARY_ADDR),
        ];
        options.into_iter().map(|(name, value)| (name, value.into()))
    }

    /// Names of flags and events with their numbers.
    fn flags() -> impl Iterator<Item = (&'static str, i64)> {
        let flags = [
            ("SCTP_UNORDERED", SendFlags::UNORDERED.bits()),
            ("SCTP_ADDR_OVER", SendFlags::ADDRESS_OVER.bits()),
            ("SCTP_ABORT", SendFlags::ABORT.bits()),
            ("SCTP_SACK_IMMEDIATELY", SendFlags::SACK_IMMEDIATELY.bits()),
            ("SCTP_PR_SCTP_NONE", SendFlags::empty().bits()),
            ("SCTP_PR_SCTP_TTL", SendFlags::POLICY_LIFETIME.bits()),
            ("SCTP_PR_SCTP_RTX", SendFlags::POLICY_RETRANSMISSIONS.bits()),
            ("SCTP_PR_SCTP_PRIO", SendFlags::POLICY_PRIORITY.bits()),
            ("SCTP_PR_SCTP_MASK", SendFlags::POLICY.bits()),
            ("SCTP_PR_SCTP_ALL", SendFlags::POLICY_ALL.bits()),
            ("SCTP_PARTIAL_DELIVERY_EVENT", event::PARTIAL_DELIVERY),
            ("SCTP_PARTIAL_DELIVERY_ABORTED", event::ABORTED),
            ("SCTP_SENDALL", SendFlags::SEND_ALL.bits()),
            ("SCTP_EOF", SendFlags::EOF.bits()),
            ("SCTP_EOR", SendFlags::END_OF_RECORD.bits()),
            ("SCTP_COMPLETE", flag::COMPLETE),
            ("SCTP_NEXT_MSG_AVAIL", flag::NEXT_MSG_AVAIL),
            ("SCTP_NEXT_MSG_ISCOMPLETE", flag::NEXT_MSG_ISCOMPLETE),
            ("SCTP_NEXT_MSG_IS_UNORDERED", flag::NEXT_MSG_IS_UNORDERED),
            ("SCTP_DATA_IO_EVENT", event::DATA_IO),
            ("SCTP_ASSOC_CHANGE", event::ASSOC_CHANGE),
            ("SCTP_PEER_ADDR_CHANGE", event::PEER_ADDR_CHANGE),
            ("SCTP_SEND_FAILED", event::SEND_FAILED),
            ("SCTP_REMOTE_ERROR", event::REMOTE_ERROR),
            ("SCTP_SHUTDOWN_EVENT", event::SHUTDOWN),
            ("SCTP_ADAPTATION_INDICATION", event::ADAPTATION),
            ("SCTP_SENDER_DRY_EVENT", event::SENDER_DRY),
            ("SCTP_STREAM_RESET_EVENT", event::STREAM_RESET),
            ("SCTP_ASSOC_RESET_EVENT", event::ASSOC_RESET),
            ("SCTP_STREAM_CHANGE_EVENT", event::STREAM_CHANGE),
            ("SCTP_STREAM_RESET_INCOMING", reset::INCOMING),
            ("SCTP_STREAM_RESET_OUTGOING", reset::OUTGOING),
            ("SCTP_STREAM_RESET_INCOMING_SSN", reset::INCOMING),
            ("SCTP_STREAM_RESET_OUTGOING_SSN", reset::OUTGOING),
            ("SCTP_STREAM_RESET_DENIED", reset::DENIED),
            ("SCTP_STREAM_RESET_FAILED", reset::FAILED),
            ("SCTP_ASSOC_RESET_DENIED", reset::DENIED),
            ("SCTP_ASSOC_RESET_FAILED", reset::FAILED),
            ("SCTP_STREAM_CHANGE_DENIED", reset::DENIED),
            ("SCTP_STREAM_CHANGE_FAILED", reset::FAILED),
            ("SCTP_ENABLE_RESET_STREAM_REQ", reset::ENABLE_STREAMS as u16),
            ("SCTP_ENABLE_RESET_ASSOC_REQ", reset::ENABLE_ASSOC as u16),
            ("SCTP_ENABLE_CHANGE_ASSOC_REQ", reset::ENABLE_CHANGE as u16),
            ("ANABRANCH_EVENT", event::NAMED),
            ("SCTP_SEND_FAILED_EVENT", event::SEND_FAILED_EVENT),
        ];
        flags.into_iter().map(|(name, value)| (name, value.into()))
    }

    #[test]
    fn the_compiler_lays_structures_out_as_this_file_does() {
        let mut source = "#include <anabranch.h>\n#include <stddef.h>\n".to_owned();
        let numbers = options()
            .chain(options_of_authentication())
            .chain(flags())
            .map(|(name, value)| format!("{name} == {value}"));
        for statement in layouts().into_iter().chain(numbers) {
            source.push_str(&format!("_Static_assert({statement}, \"{statement}\");\n"));
        }
        let mut cc = Command::new("cc")
            .args(["-std=gnu11", "-fsyntax-only", "-xc", "-I"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
            .arg("-")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        cc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(cc.wait().unwrap().success());
    }
}
