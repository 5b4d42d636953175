//! `get --page --http3` against an HTTP/3 server based on quinn and h3.

mod common;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use common::{Site, run};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::rustls;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{Endpoint, ServerConfig};
use tokio::runtime::Runtime;

/// Serves the files of a directory over HTTP/3 until dropped.
struct Server {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    /// Uses a self-signed certificate, which is written to this file.
    fn start(directory: &Path, certificate: &Path) -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        fs::write(certificate, issued.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
        let provider = rustls::crypto::ring::default_provider();
        let mut tls = rustls::ServerConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key.into())
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = QuicServerConfig::try_from(tls).unwrap();
        let config = ServerConfig::with_crypto(std::sync::Arc::new(tls));
        let runtime = Runtime::new().unwrap();
        let inside = runtime.enter();
        let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        drop(inside);
        let address = endpoint.local_addr().unwrap();
        let directory = directory.to_owned();
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                if let Ok(connection) = incoming.await {
                    tokio::spawn(serve(connection, directory.clone()));
                }
            }
        });
        Self { address, _runtime: runtime }
    }
}

async fn serve(connection: quinn::Connection, directory: PathBuf) {
    let quic = h3_quinn::Connection::new(connection);
    let mut http3 = h3::server::Connection::<_, Bytes>::new(quic).await.unwrap();
    while let Ok(Some(request)) = http3.accept().await {
        let (request, mut stream) = request.resolve_request().await.unwrap();
        let file = fs::read(directory.join(request.uri().path().trim_start_matches('/')));
        let status = if file.is_ok() { 200 } else { 404 };
        let body = Bytes::from(file.unwrap_or_default());
        let head = http::Response::builder().status(status).header("content-length", body.len());
        stream.send_response(head.body(()).unwrap()).await.unwrap();
        stream.send_data(body).await.unwrap();
        stream.finish().await.unwrap();
    }
}

fn site() -> Site {
    let site = Site::new(&[]);
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/page");
    for picture in ["1.jpg", "2.jpg"] {
        fs::copy(demo.join(picture), site.path().join(picture)).unwrap();
    }
    let document = "<img src=1.jpg><img src=2.jpg>";
    fs::write(site.path().join("index.html"), document).unwrap();
    site
}

#[test]
fn a_page_comes_over_http3() {
    let site = site();
    let certificate = site.copy().join("server.pem");
    let server = Server::start(&site.path(), &certificate);
    let url = format!("https://{}/index.html", server.address);
    let get = ["get", "--page", "--http3", &url, "--ca", "server.pem"];
    let ended = run(&[&get[..], &["--out", "kept", "--json"]].concat(), &site.copy());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = ended.json();
    assert_eq!(report["transport"], "http3");
    assert!(report["page_s"].as_f64().unwrap() > 0.0 && report["timeouts"].is_null());
    for name in ["index.html", "1.jpg", "2.jpg"] {
        let (kept, there) = (site.copy().join("kept").join(name), site.path().join(name));
        assert_eq!(fs::read(kept).unwrap(), fs::read(there).unwrap(), "{name}");
    }
    let ended = run(&get, &site.copy());
    assert!(ended.stdout.starts_with("3 files, "), "{}", ended.stdout);
    assert!(ended.stdout.contains(" over http3, 1 connection, 3 streams used"), "{}", ended.stdout);

    fs::remove_file(site.path().join("2.jpg")).unwrap();
    let ended = run(&get, &site.copy());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.starts_with("2 of 3 files, "), "{}", ended.stdout);
    assert!(ended.stderr.contains("/2.jpg: the server answered 404"), "{}", ended.stderr);
}

#[test]
fn servers_of_http3_that_cannot_be_trusted_or_are_not_there() {
    let site = site();
    let certificate = site.copy().join("server.pem");
    let server = Server::start(&site.path(), &certificate);
    let url = format!("https://{}/index.html", server.address);
    // An unrelated certificate.
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(site.copy().join("other.pem"), other.cert.pem()).unwrap();
    let get = ["get", "--page", "--http3", &url, "--ca", "other.pem"];
    run(&get, &site.copy()).failed_with(1, "; --ca FILE names certificates to trust");
    // No server answers here.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let get = ["get", "--page", "--http3", &url, "--ca", "server.pem", "--connect-timeout", "1s"];
    run(&get, &site.copy()).failed_with(1, "no answer within 1s");
}
