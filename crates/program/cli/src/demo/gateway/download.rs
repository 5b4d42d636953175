//! A file on a server of its own, and its download through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Bytes that are read or written at a time.
const PIECE: usize = 1 << 16;

/// Longest head of a request or an answer.
const LONGEST_HEAD: usize = 8192;

/// How long a client may take to send the head of its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The content of the file from this position on, so that a byte in the wrong place is noticed.
fn fill(buffer: &mut [u8], position: u64) {
    for (byte, at) in buffer.iter_mut().zip(position..) {
        *byte = (at ^ (at >> 8) ^ (at >> 16)) as u8;
    }
}

/// Answers any request with the file.
pub(super) async fn serve(listener: TcpListener, bytes: u64) {
    let mut clients = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = clients.join_next() => continue,
        };
        match accepted {
            Ok((tcp, _)) => drop(clients.spawn(answer(tcp, bytes))),
            // Probably out of descriptors: clients that leave free some.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut tcp: TcpStream, bytes: u64) -> io::Result<()> {
    timeout(PATIENCE, read_head(&mut tcp)).await??;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\
         Connection: close\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await?;
    let mut piece = vec![0; PIECE];
    let mut position = 0;
    while position < bytes {
        let length = (bytes - position).min(PIECE as u64);
        let piece = &mut piece[..length as usize];
        fill(piece, position);
        tcp.write_all(piece).await?;
        position += length;
    }
    tcp.shutdown().await
}

/// Reads to the end of a head; returns it, and what came after it.
async fn read_head(tcp: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = read.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&read).into_owned(), body));
        }
        if read.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if tcp.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Fetches the file of `source` through the proxy, and counts the bytes that have arrived.
///
/// # Errors
/// The whole file did not arrive. The error is a clause.
pub(super) async fn fetch(
    proxy: SocketAddr,
    source: SocketAddr,
    bytes: u64,
    arrived: &AtomicU64,
) -> Result<(), String> {
    let ended = |error: io::Error| format!("the connection ended: {error}");
    let mut tcp = TcpStream::connect(proxy).await.map_err(ended)?;
    let request = format!("GET http://{source}/ HTTP/1.1\r\nHost: {source}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.map_err(ended)?;
    let (head, mut piece) = read_head(&mut tcp).await.map_err(ended)?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("the proxy answered '{status}'"));
    }
    let mut expected = vec![0; PIECE + LONGEST_HEAD];
    let mut position = 0;
    loop {
        let expected = &mut expected[..piece.len()];
        fill(expected, position);
        if *expected != piece[..] {
            return Err(format!("a byte after the first {position} is wrong"));
        }
        position += piece.len() as u64;
        arrived.store(position, Ordering::Relaxed);
        if position >= bytes {
            return Ok(());
        }
        piece.clear();
        piece.reserve(PIECE);
        if (&mut tcp).take(PIECE as u64).read_buf(&mut piece).await.map_err(ended)? == 0 {
            return Err(format!("the connection ended after {position} of {bytes} bytes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A "proxy" that answers with these bytes.
    async fn answering(answer: Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            read_head(&mut tcp).await.unwrap();
            tcp.write_all(&answer).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn the_file_arrives_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, 1_000_003));
        let arrived = AtomicU64::new(0);
        // A server takes the requests for proxies, too.
        fetch(address, address, 1_000_003, &arrived).await.unwrap();
        assert_eq!(arrived.into_inner(), 1_000_003);
        serving.abort();
    }

    #[tokio::test]
    async fn what_is_missing_or_wrong_is_noticed() {
        let mut file = vec![0; 1000];
        fill(&mut file, 0);
        let mut wrong = file.clone();
        wrong[777] ^= 1;
        for (head, body, error) in [
            ("200 OK", &file[..999], "the connection ended after 999 of 1000 bytes"),
            ("200 OK", &wrong[..], "is wrong"),
            ("502 Bad Gateway", &[], "'HTTP/1.1 502 Bad Gateway'"),
        ] {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            let proxy = answering([head.as_bytes(), body].concat()).await;
            let got = fetch(proxy, proxy, 1000, &AtomicU64::new(0)).await.unwrap_err();
            assert!(got.contains(error), "{got}");
        }
    }
}
