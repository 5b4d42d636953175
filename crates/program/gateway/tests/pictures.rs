//! Pictures are converted on the far side where that is allowed, and all else passes as it is. This program is started
//! again for each picture.

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
    use std::io::Write as _;
    use std::net::SocketAddr;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::time::Duration;

    use anabranch_gateway::{FarOptions, NearOptions};
    use anabranch_pictures::{Converter, ConverterOptions, convert, helper};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use hyper::client::conn::http1::SendRequest;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::common::{HANGS, Pair, allowing, content};

    const JPEG: &[u8] = include_bytes!("../../pictures/tests/pictures/converted/444.jpg");
    const SMALL: &[u8] = include_bytes!("../../pictures/tests/pictures/unchanged/grows.jpg");

    pub(crate) fn main() -> ExitCode {
        if let Some(code) = helper() {
            return ExitCode::from(code);
        }
        if std::env::args().any(|argument| argument == "--list") {
            return ExitCode::SUCCESS;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.enable_all().worker_threads(2).build().unwrap();
        runtime.block_on(async { tokio::time::timeout(HANGS, tests()).await }).expect("it hangs");
        ExitCode::SUCCESS
    }

    async fn tests() {
        let site = site().await;
        let converter = Converter::new(ConverterOptions::default());
        let pair = pair(Some(&converter)).await;
        converted(&pair, site, &converter).await;
        unchanged(&pair, site, &converter).await;
        tags_are_confirmed_as_clients_know_them(&pair, site).await;
        bodies_that_stop_or_end(&pair, site).await;
        bounds_hold(&pair, site).await;
        println!("pictures: with conversion");
        without(site).await;
        println!("pictures: without conversion");
        failing(site).await;
        println!("pictures: with a converter that fails");
    }

    /// What a user may have holds here, too.
    async fn bounds_hold(pair: &Pair, site: SocketAddr) {
        let length = resource("/long").1.len();
        // So that it takes a second.
        pair.allow(&format!("rate={}b/s", length * 8));
        let get =
            format!("GET http://{site}/long HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n");
        let began = std::time::Instant::now();
        assert!(pair.raw(&get).await.len() > length);
        assert!(began.elapsed() > std::time::Duration::from_millis(900), "{:?}", began.elapsed());
        pair.allow("limit=1kB/d");
        pair.raw(&get).await;
        assert!(pair.raw(&get).await.contains("is used up"));
        pair.allow("");
        assert!(pair.raw(&get).await.len() > length);
    }

    async fn pair(converter: Option<&Arc<Converter>>) -> Pair {
        let rules = allowing(&["127.0.0.0/8"]);
        let pictures = converter.cloned();
        let far = FarOptions { rules, pictures, ..FarOptions::default() };
        Pair::with_far(far, 100, NearOptions::default()).await
    }

    /// A PNG of noise.
    fn png() -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 64, 48);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let pixels: Vec<u8> = (0..64 * 48 * 3).map(|_| random()).collect();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&pixels).unwrap();
        writer.finish().unwrap();
        file
    }

    const TYPE: &str = "Content-Type: image/jpeg\r\nETag: \"one\"\r\n";

    /// A server whose answers are the paths: the fields in `FIELDS` by number, then how the body is sent.
    async fn site() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serve(tcp));
            }
        });
        address
    }

    async fn serve(mut tcp: TcpStream) -> Option<()> {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tcp.read_u8().await.ok()?);
            }
            let head = String::from_utf8(head).unwrap();
            let mut words = head.split(' ');
            let (method, path) = (words.next()?, words.next()?);
            let (fields, body) = resource(path);
            let length = body.len();
            let (status, framing) = match path {
                "/304" => ("304 Not Modified", String::new()),
                "/203" => {
                    ("203 Non-Authoritative Information", format!("Content-Length: {length}\r\n"))
                }
                _ if path.starts_with("/chunked") => {
                    ("200 OK", "Transfer-Encoding: chunked\r\n".to_owned())
                }
                "/closed" => ("200 OK", String::new()),
                _ => ("200 OK", format!("Content-Length: {length}\r\n")),
            };
            let version = if path == "/closed" { "HTTP/1.0" } else { "HTTP/1.1" };
            tcp.write_all(format!("{version} {status}\r\n{fields}{framing}\r\n").as_bytes())
                .await
                .ok()?;
            if method == "HEAD" || path == "/304" {
                continue;
            }
            match path {
                _ if path.starts_with("/chunked") => {
                    for part in body.chunks(1000) {
                        tcp.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await.ok()?;
                        tcp.write_all(&[part, b"\r\n"].concat()).await.ok()?;
                    }
                    let trailer = if path == "/chunked/trailer" { "X-Sum: 1\r\n" } else { "" };
                    tcp.write_all(format!("0\r\n{trailer}\r\n").as_bytes()).await.ok()?;
                }
                "/cut" => {
                    tcp.write_all(&body[..length / 2]).await.ok()?;
                    return None;
                }
                "/stops" => {
                    tcp.write_all(&body[..length / 2]).await.ok()?;
                    // Longer than the far side waits for a picture.
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    tcp.write_all(&body[length / 2..]).await.ok()?;
                }
                _ => tcp.write_all(&body).await.ok()?,
            }
            if path == "/closed" {
                return None;
            }
        }
    }

    /// The fields and the body of a path.
    fn resource(path: &str) -> (String, Vec<u8>) {
        let with = |fields: &str| (format!("{TYPE}{fields}"), JPEG.to_vec());
        let only = |fields: &str| (fields.to_owned(), JPEG.to_vec());
        match path {
            "/dated" => {
                with("Last-Modified: Mon, 02 Nov 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n")
            }
            "/weak" => only("Content-Type: IMAGE/JPEG\r\nETag: W/\"one\"\r\n"),
            "/bare" => only("Content-Type: image/jpeg\r\n"),
            "/png" => ("Content-Type: image/png\r\n".to_owned(), png()),
            "/no-transform" => with("Cache-Control: private, No-Transform\r\n"),
            "/encoded" => with("Content-Encoding: x-own\r\n"),
            "/md5" => with("Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n"),
            "/digest" => with("Repr-Digest: sha-256=:AAAA:\r\n"),
            "/signed" => with("Signature: a=:AAAA:\r\n"),
            "/saved" => with("Content-Disposition: attachment\r\n"),
            "/two-types" => with("Content-Type: text/plain\r\n"),
            "/parameter" => only("Content-Type: image/jpeg; q=1\r\nETag: \"one\"\r\n"),
            "/text" => only("Content-Type: text/plain\r\nETag: \"one\"\r\n"),
            "/two-tags" => with("ETag: \"two\"\r\n"),
            "/bad-tag" => only("Content-Type: image/jpeg\r\nETag: one\r\n"),
            "/only-dated" => {
                only("Content-Type: image/jpeg\r\nLast-Modified: Mon, 02 Nov 2026 00:00:00 GMT\r\n")
            }
            "/trailer" => with("Trailer: X-Sum\r\n"),
            "/small" => (TYPE.to_owned(), SMALL.to_vec()),
            "/no-picture" => (TYPE.to_owned(), content(10_000).to_vec()),
            "/long" => ("Content-Type: text/plain\r\n".to_owned(), content(100_000).to_vec()),
            "/large" | "/chunked/large" => (TYPE.to_owned(), content(5 << 20).to_vec()),
            _ => with(""),
        }
    }

    async fn get(
        http: &mut SendRequest<Full<Bytes>>,
        site: SocketAddr,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (Response<()>, Result<Bytes, hyper::Error>) {
        let mut request = Request::builder().method(method).uri(format!("http://{site}{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        http.ready().await.unwrap();
        let answer = http.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        (Response::from_parts(parts, ()), body.collect().await.map(|body| body.to_bytes()))
    }

    fn field<'a>(answer: &'a Response<()>, name: &str) -> Option<&'a str> {
        answer.headers().get(name).map(|value| value.to_str().unwrap())
    }

    async fn converted(pair: &Pair, site: SocketAddr, converter: &Arc<Converter>) {
        let mut http = pair.http().await;
        let jpeg = convert(JPEG).unwrap();
        for path in ["/plain", "/dated", "/weak", "/bare", "/chunked", "/closed", "/plain"] {
            let (answer, body) = get(&mut http, site, "GET", path, &[]).await;
            let body = body.unwrap();
            let text = || String::from_utf8_lossy(&body).into_owned();
            assert_eq!(answer.status(), 200, "{path}: {}", text());
            assert!(body == jpeg, "{path}");
            let tag = (path != "/bare").then_some("W/\"one\"");
            assert_eq!(field(&answer, "etag"), tag, "{path}");
            assert_eq!(
                field(&answer, "content-length"),
                Some(&jpeg.len().to_string()[..]),
                "{path}"
            );
            assert_eq!(field(&answer, "accept-ranges"), Some("none"), "{path}");
            assert_eq!(field(&answer, "via"), Some("1.1 anabranch"), "{path}");
            assert_eq!(field(&answer, "last-modified").is_some(), path == "/dated");
            assert_eq!(field(&answer, "transfer-encoding"), None);
        }
        let (_, body) = get(&mut http, site, "GET", "/png", &[]).await;
        assert!(body.unwrap() == convert(&png()).unwrap());
        let statistics = converter.statistics();
        assert_eq!((statistics.converted, statistics.unchanged, statistics.failed), (8, 0, 0));
    }

    async fn unchanged(pair: &Pair, site: SocketAddr, converter: &Arc<Converter>) {
        let mut http = pair.http().await;
        let before = converter.statistics();
        for path in [
            "/no-transform",
            "/encoded",
            "/md5",
            "/digest",
            "/signed",
            "/saved",
            "/two-types",
            "/parameter",
            "/text",
            "/two-tags",
            "/bad-tag",
            "/only-dated",
            "/trailer",
            "/chunked/trailer",
            "/203",
            "/small",
            "/large",
            "/chunked/large",
        ] {
            let (answer, body) = get(&mut http, site, "GET", path, &[]).await;
            let (fields, original) = resource(path);
            assert!(body.unwrap() == original, "{path}");
            let tag = field(&answer, "etag").map(|tag| format!("ETag: {tag}\r\n"));
            assert_eq!(tag.is_some(), fields.contains("ETag"), "{path}");
            assert!(tag.is_none_or(|tag| fields.contains(&tag)), "{path}");
            assert_eq!(field(&answer, "accept-ranges"), None, "{path}");
        }
        for fields in [
            &[("range", "bytes=0-99999")][..],
            &[("if-range", "\"one\"")],
            &[("cache-control", "max-age=0, no-transform")],
            &[("want-repr-digest", "sha-256=1")],
        ] {
            let (answer, body) = get(&mut http, site, "GET", "/plain", fields).await;
            assert!(body.unwrap() == JPEG, "{fields:?}");
            assert_eq!(field(&answer, "etag"), Some("\"one\""));
        }
        let (_, body) = get(&mut http, site, "POST", "/plain", &[]).await;
        assert!(body.unwrap() == JPEG);
        let (answer, body) = get(&mut http, site, "HEAD", "/plain", &[]).await;
        assert!(body.unwrap().is_empty());
        assert_eq!(field(&answer, "etag"), Some("\"one\""));
        assert_eq!(converter.statistics(), before, "none of them was tried");
        let (answer, body) = get(&mut http, site, "GET", "/no-picture", &[]).await;
        assert!(body.unwrap() == resource("/no-picture").1);
        assert_eq!(field(&answer, "etag"), Some("\"one\""));
        assert_eq!(converter.statistics().unchanged, before.unchanged + 1);
    }

    async fn tags_are_confirmed_as_clients_know_them(pair: &Pair, site: SocketAddr) {
        let mut http = pair.http().await;
        for (known, confirmed) in
            [("W/\"one\"", "W/\"one\""), ("\"one\"", "\"one\""), ("W/\"two\"", "\"one\"")]
        {
            let (answer, _) =
                get(&mut http, site, "GET", "/304", &[("if-none-match", known)]).await;
            assert_eq!((answer.status().as_u16(), field(&answer, "etag")), (304, Some(confirmed)));
        }
    }

    async fn bodies_that_stop_or_end(pair: &Pair, site: SocketAddr) {
        let mut http = pair.http().await;
        let (answer, body) = get(&mut http, site, "GET", "/stops", &[]).await;
        assert!(body.unwrap() == JPEG);
        assert_eq!(field(&answer, "etag"), Some("\"one\""));
        let (answer, body) = get(&mut pair.http().await, site, "GET", "/cut", &[]).await;
        assert!(answer.status() == 502 || body.is_err(), "a part is not taken for the whole");
    }

    /// The option changes pictures, so without it they are as they were.
    async fn without(site: SocketAddr) {
        let pair = pair(None).await;
        let mut http = pair.http().await;
        let (answer, body) = get(&mut http, site, "GET", "/dated", &[]).await;
        assert!(body.unwrap() == JPEG);
        assert_eq!(field(&answer, "etag"), Some("\"one\""));
        assert_eq!(field(&answer, "accept-ranges"), Some("bytes"));
    }

    /// The helper dies in the middle, and the page does not.
    async fn failing(site: SocketAddr) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("dies");
        let mut file = std::fs::File::create(&program).unwrap();
        file.write_all(b"#!/bin/sh\nprintf '\\0'; /usr/bin/head -c 5000; kill -9 $$\n").unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
        drop(file);
        let converter = Converter::new(ConverterOptions { program, ..ConverterOptions::default() });
        let pair = pair(Some(&converter)).await;
        let mut http = pair.http().await;
        for path in ["/dated", "/chunked", "/closed"] {
            let (answer, body) = get(&mut http, site, "GET", path, &[]).await;
            assert!(body.unwrap() == JPEG, "{path}");
            assert_eq!(field(&answer, "etag"), Some("\"one\""), "{path}");
        }
        assert_eq!(converter.statistics().failed, 3);
    }
}
