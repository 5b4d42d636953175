use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use http_body_util::Full;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;

/// A store that serves a directory and accepts files of up to 1,000 bytes into it, two at the same
/// time.
fn store(directory: &TempDir) -> Store {
    let uploads = Uploads::open(directory.path(), 1000, 2).unwrap();
    Store::new(Files::open(directory.path()).unwrap(), Some(uploads))
}

fn put(target: &str) -> http::request::Builder {
    Request::put(target).header("host", "h")
}

async fn send(store: &Store, request: http::request::Builder, body: &[u8]) -> Response<FileBody> {
    let body = Full::new(Bytes::copy_from_slice(body));
    store.call(request.body(body).unwrap()).await.unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// A body that arrives in pieces.
struct Pieces(mpsc::UnboundedReceiver<io::Result<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[tokio::test]
async fn files_are_made_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let made = send(&store, put("/a%20b"), b"one").await;
    assert_eq!(made.status(), StatusCode::CREATED);
    assert_eq!(std::fs::read(directory.path().join("a b")).unwrap(), b"one");
    // The file is served with the same tag.
    let get = Request::get("/a%20b").body(Full::<Bytes>::default()).unwrap();
    let served = store.call(get).await.unwrap();
    assert_eq!(served.headers()[ETAG], made.headers()[ETAG]);
    let replaced = send(&store, put("/a%20b?query"), b"two").await;
    assert_eq!(replaced.status(), StatusCode::NO_CONTENT);
    assert_ne!(replaced.headers()[ETAG], made.headers()[ETAG]);
    assert_eq!(std::fs::read(directory.path().join("a b")).unwrap(), b"two");
    assert_eq!(send(&store, put("/empty"), b"").await.status(), StatusCode::CREATED);
    assert_eq!(names(directory.path()), ["a b", "empty"]);
    let other = Request::delete("/a%20b").body(Full::<Bytes>::default()).unwrap();
    let other = store.call(other).await.unwrap();
    assert_eq!(other.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(other.headers()[ALLOW], "GET, HEAD, PUT");
    // A store without a directory for uploads refuses them.
    let closed = Store::new(Files::open(directory.path()).unwrap(), None);
    let refused = send(&closed, put("/x"), b"x").await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()[ALLOW], "GET, HEAD");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_else_is_written_to() {
    use std::os::unix::fs::symlink;
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir(base.path().join("outside")).unwrap();
    std::fs::write(base.path().join("outside/file"), "outside").unwrap();
    std::fs::write(root.join("file"), "file").unwrap();
    symlink("../outside", root.join("out")).unwrap();
    symlink("../outside/file", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("sub", root.join("in")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    let uploads = Uploads::open(&root, 1000, 2).unwrap();
    let store = Store::new(Files::open(&root).unwrap(), Some(uploads));
    for (target, status) in [
        ("/../x", 403),
        ("/%2e%2e/x", 403),
        ("/a%2f..%2f..%2fx", 403),
        ("/%00", 403),
        ("/.ssh", 403),
        ("/.well-known", 403),
        ("/sub/.x/y", 403),
        ("/out/file", 403),
        ("/out/new", 403),
        ("/link", 403),
        ("/dangling", 403),
        ("/pipe", 403),
        ("/", 409),
        ("/sub", 409),
        ("/sub/", 409),
        ("/new/", 409),
        ("/none/x", 409),
        ("/file/x", 409),
        ("/in/x", 201),
    ] {
        let answer = send(&store, put(target), b"bad").await;
        assert_eq!(answer.status().as_u16(), status, "{target}");
        assert!(!answer.headers().contains_key(CONNECTION), "{target}: the body was read");
    }
    let long = format!("/{}", "x".repeat(256));
    assert_eq!(send(&store, put(&long), b"x").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(names(base.path()), ["outside", "root"]);
    assert_eq!(names(&base.path().join("outside")), ["file"]);
    assert_eq!(std::fs::read(base.path().join("outside/file")).unwrap(), b"outside");
    let all = ["dangling", "file", "in", "link", "out", "pipe", "sub"];
    assert_eq!(names(&root), all);
    assert_eq!(names(&root.join("sub")), ["x"]);
}

#[tokio::test]
async fn conditions_and_fields_are_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let etag = send(&store, put("/f"), b"one").await.headers()[ETAG].to_str().unwrap().to_owned();
    for (name, value, status) in [
        ("if-none-match", "*", 412),
        ("if-match", "\"other\"", 412),
        ("content-range", "bytes 0-2/3", 400),
        ("content-encoding", "gzip", 415),
        ("content-encoding", "identity", 204),
        ("if-match", &etag, 412),
    ] {
        let answer = send(&store, put("/f").header(name, value), b"two").await;
        assert_eq!(answer.status().as_u16(), status, "{name}: {value}");
    }
    let missing = send(&store, put("/g").header("if-match", "*"), b"x").await;
    assert_eq!(missing.status(), StatusCode::PRECONDITION_FAILED);
    let made = send(&store, put("/g").header("if-none-match", "*"), b"x").await;
    assert_eq!(made.status(), StatusCode::CREATED);
    assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), b"two");
    assert_eq!(names(directory.path()), ["f", "g"]);
}

#[tokio::test]
async fn a_file_that_comes_meanwhile_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let (sender, body) = mpsc::unbounded_channel();
    let request = put("/f").header("if-none-match", "*").body(Pieces(body)).unwrap();
    let answer = tokio::spawn(store.call(request));
    sender.send(Ok("first".into())).unwrap();
    while names(directory.path()).is_empty() {
        tokio::task::yield_now().await;
    }
    std::fs::write(directory.path().join("f"), "there").unwrap();
    drop(sender);
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), b"there");
    assert_eq!(names(directory.path()), ["f"]);
}

#[tokio::test]
async fn what_is_too_long_or_broken_off_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    std::fs::write(directory.path().join("f"), "before").unwrap();
    assert_eq!(send(&store, put("/f"), &[1; 1000]).await.status(), StatusCode::NO_CONTENT);
    std::fs::write(directory.path().join("f"), "before").unwrap();
    let long = send(&store, put("/f"), &[1; 1001]).await;
    assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for (last, status) in
        [(Ok(Bytes::from_static(&[1; 600])), 413), (Err(io::ErrorKind::UnexpectedEof.into()), 400)]
    {
        let (sender, body) = mpsc::unbounded_channel();
        sender.send(Ok(Bytes::from_static(&[1; 600]))).unwrap();
        sender.send(last).unwrap();
        drop(sender);
        let answer = store.call(put("/f").body(Pieces(body)).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
    }
    // The peer disconnects, and the task that answers it is aborted.
    let (sender, body) = mpsc::unbounded_channel();
    let answer = tokio::spawn(store.call(put("/g").body(Pieces(body)).unwrap()));
    sender.send(Ok("half".into())).unwrap();
    while names(directory.path()).len() < 2 {
        tokio::task::yield_now().await;
    }
    answer.abort();
    assert!(answer.await.is_err());
    while names(directory.path()).len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), b"before");
}

#[tokio::test(start_paused = true)]
async fn uploads_have_places_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let begin = |target: &str| {
        let (sender, body) = mpsc::unbounded_channel();
        (sender, tokio::spawn(store.call(put(target).body(Pieces(body)).unwrap())))
    };
    let (_silent, first) = begin("/a");
    let (slow, second) = begin("/b");
    while names(directory.path()).len() < 2 {
        tokio::task::yield_now().await;
    }
    let third = send(&store, put("/c"), b"x").await;
    assert_eq!(third.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(third.headers()[RETRY_AFTER], "1");
    // A slow upload loses its place as soon as a silent one does.
    tokio::spawn(async move {
        while slow.send(Ok("x".into())).is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    assert_eq!(second.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    // When a place is free again, the silent one gets more time, but not forever.
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(send(&store, put("/c"), b"x").await.status(), StatusCode::CREATED);
    assert_eq!(names(directory.path()), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_goes_on_when_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let (sender, body) = mpsc::unbounded_channel();
    let answer = tokio::spawn(store.call(put("/f").body(Pieces(body)).unwrap()));
    for _ in 0..20 {
        sender.send(Ok("x".into())).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    drop(sender);
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::CREATED);
    assert_eq!(std::fs::metadata(directory.path().join("f")).unwrap().len(), 20);
}

#[test]
fn disks_say_what_is_wrong() {
    for (kind, status) in [
        (io::ErrorKind::StorageFull, 507),
        (io::ErrorKind::QuotaExceeded, 507),
        (io::ErrorKind::FileTooLarge, 413),
        (io::ErrorKind::PermissionDenied, 403),
        (io::ErrorKind::ReadOnlyFilesystem, 403),
        (io::ErrorKind::Other, 500),
    ] {
        assert_eq!(status_of(&kind.into()).as_u16(), status, "{kind}");
    }
}
