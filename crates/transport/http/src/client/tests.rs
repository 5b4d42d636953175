use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;
use crate::files::Files;
use crate::server::{ServerOptions, serve_connection};
use crate::stream::{AcceptStreams, ByteStream};

/// A connection in memory: the client's side, and the queue that the server accepts from.
struct Near {
    next: AtomicU16,
    limit: u16,
    far: mpsc::UnboundedSender<ByteStream<DuplexStream>>,
}

struct Far(mpsc::UnboundedReceiver<ByteStream<DuplexStream>>);

fn connection(limit: u16) -> (Near, Far) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Near { next: AtomicU16::new(0), limit, far: sender }, Far(receiver))
}

impl OpenStreams for Near {
    type Stream = DuplexStream;

    async fn open(&self) -> io::Result<ByteStream<DuplexStream>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if id >= self.limit {
            return Err(io::Error::other("no stream is left"));
        }
        let (near, far) = duplex(4096);
        let stream = ByteStream { id, io: far };
        self.far.send(stream).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(ByteStream { id, io: near })
    }
}

impl AcceptStreams for Far {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<DuplexStream>>> {
        Ok(self.0.recv().await)
    }
}

fn transaction(target: &str, file: PathBuf) -> Transaction {
    let output = Output::File { path: file, resume: true };
    let (host, target) = ("host".to_owned(), target.to_owned());
    Transaction {
        source: format!("http://host{target}"),
        host,
        target,
        output,
        bounds: Bounds::default(),
    }
}

/// Fetches `targets` from a directory with files `0` to `19`, over `streams` streams.
async fn fetch_from_files(targets: &[&str], streams: usize) -> (FetchReport, Vec<StreamTotals>) {
    let source = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    for index in 0..20_u8 {
        let content = vec![index; usize::from(index) * 10_000];
        std::fs::write(source.path().join(index.to_string()), content).unwrap();
    }
    let list: Vec<_> = targets
        .iter()
        .enumerate()
        .map(|(index, target)| transaction(target, out.path().join(index.to_string())))
        .collect();
    let (near, far) = connection(u16::MAX);
    let service = Files::open(source.path()).unwrap();
    let options = ServerOptions::default();
    let client = async move {
        let report = fetch(&near, &list, streams, &Silent).await;
        drop(near);
        report
    };
    let (report, served) = tokio::join!(client, serve_connection(far, service, &options));
    for (index, (target, result)) in targets.iter().zip(&report.results).enumerate() {
        let copy = out.path().join(index.to_string());
        match result {
            Ok(fetched) => {
                let original = std::fs::read(source.path().join(&target[1..])).unwrap();
                assert_eq!(fetched.bytes, original.len() as u64);
                assert!(std::fs::read(copy).unwrap() == original, "{target}");
            }
            Err(_) => assert!(!copy.exists()),
        }
    }
    let left = std::fs::read_dir(out.path()).unwrap().count();
    assert_eq!(left, report.results.iter().filter(|result| result.is_ok()).count());
    served.end.unwrap();
    (report, served.streams)
}

#[tokio::test]
async fn many_files_over_few_streams() {
    let targets: Vec<_> = (0..20).map(|index| format!("/{index}")).collect();
    let targets: Vec<_> = targets.iter().map(String::as_str).collect();
    for streams in [1, 3, 64] {
        let (report, served) = fetch_from_files(&targets, streams).await;
        assert!(report.results.iter().all(Result::is_ok), "{:?}", report.results);
        assert_eq!(report.streams.len(), streams.min(20));
        assert_eq!(report.streams.iter().map(|s| s.transactions).sum::<u64>(), 20);
        // Both ends saw the same, each from its side.
        for (here, there) in report.streams.iter().zip(&served) {
            assert_eq!((here.id, here.transactions), (there.id, there.transactions));
            assert_eq!(here.bytes_received, there.bytes_sent);
            assert_eq!(here.bytes_sent, there.bytes_received);
        }
    }
}

#[tokio::test]
async fn a_missing_file_does_not_cost_the_stream() {
    let (report, _) = fetch_from_files(&["/1", "/none", "/2"], 1).await;
    assert!(report.results[0].is_ok() && report.results[2].is_ok());
    let error = report.results[1].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "the server answered 404 Not Found");
    assert_eq!(report.streams.len(), 1);
}

/// Answers on each stream with `answer` and ends the stream.
async fn answer_with(mut far: Far, answer: &'static [u8]) {
    while let Ok(Some(mut stream)) = far.accept().await {
        let mut request = [0; 1024];
        let _ = stream.io.read(&mut request).await;
        let _ = stream.io.write_all(answer).await;
    }
}

async fn fetch_answer(answer: &'static [u8], count: usize, limit: u16) -> FetchReport {
    let out = tempfile::tempdir().unwrap();
    let (near, far) = connection(limit);
    let list: Vec<_> =
        (0..count).map(|n| transaction("/x", out.path().join(n.to_string()))).collect();
    let client = async move {
        let report = fetch(&near, &list, 1, &Silent).await;
        drop(near);
        report
    };
    tokio::join!(client, answer_with(far, answer)).0
}

#[tokio::test]
async fn a_short_answer_is_no_file() {
    let report = fetch_answer(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", 1, 9).await;
    let error = report.results[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "the connection broke after 4 of 10 bytes: the server closed it");
    let report = fetch_answer(b"", 1, 9).await;
    let error = report.results[0].as_ref().unwrap_err();
    assert_eq!(error.to_string(), "the connection broke before the answer: the server closed it");
    let report = fetch_answer(b"220 ready\r\n", 1, 9).await;
    assert!(report.results[0].is_err());
}

#[tokio::test]
async fn a_stream_that_ends_is_replaced() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let report = fetch_answer(answer, 3, 9).await;
    assert!(report.results.iter().all(Result::is_ok), "{:?}", report.results);
    assert_eq!(report.streams.len(), 3);
    // If no further stream is available, the rest fails with an error message each.
    let report = fetch_answer(answer, 3, 1).await;
    assert!(report.results[0].is_ok());
    for result in &report.results[1..] {
        let error = result.as_ref().unwrap_err().to_string();
        assert_eq!(error, "no stream could be opened: no stream is left");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_fails_alone() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let out = tempfile::tempdir().unwrap();
    let (near, far) = connection(9);
    let list =
        [transaction("/a", out.path().join("no/a")), transaction("/b", out.path().join("b"))];
    let client = async move {
        let report = fetch(&near, &list, 1, &Silent).await;
        drop(near);
        report
    };
    let report = tokio::join!(client, answer_with(far, answer)).0;
    assert!(matches!(report.results[0], Err(FetchError::File { .. })));
    assert!(report.results[1].is_ok(), "{:?}", report.results[1]);
}

#[tokio::test]
async fn requests_are_sent_before_the_first_is_answered() {
    let out = tempfile::tempdir().unwrap();
    let (near, mut far) = connection(9);
    let list: Vec<_> = (0..6).map(|n| transaction("/x", out.path().join(n.to_string()))).collect();
    let options = FetchOptions::new(2).with_depth(3);
    let client = async move {
        let report = fetch_with(&near, &list, &options, &Silent).await;
        drop(near);
        report
    };
    let server = async move {
        let mut streams = Vec::new();
        while let Ok(Some(mut stream)) = far.accept().await {
            streams.push(tokio::spawn(async move {
                let (mut seen, mut bytes) = (Vec::new(), [0; 1024]);
                while seen.windows(4).filter(|end| end == b"\r\n\r\n").count() < 3 {
                    let count = stream.io.read(&mut bytes).await.unwrap();
                    assert!(count > 0, "three requests at once");
                    seen.extend_from_slice(&bytes[..count]);
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.io.write_all(&answer.repeat(3)).await.unwrap();
            }));
        }
        for stream in streams {
            stream.await.unwrap();
        }
    };
    let (report, ()) = tokio::join!(client, server);
    assert!(report.results.iter().all(Result::is_ok), "{:?}", report.results);
    assert_eq!(report.streams.iter().map(|s| s.transactions).collect::<Vec<_>>(), [3, 3]);
}

#[tokio::test]
async fn what_was_asked_on_a_stream_that_ends_is_asked_again() {
    let out = tempfile::tempdir().unwrap();
    let (near, far) = connection(9);
    let list: Vec<_> = (0..4).map(|n| transaction("/x", out.path().join(n.to_string()))).collect();
    let options = FetchOptions::new(1).with_depth(4).with_placement(Placement::SmallestPending);
    let client = async move {
        let report = fetch_with(&near, &list, &options, &Silent).await;
        drop(near);
        report
    };
    // The same answer on each stream, whatever the request.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let report = tokio::join!(client, answer_with(far, answer)).0;
    assert!(report.results.iter().all(Result::is_ok), "{:?}", report.results);
    assert_eq!(report.streams.len(), 4);
}
