//! Typed association options, and options that need more than a change of the configuration.

use std::net::IpAddr;
use std::time::Duration;

use anabranch::{Association, Features};

use super::{Socket, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::family::Family;
use crate::option::{
    AssociationOption, EcnSupported, MaxSegment, NrSackSupported, PathParameters, PathThresholds,
    PrSupported,
};
use crate::status::AssocInfo;

/// Cookie lifetime. The engine has one value for all associations.
const COOKIE_LIFE: Duration = Duration::from_secs(60);

impl Socket {
    /// Sets an option of these associations (RFC 6458 section 8). `id` is as for
    /// [`configure`](Self::configure).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the value is out of range, or the association does not exist.
    /// [`Error::NotSupported`]: it is too late to change the option, or sockets of this style do not have it.
    pub fn set_option<O: AssociationOption>(&self, id: AssocId, option: &O) -> Result<(), Error> {
        if O::ONE_TO_MANY_ONLY && self.style == Style::OneToOne {
            return Err(Error::NotSupported);
        }
        self.change_config(id, O::HINT, |config| option.apply(config))
    }

    /// An option of an association, or of future ones.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist. [`Error::NotConnected`]: it has ended.
    pub fn option<O: AssociationOption>(&self, id: AssocId) -> Result<O, Error> {
        Ok(O::of(&self.configuration(id)?))
    }

    /// SCTP_ASSOCINFO (RFC 6458 section 8.1.2) of an association, or of future ones.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn assoc_info(&self, id: AssocId) -> Result<AssocInfo, Error> {
        let config = self.configuration(id)?;
        let known = self.with_association(id, Association::statistics).ok();
        Ok(AssocInfo {
            max_retrans: config.paths.association_max_retrans,
            peer_addresses: known.as_ref().map_or(0, |known| known.paths.len()),
            peer_rwnd: known.as_ref().map_or(0, |known| known.peer_rwnd),
            local_rwnd: config.receiving.first_receive_buffer(),
            cookie_life: COOKIE_LIFE,
        })
    }

    /// SCTP_NRSACK_SUPPORTED: for an established association, whether both sides negotiated NR-SACKs; otherwise
    /// whether this side will offer them.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn nr_sack(&self, id: AssocId) -> Result<bool, Error> {
        let NrSackSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::NR_SACK).unwrap_or(wanted))
    }

    /// SCTP_PR_SUPPORTED: for an established association, whether both sides negotiated partial reliability; otherwise
    /// whether this side will offer it.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn partial_reliability(&self, id: AssocId) -> Result<bool, Error> {
        let PrSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::PARTIAL_RELIABILITY).unwrap_or(wanted))
    }

    /// SCTP_ECN_SUPPORTED: for an established association, whether both sides negotiated explicit congestion notification;
    /// otherwise whether this side will offer it.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn ecn(&self, id: AssocId) -> Result<bool, Error> {
        let EcnSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::ECN).unwrap_or(wanted))
    }

    /// Whether both sides negotiated a feature; `None` if the association does not exist.
    pub(super) fn agreed(&self, id: AssocId, feature: Features) -> Option<bool> {
        let known = self.with_association(id, Association::statistics).ok()?;
        Some(known.features.has(feature))
    }

    /// SCTP_MAXSEG of future associations: maximum bytes of user data in a fragment; 0 means as many as the path
    /// allows (RFC 6458 section 8.1.16).
    ///
    /// # Errors
    /// As [`set_option`](Self::set_option).
    pub fn set_max_segment(&self, bytes: u32) -> Result<(), Error> {
        self.set_option(AssocId::FUTURE, &MaxSegment::new(bytes)?)?;
        self.with(|state| state.options.max_segment = bytes);
        Ok(())
    }

    /// SCTP_PEER_ADDR_PARAMS of all paths of an association (RFC 6458 section 8.1.12). If there is an address, it
    /// must be the peer's only one.
    ///
    /// # Errors
    /// As [`set_option`](Self::set_option). [`Error::NotSupported`]: the peer has other addresses, too.
    pub fn set_path_parameters(
        &self,
        id: AssocId,
        remote: Option<IpAddr>,
        parameters: &PathParameters,
    ) -> Result<(), Error> {
        if let Some(remote) = remote {
            let known = self.peer_addresses(id)?;
            // IPv4 addresses may be shown mapped.
            let is_only = known.iter().all(|known| known.ip().to_canonical() == remote);
            if *parameters != PathParameters::default() && !is_only {
                return Err(Error::NotSupported);
            }
        }
        self.set_option(id, parameters)
    }

    /// SCTP_PEER_ADDR_THLDS of all paths of an association (RFC 7829 section 7.2).
    ///
    /// # Errors
    /// As [`set_option`](Self::set_option). [`Error::NotSupported`]: there is an address; all paths of an
    /// association have the same thresholds.
    pub fn set_path_thresholds(
        &self,
        id: AssocId,
        remote: Option<IpAddr>,
        thresholds: &PathThresholds,
    ) -> Result<(), Error> {
        if remote.is_some() {
            return Err(Error::NotSupported);
        }
        self.set_option(id, thresholds)
    }

    /// SPP_HB_DEMAND: sends a heartbeat to an address of the peer now (RFC 6458 section 8.1.12).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the peer does not have the address, or the association does not exist.
    pub fn request_heartbeat(&self, id: AssocId, remote: IpAddr) -> Result<(), Error> {
        let asked = self.with_association(id, |known| known.request_heartbeat(remote))?;
        asked.map_err(|_| Error::Invalid)
    }

    /// SCTP_PRIMARY_ADDR: makes an address of the peer the primary one (RFC 6458 section 8.1.9).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the peer does not have the address, or the association does not exist.
    pub fn set_primary(&self, id: AssocId, remote: IpAddr) -> Result<(), Error> {
        let set = self.with_association(id, |known| known.set_primary(remote))?;
        set.map_err(|_| Error::Invalid)
    }

    /// SCTP_REMOTE_UDP_ENCAPS_PORT of future associations: the UDP port of peers (RFC 6951 section 6.1).
    ///
    /// # Errors
    /// [`Error::NotSupported`]: `id` is an association; for those the engine uses the source port of the peer's
    /// packets (section 5.4). [`Error::Invalid`]: `id` is unknown.
    pub fn set_remote_udp_port(&self, id: AssocId, port: u16) -> Result<(), Error> {
        match id {
            // A one-to-one socket has one association at most.
            _ if self.style == Style::OneToOne => {}
            AssocId::FUTURE => {}
            AssocId::CURRENT | AssocId::ALL => return Err(Error::Invalid),
            _ => return Err(Error::NotSupported),
        }
        self.with(|state| state.options.remote_udp_port = port);
        Ok(())
    }

    /// SCTP_I_WANT_MAPPED_V4_ADDR: whether IPv4 addresses are shown as mapped IPv6 addresses (RFC 6458 section
    /// 8.1.15).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the socket is of the family IPv4.
    pub fn set_mapped(&self, on: bool) -> Result<(), Error> {
        if self.family == Family::Ipv4 {
            return Err(Error::Invalid);
        }
        self.with(|state| state.options.mapped = on);
        Ok(())
    }
}
