//! Limits what handshakes of strangers cost, and has strangers prove their address when they are many.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_units::Instant;
use ring::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq;

use crate::handshake::{Hello, MAC, Mac, address_proof};
use crate::meter::{Meter, Rate};
use crate::random::Random;

/// How long a secret for cookies is used. The one before remains valid for as long.
const SECRET_LIFE: Duration = Duration::from_secs(60);

/// Handshakes without a proof of the address: 50 a second. A handshake takes four Diffie-Hellman computations, about
/// 0.4 ms.
const UNPROVED: Rate = Rate { interval: Duration::from_millis(20), burst: 32 };

/// Handshakes with one: 200 a second.
const PROVED: Rate = Rate { interval: Duration::from_millis(5), burst: 64 };

/// What to do with a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Read it.
    Admit,
    /// Send this cookie.
    Prove(Mac),
    /// Drop it.
    Drop,
}

/// The doorkeeper of a responder.
pub(crate) struct Limit {
    secrets: [[u8; 32]; 2],
    changed: Instant,
    unproved: Meter,
    proved: Meter,
}

impl Limit {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            secrets: [random.array(), random.array()],
            changed: Instant::ZERO,
            unproved: Meter::EMPTY,
            proved: Meter::EMPTY,
        }
    }

    /// Decides about a hello from an address. Holds nothing about it.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        source: SocketAddr,
        hello: &Hello<'_>,
        random: &mut Random,
    ) -> Admission {
        if now.saturating_since(self.changed) >= SECRET_LIFE {
            self.secrets = [random.array(), self.secrets[0]];
            self.changed = now;
        }
        let cookies = self.secrets.map(|secret| cookie(&secret, source));
        let proves = |cookie: &Mac| -> bool {
            address_proof(cookie, &hello.key_proof).ct_eq(&hello.address_proof).into()
        };
        if cookies.iter().any(proves) {
            let admitted = self.proved.take(PROVED, now);
            return if admitted { Admission::Admit } else { Admission::Drop };
        }
        if self.unproved.take(UNPROVED, now) {
            Admission::Admit
        } else {
            Admission::Prove(cookies[0])
        }
    }
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limit").field("unproved", &self.unproved).finish_non_exhaustive()
    }
}

/// What the host at this address can know only by receiving it.
fn cookie(secret: &[u8; 32], source: SocketAddr) -> Mac {
    let ip = match source.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let text = [&ip.octets()[..], &source.port().to_be_bytes()].concat();
    let tag = sign(&Key::new(HMAC_SHA256, secret), &text);
    std::array::from_fn::<u8, MAC, _>(|index| tag.as_ref()[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{Attempt, Offer};
    use crate::keys::SecretKey;

    #[test]
    fn many_strangers_must_prove_their_address() {
        let (mut random, far) = (Random::new([1; 32]), SecretKey::from_bytes([2; 32]));
        let near = SecretKey::from_bytes([3; 32]);
        let offer = Offer { instance: 1, number: 1, fast_aes: false, token: None };
        let begun = Attempt::begin(&near, &far.public(), 7, &offer, random.fork());
        let mut attempt = begun.unwrap();
        let mut limit = Limit::new(&mut random);
        let sources: [SocketAddr; 2] = ["192.0.2.1:7", "192.0.2.1:8"].map(|s| s.parse().unwrap());
        let mut admit = |now, source, packet: &[u8]| {
            let hello = Hello::read(packet, &far.public()).unwrap();
            limit.admit(now, source, &hello, &mut random)
        };
        let now = Instant::from_secs(1);
        for _ in 0..32 {
            assert_eq!(admit(now, sources[0], attempt.hello()), Admission::Admit);
        }
        let packet = attempt.hello().to_vec();
        let admission = admit(now, sources[0], &packet);
        let Admission::Prove(cookie) = admission else { panic!("{admission:?}") };
        let hello = Hello::read(&packet, &far.public()).unwrap();
        assert!(attempt.take_cookie(&hello.cookie_reply(&cookie)));
        assert_eq!(admit(now, sources[0], attempt.hello()), Admission::Admit);
        // The proof is for one address, for a while, and not without limit.
        assert!(matches!(admit(now, sources[1], attempt.hello()), Admission::Prove(_)));
        let last = std::iter::repeat_with(|| admit(now, sources[0], attempt.hello()))
            .find(|admission| *admission != Admission::Admit);
        assert_eq!(last, Some(Admission::Drop));
        for seconds in [61, 122] {
            admit(Instant::from_secs(seconds), sources[0], attempt.hello());
        }
        for _ in 0..40 {
            admit(Instant::from_secs(122), sources[1], attempt.hello());
        }
        let late = admit(Instant::from_secs(122), sources[0], attempt.hello());
        assert!(matches!(late, Admission::Prove(_)), "{late:?}");
    }
}
