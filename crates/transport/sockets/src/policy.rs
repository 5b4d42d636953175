//! Policies of partial reliability as numbers (RFC 6458 section 5.3.7, RFC 7496 section 4).

use std::time::Duration;

use anabranch_proto::{GivenUpBy, Reliability};

use crate::error::Error;
use crate::message::SendFlags;

impl SendFlags {
    /// SCTP_PR_SCTP_MASK: the bits that hold a policy of partial reliability.
    pub const POLICY: Self = Self::from_bits_retain(0x30);
    /// SCTP_PR_SCTP_TTL: the value is a lifetime in milliseconds; 0 means no limit.
    pub const POLICY_LIFETIME: Self = Self::from_bits_retain(0x10);
    /// SCTP_PR_SCTP_RTX: the value is the maximum number of retransmissions of a chunk, at most 65,535.
    pub const POLICY_RETRANSMISSIONS: Self = Self::from_bits_retain(0x20);
    /// SCTP_PR_SCTP_PRIO: the value is a priority; smaller ones are more important.
    pub const POLICY_PRIORITY: Self = Self::from_bits_retain(0x30);
    /// SCTP_PR_SCTP_ALL: all policies, for counters of messages that were given up.
    pub const POLICY_ALL: Self = Self::from_bits_retain(0x80);

    /// The policy of partial reliability among the flags; empty if there is none.
    #[must_use]
    pub fn policy(self) -> Self {
        self.intersection(Self::POLICY)
    }
}

/// What SCTP_PRINFO says: a policy and its value. Without a policy, the message is fully reliable.
///
/// # Errors
/// [`Error::Invalid`]: there is no such policy, or the value is too large.
pub fn reliability(policy: SendFlags, value: u32) -> Result<Reliability, Error> {
    match policy {
        SendFlags::POLICY_LIFETIME if value > 0 => Ok(Reliability::Lifetime(milliseconds(value))),
        SendFlags::POLICY_LIFETIME => Ok(Reliability::Full),
        SendFlags::POLICY_RETRANSMISSIONS => {
            u16::try_from(value).map(Reliability::Retransmissions).map_err(|_| Error::Invalid)
        }
        SendFlags::POLICY_PRIORITY => Ok(Reliability::Priority(value)),
        none if none.is_empty() => Ok(Reliability::Full),
        _ => Err(Error::Invalid),
    }
}

/// What SCTP_SNDRCV and `sctp_sendmsg` say (RFC 6458 sections 5.3.2 and 9.7): the time to live is the value of the
/// policy in the flags. Without a policy, it is a lifetime in milliseconds, or if it is 0, nothing is said.
///
/// # Errors
/// [`Error::Invalid`]: the value is too large.
pub fn of_sndrcv(flags: SendFlags, timetolive: u32) -> Result<Reliability, Error> {
    match flags.policy() {
        none if none.is_empty() && timetolive == 0 => Ok(Reliability::Usual),
        none if none.is_empty() => Ok(Reliability::Lifetime(milliseconds(timetolive))),
        policy => reliability(policy, timetolive),
    }
}

/// The policy and its value.
#[must_use]
pub fn of_reliability(reliability: Reliability) -> (SendFlags, u32) {
    match reliability {
        Reliability::Lifetime(time) => {
            let value = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
            (SendFlags::POLICY_LIFETIME, value)
        }
        Reliability::Retransmissions(count) => (SendFlags::POLICY_RETRANSMISSIONS, count.into()),
        Reliability::Priority(value) => (SendFlags::POLICY_PRIORITY, value),
        _ => (SendFlags::empty(), 0),
    }
}

/// The counters that a policy, or [`SendFlags::POLICY_ALL`], selects.
///
/// # Errors
/// [`Error::Invalid`]: there is no such policy.
pub fn counters(policy: SendFlags) -> Result<&'static [GivenUpBy], Error> {
    const ALL: [GivenUpBy; 3] =
        [GivenUpBy::Lifetime, GivenUpBy::Retransmissions, GivenUpBy::Priority];
    match policy {
        SendFlags::POLICY_LIFETIME => Ok(&ALL[..1]),
        SendFlags::POLICY_RETRANSMISSIONS => Ok(&ALL[1..2]),
        SendFlags::POLICY_PRIORITY => Ok(&ALL[2..]),
        SendFlags::POLICY_ALL => Ok(&ALL),
        _ => Err(Error::Invalid),
    }
}

fn milliseconds(value: u32) -> Duration {
    Duration::from_millis(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: SendFlags = SendFlags::POLICY_LIFETIME;
    const TIMES: SendFlags = SendFlags::POLICY_RETRANSMISSIONS;

    #[test]
    fn policies_come_back_as_they_were_given() {
        let given = [
            (SendFlags::empty(), 0, Reliability::Full),
            (TIME, 50, Reliability::Lifetime(Duration::from_millis(50))),
            (TIME, u32::MAX, Reliability::Lifetime(milliseconds(u32::MAX))),
            (TIMES, 0, Reliability::Retransmissions(0)),
            (TIMES, 65_535, Reliability::Retransmissions(65_535)),
            (SendFlags::POLICY_PRIORITY, u32::MAX, Reliability::Priority(u32::MAX)),
        ];
        for (policy, value, expected) in given {
            assert_eq!(reliability(policy, value), Ok(expected));
            assert_eq!(of_reliability(expected), (policy, value));
        }
        assert_eq!(reliability(TIME, 0), Ok(Reliability::Full));
        assert_eq!(reliability(SendFlags::empty(), 7), Ok(Reliability::Full));
        assert_eq!(of_reliability(Reliability::Usual), (SendFlags::empty(), 0));
    }

    #[test]
    fn what_no_policy_allows_is_invalid() {
        assert_eq!(reliability(TIMES, 65_536), Err(Error::Invalid));
        assert_eq!(of_sndrcv(TIMES, 65_536), Err(Error::Invalid));
        for policy in [SendFlags::UNORDERED, SendFlags::POLICY_ALL, TIME | SendFlags::UNORDERED] {
            assert_eq!(reliability(policy, 1), Err(Error::Invalid));
        }
        for policy in [SendFlags::empty(), SendFlags::UNORDERED, SendFlags::POLICY_ALL | TIME] {
            assert_eq!(counters(policy), Err(Error::Invalid));
        }
    }

    #[test]
    fn a_time_to_live_is_the_value_of_the_policy() {
        let unordered = SendFlags::UNORDERED;
        assert_eq!(of_sndrcv(unordered, 0), Ok(Reliability::Usual));
        assert_eq!(of_sndrcv(unordered, 5), Ok(Reliability::Lifetime(Duration::from_millis(5))));
        assert_eq!(of_sndrcv(unordered | TIMES, 5), Ok(Reliability::Retransmissions(5)));
        assert_eq!(of_sndrcv(SendFlags::POLICY_PRIORITY, 0), Ok(Reliability::Priority(0)));
    }

    #[test]
    fn a_policy_selects_its_counters() {
        for (policy, by) in [
            (TIME, GivenUpBy::Lifetime),
            (TIMES, GivenUpBy::Retransmissions),
            (SendFlags::POLICY_PRIORITY, GivenUpBy::Priority),
        ] {
            assert_eq!(counters(policy), Ok(&[by][..]));
        }
        assert_eq!(counters(SendFlags::POLICY_ALL).map(<[_]>::len), Ok(3));
    }
}
