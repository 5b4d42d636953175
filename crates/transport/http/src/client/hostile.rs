//! A server that answers requests for a file, or for the rest of one, in all the ways that real servers do.
//!
//! Whatever it answers, the result must be either the server's file, or an error and no file.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::stream::ByteStream;

/// Content of the file before and after it changes on the server.
const OLD: &[u8] = b"0123456789";
const NEW: &[u8] = b"abcdefghij";

/// An answer that breaks off; most cases begin with it.
const HALF: &str = "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 10\r\n\r\n01234";

/// A server that answers request N with answer N, and ends the stream if that answer is incomplete. Later requests
/// get the last answer without a range.
struct Scripted {
    next: AtomicU16,
    answers: Vec<Vec<u8>>,
    /// Answers to requests that want the whole file, once the scripted ones are used up.
    whole: Vec<u8>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl OpenStreams for Scripted {
    type Stream = DuplexStream;

    async fn open(&self) -> io::Result<ByteStream<DuplexStream>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if id > 40 {
            return Err(io::Error::other("no stream is left"));
        }
        let (near, mut far) = duplex(1 << 20);
        let (asked, answers) = (Arc::clone(&self.asked), self.answers.clone());
        let whole = self.whole.clone();
        tokio::spawn(async move {
            let mut request = vec![0; 4096];
            let length = far.read(&mut request).await.unwrap_or(0);
            if length == 0 {
                return;
            }
            let number = {
                let mut asked = asked.lock().unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).to_ascii_lowercase());
                asked.len() - 1
            };
            let answer = answers.get(number).unwrap_or(&whole);
            let _ = far.write_all(answer).await;
        });
        Ok(ByteStream { id, io: near })
    }
}

/// Records the calls for a fetch.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn restarted(&self, _: usize, reason: &str) {
        self.0.lock().unwrap().push(reason.to_owned());
    }

    fn lost(&self, _: usize) {
        self.0.lock().unwrap().push("lost".to_owned());
    }
}

/// The result of a fetch.
struct Ended {
    result: Result<Fetched, FetchError>,
    /// The requests, in lower case.
    asked: Vec<String>,
    notes: Vec<String>,
}

fn whole_of(tag: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Fetches `/x` into `file` from a server that gives these answers, one on each stream, and then `whole`.
async fn get(file: &Path, resume: bool, answers: &[&[u8]], whole: &[u8]) -> Ended {
    let server = Scripted {
        next: AtomicU16::new(0),
        answers: answers.iter().map(|answer| answer.to_vec()).collect(),
        whole: whole.to_vec(),
        asked: Arc::default(),
    };
    let output = Output::File { path: file.to_owned(), resume };
    let (host, target, source) = ("host".to_owned(), "/x".to_owned(), "http://host/x".to_owned());
    let list = [Transaction { host, target, source, output, bounds: Bounds::default() }];
    let notes = Notes::default();
    let mut report = fetch(&server, &list, 1, &notes).await;
    let asked = server.asked.lock().unwrap().clone();
    let notes = notes.0.into_inner().unwrap();
    Ended { result: report.results.remove(0), asked, notes }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Fetches a file in two steps: the first answer, `first`, breaks off after five bytes. The continuing request gets
/// `answer`, and all others get the whole file in its state `"v2"`.
async fn continued(first: &str, answer: &[u8]) -> (Ended, Option<Vec<u8>>, Vec<String>) {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    let broken = get(&file, false, &[first.as_bytes()], b"").await;
    assert!(broken.result.is_err() && !file.exists());
    let ended = get(&file, true, &[answer], &whole_of("\"v2\"", NEW)).await;
    let content = std::fs::read(&file).ok();
    (ended, content, names(out.path()))
}

fn part(fields: &str, body: &[u8]) -> Vec<u8> {
    let fields = fields.replace('\n', "\r\n");
    [format!("HTTP/1.1 206 Partial Content\r\n{fields}\r\n\r\n").as_bytes(), body].concat()
}

#[tokio::test]
async fn the_rest_is_taken_if_all_of_it_fits() {
    for fields in [
        "ETag: \"v1\"\nContent-Range: bytes 5-9/10\nContent-Length: 5",
        "ETag: \"v1\"\nContent-Range: bytes 5-9/*\nContent-Length: 5",
        "ETag: \"v1\"\nContent-Range: bytes 5-9/10\nConnection: close",
    ] {
        let (ended, content, names) = continued(HALF, &part(fields, b"56789")).await;
        let fetched = ended.result.unwrap();
        assert_eq!((fetched.bytes, fetched.resumed), (5, 5), "{fields}");
        assert_eq!((content.as_deref(), names), (Some(OLD), vec!["x".to_owned()]), "{fields}");
        assert!(ended.asked[0].contains("range: bytes=5-\r\n"), "{:?}", ended.asked);
        assert!(ended.asked[0].contains("if-range: \"v1\"\r\n"), "{:?}", ended.asked);
        assert_eq!((ended.asked.len(), ended.notes.len()), (1, 0));
    }
    let chunked = part(
        "ETag: \"v1\"\nContent-Range: bytes 5-9/10\nTransfer-Encoding: chunked",
        b"5\r\n56789\r\n0\r\n\r\n",
    );
    assert_eq!(continued(HALF, &chunked).await.1.as_deref(), Some(OLD));
}

/// Combines each of these second answers with each of three first answers: 60 cases.
#[tokio::test]
async fn whatever_else_comes_is_no_part_of_the_file() {
    let firsts = [
        HALF,
        "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
        "HTTP/1.1 200 OK\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\
         Content-Length: 10\r\n\r\n01234",
    ];
    let answers = [
        part("ETag: \"v2\"\nContent-Range: bytes 5-9/10\nContent-Length: 5", b"fghij"),
        part("ETag: W/\"v1\"\nContent-Range: bytes 5-9/10\nContent-Length: 5", b"fghij"),
        part("Content-Range: bytes 5-9/10\nContent-Length: 5", b"fghij"),
        part("ETag: \"v1\"\nContent-Range: bytes 4-9/10\nContent-Length: 6", b"456789"),
        part("ETag: \"v1\"\nContent-Range: bytes 6-9/10\nContent-Length: 4", b"6789"),
        part("ETag: \"v1\"\nContent-Range: bytes 0-9/10\nContent-Length: 10", OLD),
        part("ETag: \"v1\"\nContent-Length: 5", b"56789"),
        part("ETag: \"v1\"\nContent-Range: nonsense\nContent-Length: 5", b"56789"),
        part("ETag: \"v1\"\nContent-Range: bytes 5-9/10\nContent-Length: 4", b"5678"),
        part("ETag: \"v1\"\nContent-Range: bytes 5-3/10\nContent-Length: 5", b"56789"),
        part("ETag: \"v1\"\nContent-Range: bytes 5-9/9\nContent-Length: 5", b"56789"),
        part("ETag: \"v1\"\nContent-Range: bytes 9-5/10\nContent-Length: 5", b"56789"),
        part(
            "ETag: \"v1\"\nContent-Range: bytes 5-9/10\nContent-Length: 40\n\
             Content-Type: multipart/byteranges; boundary=x",
            b"\r\n--x\r\nContent-Range: bytes 5-9/10\r\n\r\n567",
        ),
        part(
            "ETag: \"v1\"\nContent-Range: bytes 5-9/10\nTransfer-Encoding: chunked",
            b"9\r\n56789xxxx\r\n0\r\n\r\n",
        ),
        b"HTTP/1.1 416 No\r\nContent-Range: bytes */5\r\nContent-Length: 2\r\n\r\nno".to_vec(),
        b"HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_vec(),
        b"HTTP/1.1 412 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\
          \r\n\r\n56789"
            .to_vec(),
        whole_of("\"v2\"", NEW),
    ];
    let mut tried = 0;
    for first in firsts {
        for answer in &answers {
            let (ended, content, names) = continued(first, answer).await;
            let text = String::from_utf8_lossy(answer);
            assert!(ended.result.is_ok(), "{text}: {:?}", ended.result);
            // No bytes of the old state may remain.
            assert_eq!(content.as_deref(), Some(NEW), "{first} {text}");
            assert_eq!(names, ["x"], "{first} {text}");
            assert_eq!(ended.notes.len(), 1, "{first} {text}: {:?}", ended.notes);
            assert_eq!(ended.result.unwrap().resumed, 0);
            let last = ended.asked.last().unwrap();
            assert!(ended.asked.len() == 1 || !last.contains("range"), "{last}");
            tried += 1;
        }
    }
    assert_eq!(tried, 60);
}

#[tokio::test]
async fn a_server_that_never_sends_the_whole_file_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    let same = part("ETag: \"v2\"\nContent-Range: bytes 5-9/10\nContent-Length: 5", b"fghij");
    for answers in [&[][..], &[HALF.as_bytes()]] {
        for resume in [false, true] {
            let ended = get(&file, resume, answers, &same).await;
            assert!(ended.result.is_err(), "{:?}", ended.result);
            assert!(!file.exists());
            assert!(ended.asked.len() <= 3, "{:?}", ended.asked);
        }
    }
    let sliced =
        b"HTTP/1.1 200 OK\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\n56789";
    let refused = get(&file, false, &[sliced], sliced).await.result;
    assert!(matches!(refused, Err(FetchError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn less_than_was_asked_for_is_continued_behind_it() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    assert!(get(&file, false, &[HALF.as_bytes()], b"").await.result.is_err());
    let pieces = [(5, 6), (7, 7), (8, 9)].map(|(first, last)| {
        let length = last - first + 1;
        let fields = format!(
            "ETag: \"v1\"\nContent-Range: bytes {first}-{last}/10\nContent-Length: {length}"
        );
        part(&fields, &OLD[first..=last])
    });
    let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
    let ended = get(&file, true, &pieces, b"").await;
    let fetched = ended.result.unwrap();
    assert_eq!((fetched.bytes, fetched.resumed), (5, 5));
    assert_eq!(std::fs::read(&file).unwrap(), OLD);
    for (asked, from) in ended.asked.iter().zip([5, 7, 8]) {
        assert!(asked.contains(&format!("range: bytes={from}-\r\n")), "{asked}");
    }
    assert_eq!(names(out.path()), ["x"]);
}

#[tokio::test]
async fn a_rest_that_breaks_off_is_kept_too() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    assert!(get(&file, false, &[HALF.as_bytes()], b"").await.result.is_err());
    // Without a length, the end of the stream may not be the end of the part.
    let short = part("ETag: \"v1\"\nContent-Range: bytes 5-9/10\nConnection: close", b"56");
    let ended = get(&file, true, &[&short], b"").await;
    assert!(matches!(ended.result, Err(FetchError::Broken { received: 2, .. })));
    assert_eq!(part_of(&file).unwrap().bytes, 7);
    let rest = part("ETag: \"v1\"\nContent-Range: bytes 7-9/10\nContent-Length: 3", b"789");
    assert_eq!(get(&file, true, &[&rest], b"").await.result.unwrap().resumed, 7);
    assert_eq!(std::fs::read(&file).unwrap(), OLD);
}

#[tokio::test]
async fn a_part_that_is_all_of_it_needs_the_servers_word() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    let nearly = "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n\r\n\
                  a\r\n0123456789\r\n";
    // Everything arrived except the end mark; the second answer gives the length.
    assert!(get(&file, false, &[nearly.as_bytes()], b"").await.result.is_err());
    let none_left = b"HTTP/1.1 416 No\r\nContent-Range: bytes */10\r\nContent-Length: 0\r\n\r\n";
    let ended = get(&file, true, &[none_left], &whole_of("\"v1\"", OLD)).await;
    assert_eq!((ended.result.unwrap().bytes, ended.asked.len()), (10, 2));
    std::fs::remove_file(&file).unwrap();
    // With a known length the last byte is requested again.
    assert!(get(&file, false, &[HALF.as_bytes()], b"").await.result.is_err());
    std::fs::write(out.path().join("x.part"), OLD).unwrap();
    let last = part("ETag: \"v1\"\nContent-Range: bytes 9-9/10\nContent-Length: 1", b"9");
    let ended = get(&file, true, &[&last], b"").await;
    assert!(ended.asked[0].contains("range: bytes=9-\r\n"), "{:?}", ended.asked);
    assert_eq!(ended.result.unwrap().resumed, 9);
    assert_eq!(std::fs::read(&file).unwrap(), OLD);
}

#[tokio::test]
async fn errors_leave_what_was_kept() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    assert!(get(&file, false, &[HALF.as_bytes()], b"").await.result.is_err());
    for status in ["404 Not Found", "503 Busy", "500 No"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno");
        let ended = get(&file, true, &[answer.as_bytes()], b"").await;
        assert!(matches!(ended.result, Err(FetchError::Status(_))));
        assert_eq!(part_of(&file).unwrap().bytes, 5);
    }
    let moved = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n";
    let ended = get(&file, true, &[moved], b"").await;
    let location = match ended.result {
        Err(FetchError::Redirect { location, .. }) => location,
        other => panic!("{other:?}"),
    };
    assert_eq!((location.as_str(), part_of(&file).unwrap().bytes), ("/y", 5));
}

#[tokio::test]
async fn what_has_no_strong_validator_is_not_kept_and_that_is_said() {
    for validator in ["ETag: W/\"v1\"\r\n", "", "ETag: \"\"\r\n"] {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("x");
        let half = format!("HTTP/1.1 200 OK\r\n{validator}Content-Length: 10\r\n\r\n01234");
        let ended = get(&file, false, &[half.as_bytes()], b"").await;
        assert!(ended.result.is_err());
        assert_eq!(ended.notes, ["lost"], "{validator}");
        assert!(names(out.path()).is_empty(), "{validator}");
        let ended = get(&file, true, &[], &whole_of("\"v1\"", OLD)).await;
        assert!(ended.result.is_ok() && !ended.asked[0].contains("range"), "{validator}");
    }
    // If no data has arrived, nothing is lost.
    let out = tempfile::tempdir().unwrap();
    let nothing = b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 10\r\n\r\n";
    let ended = get(&out.path().join("x"), false, &[nothing], b"").await;
    assert!(ended.result.is_err() && ended.notes.is_empty(), "{:?}", ended.notes);
    assert!(names(out.path()).is_empty());
}

#[tokio::test]
async fn bodies_and_heads_without_end_are_left() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    // As much as the stream's buffer holds; the server would never stop sending.
    let endless = [
        &b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
        &b"100\r\n"
            .iter()
            .chain(&[b'x'; 256])
            .chain(b"\r\n")
            .copied()
            .collect::<Vec<_>>()
            .repeat(2000),
    ]
    .concat();
    let ended = get(&file, false, &[&endless], b"").await;
    assert!(matches!(ended.result, Err(FetchError::Status(_))), "{:?}", ended.result);
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    let ended = get(&file, false, &[&interim], b"").await;
    let error = ended.result.unwrap_err().to_string();
    assert!(error.contains("interim answers"), "{error}");
    let few =
        [&b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(9)[..], &whole_of("\"v1\"", OLD)].concat();
    assert!(get(&file, false, &[&few], b"").await.result.is_ok());
}

#[tokio::test]
async fn a_body_that_ends_with_its_stream_is_known_to_be_uncertain() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    let until_close = b"HTTP/1.0 200 OK\r\n\r\n0123456789";
    assert!(!get(&file, false, &[until_close], b"").await.result.unwrap().known);
    let again = get(&file, false, &[], &whole_of("\"v1\"", OLD)).await.result.unwrap();
    assert!(again.known && again.replaced);
}

#[tokio::test]
async fn two_fetches_of_one_file_do_not_mix() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x");
    let (near, mut far) = duplex(1 << 16);
    struct One(Mutex<Option<DuplexStream>>);
    impl OpenStreams for One {
        type Stream = DuplexStream;
        async fn open(&self) -> io::Result<ByteStream<DuplexStream>> {
            let io = self.0.lock().unwrap().take().ok_or(io::ErrorKind::NotConnected)?;
            Ok(ByteStream { id: 0, io })
        }
    }
    let output = Output::File { path: file.clone(), resume: true };
    let (host, target, source) = ("host".to_owned(), "/x".to_owned(), "http://host/x".to_owned());
    let list = [Transaction { host, target, source, output, bounds: Bounds::default() }];
    let connection = One(Mutex::new(Some(near)));
    let first = fetch(&connection, &list, 1, &Silent);
    let second = async {
        let mut request = [0; 1024];
        assert!(far.read(&mut request).await.unwrap() > 0);
        // The first fetch has sent its request; the second is refused before it sends one.
        let ended = get(&file, true, &[], &whole_of("\"v1\"", NEW)).await;
        assert!(matches!(ended.result, Err(FetchError::Busy { .. })), "{:?}", ended.result);
        assert!(ended.asked.is_empty());
        far.write_all(&whole_of("\"v1\"", OLD)).await.unwrap();
        drop(far);
    };
    let (report, ()) = tokio::join!(first, second);
    assert!(report.results[0].is_ok(), "{:?}", report.results);
    assert_eq!(std::fs::read(&file).unwrap(), OLD);
    assert_eq!(names(out.path()), ["x"]);
}
