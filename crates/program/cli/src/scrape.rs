//! `--metrics ADDR:PORT`: the metrics of an endpoint over HTTP, for Prometheus.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::control::View;
use crate::failure::Failure;
use crate::metrics;
use crate::options::SctpOptions;

/// Maximum length of a request.
const MOST_REQUEST: usize = 8 * 1024;

/// Maximum number of connections at the same time; a further one ends the oldest.
const MOST_CONNECTIONS: usize = 16;

/// Maximum lifetime of a connection.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Conditions for answering a request.
#[derive(Clone, Debug)]
struct Terms {
    /// Names of this host, in addition to its addresses.
    names: Vec<String>,
    /// Include the metrics of each association.
    each: bool,
}

/// Answers `GET /metrics` at this address until the endpoint is closed, or until the process ends if there
/// is no endpoint.
pub(crate) fn offer(
    endpoint: Option<&Endpoint>,
    address: SocketAddr,
    options: &SctpOptions,
) -> Result<(), Failure> {
    let listener = std::net::TcpListener::bind(address)
        .and_then(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        })
        .map_err(|error| Failure::failed(format!("--metrics {address}: {error}")))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "metrics");
    }
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut names = vec!["localhost".to_owned(), own.trim().to_owned()];
    names.extend(options.metrics_host.iter().cloned());
    let terms = Terms { names, each: options.metrics_associations };
    tokio::spawn(serve(endpoint.cloned(), listener, terms));
    Ok(())
}

/// Waits for the end of the endpoint, if there is one.
async fn closed(endpoint: Option<&Endpoint>) {
    match endpoint {
        Some(endpoint) => endpoint.closed().await,
        None => std::future::pending().await,
    }
}

async fn serve(endpoint: Option<Endpoint>, listener: TcpListener, terms: Terms) {
    let mut tasks = JoinSet::new();
    let mut oldest = VecDeque::<AbortHandle>::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = closed(endpoint.as_ref()) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Probably out of descriptors.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        oldest.retain(|task| !task.is_finished());
        if oldest.len() >= MOST_CONNECTIONS
            && let Some(task) = oldest.pop_front()
        {
            task.abort();
        }
        let (endpoint, terms) = (endpoint.clone(), terms.clone());
        oldest.push_back(tasks.spawn(async move {
            // A client that is slow, or disconnects, gets no answer.
            let _ = timeout(MOST_TIME, answer(endpoint.as_ref(), stream, &terms)).await;
        }));
    }
}

async fn answer(
    endpoint: Option<&Endpoint>,
    mut stream: TcpStream,
    terms: &Terms,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= MOST_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let view = || endpoint.map_or_else(View::of_process, View::of);
    let answer = response(&request, terms, || metrics::of_process(view(), terms.each));
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// The response to a request, after which the connection ends.
fn response(request: &[u8], terms: &Terms, metrics: impl Fn() -> String) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, text) = match (method, path) {
        _ if !host(request).is_none_or(|host| terms.knows(host)) => (
            "421 Misdirected Request",
            "this host is asked by an address or its own name; --metrics-host allows another one\n"
                .to_owned(),
        ),
        (b"GET" | b"HEAD", b"/metrics" | b"/") => ("200 OK", metrics()),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let length = text.len();
    let body = if method == b"HEAD" { "" } else { &text };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

impl Terms {
    /// Whether a request for this host is meant for this server. By pointing a name of its own at this
    /// address, a web page could read the metrics through the browser of an authorized user (DNS
    /// rebinding). With addresses, this is impossible.
    fn knows(&self, host: &str) -> bool {
        let without_port = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let address = without_port.trim_start_matches('[').trim_end_matches(']');
        let is_address = [host, address].iter().any(|text| text.parse::<IpAddr>().is_ok());
        is_address
            || self
                .names
                .iter()
                .any(|name| !name.is_empty() && name.eq_ignore_ascii_case(without_port))
    }
}

/// The value of the Host field, if there is one; several fields count as a wrong value.
fn host(request: &[u8]) -> Option<&str> {
    let head = request.split(|byte| *byte == b'\n').skip(1);
    let mut hosts = head.filter_map(|line| {
        let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let first = hosts.next();
    if hosts.next().is_some() { Some("") } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            names: vec!["localhost".into(), "web1".into(), "metrics.example".into()],
            each: false,
        }
    }

    #[test]
    fn names_of_others_are_not_answered() {
        let ask = |hosts: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\n{hosts}\r\n");
            response(request.as_bytes(), &terms(), || "x 1\n".to_owned())
        };
        for host in [
            "127.0.0.1:9100",
            "[::1]:9100",
            "::1",
            "localhost",
            "LOCALHOST:1",
            "web1:9100",
            "metrics.example",
        ] {
            assert!(ask(&format!("Host: {host}\r\n")).starts_with("HTTP/1.1 200 "), "{host}");
        }
        for host in [
            "evil.example:9100",
            "web1.evil.example",
            "",
            "127.0.0.1.evil.example",
            "localhost.evil",
        ] {
            assert!(ask(&format!("host: {host}\r\n")).starts_with("HTTP/1.1 421 "), "{host}");
        }
        assert!(ask("Host: localhost\r\nHost: localhost\r\n").starts_with("HTTP/1.1 421 "));
        assert!(ask("").starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn only_metrics_are_told() {
        let ask = |request: &str| response(request.as_bytes(), &terms(), || "x 1\n".to_owned());
        assert!(ask("GET /metrics HTTP/1.1\r\nHost: web1\r\n\r\n").ends_with("\r\n\r\nx 1\n"));
        assert!(ask("GET /metrics?a=b HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in
            [("GET /etc/passwd HTTP/1.1", 404), ("POST /metrics HTTP/1.1", 405), ("", 405)]
        {
            let answer = ask(&format!("{request}\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }
}
