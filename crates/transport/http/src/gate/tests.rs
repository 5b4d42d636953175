use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::places::SHARE;
use super::*;
use crate::server::{ServerOptions, serve_connection};
use crate::stream::{AcceptStreams, ByteStream};

/// Longer than the buffers of hyper and of the stream.
const BODY: usize = 1 << 20;
const PIECE: usize = 64 << 10;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

struct Far(mpsc::UnboundedReceiver<ByteStream<DuplexStream>>, Arc<AtomicU64>);

impl AcceptStreams for Far {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<DuplexStream>>> {
        Ok(self.0.recv().await)
    }

    fn pending(&self) -> Option<Pending> {
        let pending = Arc::clone(&self.1);
        Some(Arc::new(move || pending.load(Relaxed)))
    }
}

/// A client with one connection, and the number of its requests that the server has started to
/// process.
struct Client {
    streams: mpsc::UnboundedSender<ByteStream<DuplexStream>>,
    begun: Arc<AtomicUsize>,
    /// Number of pieces of bodies that the server has read.
    pieces: Arc<AtomicUsize>,
    /// The value of pending bytes that the transport reports.
    pending: Arc<AtomicU64>,
    _server: JoinHandle<()>,
}

impl Client {
    fn new(options: &ServerOptions) -> Self {
        let (streams, far) = mpsc::unbounded_channel();
        let (begun, pending) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let (options, counted) = (options.clone(), Arc::clone(&begun));
        let pieces = Arc::<AtomicUsize>::default();
        let counted_pieces = Arc::clone(&pieces);
        let service = hyper::service::service_fn(move |_: Request<Incoming>| {
            counted.fetch_add(1, Relaxed);
            let counted = Arc::clone(&counted_pieces);
            let body = futures_util::stream::iter(0..BODY / PIECE).map(move |_| {
                counted.fetch_add(1, Relaxed);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; PIECE])))
            });
            async { Ok::<_, Infallible>(Response::new(StreamBody::new(body))) }
        });
        let far = Far(far, Arc::clone(&pending));
        let serving = async move {
            serve_connection(far, service, &options).await;
        };
        Self { streams, begun, pieces, pending, _server: tokio::spawn(serving) }
    }

    async fn ask(&self, request: &[u8]) -> DuplexStream {
        let (mut near, far) = duplex(8192);
        self.streams.send(ByteStream { id: 0, io: far }).unwrap();
        near.write_all(request).await.unwrap();
        near
    }

    fn begun(&self) -> usize {
        self.begun.load(Relaxed)
    }
}

/// Reads an answer; returns whether it was complete.
async fn read(stream: &mut DuplexStream) -> bool {
    let mut read = 0;
    let mut bytes = vec![0; 65_536];
    while read < BODY {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => read += count,
        }
    }
    true
}

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_much_and_takes_nothing_has_its_share() {
    let options = ServerOptions::default().with_requests(16);
    let hog = Client::new(&options);
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(hog.ask(REQUEST).await);
    }
    wait(1).await;
    assert_eq!(hog.begun(), 4, "a quarter of 16");
    let honest = Client::new(&options);
    assert!(read(&mut honest.ask(REQUEST).await).await);
    // When the client does read, each of them is answered.
    let whole = futures_util::future::join_all(streams.iter_mut().map(read)).await;
    assert!(whole.iter().all(|whole| *whole));
    assert_eq!(hog.begun(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_first_request_of_a_connection_has_places_of_its_own() {
    let options = ServerOptions::default().with_requests(16);
    let hogs: Vec<_> = (0..4).map(|_| Client::new(&options)).collect();
    let mut streams = Vec::new();
    for hog in &hogs {
        for _ in 0..10 {
            streams.push(hog.ask(REQUEST).await);
        }
    }
    wait(1).await;
    assert_eq!(hogs.iter().map(Client::begun).sum::<usize>(), 16);
    for _ in 0..3 {
        let honest = Client::new(&options);
        let mut stream = honest.ask(REQUEST).await;
        wait(1).await;
        assert_eq!(honest.begun(), 1);
        assert!(read(&mut stream).await);
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_gives_way_to_those_who_wait() {
    let options = ServerOptions::default().with_requests(4).with_slow_answers(0);
    // There are four places, and one for a first request.
    let hogs: Vec<_> = (0..5).map(|_| Client::new(&options)).collect();
    let mut streams = Vec::new();
    for hog in &hogs {
        streams.push(hog.ask(REQUEST).await);
    }
    wait(60).await;
    assert_eq!(hogs.iter().map(Client::begun).sum::<usize>(), 5);
    let honest = Client::new(&options);
    let mut stream = honest.ask(REQUEST).await;
    wait(3).await;
    assert_eq!(honest.begun(), 1, "they have stalled for a minute already");
    assert!(read(&mut stream).await);
    let mut whole = 0;
    for stream in &mut streams {
        whole += usize::from(read(stream).await);
    }
    assert!(whole < 5, "one was evicted");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_takes_nothing_keeps_nobody_out() {
    let options = ServerOptions::default().with_requests(16);
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        let client = Client::new(&options);
        let stream = client.ask(REQUEST).await;
        crowd.push((client, stream));
    }
    // One of those with a place reads its answer, but slowly.
    wait(1).await;
    let slow = crowd.iter().position(|(client, _)| client.begun() > 0).expect("one in progress");
    for round in 0..20 {
        let honest = Client::new(&options);
        let asked = Instant::now();
        let mut stream = honest.ask(REQUEST).await;
        let mut answer = std::pin::pin!(read(&mut stream));
        let whole = loop {
            crowd[slow].0.pending.fetch_add(1, Relaxed);
            match tokio::time::timeout(Duration::from_secs(1), &mut answer).await {
                Ok(whole) => break whole,
                Err(_) => continue,
            }
        };
        assert!(
            whole && asked.elapsed() < Duration::from_secs(8),
            "{round}: {:?}",
            asked.elapsed()
        );
    }
    assert!(read(&mut crowd[slow].1).await, "it never stalled");
}

#[tokio::test(start_paused = true)]
async fn a_still_connection_is_waited_for_while_nobody_needs_its_place() {
    let client = Client::new(&ServerOptions::default());
    let mut stream = client.ask(REQUEST).await;
    wait(110).await;
    assert!(read(&mut stream).await);
    let mut stream = client.ask(REQUEST).await;
    wait(130).await;
    assert!(!read(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_as_alive_as_the_liveliest_of_its_streams() {
    let client = Client::new(&ServerOptions::default());
    let mut patient = client.ask(REQUEST).await;
    for _ in 0..10 {
        wait(60).await;
        assert!(read(&mut client.ask(REQUEST).await).await);
    }
    assert!(read(&mut patient).await);
}

#[tokio::test(start_paused = true)]
async fn half_a_request_has_a_length_and_a_time() {
    let options = ServerOptions::default().with_timer(TokioTimer::new());
    let client = Client::new(&options);
    let mut stream = client.ask(b"GET / HTTP/1.1\r\nx: ").await;
    let _ = stream.write_all(&[b'a'; 20_000]).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
    let mut stream = client.ask(b"GET / HTTP/1.1\r\nx: ").await;
    wait(29).await;
    stream.write_all(b"a").await.unwrap();
    wait(2).await;
    assert!(stream.write_all(b"a").await.is_err(), "30 s are over");
    assert_eq!(client.begun(), 0);
    let mut stream = client.ask(b"GET / HTTP/1.1\r\nhost: ").await;
    stream.write_all(b"a\r\n\r\n").await.unwrap();
    assert!(read(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn half_requests_of_all_are_bounded_together() {
    let options = ServerOptions::default().with_requests(4);
    let client = Client::new(&options);
    let half = [&b"GET / HTTP/1.1\r\nx: "[..], &[b'a'; 8000]].concat();
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(client.ask(&half).await);
        wait(0).await;
    }
    wait(1).await;
    let mut open = 0;
    for stream in &mut streams {
        open += usize::from(stream.write_all(b"a").await.is_ok());
    }
    assert!((10..=4 * HEADS / 8000).contains(&open), "{open} are open");
    // Complete requests are still answered.
    assert!(read(&mut client.ask(REQUEST).await).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_came_second_becomes_the_first() {
    let options = ServerOptions::default().with_requests(16).with_slow_answers(0);
    let crowd: Vec<_> = (0..4).map(|_| Client::new(&options)).collect();
    let mut streams = Vec::new();
    for client in &crowd {
        for _ in 0..4 {
            streams.push(client.ask(REQUEST).await);
        }
    }
    wait(1).await;
    // They occupy all ordinary places, and keep them by reading a little from time to time.
    let crowd = tokio::spawn(async move {
        loop {
            wait(2).await;
            for client in &crowd {
                client.pending.fetch_add(1, Relaxed);
            }
        }
    });
    let honest = Client::new(&options);
    let [mut one, mut two] = [honest.ask(REQUEST).await, honest.ask(REQUEST).await];
    wait(1).await;
    assert_eq!(honest.begun(), 1);
    for stream in [&mut one, &mut two] {
        let answered = tokio::time::timeout(Duration::from_secs(60), read(stream)).await;
        assert_eq!(answered, Ok(true));
    }
    assert!(read(&mut honest.ask(REQUEST).await).await);
    crowd.abort();
    drop(streams);
}

#[tokio::test(start_paused = true)]
async fn who_has_asked_may_end_its_side() {
    let client = Client::new(&ServerOptions::default());
    let mut stream = client.ask(REQUEST).await;
    stream.shutdown().await.unwrap();
    assert!(read(&mut stream).await, "the answer is whole");
}

#[tokio::test(start_paused = true)]
async fn streams_of_all_are_bounded_together() {
    let options = ServerOptions::default().with_requests(1);
    let few = Client::new(&options);
    let mut quiet = few.ask(b"GET / HTTP/1.1\r\n").await;
    let many = Client::new(&options);
    let mut streams = Vec::new();
    for _ in 0..1500 {
        streams.push(many.ask(b"G").await);
    }
    wait(1).await;
    let mut open = 0;
    for stream in &mut streams {
        open += usize::from(stream.write_all(b"E").await.is_ok());
    }
    assert_eq!(open, 1023);
    quiet.write_all(b"host: x\r\n\r\n").await.unwrap();
    assert!(read(&mut quiet).await, "a client with few streams keeps them");
}

/// A connection with short answers; records its refused requests.
struct Short {
    streams: mpsc::UnboundedSender<ByteStream<DuplexStream>>,
    refused: Arc<Mutex<Vec<(u16, String)>>>,
    served: JoinHandle<()>,
}

impl Short {
    fn new(options: &ServerOptions, gap: Duration) -> Self {
        let (streams, far) = mpsc::unbounded_channel();
        let refused = Arc::<Mutex<Vec<_>>>::default();
        let told = Arc::clone(&refused);
        let options = options.clone().with_refused(move |access| {
            let line = format!("{} {}", access.method, access.target);
            told.lock().unwrap().push((access.status.as_u16(), line));
        });
        let service = hyper::service::service_fn(move |_: Request<Incoming>| async move {
            tokio::time::sleep(gap).await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"short"))))
        });
        let far = Far(far, Arc::default());
        let serving = async move {
            serve_connection(far, service, &options).await;
        };
        Self { streams, refused, served: tokio::spawn(serving) }
    }

    /// Sends these bytes. Returns all answers up to the end of the stream.
    async fn answers(&self, requests: Vec<u8>, room: usize) -> String {
        let (near, far) = duplex(room);
        self.streams.send(ByteStream { id: 0, io: far }).unwrap();
        let (mut read, mut write) = tokio::io::split(near);
        let writing = async {
            // A server that refuses a request does not read the rest.
            let _ = write.write_all(&requests).await;
        };
        let mut answers = Vec::new();
        let reading = async {
            let _ = read.read_to_end(&mut answers).await;
        };
        tokio::join!(writing, reading);
        String::from_utf8(answers).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn pipelines_of_any_length_are_answered() {
    let last = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for (head, room) in [(16 << 10, 1 << 20), (300, 1 << 20), (16 << 10, 700), (3 << 10, 40_000)] {
        let options = ServerOptions::default().with_longest_head(head);
        let client = Short::new(&options, Duration::ZERO);
        let mut requests = Vec::new();
        for number in 0..3000 {
            // Heads of many lengths, so that they are split at every position.
            let field = "f".repeat(number % 251);
            requests.extend(format!("GET / HTTP/1.1\r\nhost: x\r\nf: {field}\r\n\r\n").bytes());
        }
        requests.extend(last);
        let answers = client.answers(requests, room).await;
        assert_eq!(
            answers.matches("HTTP/1.1 200 OK\r\n").count(),
            3001,
            "head {head}, room {room}"
        );
        assert_eq!(answers.matches("HTTP/1.1").count(), 3001, "head {head}, room {room}");
        assert!(client.refused.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn pipelines_are_answered_while_others_have_half_requests() {
    // The requests that are held leave room for a short head only.
    let options = ServerOptions::default().with_requests(1).with_timer(TokioTimer::new());
    let others = Client::new(&options);
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(others.ask(&[&b"GET / HTTP/1.1\r\nx: "[..], &[b'a'; 2000]].concat()).await);
    }
    wait(1).await;
    let client = Short::new(&options, Duration::ZERO);
    let mut requests = REQUEST.repeat(2000);
    requests.extend(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let answers = client.answers(requests, 1 << 20).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2001);
}

#[tokio::test(start_paused = true)]
async fn each_refused_request_is_told() {
    let options = ServerOptions::default().with_timer(TokioTimer::new()).with_longest_head(1000);
    let long = [&b"GET / HTTP/1.1\r\nx: "[..], &[b'a'; 2000]].concat();
    let after = [REQUEST, b"nonsense\r\n\r\n"].concat();
    for (request, status, line) in [
        (&b"nonsense\r\n\r\n"[..], 400, "- -"),
        (&after, 400, "- -"),
        (&long, 431, "- -"),
        (b"GET /a?b HTTP/1.1\r\n\r\n", 400, "GET /a?b"),
        (b"GET /a HTTP/1.1\r\nhost: a b/../c@x:99999999\r\n\r\n", 400, "GET /a"),
        (b"GET /a HTTP/1.1\r\nhost: x\r\n", 408, "- -"),
    ] {
        let client = Short::new(&options, Duration::ZERO);
        let answers = client.answers(request.to_vec(), 1 << 16).await;
        let said = format!("HTTP/1.1 {status} ");
        assert_eq!(answers.matches(&said).count(), 1, "{status}: {answers}");
        assert_eq!(*client.refused.lock().unwrap(), [(status, line.to_owned())]);
    }
    // A client that sends no request is not refused.
    let client = Short::new(&options, Duration::ZERO);
    assert_eq!(client.answers(Vec::new(), 100).await, "");
    assert!(client.refused.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_finishes_its_answers() {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let busy = Arc::<Mutex<Vec<bool>>>::default();
    let told = Arc::clone(&busy);
    let options = ServerOptions::default()
        .with_stop(stopped)
        .with_activity(move |is_busy| told.lock().unwrap().push(is_busy));
    let client = Short::new(&options, Duration::from_secs(10));
    let idle = client.answers(Vec::new(), 100);
    // In a pipeline, the request being answered counts, too.
    let asked = client.answers(REQUEST.repeat(3), 1000);
    let stopping = async {
        wait(5).await;
        assert_eq!(*busy.lock().unwrap(), [true]);
        stop.send_replace(true);
    };
    let (idle, asked, ()) = tokio::join!(idle, asked, stopping);
    assert_eq!(idle, "");
    assert_eq!(asked.matches("HTTP/1.1 200 OK\r\n").count(), 1, "{asked}");
    assert!(asked.contains("connection: close\r\n") && asked.ends_with("short"), "{asked}");
    assert_eq!(*busy.lock().unwrap(), [true, false]);
    client.served.await.unwrap();
}

/// Clients that each send requests on several streams, and read nothing.
async fn crowd(
    options: &ServerOptions,
    count: usize,
    each: usize,
) -> Vec<(Client, Vec<DuplexStream>)> {
    let mut crowd = Vec::new();
    for _ in 0..count {
        let client = Client::new(options);
        let mut streams = Vec::new();
        for _ in 0..each {
            streams.push(client.ask(REQUEST).await);
        }
        crowd.push((client, streams));
    }
    crowd
}

/// Asserts that an honest client is answered within a second of virtual time.
async fn assert_answers(options: &ServerOptions, when: &str) {
    let honest = Client::new(options);
    let answered = tokio::time::timeout(Duration::from_secs(1), async {
        read(&mut honest.ask(REQUEST).await).await
    });
    assert_eq!(answered.await, Ok(true), "{when}");
}

/// Asserts that no request holds any resource.
fn assert_free(options: &ServerOptions) {
    let places = &options.gate().0;
    assert_eq!(places.line().free, [places.most, places.most.div_ceil(SHARE)]);
    assert_eq!((places.waiting.load(Relaxed), places.parked.units()), (0, 0));
}

/// Reads a part of each answer. Returns how many reads succeeded.
async fn take(crowd: &mut [(Client, Vec<DuplexStream>)], bytes: usize) -> usize {
    let mut part = vec![0; bytes];
    let mut whole = 0;
    for stream in crowd.iter_mut().flat_map(|(_, streams)| streams) {
        let took = tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut part));
        whole += usize::from(matches!(took.await, Ok(Ok(_))));
    }
    whole
}

#[tokio::test(start_paused = true)]
async fn slow_readers_keep_nobody_out_and_get_all() {
    let options = ServerOptions::default().with_requests(4).with_slow_answers(100);
    let mut slow = crowd(&options, 90, 1).await;
    // 64 kb/s, in steps of a socket buffer.
    let step = 32_000;
    let mut got = 0;
    for round in 0..20 {
        for _ in 0..4 {
            assert_answers(&options, &format!("in round {round}")).await;
            wait(1).await;
        }
        assert_eq!(take(&mut slow, step).await, 90);
        got += step;
        // Besides what the clients have read, the server has read one piece for each answer, and
        // more for those with places.
        let pieces: usize = slow.iter().map(|(client, _)| client.pieces.load(Relaxed)).sum();
        let most = 90 * got.div_ceil(PIECE) + 100 + 5 * 6;
        assert!(pieces <= most, "{pieces} of {most}");
    }
    assert!(slow.iter().all(|(client, _)| client.begun() == 1));
    assert_eq!(take(&mut slow, BODY - got).await, 90);
    wait(1).await;
    assert_free(&options);
    assert_answers(&options, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_take_nothing_are_ended_for_those_who_come() {
    let options = ServerOptions::default().with_requests(4).with_slow_answers(10);
    let mut alive = crowd(&options, 1, 1).await;
    let mut still = crowd(&options, 40, 1).await;
    for round in 0..30 {
        wait(1).await;
        assert_eq!(take(&mut alive, 10_000).await, 1, "{round}");
    }
    let begun: usize = still.iter().map(|(client, _)| client.begun()).sum();
    assert_eq!(begun, 40, "each had a place at some time");
    assert_answers(&options, "later").await;
    let whole = take(&mut still, BODY).await;
    assert!((10..=15).contains(&whole), "{whole} are left, as many as there is room for");
    assert_eq!(take(&mut alive, BODY - 300_000).await, 1);
    wait(1).await;
    assert_free(&options);
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_many_slow_answers_loses_some_to_those_with_one() {
    let options = ServerOptions::default().with_requests(40).with_slow_answers(60);
    let mut many = crowd(&options, 10, 10).await;
    wait(1).await;
    let mut few = crowd(&options, 20, 1).await;
    // All clients continue to read.
    for round in 0..20 {
        take(&mut many, 1000).await;
        assert_eq!(take(&mut few, 1000).await, 20, "{round}");
        assert_answers(&options, &format!("in round {round}")).await;
    }
    assert_eq!(take(&mut few, BODY - 20_000).await, 20);
    let kept = take(&mut many, BODY - 20_000).await;
    assert!((10..100).contains(&kept), "{kept}");
    drop(many);
    wait(1).await;
    assert_free(&options);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_has_a_place_again_when_nobody_waits() {
    let options = ServerOptions::default().with_requests(1).with_slow_answers(10);
    let mut slow = crowd(&options, 3, 1).await;
    wait(2).await;
    assert_eq!(options.gate().0.parked.units(), 1, "one for the two that have places");
    assert_eq!(take(&mut slow, BODY / 2).await, 3);
    drop(slow.split_off(1));
    assert_eq!(take(&mut slow, PIECE).await, 1);
    assert_eq!(options.gate().0.parked.units(), 0);
    assert_eq!(take(&mut slow, BODY / 2 - PIECE).await, 1);
    wait(1).await;
    assert_free(&options);
}
