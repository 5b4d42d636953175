//! TCP programs under an engine that carries their connections over SCTP, on loopback.

mod common;

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use anabranch::{AssociationConfig, Endpoint};
use anabranch_run::{Engine, TcpSettings};
use common::{Hosts, Server, python, succeed};

/// An engine and the variable that leads TCP programs to it.
struct Carrying {
    engine: Engine,
    variable: (&'static str, String),
}

impl Carrying {
    fn new(engine: Engine, settings: TcpSettings) -> Self {
        let variable = engine.carry_tcp(settings).expect("a loopback interface");
        Self { engine, variable }
    }

    fn python(&self, script: &str) -> Command {
        let mut command = python(&self.engine, script);
        let (name, value) = &self.variable;
        command.env(name, value);
        command
    }
}

/// Two hosts whose connections are carried.
struct Both {
    server: Carrying,
    client: Carrying,
}

impl Both {
    fn new(settings: &TcpSettings) -> Self {
        let Hosts { server, client, .. } = Hosts::new();
        let [server, client] =
            [server, client].map(|engine| Carrying::new(engine, settings.clone()));
        Self { server, client }
    }

    /// The connections over SCTP only.
    fn required() -> Self {
        Self::new(&TcpSettings { required: true, ..TcpSettings::default() })
    }

    fn server(&self, connections: usize, host: &str) -> Server {
        let mut server = self.server.python("tcp_server.py");
        Server::start(server.args([&connections.to_string(), host]))
    }

    fn client(&self, host: &str, server: &Server, ways: &[&str]) {
        let mut client = self.client.python("tcp_client.py");
        client.args([host, &server.port]).args(ways);
        assert_eq!(succeed(&mut client), "done\n");
    }
}

const WAYS: [&str; 9] =
    ["echo", "names", "half_close", "is_reset", "flood", "options", "polled", "forked", "executed"];

#[test]
fn programs_use_their_sockets_in_every_way() {
    let both = Both::required();
    let server = both.server(WAYS.len() + 3, "127.0.0.1");
    both.client("127.0.0.1", &server, &WAYS);
    both.client("127.0.0.1", &server, &["registered_before", "urgent", "reads_late"]);
    server.finish();
}

#[test]
fn a_reset_arrives_as_one() {
    let both = Both::required();
    let server = both.server(1, "127.0.0.1");
    both.client("127.0.0.1", &server, &["resets"]);
    assert_eq!(server.finish(), "ECONNRESET\n");
}

#[test]
fn ipv6_and_both_versions() {
    let both = Both::required();
    let server = both.server(2, "::1");
    both.client("::1", &server, &["echo", "names"]);
    server.finish();
    let server = both.server(2, "::");
    both.client("::1", &server, &["echo"]);
    both.client("127.0.0.1", &server, &["echo"]);
    server.finish();
}

#[test]
fn what_cannot_be_carried_is_tcp() {
    let both = Both::new(&TcpSettings::default());
    let server = both.server(1, "127.0.0.1");
    both.client("127.0.0.1", &server, &["refused", "bound", "interrupted"]);
    server.finish();
}

/// A server without an engine: TCP in all ways, also when it is known that the host has no SCTP.
#[test]
fn a_host_without_sctp_has_tcp() {
    let both = Both::new(&TcpSettings::default());
    let mut server = Command::new("timeout");
    server.args(["60", "python3", "-u"]).arg(common::source("tcp_server.py"));
    let server = Server::start(server.arg("10"));
    both.client("127.0.0.1", &server, &["echo"]);
    both.client("127.0.0.1", &server, &WAYS);
    server.finish();
}

#[test]
fn a_host_without_sctp_cannot_be_reached_if_sctp_is_required() {
    let both = Both::required();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port().to_string();
    let mut client = both.client.python("tcp_client.py");
    assert_eq!(succeed(client.args(["127.0.0.1", &port, "unreachable"])), "done\n");
}

/// As above, but somebody else has the UDP port, and says nothing.
#[test]
fn a_silent_udp_port_does_not_hold_tcp_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("a bound socket").port();
    let client = Carrying::new(Hosts::client_of(port), TcpSettings::default());
    let server = Server::start(python(&client.engine, "tcp_server.py").arg("9"));
    let mut program = client.python("tcp_client.py");
    assert_eq!(succeed(program.args(["127.0.0.1", &server.port]).args(WAYS)), "done\n");
    server.finish();
}

/// A peer that has SCTP for something else: it accepts, and does not greet.
#[test]
fn a_peer_that_accepts_and_says_nothing_does_not_hold_tcp_up() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _within = runtime.enter();
    let endpoint = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind();
    let endpoint = endpoint.expect("an endpoint");
    let client = Carrying::new(Hosts::client_of(endpoint.udp_port()), TcpSettings::default());
    let server = Server::start(python(&client.engine, "tcp_server.py").arg("2"));
    let port = server.port.parse().expect("a port");
    let listener = endpoint.listen(port, AssociationConfig::default()).expect("a listener");
    // Under load TCP may be there before the first association: then nothing is accepted.
    runtime.spawn(async move {
        let mut accepted = Vec::new();
        while let Some(association) = listener.accept().await {
            accepted.push(association);
        }
    });
    let mut program = client.python("tcp_client.py");
    program.args(["127.0.0.1", &server.port, "echo", "names"]);
    assert_eq!(succeed(&mut program), "done\n");
    server.finish();
}

#[test]
fn hosts_outside_of_the_lists_have_tcp() {
    let never = "127.0.0.0/8".parse().expect("a network");
    let settings = TcpSettings { never, required: true, ..TcpSettings::default() };
    let both = Both::new(&settings);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port().to_string();
    let mut client = both.client.python("tcp_client.py");
    client.args(["127.0.0.1", &port, "echo"]).stderr(Stdio::null());
    let mut child = client.spawn().expect("python3");
    let (_connection, from) = listener.accept().expect("a connection");
    assert_eq!(from.ip().to_string(), "127.0.0.1", "the program's own");
    child.kill().expect("a process");
    child.wait().expect("an end");
}
