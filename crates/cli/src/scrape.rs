//! `--metrics ADDR:PORT`: the metrics of an endpoint over HTTP, for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::control::View;
use crate::failure::Failure;
use crate::metrics;

/// Longest request that is read.
const MOST_REQUEST: usize = 8 * 1024;

/// Connections served at the same time; others wait.
const MOST_CONNECTIONS: usize = 8;

/// Longest time that one of them may take.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Answers `GET /metrics` at this address for as long as the endpoint is there.
pub(crate) fn offer(endpoint: &Endpoint, address: SocketAddr) -> Result<(), Failure> {
    let listener = std::net::TcpListener::bind(address)
        .and_then(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        })
        .map_err(|error| Failure::failed(format!("--metrics {address}: {error}")))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "metrics");
    }
    tokio::spawn(serve(endpoint.clone(), listener));
    Ok(())
}

async fn serve(endpoint: Endpoint, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = endpoint.closed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let endpoint = endpoint.clone();
        tokio::spawn(async move {
            let _place = place;
            // Who is slow, or goes away, gets no answer.
            let _ = timeout(MOST_TIME, answer(&endpoint, stream)).await;
        });
    }
}

async fn answer(endpoint: &Endpoint, mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= MOST_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let answer = response(&request, || metrics::text(&[View::of(endpoint)]));
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to a request, which ends the connection.
fn response(request: &[u8], metrics: impl Fn() -> String) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, text) = match (method, path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metrics_are_told() {
        let ask = |request: &str| response(request.as_bytes(), || "x 1\n".to_owned());
        assert!(ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\n\r\nx 1\n"));
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
