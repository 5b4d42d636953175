//! Goodput through sealed paths, with and without floods of handshakes and of other packets.

use std::net::IpAddr;

use anabranch::runtime::Instant;
use anabranch::seal::{Allow, Invitation, KeyQuestion, PublicKey, Seal, SecretKey};
use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
use anabranch_seal::Families;

use crate::common::{PORT, V4, pattern};
use crate::flooder::{Flooder, PACKETS};
use crate::goodput::{Case, Ends, Load, listening, time};
use crate::options::Options;

/// The packets of a flood.
#[derive(Clone, Copy)]
enum Flood {
    /// First packets of clients that know the server's key and may not connect.
    Hello,
    /// The same from many addresses.
    Forged,
    /// The same from hosts that do not know it.
    Keyless,
    /// Records of invented sessions.
    Record,
    /// Questions for the server's key.
    Question,
}

const FLOODS: [(Flood, &str); 5] = [
    (Flood::Hello, "sealed_hello"),
    (Flood::Forged, "sealed_forged"),
    (Flood::Keyless, "sealed_keyless"),
    (Flood::Record, "sealed_record"),
    (Flood::Question, "sealed_question"),
];

/// The first packet of a stranger.
fn hello(server: PublicKey, number: u32) -> Vec<u8> {
    let secret = SecretKey::generate().unwrap();
    let mut seed = [7; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    let mut stranger = anabranch_seal::Endpoint::connecting(secret, seed);
    stranger.add_host(server, vec![(V4, 9899).into()], None);
    let now = Instant::ZERO;
    stranger.set_uplink(now, 0, Families { ipv4: true, ipv6: false });
    let (from, to) = (stranger.network().address(0), server.remotes(PORT)[0].ip());
    let _ = stranger.seal(now, (from.into(), to), b"x", 1, &mut Vec::new());
    stranger.poll_transmit().expect("a hello").contents
}

fn packet(flood: Flood, server: PublicKey, number: u32) -> Vec<u8> {
    match flood {
        Flood::Hello | Flood::Forged => hello(server, number),
        Flood::Keyless => hello(SecretKey::generate().unwrap().public(), number),
        Flood::Record => pattern(1000, u64::from(number) + 1),
        Flood::Question => KeyQuestion::new().unwrap().datagram(),
    }
}

/// Endpoints with one sealed path between them. Only this client may connect.
fn ends() -> (Ends, PublicKey) {
    let (secret, guest) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let seal = Seal::listen(secret.clone(), [(V4, 0).into()]).announce();
    let seal = seal.allow(Allow::Keys([guest.public()].into()));
    let server = Endpoint::builder().seal(seal).bind().unwrap();
    let listener = server.listen(PORT, listening()).unwrap();
    let key = secret.public();
    let invitation = Invitation::new(key, [(V4, server.udp_port()).into()]);
    let client = Endpoint::builder().seal(Seal::connect(guest, &invitation)).bind().unwrap();
    let options = ConnectOptions::from(AssociationConfig::default());
    (Ends { server, client, listener, remotes: key.remotes(PORT), options }, key)
}

/// One of many addresses of this host.
fn host(third: u8, last: u8) -> IpAddr {
    [127, 0, third, last].into()
}

/// Measures every flood. Returns JSON, one object per line.
pub(crate) async fn table(options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    for to_server in [true, false] {
        let (ends, key) = ends();
        let load = Load::new(ends, 1, to_server).await;
        for (flood, name) in FLOODS {
            let packets = (0..PACKETS).map(|number| packet(flood, key, number)).collect();
            let case = Case { associations: 1, shards: 1, to_server, flood: name.to_owned() };
            let from: Vec<_> = match flood {
                Flood::Forged => (1..=2).flat_map(|a| (1..=250).map(move |b| host(a, b))).collect(),
                _ => vec![V4],
            };
            let flooder = |to| Flooder::with(packets, to, &from, None);
            lines.push(case.measure(&load, time(options), flooder).await);
        }
    }
    lines
}
