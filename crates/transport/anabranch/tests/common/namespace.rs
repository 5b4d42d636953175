//! Separate network namespaces for tests.

use std::future::Future;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Runs a test's future in a separate network, in which only the loopback interface is up.
///
/// Skips the test without the privileges for that, or fails it with ANABRANCH_REQUIRE_ALL=1.
pub(crate) fn in_namespace<T>(future: impl Future<Output = T>) -> Option<T> {
    // Only this thread moves; sockets and processes made by it are in the namespace.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        super::skip(&format!("a network namespace: {error}"));
        return None;
    }
    ip("link set lo up");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    Some(runtime.block_on(limited).expect("the test does not end"))
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Runs `ip` of iproute2 in the namespace.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.expect("iproute2 is installed").success(), "ip {arguments}");
}

/// A network of two hosts: the one of a test's client, and its server's.
pub(crate) struct Network {
    server: String,
}

impl Network {
    /// A link with an interface `c{number}` here and `s{number}` at the server.
    pub(crate) fn link(&self, number: u8) {
        ip(&format!("link add c{number} type veth peer name s{number} netns {}", self.server));
        ip(&format!("link set c{number} addrgenmode none up"));
        self.ip_there(&format!("link set s{number} addrgenmode none up"));
        // A link gets its carrier a moment after it was set up.
        while !output(Command::new("ip").args(["link", "show", &format!("c{number}")]))
            .contains("state UP")
        {
            std::thread::yield_now();
        }
    }

    /// Addresses 10.77.{number}.1 here and .2 there, and fe80::1 and ::2.
    pub(crate) fn addresses(&self, number: u8) {
        ip(&format!("address add 10.77.{number}.1/24 dev c{number}"));
        ip(&format!("address add fe80::1/64 dev c{number} nodad"));
        self.ip_there(&format!("address add 10.77.{number}.2/24 dev s{number}"));
        self.ip_there(&format!("address add fe80::2/64 dev s{number} nodad"));
    }

    fn ip_there(&self, arguments: &str) {
        let namespace = format!("--net=/proc/{}/ns/net", self.server);
        let words = ["ip"].into_iter().chain(arguments.split_whitespace());
        let status = Command::new("nsenter").arg(namespace).args(words).status();
        assert!(status.expect("util-linux is installed").success(), "there: ip {arguments}");
    }
}

/// Runs a server and a client in separate namespaces, with links of these numbers between them.
/// When the server is ready, it passes the parameters for the client. Skips as [`in_namespace`]
/// does.
pub(crate) fn in_two_namespaces<T: Send + 'static, S: Future<Output = ()>, C: Future>(
    links: &[u8],
    server: impl FnOnce(tokio::sync::oneshot::Sender<T>) -> S + Send + 'static,
    client: impl FnOnce(Network, T) -> C,
) {
    let (tell_thread, thread) = std::sync::mpsc::channel();
    let (go, going) = std::sync::mpsc::channel();
    let (tell_client, told) = tokio::sync::oneshot::channel();
    let there = std::thread::spawn(move || {
        in_namespace(async move {
            tell_thread.send(nix::unistd::gettid().to_string()).unwrap();
            going.recv().unwrap();
            server(tell_client).await;
        });
    });
    in_namespace(async move {
        let network = Network { server: thread.recv().unwrap() };
        for number in links {
            network.link(*number);
            network.addresses(*number);
        }
        go.send(()).unwrap();
        let told = told.await.unwrap();
        client(network, told).await
    });
    there.join().unwrap();
}
