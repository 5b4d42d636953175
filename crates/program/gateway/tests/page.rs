//! The status page, asked as programs and browsers ask.

mod common;

use std::sync::Arc;

use anabranch::seal::SealHandle;
use anabranch_gateway::{NearOptions, Page, Uplinks};
use common::{Pair, site};

const TOKEN: &str = "0123456789abcdef";

async fn pair(uplinks: &[&str]) -> (Pair, Arc<Uplinks>) {
    let specs = uplinks.iter().map(|spec| spec.parse().unwrap()).collect();
    let uplinks = Arc::new(Uplinks::named(SealHandle::default(), specs, None).unwrap());
    let page = Some(Page::new(TOKEN.to_owned(), Arc::clone(&uplinks)));
    let options = NearOptions { page, ..NearOptions::default() };
    (Pair::with(&["127.0.0.0/8"], 100, options).await, uplinks)
}

/// Sends a request with these fields besides Host, and returns the whole answer.
async fn ask(pair: &Pair, line: &str, fields: &str) -> String {
    let host = pair.proxy;
    let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
    pair.raw(request).await
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn whoever_has_the_token_sees_what_was_carried() {
    let ((mut pair, _), site) = (pair(&[]).await, site().await);
    let port = site.port();
    let fetched = ask(&pair, &format!("GET http://localhost:{port}/5000"), "").await;
    assert!(fetched.starts_with("HTTP/1.1 200 "), "{fetched}");
    pair.access().await;
    let (tunnel, _) = pair.socks5(&[1, 127, 0, 0, 1], port).await;
    let answer = ask(&pair, &format!("GET /status.json?token={TOKEN}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let view: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(view["schema"], "gateway-status");
    assert_eq!(view["connected"], true);
    let hosts = view["hosts"].as_array().unwrap();
    let of = |name: &str| hosts.iter().find(|host| host["host"] == name).unwrap().clone();
    assert_eq!(of("localhost")["bytes_received"], 5000);
    assert_eq!((&of("localhost")["open"], &of("127.0.0.1")["open"]), (&0.into(), &1.into()));
    let path = &view["uplinks"][0];
    assert_eq!((&path["state"], &path["switch"]), (&"active".into(), &false.into()), "{path}");
    assert!(path["bytes_received"].as_u64() > Some(5000), "{path}");
    assert_eq!(view["aggregation"]["added_bytes"], 0, "there is one path");
    drop(tunnel);
    let metrics = ask(&pair, &format!("GET /status/metrics?token={TOKEN}"), "").await;
    for line in [
        "anabranch_gateway_connected 1",
        "anabranch_gateway_ended_total{asked=\"http\",status=\"connected\"} 1",
    ] {
        assert!(body(&metrics).lines().any(|found| found == line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn counters_survive_the_association() {
    let ((mut pair, _), site) = (pair(&[]).await, site().await);
    let url = format!("GET http://{site}/200000");
    assert!(ask(&pair, &url, "").await.len() > 200_000);
    pair.stop_far().await;
    pair.start_far();
    assert!(ask(&pair, &url, "").await.len() > 200_000);
    let answer = ask(&pair, &format!("GET /status.json?token={TOKEN}"), "").await;
    let view: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
    assert!(view["uplinks"][0]["bytes_received"].as_u64() > Some(400_000), "{view}");
}

#[tokio::test]
async fn others_see_nothing() {
    let (pair, uplinks) = pair(&["wlan0", "wwan0"]).await;
    let status = |answer: &str| answer[9..12].to_owned();
    let page = ask(&pair, &format!("GET /status?token={TOKEN}"), "").await;
    assert!(status(&page) == "200" && body(&page).contains("</html>"), "{page}");
    for (line, code) in [
        ("GET /status", "403"),
        ("GET /status?token=", "403"),
        ("GET /status?token=0123456789abcdeF", "403"),
        ("GET /status?token=0123456789abcdef0", "403"),
        ("GET /status.json?Token=0123456789abcdef", "403"),
        ("GET /status/metrics", "403"),
        ("POST /status/uplink?number=0&on=false", "403"),
        ("GET /status/uplink?number=0&on=false&token=0123456789abcdef", "405"),
        ("DELETE /status?token=0123456789abcdef", "405"),
        ("GET /statusx?token=0123456789abcdef", "404"),
        ("POST /status/uplink?number=2&on=false&token=0123456789abcdef", "404"),
        ("POST /status/uplink?number=0&token=0123456789abcdef", "400"),
    ] {
        let answer = ask(&pair, line, "").await;
        assert_eq!(status(&answer), code, "{line}: {answer}");
        let lower = answer.to_ascii_lowercase();
        assert!(!lower.contains("access-control-"), "{answer}");
        assert!(lower.contains("content-security-policy: default-src 'none'"), "{answer}");
        assert!(lower.contains("cache-control: no-store"), "{answer}");
    }
    let post = format!("POST /status/uplink?number=1&on=false&token={TOKEN}");
    for fields in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(status(&ask(&pair, &post, fields).await), "403", "{fields}");
    }
    let get = format!(
        "GET /status?token={TOKEN} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(status(&pair.raw(get).await), "421");
    assert!(uplinks.states().iter().all(|uplink| uplink.on));
    let switched = ask(&pair, &post, "").await;
    assert!(status(&switched) == "200" && body(&switched).contains("\"off\""), "{switched}");
    assert!(!uplinks.states()[1].on);
}

#[tokio::test]
async fn without_a_page_there_is_none() {
    let pair = Pair::start().await;
    let answer = ask(&pair, "GET /status", "").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}
