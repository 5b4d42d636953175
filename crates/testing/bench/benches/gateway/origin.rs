//! What is behind a proxy: an HTTP server for curl, and an echo for everything else, on one port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anabranch_bench::suite::Trouble;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes that are written at once.
const PIECE: usize = 64 << 10;

/// Starts the server, which runs until this process ends. Returns its address.
pub(crate) fn start() -> Result<SocketAddr, Trouble> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Trouble::failed)?;
    let address = listener.local_addr().map_err(Trouble::failed)?;
    listener.set_nonblocking(true).map_err(Trouble::failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Trouble::failed)?;
    std::thread::spawn(move || runtime.block_on(serve(listener)));
    Ok(address)
}

async fn serve(listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            // A client that goes away ends its connection only.
            let _ = answer(stream).await;
        });
    }
}

/// `GET /N` gets N bytes; other bytes come back.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; PIECE];
    let mut filled = stream.read(&mut buffer).await?;
    if !buffer.starts_with(b"GET /") {
        while filled > 0 {
            stream.write_all(&buffer[..filled]).await?;
            filled = stream.read(&mut buffer).await?;
        }
        return Ok(());
    }
    while !buffer[..filled].ends_with(b"\r\n\r\n") && filled < PIECE {
        let more = stream.read(&mut buffer[filled..]).await?;
        if more == 0 {
            return Ok(());
        }
        filled += more;
    }
    let digits = buffer.iter().skip(5).take_while(|byte| byte.is_ascii_digit());
    let mut left = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {left}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    buffer.fill(0x5a);
    while left > 0 {
        let piece = left.min(PIECE);
        stream.write_all(&buffer[..piece]).await?;
        left -= piece;
    }
    stream.shutdown().await
}
