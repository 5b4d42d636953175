//! One file per implementation.

pub(crate) mod dcsctp;
pub(crate) mod rtc_sctp;
pub(crate) mod sctp_proto;
