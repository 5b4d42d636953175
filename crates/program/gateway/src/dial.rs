//! Connects to a target: resolves its name, checks each address, and tries them in turn (RFC 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::rules::Rules;
use crate::status::{Refusal, Status};
use crate::target::{Host, Target};

/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 16;

/// Time after which the next address is tried while the one before has not answered (RFC 8305 section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Most names that are resolved at the same time. Each takes a thread.
const MOST_LOOKUPS: usize = 32;

/// Connects to targets.
#[derive(Debug)]
pub(crate) struct Dialler {
    rules: Rules,
    /// For the whole attempt: name and all addresses.
    limit: Duration,
    lookups: Semaphore,
}

impl Dialler {
    pub(crate) fn new(rules: Rules, limit: Duration) -> Self {
        Self { rules, limit, lookups: Semaphore::new(MOST_LOOKUPS) }
    }

    /// Connects within the time limit.
    pub(crate) async fn dial(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let timed_out = |_| {
            let waited = self.limit;
            Refusal::new(Status::TimedOut, format!("{target} did not answer within {waited:?}"))
        };
        timeout(self.limit, self.dial_unlimited(target)).await.map_err(timed_out)?
    }

    async fn dial_unlimited(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let connected = first_of(in_turn(self.allowed(target).await?)).await;
        connected.map_err(|error| {
            Refusal::new(status_of(&error), format!("cannot connect to {target}: {error}"))
        })
    }

    /// The addresses of a target that the rules allow, within the time limit; at least one.
    pub(crate) async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        let timed_out = |_| {
            Refusal::new(Status::TimedOut, format!("{target} was not resolved in {:?}", self.limit))
        };
        timeout(self.limit, self.allowed(target)).await.map_err(timed_out)?
    }

    async fn allowed(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        if !self.rules.may_resolve(target) {
            return Err(forbidden(target, None));
        }
        let mut addresses = self.resolve(target).await?;
        let first = addresses.first().copied();
        addresses.retain(|address| self.rules.may_connect(target, *address));
        if addresses.is_empty() {
            return Err(match first {
                Some(address) => forbidden(target, Some(address.ip())),
                None => {
                    Refusal::new(Status::UnknownHost, format!("{} has no address", target.host))
                }
            });
        }
        Ok(addresses)
    }

    async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        let name = match &target.host {
            Host::Address(address) => return Ok(vec![SocketAddr::new(*address, target.port)]),
            Host::Name(name) => name,
        };
        // Nobody closes the semaphore.
        let _turn = self.lookups.acquire().await;
        let found = tokio::net::lookup_host((&name[..], target.port)).await;
        let found = found.map_err(|error| {
            Refusal::new(Status::UnknownHost, format!("{name} cannot be resolved: {error}"))
        })?;
        Ok(found.collect())
    }
}

fn forbidden(target: &Target, address: Option<IpAddr>) -> Refusal {
    let address = match (&target.host, address) {
        (Host::Name(_), Some(address)) => format!(" at {address}"),
        _ => String::new(),
    };
    Refusal::new(
        Status::Forbidden,
        format!("the far side does not allow connections to {target}{address}"),
    )
}

/// The addresses to try: both versions of IP alternate, beginning with that of the first address.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    while all.len() < MOST_ADDRESSES {
        let before = all.len();
        all.extend(first.next());
        all.extend(second.next());
        if all.len() == before {
            break;
        }
    }
    all.truncate(MOST_ADDRESSES);
    all
}

/// The first connection that is established. The error is that of the last address that failed.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = addresses.next();
        let more = next.is_some();
        if let Some(address) = next {
            attempts.spawn(TcpStream::connect(address));
        }
        let result = tokio::select! {
            result = attempts.join_next() => result,
            () = sleep(NEXT_ADDRESS), if more && addresses.len() > 0 => continue,
        };
        match result {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => last = error,
            // The task was neither cancelled nor did it panic.
            Some(Err(error)) => last = io::Error::other(error),
            None => return Err(last),
        }
    }
}

/// What an error of connecting means.
pub(crate) fn status_of(error: &io::Error) -> Status {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused | Kind::ConnectionReset => Status::Refused,
        Kind::NetworkUnreachable | Kind::AddrNotAvailable => Status::NetworkUnreachable,
        Kind::HostUnreachable => Status::HostUnreachable,
        Kind::TimedOut => Status::TimedOut,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn dialler(allow: &[&str]) -> Dialler {
        let allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        Dialler::new(Rules { allow, ..Rules::default() }, Duration::from_secs(10))
    }

    fn target(text: impl ToString) -> Target {
        Target::parse(&text.to_string(), None).unwrap()
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_not_connected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            let refused = dialler(&[]).dial(&target(format!("{host}:{port}"))).await.unwrap_err();
            assert_eq!(refused.status, Status::Forbidden, "{refused}");
        }
        let allowed = dialler(&["127.0.0.0/8"]);
        let connected = allowed.dial(&target(format!("127.0.0.1:{port}"))).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap().port(), port);
    }

    #[tokio::test]
    async fn failures_have_a_status() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = dialler(&["*"]).dial(&target(address)).await.unwrap_err();
        assert_eq!(refused.status, Status::Refused, "{refused}");
        let unknown = dialler(&["*"]).dial(&target("no-such-host.invalid:80")).await.unwrap_err();
        assert_eq!(unknown.status, Status::UnknownHost, "{unknown}");
    }

    #[tokio::test]
    async fn later_addresses_are_tried() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let connected = first_of(vec![closed, open, closed]).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), open);
        assert!(first_of(vec![closed, closed]).await.is_err());
        assert!(first_of(Vec::new()).await.is_err());
    }

    #[test]
    fn both_versions_of_ip_alternate() {
        let parsed = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let given = parsed(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let expected = parsed(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(in_turn(given), expected);
        assert_eq!(in_turn(vec!["1.1.1.1:1".parse().unwrap(); 40]).len(), MOST_ADDRESSES);
    }
}
