//! What the fuzz targets `proxy` and `socks5` check. The inputs in `fuzz/corpus-seed` are replayed as tests.

use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use crate::near::body::Passed;
use crate::near::http::{client_builder, outgoing, server_builder};
use crate::near::socks5;
use crate::protocol;
use crate::rules::Rule;
use crate::target::{Host, Malformed, Parsed, Target};
use crate::udp::message::Message;

/// More than any input and what becomes of it, so that no writer waits.
const BUFFER: usize = 1 << 20;

/// Turns of the runtime after which everything that can happen has happened.
const TURNS: usize = 40;

/// Reads `bytes` as what a client sends to the HTTP proxy. Each request that is passed on must be one request with its
/// whole body to the next reader, too, and have no field that is for the proxy only.
pub fn proxy(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(connection(bytes)));
}

async fn connection(bytes: &[u8]) {
    let (mut client, near) = duplex(BUFFER);
    let _ = client.write_all(bytes).await;
    let _ = client.shutdown().await;
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        if *request.method() == Method::CONNECT {
            let to = request.uri().authority();
            let _ = to.and_then(|to| Target::parse(to.as_str(), None));
        } else if request.uri().scheme() == Some(&http::uri::Scheme::HTTP)
            && let Ok((target, request)) = outgoing(request, Duration::from_secs(60))
        {
            pass_on(&target, request).await;
        }
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let serving = server_builder().serve_connection(TokioIo::new(near), service);
    let reading = async {
        let mut answers = Vec::new();
        let _ = client.read_to_end(&mut answers).await;
    };
    let _ = tokio::join!(serving, reading);
}

/// Writes a request as it goes to its target, and checks what that reads.
async fn pass_on(target: &Target, request: http::Request<Passed>) {
    let carried = request.body().carried();
    let (near, mut far) = duplex(BUFFER);
    let Ok((mut sender, connection)) = client_builder().handshake(TokioIo::new(near)).await else {
        return;
    };
    let written = async {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = async { tokio::join!(sender.send_request(request), connection) } => {}
        () = written => {}
    }
    drop(sender);
    let mut bytes = Vec::new();
    let _ = far.read_to_end(&mut bytes).await;
    // A body that was cut off is cut off for the target, too.
    if carried.whole.load(Relaxed) {
        check(target, &bytes, carried.bytes.load(Relaxed));
    }
}

/// Whether the bytes are one request for this target with a body of this length.
fn check(target: &Target, bytes: &[u8], body: u64) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, rest) = bytes.split_at(end.expect("the head ends") + 4);
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(line.iter().all(|byte| !b"\r\0".contains(byte)), "a line is broken");
        line
    });
    let first: Vec<_> = lines.next().expect("a line").split(|byte| *byte == b' ').collect();
    assert!(matches!(first[..], [_, [b'/' | b'*', ..], b"HTTP/1.1"]), "{first:?}");
    let fields: Vec<(String, &[u8])> = lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':').expect("a name and a value");
            let name = String::from_utf8(line[..colon].to_vec()).expect("a name");
            (name.to_ascii_lowercase(), line[colon + 1..].trim_ascii())
        })
        .collect();
    let values = |name: &str| -> Vec<&[u8]> {
        fields.iter().filter(|field| field.0 == name).map(|field| field.1).collect()
    };
    let host = values("host");
    assert_eq!(host.len(), 1, "{host:?}");
    let named = std::str::from_utf8(host[0]).ok().and_then(|host| Target::parse(host, Some(80)));
    assert_eq!(named.as_ref(), Some(target));
    for name in
        ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "upgrade"]
    {
        assert!(values(name).is_empty(), "{name}");
    }
    let length = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => 0,
        ([length], []) => {
            std::str::from_utf8(length).expect("digits").parse::<u64>().expect("a length")
        }
        ([], [b"chunked"]) => return assert_eq!(chunked(rest), body),
        (lengths, codings) => panic!("{lengths:?} and {codings:?}"),
    };
    assert_eq!((rest.len() as u64, body), (length, length));
}

/// The length of a body in chunks, which must end with the bytes.
fn chunked(mut bytes: &[u8]) -> u64 {
    let mut length = 0;
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a chunk");
        let size = std::str::from_utf8(&bytes[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let (chunk, rest) = bytes[end + 2..].split_at(size);
        bytes = rest.strip_prefix(b"\r\n").expect("the end of a chunk");
        length += chunk.len() as u64;
        if size == 0 {
            assert!(bytes.is_empty(), "bytes after the last chunk");
            return length;
        }
    }
}

/// Reads `bytes` as what clients of SOCKS5 send, and as what each half of the gateway sends to the other.
pub fn socks5(bytes: &[u8]) {
    if let Some((true, used)) = fed(bytes, socks5::parse_greeting)
        && let Some((socks5::Request::Connect(target), _)) =
            fed(&bytes[used..], socks5::parse_request)
    {
        survives(&target);
    }
    let _ = fed(bytes, socks5::parse_request);
    if let Some((protocol::Request::Connect(content, target), _)) =
        fed(bytes, protocol::parse_request)
    {
        survives(&target);
        let written = protocol::request(content, &target);
        let read = fed(&written, protocol::parse_request);
        assert_eq!(read, Some((protocol::Request::Connect(content, target), written.len())));
    }
    if let Some((Err(refusal), _)) = fed(bytes, protocol::parse_reply) {
        assert!(!refusal.detail.contains(char::is_control));
    }
    if let Some((target, payload)) = socks5::parse_datagram(bytes) {
        survives(&target);
        assert!(bytes.ends_with(payload));
    }
    if let Some(message) = Message::parse(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(Message::parse(&message.encode().into()), Some(message));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<Rule>();
        let _ = Host::parse(text);
        for port in [None, Some(80)] {
            if let Some(target) = Target::parse(text, port) {
                survives(&target);
            }
        }
    }
}

/// A target stays what it is as text.
fn survives(target: &Target) {
    assert!(target.port > 0);
    assert_eq!(Target::parse(&target.to_string(), None).as_ref(), Some(target));
}

/// Gives a parser as many bytes as it asks for. Returns the value and how many bytes it needed.
fn fed<T>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, Malformed>,
) -> Option<(T, usize)> {
    let mut given = 0;
    loop {
        match parse(&bytes[..given]).ok()? {
            Parsed::Done(value) => return Some((value, given)),
            Parsed::Needs(more) => {
                assert!(more > given && more <= 2 + 257 + 5, "{more} bytes after {given}");
                given = more;
            }
        }
        if given > bytes.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(target: &str, run: fn(&[u8])) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus-seed");
        let inputs = std::fs::read_dir(format!("{folder}/{target}")).unwrap();
        let mut count = 0;
        for input in inputs {
            let path = input.unwrap().path();
            println!("{}", path.display());
            run(&std::fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "no inputs for {target}");
    }

    #[test]
    fn proxy_inputs_pass() {
        replay("proxy", proxy);
    }

    #[test]
    fn socks5_inputs_pass() {
        replay("socks5", socks5);
    }

    #[test]
    fn two_requests_in_one_are_noticed() {
        let target = Target::parse("a:80", None).unwrap();
        let head = "GET / HTTP/1.1\r\nhost: a\r\n";
        check(&target, format!("{head}\r\n").as_bytes(), 0);
        check(&target, format!("{head}content-length: 2\r\n\r\nab").as_bytes(), 2);
        let chunks = "transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        check(&target, format!("{head}{chunks}").as_bytes(), 2);
        for wrong in [
            "\r\nGET / HTTP/1.1\r\n\r\n".to_owned(),
            "content-length: 1\r\n\r\nab".to_owned(),
            format!("content-length: 2\r\n{chunks}"),
            format!("{chunks}GET / HTTP/1.1\r\n\r\n"),
            "host: b\r\n\r\n".to_owned(),
            "connection: x\r\n\r\n".to_owned(),
        ] {
            let bytes = format!("{head}{wrong}");
            let checked = std::panic::catch_unwind(|| check(&target, bytes.as_bytes(), 2));
            assert!(checked.is_err(), "{wrong}");
        }
    }
}
