//! The pages of the demonstration, for browsers on this host.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_http::tcp::TcpServerConnection;
use anabranch_http::{ServerOptions, serve_connection};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioTimer;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::cut::reply;
use super::gateway::{Sessions, is_from_page};
use super::link::Link;
use super::summary::summary;
use super::{Conditions, LOGO, MOST_PICTURES, Outcome, PICTURES, Way};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{print_first, write_in_background};

/// The pages load nothing from other hosts, and send nothing to them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// Serves until the user stops it.
pub(crate) async fn serve(address: SocketAddr) -> Result<(), Failure> {
    let interrupt = Interrupt::of_server()?;
    write_in_background(None, false)?;
    let unable = |error| Failure::failed(format!("{address} cannot be listened on: {error}"));
    let listener = TcpListener::bind(address).await.map_err(unable)?;
    let address = listener.local_addr().map_err(unable)?;
    print_first(&format!("The demonstration is at http://{address}/ until Ctrl-C\n"))?;
    let options = ServerOptions::default().with_timer(TokioTimer::new());
    let sessions = Arc::new(Sessions::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(sessions.clone().tidy());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = interrupt.wait() => return Ok(()),
        };
        match accepted {
            Ok((stream, _)) => {
                let (options, sessions) = (options.clone(), sessions.clone());
                tasks.spawn(async move {
                    let Ok(connection) = TcpServerConnection::new(stream) else { return };
                    let sessions = &*sessions;
                    let service = hyper::service::service_fn(|request| async move {
                        Ok::<_, Infallible>(answer(&request, sessions).await)
                    });
                    serve_connection(connection, service, &options).await;
                });
            }
            // Probably out of descriptors: connections that end free some.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer<B>(request: &Request<B>, sessions: &Sessions) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let changes = matches!(path, "/gateway-start" | "/gateway-set");
    if request.method() != if changes { Method::POST } else { Method::GET } {
        return response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", Bytes::new());
    }
    match path {
        _ if changes && !is_from_page(request.headers()) => {
            return response(StatusCode::FORBIDDEN, "text/plain", Bytes::new());
        }
        "/gateway-start" => return json(sessions.start(&query).await),
        "/gateway-set" => return json(sessions.set(&query).await),
        "/gateway-state" => return json(Ok(sessions.state().await)),
        _ => {}
    }
    let found = match path {
        "/" => Some(("text/html", include_bytes!("page/index.html").as_slice())),
        "/page.js" => Some(("text/javascript", include_bytes!("page/page.js").as_slice())),
        "/demo.css" => Some(("text/css", include_bytes!("page/demo.css").as_slice())),
        "/demo.js" => Some(("text/javascript", include_bytes!("page/demo.js").as_slice())),
        "/cut.html" => Some(("text/html", include_bytes!("page/cut.html").as_slice())),
        "/cut.css" => Some(("text/css", include_bytes!("page/cut.css").as_slice())),
        "/cut.js" => Some(("text/javascript", include_bytes!("page/cut.js").as_slice())),
        "/gateway.html" => Some(("text/html", include_bytes!("page/gateway.html").as_slice())),
        "/gateway.js" => Some(("text/javascript", include_bytes!("page/gateway.js").as_slice())),
        "/draw.js" => Some(("text/javascript", include_bytes!("page/draw.js").as_slice())),
        "/logo.jpg" => Some(("image/jpeg", LOGO)),
        _ => picture(path).map(|bytes| ("image/jpeg", bytes)),
    };
    if let Some((kind, bytes)) = found {
        return response(StatusCode::OK, kind, Bytes::from_static(bytes));
    }
    // These take milliseconds of pure computation.
    match path {
        "/run" => computed(move || run(&query)).await,
        "/cut-run" => computed(move || reply(&query)).await,
        _ => response(StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
    }
}

/// Answers with what is computed, or with an error that the page shows.
async fn computed<T: Serialize + Send + 'static>(
    compute: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Response<Full<Bytes>> {
    let computed = tokio::task::spawn_blocking(compute).await;
    json(computed.unwrap_or_else(|_| Err("the computation panicked".to_owned())))
}

fn json<T: Serialize>(answer: Result<T, String>) -> Response<Full<Bytes>> {
    let (status, text) = match answer {
        Ok(answer) => (StatusCode::OK, serde_json::to_vec(&answer)),
        Err(error) => {
            (StatusCode::BAD_REQUEST, serde_json::to_vec(&BTreeMap::from([("error", error)])))
        }
    };
    response(status, "application/json", text.unwrap_or_default().into())
}

fn picture(path: &str) -> Option<&'static [u8]> {
    let number = path.strip_prefix('/')?.strip_suffix(".jpg")?.parse::<usize>().ok()?;
    PICTURES.get(number.checked_sub(1)?).copied()
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// The data that the page shows.
#[derive(Debug, Serialize)]
struct Run {
    panes: Vec<Pane>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Pane {
    name: String,
    carriage: String,
    page_s: Option<f64>,
    ppage_s: BTreeMap<u64, f64>,
    /// `None` for QUIC, which does not report them.
    timeouts: Option<u64>,
    fast_retransmits: u64,
    objects: Vec<Object>,
}

#[derive(Debug, Serialize)]
struct Object {
    picture: String,
    arrivals: Vec<(f64, u64)>,
}

fn run(query: &str) -> Result<Run, String> {
    let (conditions, ways) = read(query)?;
    let outcomes = ways.into_iter().map(|way| Outcome::compute(&conditions, way));
    let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
    let summary = summary(&conditions, &outcomes);
    let panes = outcomes.iter().map(|outcome| pane(&conditions, outcome)).collect();
    Ok(Run { panes, summary })
}

fn pane(conditions: &Conditions, outcome: &Outcome) -> Pane {
    let page = &outcome.loaded.page;
    // The logo is too small to show in parts.
    let pictures = page.objects.iter().filter(|object| picture(&object.target).is_some());
    let objects = pictures.map(|object| Object {
        picture: object.target.trim_start_matches('/').to_owned(),
        arrivals: object.arrivals.iter().map(|(at, bytes)| (at.as_secs_f64(), *bytes)).collect(),
    });
    let ends = &outcome.loaded.transport;
    Pane {
        name: outcome.way.name(conditions.streams),
        carriage: outcome.way.key(),
        page_s: page.page_time().map(|time| time.as_secs_f64()),
        ppage_s: [25, 50, 75, 100].iter().filter_map(|p| Some((*p, outcome.part(*p)?))).collect(),
        timeouts: ends.iter().map(|end| end.timeouts).sum(),
        fast_retransmits: ends.iter().map(|end| end.fast_retransmits).sum(),
        objects: objects.collect(),
    }
}

/// Parses the settings of a link.
fn read(query: &str) -> Result<(Conditions, Vec<Way>), String> {
    let link = Link::new(query);
    let number = |name, least, most| link.number(name, least, most);
    let conditions = Conditions {
        rate: (number("rate", 8.0, 100_000.0)? * 1e3) as u64,
        rtt: Duration::from_secs_f64(number("rtt", 0.0, 10_000.0)? / 1e3),
        loss: number("loss", 0.0, 30.0)? / 100.0,
        burst: number("burst", 1.0, 20.0)? as u32,
        pictures: number("objects", 1.0, f64::from(MOST_PICTURES))? as u16,
        streams: number("streams", 1.0, 64.0)? as u16,
        seed: number("seed", 1.0, 1e15)? as u64,
    };
    Ok((conditions, link.shown(Way::from_key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str =
        "loss=4.3&burst=1&rtt=1080&rate=56&objects=10&streams=10&seed=1&show=sctp%2Ctcp1";

    #[test]
    fn what_a_link_says_is_computed_and_again_the_same() {
        let text = |query| serde_json::to_string(&run(query).unwrap()).unwrap();
        assert_eq!(text(QUERY), text(QUERY));
        assert_ne!(text(QUERY), text(&QUERY.replace("seed=1", "seed=2")));
        let run = run(QUERY).unwrap();
        assert_eq!(run.panes.len(), 2);
        for pane in &run.panes {
            assert_eq!(pane.objects.len(), 10);
            for object in &pane.objects {
                let whole = picture(&format!("/{}", object.picture)).unwrap().len() as u64;
                assert_eq!(object.arrivals.last().map(|(_, bytes)| *bytes), Some(whole));
            }
        }
        assert!(run.summary.contains("A quarter of every picture"), "{}", run.summary);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to) in [
            ("loss=4.3", "loss=101"),
            ("loss=4.3", "loss=NaN"),
            ("rate=56", "rate=0"),
            ("rtt=1080", "rtt=-1"),
            ("objects=10", "objects=11"),
            ("&seed=1", ""),
            ("tcp1", "tcp7"),
        ] {
            assert!(read(&QUERY.replace(from, to)).is_err(), "{to}");
        }
        assert_eq!(run(&QUERY.replace("sctp%2Ctcp1", "")).unwrap().panes.len(), 0);
    }
}
