//! The same request over TCP and over SCTP is answered with the same bytes.

mod common;

use std::net::SocketAddr;

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint};
use anabranch_http::tcp::TcpServerConnection;
use anabranch_http::{Files, ServerOptions, serve_connection};
use common::{V4, soon};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Sends a request and reads the whole answer, without the field with the time.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let lines = text.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect()
}

async fn over_sctp(near: &Association, request: &str) -> String {
    let (send, recv) = near.open_stream().await.unwrap();
    ask(tokio::io::join(recv, send), request).await
}

#[tokio::test]
async fn answers_do_not_depend_on_what_carries_them() {
    soon(async {
        let site = tempfile::tempdir().unwrap();
        std::fs::write(site.path().join("page.html"), "0123456789".repeat(5000)).unwrap();
        std::fs::write(site.path().join("page.html.gz"), "compressed").unwrap();
        std::fs::create_dir(site.path().join("sub")).unwrap();
        let files = Files::open(site.path()).unwrap();

        let listener = TcpListener::bind((V4, 0)).await.unwrap();
        let tcp = listener.local_addr().unwrap();
        let service = files.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = TcpServerConnection::new(stream).unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    serve_connection(connection, service, &ServerOptions::default()).await
                });
            }
        });
        let bind = || Endpoint::builder().local_addresses([V4]).bind().unwrap();
        let (server, client) = (bind(), bind());
        let sctp = server.listen(80, AssociationConfig::default()).unwrap();
        tokio::spawn(async move {
            while let Some(far) = sctp.accept().await {
                serve_connection(far, files.clone(), &ServerOptions::default()).await;
            }
        });
        let mut options = ConnectOptions::from(AssociationConfig::default());
        options.remote_udp_port = server.udp_port();
        let near = client.connect(SocketAddr::new(V4, 80), options).await.unwrap();

        let mut tag = String::new();
        for (request, status) in [
            ("GET /page.html", "200 OK"),
            ("HEAD /page.html", "200 OK"),
            ("GET /page.html;range: bytes=10-19", "206 Partial Content"),
            ("GET /page.html;range: bytes=-5", "206 Partial Content"),
            ("GET /page.html;range: bytes=60000-", "416 Range Not Satisfiable"),
            ("GET /page.html;if-none-match: TAG", "304 Not Modified"),
            ("GET /page.html;if-range: TAG;range: bytes=0-0", "206 Partial Content"),
            ("GET /page.html;accept-encoding: gzip", "200 OK"),
            ("GET /none", "404 Not Found"),
            ("GET /../page.html", "404 Not Found"),
            ("GET /sub", "301 Moved Permanently"),
            ("GET /sub/", "200 OK"),
            ("POST /page.html;content-length: 0", "405 Method Not Allowed"),
        ] {
            let (line, fields) = request.split_once(';').unwrap_or((request, ""));
            let fields = fields.replace("TAG", &tag).replace(';', "\r\n");
            let fields = if fields.is_empty() { fields } else { fields + "\r\n" };
            let text = format!("{line} HTTP/1.1\r\nhost: x\r\n{fields}connection: close\r\n\r\n");
            let other = ask(TcpStream::connect(tcp).await.unwrap(), &text).await;
            let answer = over_sctp(&near, &text).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert_eq!(answer, other, "{request}");
            let found = answer.split("\r\n").find_map(|line| line.strip_prefix("etag: "));
            tag = found.map_or(tag, str::to_owned);
        }
    })
    .await;
}
