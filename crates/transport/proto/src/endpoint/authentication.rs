//! Decides whether a COOKIE ECHO is authenticated as it must be (RFC 4895 section 6.3).

use anabranch_wire::{Packet, kind};

use super::{Endpoint, Listener};
use crate::association::{Authentication, Rest, Screen};
use crate::cookie::CookieContents;
use crate::event::AssociationId;

impl Endpoint {
    /// Returns what is left of a packet after its COOKIE ECHO; `None` if the COOKIE ECHO must be discarded, because it
    /// should be authenticated and is not, or because its AUTH chunk is wrong. `existing` is the association that the
    /// cookie is about; without one the cookie tells what was agreed on.
    // req: rfc4895 6.3 "In this situation, the receiver MUST authenticate the"
    // req: rfc4895 6.3 "successful, the COOKIE-ECHO and all the chunks after the COOKIE-ECHO"
    pub(super) fn after_cookie(
        &mut self,
        packet: &Packet<'_>,
        contents: &CookieContents,
        existing: Option<AssociationId>,
    ) -> Option<Rest> {
        let vectors = contents.vectors.as_ref();
        let screen = match existing.and_then(|id| self.get_mut(id)) {
            Some(association) => association.screen_cookie_echo(packet, vectors),
            None => {
                let listener = self.listeners.get(&packet.header().destination_port);
                // The listener may require it only since the cookie was made.
                let required =
                    |known: &Listener| known.config.authentication.require_authentication;
                if vectors.is_none() && listener.is_some_and(required) {
                    return None;
                }
                vectors.zip(listener).map_or(Screen::OPEN, |(vectors, listener)| {
                    Authentication::screen_first(vectors, &listener.config.keys, packet)
                })
            }
        };
        let mut chunks = packet.chunks();
        let mut at = chunks.offset();
        let leads = chunks.next()?.ok()?.kind == kind::AUTH;
        if leads {
            at = chunks.offset();
        }
        match leads {
            true if screen.has_authenticated(at) => Some(Rest { skip: 2, screen: Some(screen) }),
            // The chunks after it may be authenticated with the keys of the new association.
            false if screen.admits(kind::COOKIE_ECHO, at) => Some(Rest { skip: 1, screen: None }),
            _ => None,
        }
    }
}
