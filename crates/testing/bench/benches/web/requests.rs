//! Requests per second for small files.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use anabranch_bench::children::{Server, output};
use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};

/// The program with the ends of SCTP and HTTP/3.
const WEB_END: &str = env!("CARGO_BIN_EXE_web-end");

/// The requested file.
const NAME: &str = "object.bin";
const SIZE: usize = 5000;

/// Number of concurrent requests.
const REQUESTS: &str = "32";

/// Answers per second, and their cost for the server.
struct Rate {
    requests: f64,
    /// CPU microseconds of the server per request, including warm-up.
    cpu: f64,
}

impl Rate {
    fn new(requests: f64, cpu_seconds: f64, seconds: f64) -> Result<Self, Trouble> {
        if requests <= 0.0 {
            return Err(Trouble::Failed("nothing was answered".into()));
        }
        Ok(Self { requests, cpu: cpu_seconds * 1e6 / (requests * seconds * 1.25) })
    }
}

fn seconds(bench: &Bench<'_>) -> f64 {
    if bench.quick() { 0.4 } else { 4.0 }
}

/// A folder with the file, below `www`.
fn folder() -> Result<Folder, Trouble> {
    let folder = Folder::new().map_err(Trouble::failed)?;
    let root = folder.file("www");
    let body: Vec<u8> = (0..SIZE).map(|at| at as u8).collect();
    fs::create_dir(&root)
        .and_then(|()| fs::write(root.join(NAME), body))
        .map_err(Trouble::failed)?;
    Ok(folder)
}

fn answers(said: &str) -> Result<f64, Trouble> {
    said.parse().map_err(|_| Trouble::Failed(format!("'{said}' is not a rate")))
}

/// Starts `anabranch serve` as a process. Its log contains the listening address, and a line for each request.
pub(crate) fn serve(program: &Path, folder: &Folder) -> Result<(Server, String), Trouble> {
    let says = folder.file("serve.log");
    let mut command = Command::new(program);
    command.arg("serve").arg(folder.file("www"));
    command.args(["--listen", "127.0.0.1:80", "--udp-port", "0"]);
    let mut server = Server::start(&mut command, &says)?;
    let port = server.until(&says, |said| {
        let rest = said.rsplit_once("(UDP port ")?.1;
        Some(rest.split_once(')')?.0.to_owned())
    })?;
    Ok((server, port))
}

fn ours(bench: &Bench<'_>, folder: &Folder) -> Result<Rate, Trouble> {
    let (server, udp_port) = serve(&bench.program()?, folder)?;
    let time = seconds(bench);
    let mut client = Command::new(WEB_END);
    client.args(["ask-sctp", &udp_port, "80", &format!("/{NAME}"), REQUESTS, &time.to_string()]);
    let rate = answers(&output(&mut client)?)?;
    Rate::new(rate, server.end(), time)
}

fn h3(bench: &Bench<'_>, folder: &Folder) -> Result<Rate, Trouble> {
    let says = folder.file("h3.log");
    let mut server =
        Server::start(Command::new(WEB_END).arg("serve-h3").arg(folder.file("www")), &says)?;
    let port = server.until(&says, |said| {
        Some(said.strip_prefix("listening ")?.strip_suffix('\n')?.to_owned())
    })?;
    let time = seconds(bench);
    let mut client = Command::new(WEB_END);
    client.args(["ask-h3", &port, &format!("/{NAME}"), REQUESTS, &time.to_string()]);
    let rate = answers(&output(&mut client)?)?;
    Rate::new(rate, server.end(), time)
}

/// nginx with one process, with the file settings of distributions, and a log line for each request.
fn nginx(folder: &Folder, port: u16) -> Result<Server, Trouble> {
    let at = folder.path().display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};\n"))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log {at}/nginx-errors.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{\naccess_log {at}/nginx-access.log;\nsendfile on;\ntcp_nopush on;\n\
         keepalive_requests 1000000000;\n{temporary}\
         server {{ listen 127.0.0.1:{port} http2; root {at}/www; }}\n}}\n"
    );
    let (file, says) = (folder.file("nginx.conf"), folder.file("nginx.log"));
    fs::write(&file, text).map_err(Trouble::failed)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(&file);
    command.arg("-e").arg(folder.file("nginx-errors.log"));
    let mut server = Server::start(&mut command, &says)?;
    server.until(&says, |_| TcpStream::connect(("127.0.0.1", port)).ok())?;
    Ok(server)
}

fn h2(bench: &Bench<'_>, folder: &Folder) -> Result<Rate, Trouble> {
    // nginx cannot choose a port.
    let port = anabranch_ports::free_tcp_port();
    let server = nginx(folder, port)?;
    let time = seconds(bench);
    let mut client = Command::new("h2load");
    // h2load only accepts whole seconds.
    let whole = time.ceil();
    client.args(["-c1", "-t1", "-m", REQUESTS, "-D", &whole.to_string()]);
    client.args(["--warm-up-time", &(whole * 0.25).to_string()]);
    let said = output(client.arg(format!("http://127.0.0.1:{port}/{NAME}")))?;
    let number = |before: &str, behind: &str| -> Option<f64> {
        let text = said.split_once(behind)?.0;
        text.rsplit_once(before)?.1.trim().parse().ok()
    };
    let unread = || Trouble::Failed(format!("h2load says what is not understood: {said}"));
    let rate = number("s, ", " req/s").ok_or_else(unread)?;
    let (good, failed) = (number("codes: ", " 2xx"), number(", ", " failed"));
    if good.is_none_or(|good| good < 1.0) || failed != Some(0.0) {
        return Err(Trouble::Failed(format!("nginx does not answer as it should: {said}")));
    }
    Rate::new(rate, server.end(), whole)
}

fn beside(ours: &Rate, theirs: &Rate, names: [&'static str; 4]) -> Sample {
    let values = [ours.requests, theirs.requests, ours.cpu, theirs.cpu];
    let notes = names.into_iter().zip(values).collect();
    Sample { value: ours.requests / theirs.requests, notes }
}

pub(crate) fn vs_h2(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let folder = folder()?;
    let theirs = h2(bench, &folder)?;
    let ours = ours(bench, &folder)?;
    Ok(beside(&ours, &theirs, ["ours/s", "nginx/s", "our server us", "nginx us"]))
}

pub(crate) fn vs_h3(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let folder = folder()?;
    let theirs = h3(bench, &folder)?;
    let ours = ours(bench, &folder)?;
    Ok(beside(&ours, &theirs, ["ours/s", "h3/s", "our server us", "h3 server us"]))
}
