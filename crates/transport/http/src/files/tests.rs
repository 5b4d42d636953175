use std::fs;
use std::time::{Duration, SystemTime};

use http::header::{
    ACCEPT_ENCODING, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http_body_util::BodyExt;

use super::*;

/// A directory with a few files, and the service on it.
fn site() -> (tempfile::TempDir, Files) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    fs::write(root.join("hello.txt"), "hello, world").unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("sub/page.html"), "<p>").unwrap();
    fs::write(root.join("large"), pattern(300_000)).unwrap();
    (directory, Files::open(&root).unwrap())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

async fn ask(
    files: &Files,
    method: Method,
    path: &str,
    fields: &[(http::HeaderName, &str)],
) -> (http::response::Parts, Vec<u8>) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(name, *value);
    }
    let response = files.call(request.body(()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    (head, body.collect().await.unwrap().to_bytes().to_vec())
}

async fn get(files: &Files, path: &str) -> (http::response::Parts, Vec<u8>) {
    ask(files, Method::GET, path, &[]).await
}

#[tokio::test]
async fn a_state_that_is_not_there_is_not_sent() {
    let (_directory, files) = site();
    for (field, value, status) in [
        (IF_MATCH, "\"another\"", StatusCode::PRECONDITION_FAILED),
        (IF_MATCH, "*", StatusCode::OK),
        (IF_UNMODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT", StatusCode::PRECONDITION_FAILED),
    ] {
        let (head, _) = ask(&files, Method::GET, "/hello.txt", &[(field, value)]).await;
        assert_eq!(head.status, status, "{value}");
    }
}

#[tokio::test]
async fn an_index_does_not_wait_for_listings() {
    let (directory, files) = site();
    fs::write(directory.path().join("root/sub/index.html"), "an index").unwrap();
    // As many listings as allowed are in progress.
    let listed = files.listing.acquire_many(LISTINGS as u32).await.unwrap();
    assert_eq!(get(&files, "/sub/").await.1, b"an index");
    let waiting = tokio::time::timeout(Duration::from_millis(50), get(&files, "/"));
    assert!(waiting.await.is_err(), "a listing does");
    drop(listed);
    assert!(String::from_utf8(get(&files, "/").await.1).unwrap().contains("hello.txt"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_of_a_far_future_is_sent_without_a_date() {
    let (directory, files) = site();
    let name = directory.path().join("root/hello.txt");
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000);
    fs::File::options().write(true).open(&name).unwrap().set_modified(far).unwrap();
    let (head, body) = get(&files, "/hello.txt").await;
    assert_eq!((head.status, &body[..]), (StatusCode::OK, &b"hello, world"[..]));
    if fs::metadata(&name).unwrap().modified().unwrap() == far {
        // Not every file system can store such a time.
        assert!(!head.headers.contains_key(LAST_MODIFIED));
    }
}

#[tokio::test]
async fn files_come_whole_with_type_and_length() {
    let (_directory, files) = site();
    let (head, body) = get(&files, "/hello.txt").await;
    assert_eq!(head.status, StatusCode::OK);
    assert_eq!(head.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(head.headers[CONTENT_LENGTH], "12");
    assert_eq!(body, b"hello, world");
    let (head, body) = get(&files, "/empty").await;
    assert_eq!((head.status, body.len()), (StatusCode::OK, 0));
    assert_eq!(head.headers[CONTENT_LENGTH], "0");
    let (_, body) = get(&files, "/large").await;
    assert_eq!(body, pattern(300_000));
    let (head, body) = ask(&files, Method::HEAD, "/large", &[]).await;
    assert_eq!((head.status, body.len()), (StatusCode::OK, 0));
    assert_eq!(head.headers[CONTENT_LENGTH], "300000");
}

#[tokio::test]
async fn ranges_are_cut_out() {
    let (_directory, files) = site();
    let (head, body) = ask(&files, Method::GET, "/large", &[(RANGE, "bytes=1000-199999")]).await;
    assert_eq!(head.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(head.headers[CONTENT_RANGE], "bytes 1000-199999/300000");
    assert_eq!(head.headers[CONTENT_LENGTH], "199000");
    assert_eq!(body, pattern(300_000)[1000..200_000]);
    let (head, _) = ask(&files, Method::GET, "/hello.txt", &[(RANGE, "bytes=12-")]).await;
    assert_eq!(head.status, StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(head.headers[CONTENT_RANGE], "bytes */12");
    let (head, _) = ask(&files, Method::HEAD, "/hello.txt", &[(RANGE, "bytes=1-2")]).await;
    assert_eq!(head.status, StatusCode::OK);
}

#[tokio::test]
async fn unchanged_files_are_not_sent_again() {
    let (_directory, files) = site();
    let (head, _) = get(&files, "/hello.txt").await;
    let etag = head.headers[ETAG].to_str().unwrap().to_owned();
    let (head, body) = ask(&files, Method::GET, "/hello.txt", &[(IF_NONE_MATCH, &etag)]).await;
    assert_eq!((head.status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(head.headers[ETAG], etag.as_str());
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
    let (head, _) = ask(&files, Method::GET, "/hello.txt", &[(IF_MODIFIED_SINCE, &later)]).await;
    assert_eq!(head.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn directories_are_listed_or_have_an_index() {
    let (directory, files) = site();
    let (head, body) = get(&files, "/").await;
    assert_eq!(head.status, StatusCode::OK);
    let page = String::from_utf8(body).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"));
    assert!(at("./sub/") < at("./empty"));
    assert!(at("./empty") < at("./hello.txt"));
    let (head, _) = get(&files, "//sub").await;
    assert_eq!(head.status, StatusCode::MOVED_PERMANENTLY);
    assert_eq!(head.headers[LOCATION], "/sub/");
    let (head, _) = get(&files, "/sub?a=b&c").await;
    assert_eq!(head.headers[LOCATION], "/sub/?a=b&c");
    fs::write(directory.path().join("root/sub/index.html"), "start").unwrap();
    assert_eq!(get(&files, "/sub/").await.1, b"start");
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_refused() {
    let (_directory, files) = site();
    for path in ["/nothing", "/hello.txt/", "/hello.txt/x", "/%00", "/..%2fsecret"] {
        assert_eq!(get(&files, path).await.0.status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["/../secret", "/sub/../../secret", "/%2e%2e/secret"] {
        assert_eq!(get(&files, path).await.0.status, StatusCode::NOT_FOUND, "{path}");
    }
    let long = format!("/{}", "x".repeat(300));
    assert_eq!(get(&files, &long).await.0.status, StatusCode::NOT_FOUND);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let (head, _) = ask(&files, method, "/hello.txt", &[]).await;
        assert_eq!(head.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(head.headers[ALLOW], "GET, HEAD");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_followed_inside_only() {
    use std::os::unix::fs::symlink;
    let (directory, files) = site();
    let root = directory.path().join("root");
    symlink("../hello.txt", root.join("sub/inside")).unwrap();
    symlink("../secret", root.join("outside")).unwrap();
    symlink(directory.path(), root.join("up")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    assert_eq!(get(&files, "/sub/inside").await.1, b"hello, world");
    for path in ["/outside", "/up/secret", "/up/", "/loop"] {
        let (head, body) = get(&files, path).await;
        let expected = [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN];
        assert!(expected.contains(&head.status), "{path}: {}", head.status);
        assert!(!String::from_utf8_lossy(&body).contains("secret"), "{path}");
    }
    let page = String::from_utf8(get(&files, "/").await.1).unwrap();
    assert!(!page.contains("outside") && !page.contains("./up"), "{page}");
}

#[cfg(unix)]
#[tokio::test]
async fn absolute_links_that_lead_inside_are_followed() {
    use std::os::unix::fs::symlink;
    let (directory, files) = site();
    let root = directory.path().join("root");
    symlink(root.join("hello.txt"), root.join("sub/text.txt")).unwrap();
    symlink(root.join("large"), root.join("sub/data")).unwrap();
    symlink(root.join("sub"), root.join("folder")).unwrap();
    symlink(directory.path().join("secret"), root.join("secret.txt")).unwrap();
    for (path, len) in [("/sub/text.txt", 12), ("/folder/data", 300_000), ("/folder/page.html", 3)]
    {
        let (head, body) = get(&files, path).await;
        assert_eq!((head.status, body.len()), (StatusCode::OK, len), "{path}");
    }
    assert_eq!(get(&files, "/secret.txt").await.0.status, StatusCode::FORBIDDEN);
    let page = String::from_utf8(get(&files, "/folder/").await.1).unwrap();
    assert!(page.contains("./data\"") && page.contains("./text.txt\""), "{page}");
    let page = String::from_utf8(get(&files, "/").await.1).unwrap();
    assert!(page.contains("./folder/\"") && !page.contains("secret"), "{page}");
}

#[tokio::test]
async fn names_that_begin_with_a_dot_are_not_there_unless_wanted() {
    let (directory, files) = site();
    let root = directory.path().join("root");
    for name in [".git/config", ".env", "sub/.htpasswd", ".well-known/security.txt", "..."] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "x").unwrap();
    }
    let hidden = ["/.git/config", "/.git/", "/.git", "/.env", "/%2eenv", "/sub/.htpasswd", "/..."];
    for path in hidden {
        assert_eq!(get(&files, path).await.0.status, StatusCode::NOT_FOUND, "{path}");
    }
    let all = files.clone().with_dot_files(true);
    for path in ["/.git/config", "/.env", "/sub/.htpasswd", "/..."] {
        assert_eq!(get(&all, path).await.0.status, StatusCode::OK, "{path}");
    }
    assert_eq!(get(&files, "/.well-known/security.txt").await.0.status, StatusCode::OK);
    let page = |page: Vec<u8>| String::from_utf8(page).unwrap();
    let (few, many) = (page(get(&files, "/").await.1), page(get(&all, "/").await.1));
    assert!(!few.contains(".env") && !few.contains(".git"), "{few}");
    assert!(
        few.contains(".well-known") && many.contains(".env") && many.contains(".git"),
        "{many}"
    );
}

#[tokio::test]
async fn text_says_its_charset() {
    let (directory, files) = site();
    for (name, kind) in [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.md", "text/markdown; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a", "application/octet-stream"),
    ] {
        fs::write(directory.path().join("root").join(name), "x").unwrap();
        let (head, _) = get(&files, &format!("/{name}")).await;
        assert_eq!(head.headers[CONTENT_TYPE], kind, "{name}");
    }
}

#[tokio::test]
async fn the_end_of_an_empty_file_is_all_of_it() {
    let (_directory, files) = site();
    let (head, body) = ask(&files, Method::GET, "/empty", &[(RANGE, "bytes=-5")]).await;
    assert_eq!((head.status, body.len()), (StatusCode::OK, 0));
    let (head, _) = ask(&files, Method::GET, "/empty", &[(RANGE, "bytes=0-")]).await;
    assert_eq!(head.status, StatusCode::RANGE_NOT_SATISFIABLE);
}

/// A file is read by the call that opens it, to avoid blocking twice.
#[test]
fn a_small_file_comes_with_its_answer() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    let (directory, _files) = site();
    let file = fs::File::open(directory.path().join("root/hello.txt")).unwrap();
    let mut body = FileBody::file(file, 2, 10).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(Ok(frame))) = pin!(body.frame()).poll(&mut cx) else {
        panic!("it is not there yet")
    };
    assert_eq!(frame.into_data().unwrap(), "llo, world");
    assert!(http_body::Body::is_end_stream(&body));
}

#[tokio::test]
async fn a_file_that_shrinks_ends_in_an_error() {
    let (directory, files) = site();
    let path = directory.path().join("root/large");
    let request = Request::get("/large").body(()).unwrap();
    let mut body = files.call(request).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
    let error = loop {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the body ended as if it were whole"),
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn files_come_compressed_to_those_who_take_it() {
    let (directory, files) = site();
    let root = directory.path().join("root");
    fs::write(root.join("hello.txt.gz"), "gzip of it").unwrap();
    fs::write(root.join("hello.txt.br"), "brotli of it").unwrap();
    fs::write(root.join("large.gz"), "of no use").unwrap();
    fs::create_dir(root.join("sub/page.html.gz")).unwrap();
    let take = |path, coding| {
        let files = &files;
        async move { ask(files, Method::GET, path, &[(ACCEPT_ENCODING, coding)]).await }
    };
    let mut tags = Vec::new();
    for (coding, name, body) in [
        ("", None, "hello, world"),
        ("gzip", Some("gzip"), "gzip of it"),
        ("gzip, br", Some("br"), "brotli of it"),
    ] {
        let (head, answer) = take("/hello.txt", coding).await;
        assert_eq!(answer, body.as_bytes());
        assert_eq!(head.headers.get(CONTENT_ENCODING).map(|v| v.to_str().unwrap()), name);
        assert_eq!(
            (&head.headers[VARY], &head.headers[CONTENT_TYPE]),
            (
                &HeaderValue::from_static("accept-encoding"),
                &HeaderValue::from_static("text/plain; charset=utf-8")
            )
        );
        assert_eq!(head.headers[CONTENT_LENGTH], body.len().to_string());
        tags.push(head.headers[ETAG].clone());
    }
    tags.dedup();
    assert_eq!(tags.len(), 3);
    // The client's copy may be compressed or not.
    for (tag, status) in [(0, StatusCode::OK), (1, StatusCode::NOT_MODIFIED)] {
        let fields = [(ACCEPT_ENCODING, "gzip"), (IF_NONE_MATCH, tags[tag].to_str().unwrap())];
        let (head, _) = ask(&files, Method::GET, "/hello.txt", &fields).await;
        assert_eq!(
            (head.status, &head.headers[VARY]),
            (status, &"accept-encoding".parse().unwrap())
        );
    }
    let range = [(ACCEPT_ENCODING, "gzip"), (RANGE, "bytes=5-6")];
    let (head, part) = ask(&files, Method::GET, "/hello.txt", &range).await;
    assert_eq!((head.status, &part[..]), (StatusCode::PARTIAL_CONTENT, &b"of"[..]));
    // There is no compressed answer for files that are compressed themselves, for anything except
    // files, or if the compressed file is older.
    for path in ["/large", "/sub/page.html"] {
        let (head, _) = take(path, "gzip").await;
        assert!(!head.headers.contains_key(CONTENT_ENCODING), "{path}");
    }
    let old = fs::File::options().write(true).open(root.join("hello.txt.gz")).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(take("/hello.txt", "gzip").await.1, b"hello, world");
}
