//! Helpers of the tests over the loopback interface.
#![allow(dead_code)]

#[cfg(target_os = "linux")]
pub(crate) mod namespace;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint, Listener};

/// Skips a test because of a missing requirement, unless ANABRANCH_REQUIRE_ALL=1 makes that a
/// failure.
pub(crate) fn skip(missing: &str) {
    let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
    assert!(!required, "missing: {missing}");
    eprintln!("skipped, because missing: {missing}");
}

/// SCTP port of all test servers; each has its own endpoint.
pub(crate) const PORT: u16 = 5000;

pub(crate) const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// 127.0.0.`last`.
pub(crate) fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// An endpoint on these addresses and a free port.
pub(crate) fn endpoint(addresses: &[IpAddr]) -> Endpoint {
    Endpoint::builder().local_addresses(addresses.iter().copied()).bind().unwrap()
}

/// Options to reach an endpoint of this process.
pub(crate) fn towards(server: &Endpoint, config: AssociationConfig) -> ConnectOptions {
    let mut options = ConnectOptions::from(config);
    options.remote_udp_port = server.udp_port();
    options
}

/// The server's addresses with the SCTP port of its listener.
pub(crate) fn remotes(server: &Endpoint) -> Vec<SocketAddr> {
    server.local_addresses().iter().map(|ip| SocketAddr::new(*ip, PORT)).collect()
}

/// A server with a client connected to it.
pub(crate) struct Pair {
    pub(crate) server: Endpoint,
    pub(crate) listener: Listener,
    pub(crate) client: Endpoint,
    /// The client's end.
    pub(crate) near: Association,
    /// The server's end.
    pub(crate) far: Association,
}

impl Pair {
    pub(crate) async fn new(addresses: &[IpAddr]) -> Self {
        Self::with(addresses, AssociationConfig::default(), AssociationConfig::default()).await
    }

    /// A pair with options of the client's and of the server's association.
    pub(crate) async fn with(
        addresses: &[IpAddr],
        near: AssociationConfig,
        far: AssociationConfig,
    ) -> Self {
        let (server, client) = (endpoint(addresses), endpoint(addresses));
        let listener = server.listen(PORT, far).unwrap();
        let near = client.connect(remotes(&server), towards(&server, near)).await.unwrap();
        let far = listener.accept().await.unwrap();
        Self { server, listener, client, near, far }
    }

    /// Another association between the same endpoints.
    pub(crate) async fn another(&self) -> (Association, Association) {
        let options = towards(&self.server, AssociationConfig::default());
        let near = self.client.connect(remotes(&self.server), options).await.unwrap();
        (near, self.listener.accept().await.unwrap())
    }
}

/// Ends a test that hangs.
pub(crate) async fn soon<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("hangs")
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
