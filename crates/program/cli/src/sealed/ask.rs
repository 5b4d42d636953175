//! Asks servers for their public keys.

use std::future::pending;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anabranch::seal::{KeyQuestion, PublicKey};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

/// The pause before a question is repeated; it doubles up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// How long a client waits before it looks for a reason why the server does not answer.
const SUSPICION: Duration = Duration::from_millis(1500);

/// The key that the server at these real addresses gives to anyone who asks; `None` without an answer in this time.
pub(super) async fn key_at(addresses: &[SocketAddr], patience: Duration) -> Option<PublicKey> {
    let question = KeyQuestion::new().ok()?;
    let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.ok();
    let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await.ok();
    let asking = async {
        let mut pause = PAUSES.0;
        loop {
            for address in addresses {
                if let Some(socket) = if address.is_ipv4() { &v4 } else { &v6 } {
                    // Another address may be reachable.
                    let _ = socket.send_to(&question.datagram(), address).await;
                }
            }
            sleep(pause).await;
            pause = PAUSES.1.min(pause * 2);
        }
    };
    let asked = async {
        tokio::select! {
            key = answer(v4.as_ref(), addresses, &question) => key,
            key = answer(v6.as_ref(), addresses, &question) => key,
            never = asking => never,
        }
    };
    timeout(patience, asked).await.ok()
}

/// The first answer to the question on this socket.
async fn answer(
    socket: Option<&UdpSocket>,
    addresses: &[SocketAddr],
    question: &KeyQuestion,
) -> PublicKey {
    let Some(socket) = socket else { return pending().await };
    let mut buffer = [0; 128];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, from)) => {
                let from_server =
                    addresses.iter().any(|a| (a.ip(), a.port()) == (from.ip(), from.port()));
                let key = buffer.get(..len).and_then(|datagram| question.answered(datagram));
                if let (true, Some(key)) = (from_server, key) {
                    return key;
                }
            }
            // An error that stays must not keep the processor busy.
            Err(_) => sleep(PAUSES.0).await,
        }
    }
}

/// Waits until the server does not seem to answer, then asks for its key until it has one that is not `expected`.
pub(crate) async fn unexpected_key(
    addresses: &[SocketAddr],
    expected: Option<PublicKey>,
) -> PublicKey {
    loop {
        sleep(SUSPICION).await;
        match key_at(addresses, PAUSES.1).await {
            Some(key) if Some(key) != expected => return key,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::Endpoint;
    use anabranch::seal::{Allow, Seal, SecretKey};

    use super::*;

    #[tokio::test]
    async fn a_server_that_announces_its_key_is_asked() {
        let secret = SecretKey::from_bytes([2; 32]);
        let bind = |seal: Seal| Endpoint::builder().seal(seal.allow(Allow::Any)).bind().unwrap();
        let any = [SocketAddr::from(([127, 0, 0, 1], 0))];
        let open = bind(Seal::listen(secret.clone(), any).announce());
        let silent = bind(Seal::listen(secret.clone(), any));
        let at = |endpoint: &Endpoint| [SocketAddr::from(([127, 0, 0, 1], endpoint.udp_port()))];
        let found = key_at(&at(&open), Duration::from_secs(60)).await;
        assert_eq!(found, Some(secret.public()));
        assert_eq!(key_at(&at(&silent), Duration::from_millis(500)).await, None);
        assert_eq!(unexpected_key(&at(&open), None).await, secret.public());
    }
}
