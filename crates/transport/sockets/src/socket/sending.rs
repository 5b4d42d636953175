//! A message to send, with parameters from its call or from the options of its association.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch::Reliability;
use bytes::Bytes;

use super::{Outgoing, Socket, Target};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::message::{SendFlags, SendInfo};
use crate::option::{AssociationOption, InitMsg};
use crate::policy;

/// A message that is about to be sent: `sctp_sendv` (RFC 6458 section 9.12) and `sendmsg` with its
/// ancillary data (section 5.3). SCTP_DEFAULT_SNDINFO and SCTP_DEFAULT_PRINFO of its association apply
/// unless a method overrides them.
#[derive(Clone, Debug)]
pub struct Sending {
    socket: Arc<Socket>,
    outgoing: Outgoing,
    target: Target,
    /// The call sets the reliability of the message.
    explicit: bool,
    /// The secret with which it is to be authenticated, if the call names one.
    key: Option<u16>,
}

impl Sending {
    /// A message to the peer with these addresses, all with the same port. A one-to-one socket that has an
    /// association does not need addresses.
    pub fn new(socket: Arc<Socket>, data: Bytes, remotes: Vec<SocketAddr>) -> Self {
        let target = Target { remotes, ..Target::default() };
        let (info, reliability) = socket.defaults(&target);
        let outgoing = Outgoing { info, reliability, data };
        Self { socket, outgoing, target, explicit: false, key: None }
    }

    /// SCTP_SNDINFO (RFC 6458 section 5.3.4). A policy of partial reliability in the flags has the value of
    /// SCTP_DEFAULT_PRINFO, as in Linux, unless [`reliability`](Self::reliability) is called.
    ///
    /// # Errors
    /// [`Error::Invalid`]: this value is too large for the policy.
    pub fn info(&mut self, info: SendInfo) -> Result<(), Error> {
        self.outgoing.info = info;
        if info.id != AssocId::FUTURE {
            self.target.id = info.id;
            if !self.explicit {
                self.outgoing.reliability = self.socket.defaults(&self.target).1;
            }
        }
        let policy = info.flags.policy();
        if !self.explicit && !policy.is_empty() {
            let (_, value) = policy::of_reliability(self.outgoing.reliability);
            self.outgoing.reliability = policy::reliability(policy, value)?;
        }
        Ok(())
    }

    /// SCTP_PRINFO (RFC 6458 section 5.3.7): when the message is given up. [`Reliability::Usual`] leaves that to the
    /// engine's option `reliability`, whatever SCTP_DEFAULT_PRINFO is.
    pub fn reliability(&mut self, reliability: Reliability) {
        self.outgoing.reliability = reliability;
        self.explicit = true;
    }

    /// SCTP_EOR: with SCTP_EXPLICIT_EOR the message ends with this data (RFC 6458 section 8.1.26).
    pub fn end_record(&mut self) {
        self.outgoing.info.flags |= SendFlags::END_OF_RECORD;
    }

    /// SCTP_AUTHINFO (RFC 6458 section 5.3.8): the secret with which the message is authenticated. Packets are
    /// authenticated as they leave, with the active secret, so [`send`](Self::send) refuses any other one.
    pub fn authenticate_with(&mut self, key: u16) {
        self.key = Some(key);
    }

    /// SCTP_DSTADDRV4 and SCTP_DSTADDRV6 (RFC 6458 sections 5.3.9 and 5.3.10): another address of the peer, with the
    /// port of the first one.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the message has no address yet.
    pub fn also_to(&mut self, address: IpAddr) -> Result<(), Error> {
        let first = self.target.remotes.first().ok_or(Error::Invalid)?;
        let another = SocketAddr::new(address, first.port());
        self.target.remotes.push(another);
        Ok(())
    }

    /// SCTP_INIT (RFC 6458 section 5.3.1): options of the association that this message sets up. They replace
    /// the socket's for this association only.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a value is out of range.
    pub fn init(&mut self, init: &InitMsg) -> Result<(), Error> {
        let mut config = self.socket.configuration(AssocId::FUTURE)?;
        init.apply(&mut config);
        config.validate().map_err(|_| Error::Invalid)?;
        self.target.config = Some(config);
        Ok(())
    }

    /// Sends the message, or with SCTP_EXPLICIT_EOR keeps it until its end is sent. Waits for room unless the socket is non-blocking or `dont_wait` is set. Returns its
    /// length.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: there is no room, or SO_SNDTIMEO has expired. [`Error::TooLong`]: it is longer
    /// than the send buffer, or than a packet under SCTP_DISABLE_FRAGMENTS. [`Error::NotConnected`]: there
    /// is neither an association nor an address. [`Error::Finished`]: nothing more can be sent.
    /// [`Error::Invalid`]: it is empty, or its stream, association or secret does not exist.
    /// [`Error::NotSupported`]: its secret is not the active one.
    pub fn send(self, dont_wait: bool) -> Result<usize, Error> {
        if let Some(key) = self.key {
            self.socket.check_active_key(&self.target, key)?;
        }
        self.socket.send(&self.target, &self.outgoing, dont_wait)
    }
}
