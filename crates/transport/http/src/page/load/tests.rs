//! Tests with streams that end in the middle of an answer.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, DuplexStream};

use super::*;

/// A server that answers the first request on stream N with text N, and then ends the stream.
struct Scripted {
    answers: Mutex<VecDeque<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl OpenStreams for Scripted {
    type Stream = DuplexStream;

    async fn open(&self) -> io::Result<ByteStream<DuplexStream>> {
        let answer = self.answers.lock().unwrap().pop_front();
        let answer = answer.ok_or_else(|| io::Error::other("the server is gone"))?;
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let requests = Arc::clone(&self.requests);
        tokio::spawn(async move {
            let mut request = vec![0; 1 << 12];
            let read = far.read(&mut request).await.unwrap();
            requests.lock().unwrap().push(String::from_utf8(request[..read].to_vec()).unwrap());
            far.write_all(answer.as_bytes()).await.unwrap();
        });
        Ok(ByteStream { id: 0, io: near })
    }
}

const INDEX: &str =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n<img src=a.x>";
const CUT: &str = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n01234";

async fn load(answers: &[&'static str]) -> (PageLoad, Vec<String>) {
    let requests = Arc::default();
    let answers = Mutex::new(answers.iter().copied().collect());
    let server = Scripted { answers, requests: Arc::clone(&requests) };
    let mut request = PageRequest::new("h", "/");
    request.keep = true;
    let page = load_page(&server, &request, &|| Duration::ZERO).await.unwrap();
    drop(server);
    let requests = requests.lock().unwrap().clone();
    (page, requests)
}

#[tokio::test]
async fn an_object_goes_on_where_its_stream_ended() {
    let rest = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 5-9/10\r\n\
        Content-Length: 5\r\n\r\n56789";
    let (page, requests) = load(&[INDEX, CUT, rest]).await;
    let object = &page.objects[0];
    assert_eq!(object.body.as_deref(), Some(&b"0123456789"[..]), "{object:?}");
    assert_eq!((object.bytes(), object.announced, &object.error), (10, Some(10), &None));
    assert!(!requests[1].contains("Range"), "{requests:?}");
    assert!(requests[2].contains("Range: bytes=5-\r\nIf-Range: \"1\"\r\n"), "{requests:?}");
}

#[tokio::test]
async fn an_object_that_has_changed_begins_anew() {
    let (page, _) = load(&[INDEX, CUT, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"]).await;
    assert_eq!(page.objects[0].body.as_deref(), Some(&b"new"[..]));
    assert_eq!(page.objects[0].bytes(), 3);
}

#[tokio::test]
async fn an_object_that_cannot_go_on_is_a_failure() {
    // Without a tag, it may be another object; a part that begins elsewhere is useless; and the
    // number of attempts is limited.
    let untagged = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234";
    let elsewhere = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 4-9/10\r\n\
        Content-Length: 6\r\n\r\n456789";
    for answers in
        [&[INDEX, untagged, CUT][..], &[INDEX, CUT, elsewhere], &[INDEX, CUT, CUT, CUT, CUT, CUT]]
    {
        let (page, requests) = load(answers).await;
        assert!(page.objects[0].error.is_some() && !page.is_complete(), "{page:?}");
        assert!(requests.len() <= 4, "{requests:?}");
    }
}
