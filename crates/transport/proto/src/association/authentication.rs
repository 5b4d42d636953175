//! Authenticates the packets of an association (RFC 4895).
//!
//! An AUTH chunk is put in front of every packet that has a chunk of a type that the peer wants authenticated. Of a
//! received packet a [`Screen`] tells which chunks are read: it withholds those that should have been authenticated and
//! are not, and everything after an AUTH chunk that is wrong.

use anabranch_wire::{
    Auth, Cause, Chunk, ChunkError, Chunks, Packet, PacketWriter, RawChunk, kind,
};

use super::{Association, Control};
use crate::authentication::{ChunkTypes, HmacAlgorithm, KeyVector, KeyVectors, Mac, SharedKeys};
use crate::config::AssociationConfig;
use crate::event::{AuthenticationChange, Notification};
use crate::features::Features;
use crate::path::Reservation;
use crate::per_path::PathId;
use crate::rng::Rng;
use crate::stats::AuthenticationCounters;
use crate::time::Instant;

/// Bytes of an AUTH chunk without its MAC.
const AUTH_HEADER: usize = 8;
/// A MAC before it is computed.
const NO_MAC: [u8; 32] = [0; 32];
/// The chunks that may be in any packet, without having been in the outbox.
const BUNDLED: &[u8] = &[
    kind::DATA,
    kind::I_DATA,
    kind::SACK,
    kind::NR_SACK,
    kind::FORWARD_TSN,
    kind::I_FORWARD_TSN,
    kind::TIMESTAMP,
    kind::ECNE,
];

/// State of authentication.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// What this side says in its INIT or INIT ACK.
    own: KeyVector,
    agreed: Option<Agreed>,
    counts: AuthenticationCounters,
}

/// What both sides agreed on.
#[derive(Debug)]
struct Agreed {
    vectors: KeyVectors,
    /// Chunks that this side accepts only if they are authenticated.
    required: ChunkTypes,
    /// Chunks that the peer accepts only if they are authenticated.
    wanted: ChunkTypes,
    /// Whether a chunk that may be in any packet is among them.
    requires_bundled: bool,
    wants_bundled: bool,
    /// The algorithm that the peer prefers.
    algorithm: HmacAlgorithm,
    /// The MAC with the active key.
    sending: Option<Mac>,
    /// The key and the algorithm of the last packet, with their MAC.
    receiving: Option<(u16, HmacAlgorithm, Mac)>,
    /// The key with which the peer authenticated its last packet.
    heard: Option<u16>,
}

/// Why an AUTH chunk is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// This side did not ask for the algorithm.
    Algorithm(u16),
    /// There is no such key, or the MAC is wrong.
    Wrong,
}

/// Which chunks of a packet are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    required: ChunkTypes,
    /// Chunks are authentic from this byte of the packet on.
    authentic_from: usize,
    /// Nothing is read from this byte on.
    ends_at: usize,
}

impl Screen {
    /// Everything is read.
    pub(crate) const OPEN: Self =
        Self { required: ChunkTypes::NONE, authentic_from: usize::MAX, ends_at: usize::MAX };

    /// Whether what begins `at` this byte of the packet is authentic.
    pub(crate) fn has_authenticated(&self, at: usize) -> bool {
        at >= self.authentic_from && at < self.ends_at
    }

    /// Whether it may withhold a chunk.
    pub(crate) fn withholds(&self) -> bool {
        self.ends_at != usize::MAX || !self.required.is_empty()
    }

    /// Whether a chunk of this type is read that begins `at` this byte of the packet.
    #[inline(never)]
    pub(crate) fn admits(&self, kind: u8, at: usize) -> bool {
        at < self.ends_at && (at >= self.authentic_from || !self.required.has(kind))
    }
}

/// The chunks of a packet that a screen admits.
#[derive(Clone, Debug)]
pub(super) struct Screened<'a> {
    chunks: Chunks<'a>,
    /// `None` if everything is read.
    screen: Option<&'a Screen>,
}

impl<'a> Iterator for Screened<'a> {
    type Item = Result<RawChunk<'a>, ChunkError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.chunks.offset();
            let next = self.chunks.next()?;
            if let (Some(screen), Ok(chunk)) = (self.screen, &next)
                && !screen.admits(chunk.kind, at)
            {
                continue;
            }
            return Some(next);
        }
    }
}

/// The part of a packet that is left for the association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// Chunks that were processed already.
    pub(crate) skip: usize,
    /// What is read of it, if that was decided.
    pub(crate) screen: Option<Screen>,
}

impl Rest {
    /// All of it.
    pub(crate) const ALL: Self = Self { skip: 0, screen: None };

    /// The chunks that are left, and that a screen admits, if there is one.
    #[inline]
    pub(super) fn chunks<'a>(
        &self,
        packet: &Packet<'a>,
        screen: Option<&'a Screen>,
    ) -> Screened<'a> {
        let mut chunks = packet.chunks();
        for _ in 0..self.skip {
            chunks.next();
        }
        Screened { chunks, screen }
    }
}

impl Authentication {
    /// For a new association of this side.
    pub(crate) fn new(config: &AssociationConfig, rng: &mut Rng) -> Self {
        Self::with(KeyVector::own(&config.authentication, &config.authenticated_chunks(), rng))
    }

    fn with(own: KeyVector) -> Self {
        Self { own, agreed: None, counts: AuthenticationCounters::default() }
    }

    fn agree(&mut self, vectors: KeyVectors, keys: &SharedKeys) {
        self.own = vectors.own.clone();
        self.agreed = vectors.peer.algorithm().map(|algorithm| {
            let (required, wanted) = (vectors.own.chunks(), vectors.peer.chunks());
            let (sending, receiving, heard) = (None, None, None);
            let bundled = ChunkTypes::of(BUNDLED);
            let (requires_bundled, wants_bundled) =
                (required.meets(&bundled), wanted.meets(&bundled));
            let mut agreed = Agreed {
                vectors,
                required,
                wanted,
                requires_bundled,
                wants_bundled,
                algorithm,
                sending,
                receiving,
                heard,
            };
            agreed.derive(keys);
            agreed
        });
    }

    /// Decides what is read of a packet that begins an association, as agreed on in its handshake.
    pub(crate) fn screen_first(
        vectors: &KeyVectors,
        keys: &SharedKeys,
        packet: &Packet<'_>,
    ) -> Screen {
        let mut state = Self::with(vectors.own.clone());
        state.agree(vectors.clone(), keys);
        state.screen(keys, packet).0
    }

    /// Decides what is read of a packet.
    // req: rfc4895 6.3 "MUST silently discard these chunks if they"
    // req: rfc4895 6.3 "calculation, all the chunks following the AUTH chunk MUST be silently"
    // req: rfc4895 5.1 "The control chunk AUTH MUST NOT appear more than once"
    // req: rfc5061 4.1.1 "received unauthenticated, it MUST be silently discarded"
    // req: rfc5061 4.1.2 "received unauthenticated, it MUST be silently discarded"
    // req: rfc5061 5.2 "missing, the receiver MUST silently discard this chunk and"
    fn screen(&mut self, keys: &SharedKeys, packet: &Packet<'_>) -> (Screen, Option<Trouble>) {
        let Some(agreed) = &mut self.agreed else { return (Screen::OPEN, None) };
        let mut screen = Screen { required: agreed.required, ..Screen::OPEN };
        let mut trouble = None;
        let mut chunks = packet.chunks();
        loop {
            let at = chunks.offset();
            let Some(Ok(chunk)) = chunks.next() else { break };
            if chunk.kind == kind::AUTH {
                let again = screen.authentic_from != usize::MAX;
                let checked = if again {
                    Err(Trouble::Wrong)
                } else {
                    agreed.check(keys, chunk, packet.bytes().get(at..).unwrap_or_default())
                };
                match checked {
                    Ok(()) => screen.authentic_from = at,
                    Err(what) => {
                        self.counts.authentication_failures =
                            self.counts.authentication_failures.saturating_add(1);
                        (screen.ends_at, trouble) = (at, Some(what));
                        break;
                    }
                }
            } else if !screen.admits(chunk.kind, at) {
                self.counts.unauthenticated_chunks =
                    self.counts.unauthenticated_chunks.saturating_add(1);
            }
        }
        (screen, trouble)
    }

    /// Bytes of the AUTH chunk in front of a packet with chunks of these types.
    fn room(&self, kinds: &ChunkTypes) -> usize {
        let agreed = self.agreed.as_ref().filter(|agreed| agreed.wanted.meets(kinds));
        agreed.map_or(0, |agreed| AUTH_HEADER + agreed.algorithm.length())
    }

    /// Puts an AUTH chunk in front of the packet, if the peer wants a chunk in it to be authenticated.
    // req: rfc4895 6.2 "Endpoints MUST send all requested chunks that have been"
    // req: rfc4895 6.2 "To send chunks in an authenticated way, the sender MUST include these"
    // req: rfc4895 6.2 "This means that a sender MUST bundle"
    // req: rfc4895 6.2 "one of them MUST be selected for"
    fn authenticate(&mut self, key: u16, packet: &mut PacketWriter<'_>) {
        let Some(agreed) = &self.agreed else { return };
        let Agreed { wanted, wants_bundled, algorithm, sending: Some(mac), .. } = agreed else {
            return;
        };
        // If data does not matter, neither does what follows it: control chunks come before.
        let mut chunks = packet
            .chunks()
            .flatten()
            .take_while(|chunk| *wants_bundled || !matches!(chunk.kind, kind::DATA | kind::I_DATA));
        if wanted.is_empty() || !chunks.any(|chunk| wanted.has(chunk.kind)) {
            return;
        }
        let auth = Auth {
            shared_key_id: key,
            hmac_id: algorithm.identifier(),
            hmac: NO_MAC.get(..algorithm.length()).unwrap_or_default(),
        };
        if let Ok(chunks) = packet.insert_first(&Chunk::Auth(auth)) {
            mac.fill(chunks);
            self.counts.authenticated_packets_sent += 1;
        }
    }
}

impl Agreed {
    /// Derives keys from the secrets.
    fn derive(&mut self, keys: &SharedKeys) {
        let secret = keys.secret(keys.active()).unwrap_or_default();
        self.sending = Mac::new(self.algorithm, &self.vectors.key(secret));
        self.receiving = None;
    }

    /// Checks an AUTH chunk; `covered` is the packet from there on.
    // req: rfc4895 6.3 "The receiver MUST use the HMAC algorithm indicated in the HMAC"
    // req: rfc4895 6.3 "it MUST use the key specified by the Shared Key Identifier"
    // req: rfc4895 6.3 "pair shared key has been configured for that Shared Key Identifier"
    // req: rfc4895 6.3 "other than 0, it MUST silently discard all authenticated"
    fn check(
        &mut self,
        keys: &SharedKeys,
        chunk: RawChunk<'_>,
        covered: &[u8],
    ) -> Result<(), Trouble> {
        let Ok(Chunk::Auth(auth)) = chunk.decode() else { return Err(Trouble::Wrong) };
        let algorithm = HmacAlgorithm::of(auth.hmac_id)
            .filter(|_| self.vectors.own.accepts(auth.hmac_id))
            .ok_or(Trouble::Algorithm(auth.hmac_id))?;
        if auth.hmac.len() != algorithm.length() {
            return Err(Trouble::Wrong);
        }
        let wanted = (auth.shared_key_id, algorithm);
        match &self.receiving {
            Some((id, one, mac)) if (*id, *one) == wanted => {
                mac.verifies(covered).then_some(()).ok_or(Trouble::Wrong)?;
            }
            // The MAC of the last genuine packet stays, whatever else arrives.
            _ => {
                let secret = keys.secret(auth.shared_key_id).ok_or(Trouble::Wrong)?;
                let mac = Mac::new(algorithm, &self.vectors.key(secret));
                let mac = mac.filter(|mac| mac.verifies(covered)).ok_or(Trouble::Wrong)?;
                self.receiving = Some((auth.shared_key_id, algorithm, mac));
            }
        }
        self.heard = Some(auth.shared_key_id);
        Ok(())
    }
}

impl Association {
    /// The parameters of this side's INIT.
    pub(crate) fn own_vector(&self) -> Option<&KeyVector> {
        self.authentication.as_ref().map(|state| &state.own)
    }

    /// Adopts what the two sides said of authentication in a handshake. Secrets that the user gave stay.
    pub(super) fn agree_on_keys(&mut self, vectors: Option<KeyVectors>) {
        let vectors = vectors.filter(|_| self.features.has(Features::AUTHENTICATION));
        let Some(vectors) = vectors else {
            self.authentication = None;
            if self.config.features().has(Features::AUTHENTICATION) {
                self.news.notify(Notification::Authentication {
                    change: AuthenticationChange::NotSupported,
                    key: 0,
                });
            }
            return;
        };
        self.authentication
            .get_or_insert_with(|| Box::new(Authentication::with(vectors.own.clone())))
            .agree(vectors, &self.config.keys);
    }

    /// Decides what is read of a packet.
    #[inline]
    pub(super) fn screen(&mut self, packet: &Packet<'_>) -> (Screen, Option<Trouble>) {
        if self.authentication.is_none() {
            return (Screen::OPEN, None);
        }
        self.screen_agreed(packet)
    }

    fn screen_agreed(&mut self, packet: &Packet<'_>) -> (Screen, Option<Trouble>) {
        let Some(state) = &mut self.authentication else { return (Screen::OPEN, None) };
        let key_of = |state: &Authentication| state.agreed.as_ref()?.heard;
        let before = key_of(state);
        let (screen, trouble) = state.screen(&self.config.keys, packet);
        let key = key_of(state);
        if let (Some(_), Some(key)) = (before, key.filter(|_| key != before)) {
            let change = AuthenticationChange::NewKey;
            self.news.notify(Notification::Authentication { change, key });
        }
        (screen, trouble)
    }

    /// Answers an AUTH chunk with an algorithm that this side did not ask for.
    // req: rfc4895 6.3 "MUST be discarded and an ERROR chunk SHOULD be sent with the error"
    #[inline]
    pub(super) fn answer_trouble(&mut self, path: PathId, trouble: Option<Trouble>) {
        if let Some(Trouble::Algorithm(identifier)) = trouble {
            let mut cause = Vec::new();
            Cause::UnsupportedHmacIdentifier { identifier }.encode(&mut cause);
            let length = 4 + cause.len();
            self.answer(self.reply_path(path), Control::Error(cause), length);
        }
    }

    /// Decides what is read of a packet with a COOKIE ECHO, whose cookie says `vectors`. Until this side's handshake is
    /// done, these count.
    // req: rfc4895 6.3 "an STCB, it MUST process the"
    pub(crate) fn screen_cookie_echo(
        &mut self,
        packet: &Packet<'_>,
        vectors: Option<&KeyVectors>,
    ) -> Screen {
        let keys = &self.config.keys;
        match (&mut self.authentication, vectors) {
            (Some(state), _) if state.agreed.is_some() => state.screen(keys, packet).0,
            (_, Some(vectors)) => Authentication::screen_first(vectors, keys, packet),
            (_, None) => Screen::OPEN,
        }
    }

    /// Whether chunks of this type are accepted only if they are authenticated.
    pub(super) fn requires(&self, kind: u8) -> bool {
        let agreed = self.authentication.as_ref().and_then(|state| state.agreed.as_ref());
        agreed.is_some_and(|agreed| agreed.required.has(kind))
    }

    /// Whether a chunk that may be in any packet is accepted only if it is authenticated.
    pub(super) fn requires_bundled(&self) -> bool {
        let agreed = self.authentication.as_ref().and_then(|state| state.agreed.as_ref());
        agreed.is_some_and(|agreed| agreed.requires_bundled)
    }

    /// Authenticates a packet that is ready.
    #[inline]
    pub(super) fn authenticate(&mut self, packet: &mut PacketWriter<'_>) {
        if let Some(state) = &mut self.authentication {
            state.authenticate(self.config.keys.active(), packet);
        }
    }

    /// Bytes to keep free in a packet with chunks of these types.
    pub(super) fn room_to_authenticate(&self, kinds: &[u8]) -> usize {
        self.authentication.as_ref().map_or(0, |state| state.room(&ChunkTypes::of(kinds)))
    }

    /// Bytes to keep free in a packet for a path with data and what goes with it: in every packet, and in the next one,
    /// which may have control chunks.
    pub(super) fn room_to_authenticate_data(&self, path: PathId) -> (usize, usize) {
        let agreed = self.authentication.as_ref().and_then(|state| state.agreed.as_ref());
        let Some(agreed) = agreed else { return (0, 0) };
        let mut queued = self.outbox.chunks.iter().filter(|(target, _)| *target == path);
        let wanted = |(_, control): &(PathId, Control)| agreed.wanted.has(control.kind());
        let room = |is_needed| if is_needed { AUTH_HEADER + agreed.algorithm.length() } else { 0 };
        (room(agreed.wants_bundled), room(agreed.wants_bundled || queued.any(wanted)))
    }

    /// Makes room for AUTH chunks in the packets of all paths, if data is authenticated.
    pub(super) fn reserve_authentication(&mut self, now: Instant) {
        let bytes = u16::try_from(self.room_to_authenticate(BUNDLED)).unwrap_or(u16::MAX);
        self.reserve(now, Reservation::Authentication, bytes);
    }

    /// Derives the keys of the association again, after a change of the secrets.
    pub(super) fn keys_changed(&mut self) {
        if let Some(agreed) = self.authentication.as_mut().and_then(|state| state.agreed.as_mut()) {
            agreed.derive(&self.config.keys);
        }
    }

    /// The chunks that this side accepts only if they are authenticated, and those that the peer does.
    pub fn authenticated_chunks(&self) -> (ChunkTypes, ChunkTypes) {
        let agreed = self.authentication.as_ref().and_then(|state| state.agreed.as_ref());
        agreed.map_or_else(Default::default, |agreed| (agreed.required, agreed.wanted))
    }

    /// The counters of authentication.
    pub(super) fn authentication_counts(&self) -> AuthenticationCounters {
        self.authentication.as_ref().map(|state| state.counts).unwrap_or_default()
    }
}
