//! Commands whose network is the gateway. This test has no harness, because it is started again inside the namespaces.

#[cfg(target_os = "linux")]
mod common;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Read as _, Write as _};
    use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
    use std::path::Path;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::time::Duration;

    use anabranch_gateway::{Asked, Command, Status, inside};

    use super::common::{HANGS, Pair, site};

    /// The first argument of this program inside the namespaces.
    const CLIENT: &str = "client";

    pub(crate) fn main() -> ExitCode {
        if let Some(inside) = inside() {
            if let Some(error) = inside.error {
                eprintln!("{error}");
            }
            return ExitCode::from(inside.code);
        }
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(|argument| &argument[..]).collect();
        match &arguments[..] {
            [CLIENT, what, more @ ..] => client(what, more),
            ["--list", ..] => {}
            _ => {
                let runtime = tokio::runtime::Builder::new_multi_thread();
                let runtime = { runtime }.enable_all().worker_threads(2).build().unwrap();
                runtime.block_on(tests());
            }
        }
        ExitCode::SUCCESS
    }

    async fn tests() {
        if let Err(error) = Command::start(["true"]) {
            assert!(std::env::var_os("ANABRANCH_REQUIRE_ALL").is_none(), "{error}");
            println!("skipped: {error}");
            return;
        }
        // The exit code is that of the command.
        assert_eq!(run(&["sh", "-c", "exit 7"]).await, 7);
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).await, 137);
        assert_eq!(run(&["/no/such/command"]).await, 127);
        assert_eq!(run(&["/"]).await, 126);
        // The user is the same, and has no power over the network.
        let user = nix::unistd::getuid().to_string();
        assert_eq!(run(&["sh", "-c", &format!("test $(id -u) = {user}")]).await, 0);
        signals_are_passed_on().await;
        what_is_left_behind_is_waited_for().await;
        println!("command: exit codes, signals and daemons");
        for client in ["resolve", "tcp", "refused", "udp", "many"] {
            network(client).await;
            println!("command: {client}");
        }
        curl_needs_no_proxy().await;
        println!("command: curl");
    }

    /// Runs a command with a pair; returns its exit code.
    async fn run(command: &[&str]) -> i32 {
        with(&Pair::start().await, command).await
    }

    async fn with(pair: &Pair, command: &[&str]) -> i32 {
        let command = Command::start(command).unwrap();
        let ended = tokio::time::timeout(HANGS, command.run(Arc::clone(pair.near()))).await;
        ended.expect("the command does not end").unwrap().code().unwrap()
    }

    async fn signals_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let path = ready.display();
        let handled = format!("trap 'exit 9' TERM; touch {path}; while :; do sleep 0.05; done");
        let not_handled = format!("touch {path}; exec sleep 60");
        for (script, code) in [(handled, 9), (not_handled, 143)] {
            let ready = ready.clone();
            tokio::spawn(async move {
                while !ready.exists() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                std::fs::remove_file(ready).unwrap();
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
            });
            assert_eq!(run(&["sh", "-c", &script]).await, code);
        }
    }

    async fn what_is_left_behind_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("late").display().to_string();
        let script = format!("(sleep 0.3; touch {file}) & exit 3");
        assert_eq!(run(&["sh", "-c", &script]).await, 3);
        assert!(Path::new(&file).exists());
    }

    /// Runs a client inside, next to servers that only the far side can reach.
    async fn network(client: &str) {
        let mut pair = Pair::start().await;
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let udp = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()];
        let echo = tokio::spawn(async move {
            while let Ok((mut tcp, _)) = tcp.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = tcp.split();
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        let udp_echo = tokio::spawn(async move {
            let mut buffer = vec![0; 70_000];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                let _ = udp.send_to(&buffer[..length], from).await;
            }
        });
        let program = std::env::current_exe().unwrap().display().to_string();
        let [tcp, udp] = ports.map(|port| port.to_string());
        assert_eq!(with(&pair, &[&program, CLIENT, client, &tcp, &udp]).await, 0, "{client}");
        echo.abort();
        udp_echo.abort();
        if client == "tcp" {
            let access = pair.access().await;
            assert_eq!((access.asked, access.status), (Asked::Command, Status::Connected));
            assert_eq!(access.target, format!("localhost:{tcp}"));
        }
    }

    async fn curl_needs_no_proxy() {
        if std::process::Command::new("curl").arg("--version").output().is_err() {
            assert!(std::env::var_os("ANABRANCH_REQUIRE_ALL").is_none(), "no curl");
            return println!("skipped, because missing: curl");
        }
        let program = std::env::current_exe().unwrap().display().to_string();
        let port = site().await.port();
        // curl itself knows where localhost is, so another name is given to its address.
        let script = format!(
            "address=$({program} {CLIENT} resolve) && \
             curl --silent --show-error --fail --noproxy '' --resolve web.example:{port}:$address \
             http://web.example:{port}/3000000 | wc --bytes | grep -x 3000000"
        );
        assert_eq!(run(&["sh", "-c", &script]).await, 0);
    }

    /// What runs inside.
    fn client(what: &str, ports: &[&str]) {
        let port = |at: usize| ports[at].parse::<u16>().unwrap();
        let at = |ip: IpAddr, port: u16| SocketAddr::new(ip, port);
        match what {
            "resolve" => {
                let v4 = resolve("localhost", 1).unwrap();
                assert_eq!(resolve("localhost", 1), Some(v4));
                assert!(resolve("localhost", 28).unwrap().is_ipv6());
                assert_eq!(resolve("localhost", 15), None);
                println!("{v4}");
            }
            "tcp" => {
                for kind in [1, 28] {
                    echo_tcp(at(resolve("localhost", kind).unwrap(), port(0)));
                }
            }
            "refused" => {
                let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
                let refused = TcpStream::connect(at(resolve("localhost", 1).unwrap(), closed));
                assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
                for unreachable in ["10.255.255.1:80", "192.168.0.1:80"] {
                    let refused = TcpStream::connect(unreachable).unwrap_err();
                    assert_eq!(refused.kind(), std::io::ErrorKind::HostUnreachable, "{refused}");
                }
                let unknown = resolve("no-such-host.invalid", 1).unwrap();
                let refused = TcpStream::connect(at(unknown, 80)).unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::HostUnreachable, "{refused}");
                // A datagram is answered by a report, too.
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect("10.255.255.1:53").unwrap();
                ask(&socket, b"?").unwrap_err();
            }
            "udp" => {
                for kind in [1, 28] {
                    let to = at(resolve("localhost", kind).unwrap(), port(1));
                    let socket = UdpSocket::bind(at(any(to.ip()), 0)).unwrap();
                    socket.connect(to).unwrap();
                    for length in [1, 1472, 40_000] {
                        let payload = vec![5; length];
                        assert_eq!(ask(&socket, &payload).unwrap(), payload);
                    }
                }
            }
            "many" => {
                let to = at(resolve("localhost", 1).unwrap(), port(1));
                for _ in 0..10_000 {
                    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                    socket.send_to(b"flood", to).unwrap();
                }
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect(to).unwrap();
                assert_eq!(ask(&socket, b"after").unwrap(), b"after");
                echo_tcp(at(to.ip(), port(0)));
            }
            _ => panic!("{what}?"),
        }
    }

    fn any(like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => [0; 4].into(),
            IpAddr::V6(_) => [0_u16; 8].into(),
        }
    }

    fn echo_tcp(to: SocketAddr) {
        let mut tcp = TcpStream::connect(to).unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let mut writer = tcp.try_clone().unwrap();
        let copy = sent.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(&copy).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        tcp.read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent, "{} bytes", received.len());
    }

    /// Sends until an answer comes. Fails if the socket does.
    fn ask(socket: &UdpSocket, payload: &[u8]) -> std::io::Result<Vec<u8>> {
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        let mut buffer = vec![0; 70_000];
        loop {
            socket.send(payload)?;
            match socket.recv(&mut buffer) {
                Ok(length) => return Ok(buffer[..length].to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the resolver that the system names for the address of a name.
    fn resolve(name: &str, kind: u8) -> Option<IpAddr> {
        let file = std::fs::read_to_string("/etc/resolv.conf").unwrap();
        let server = file.lines().find_map(|line| line.strip_prefix("nameserver ")).unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((server, 53)).unwrap();
        let mut question = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            question.push(label.len() as u8);
            question.extend(label.as_bytes());
        }
        question.extend([0, 0, kind, 0, 1]);
        let answer = ask(&socket, &question).unwrap();
        assert_eq!(answer[..2], [1, 2]);
        let data = answer.get(question.len() + 12..)?;
        match data.len() {
            4 => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            16 => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        }
    }
}
