//! Programs written for kernel SCTP, compiled without changes.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Installed, has_usrsctp, succeed, udp_ports};

/// A source written for lksctp only, and the socket style to run it with.
const PROGRAMS: [(&str, &str); 3] = [
    ("tests/c/lksctp.c", "one-to-one"),
    ("tests/c/lksctp.c", "one-to-many"),
    ("tests/c/lksctp_sendv.c", "sendv"),
];

const PORT: &str = "5000";

fn compile(library: &Installed, source: &str) -> PathBuf {
    compile_with(library, source, &[])
}

fn compile_with(library: &Installed, source: &str, extra: &[&str]) -> PathBuf {
    // On a host without lksctp, use our <netinet/sctp.h>.
    let includes = library.path("include/anabranch").display().to_string();
    let usual = ["-include", "anabranch_compat.h", "-I", &includes];
    library.compile(source, &[&usual, extra].concat())
}

/// Starts a server and waits until it says that it is ready.
fn start(server: &mut Command) -> Child {
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    server
}

/// Runs a client. Both it and its server must succeed.
fn meet(mut server: Child, client: &mut Command) {
    let said = succeed(client).stdout;
    assert_eq!(said, b"4 messages came back\n", "{client:?}");
    assert!(server.wait().unwrap().success(), "{client:?}");
}

fn server(program: &Path, style: &str, udp: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["server", style, PORT]).env("ANABRANCH_UDP_PORT", udp);
    // Each of the first two is valid only together with the other.
    let options = "rto_initial=200ms;rto_min=200ms;nr_sack=on;profile=rfc9260;";
    command.env("ANABRANCH_OPTIONS", options);
    command
}

fn client(program: &Path, style: &str, remote_udp: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["client", style, PORT]).env("ANABRANCH_REMOTE_UDP_PORT", remote_udp);
    command
}

#[test]
fn programs_for_a_kernel_run_as_they_are() {
    let library = Installed::new();
    let programs = PROGRAMS.map(|(source, style)| (compile(&library, source), style));
    for (near, style) in &programs {
        for (far, far_style) in &programs {
            let [udp, _] = udp_ports();
            meet(start(&mut server(far, far_style, &udp)), &mut client(near, style, &udp));
        }
    }
}

#[test]
fn programs_for_a_kernel_talk_to_usrsctp() {
    if !has_usrsctp() {
        return;
    }
    let library = Installed::new();
    let foreign = library.compile("tests/c/usrsctp_echo.c", &["-lusrsctp"]);
    for (source, style) in PROGRAMS {
        let program = compile(&library, source);
        let [udp, far] = udp_ports();
        let server_there = start(Command::new(&foreign).args(["server", &far, PORT]));
        meet(server_there, &mut client(&program, style, &far));
        let server_here = start(&mut server(&program, style, &udp));
        meet(server_here, Command::new(&foreign).args(["client", &far, PORT, &udp]));
    }
}

/// A kernel closes the sockets that a program leaves open; so must the library.
#[test]
fn sockets_that_nobody_closes_end_with_the_program() {
    let library = Installed::new();
    let program = compile(&library, "tests/c/unclosed.c");
    let [udp, _] = udp_ports();
    let mut server = start(&mut server(&program, "", &udp));
    succeed(&mut client(&program, "", &udp));
    assert!(server.wait().unwrap().success());
}

#[test]
fn options_that_there_are_not_are_told() {
    let library = Installed::new();
    let program = compile(&library, "tests/c/lksctp.c");
    for (options, names, error) in [
        ("rto_min=200 ms;no_such=1", "no_such is not an option", "Protocol not available"),
        ("rto_min=soon", "rto_min must be", "Invalid argument"),
        ("rto_min", "rto_min has no value", "Invalid argument"),
    ] {
        let mut client = client(&program, "one-to-one", "9");
        let output = client.env("ANABRANCH_OPTIONS", options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{options}");
        assert!(said.starts_with(&format!("ANABRANCH_OPTIONS: {names}")), "{options}: {said}");
        assert!(said.ends_with(&format!("\nsocket: {error}\n")), "{options}: {said}");
    }
}

#[test]
fn plain_names_reach_what_the_library_has() {
    let library = Installed::new();
    for extra in [&[][..], &["-DGNU_IS_ONE"]] {
        let program = compile_with(&library, "tests/c/compat.c", extra);
        let said = succeed(&mut Command::new(program)).stdout;
        assert_eq!(said, b"passed\n", "{extra:?}");
    }
}
