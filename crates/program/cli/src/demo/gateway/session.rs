//! A download through the gateway, as the page asks for it and sees it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::download;
use super::pair::Pair;
use crate::demo::cut::{PATHS, PathSettings};
use crate::demo::link::Link;

/// Length of the intervals in which bytes are counted.
const INTERVAL: Duration = Duration::from_millis(200);

/// A pair ends when no page has asked about it for this time. Browsers let a hidden page ask once a minute.
const FORGOTTEN: Duration = Duration::from_secs(300);

/// A download is given up after this time.
const LONGEST: Duration = Duration::from_secs(900);

/// Requests that change something have this field. A page of another origin cannot send it.
const FIELD: HeaderName = HeaderName::from_static("x-anabranch-demo");

/// Whether a request is from the page itself.
pub(in crate::demo) fn is_from_page(fields: &HeaderMap) -> bool {
    fields.contains_key(FIELD)
}

/// The only session at a time.
#[derive(Default)]
pub(in crate::demo) struct Sessions(tokio::sync::Mutex<Option<Session>>);

struct Session {
    pair: Pair,
    paths: [PathSettings; PATHS],
    bytes: u64,
    source: SocketAddr,
    progress: Arc<Mutex<Progress>>,
    asked: Instant,
    tasks: JoinSet<()>,
}

/// What has happened since the begin of the download.
struct Progress {
    began: Instant,
    /// The bytes of the file that had arrived at the end of each interval.
    arrived: Vec<u64>,
    /// The bytes that each link had carried then.
    carried: Vec<[u64; PATHS]>,
    events: Vec<Event>,
    ended: Option<Ended>,
}

#[derive(Clone)]
struct Ended {
    after: Duration,
    error: Option<String>,
}

/// A link was cut or repaired.
#[derive(Clone, Copy, Debug, Serialize)]
struct Event {
    /// 1 or 2.
    path: usize,
    at_s: f64,
    cut: bool,
}

/// What the page shows. Times are in seconds from the start of the download.
#[derive(Debug, Serialize)]
pub(in crate::demo) struct State {
    interval_s: f64,
    elapsed_s: f64,
    /// Length of the file.
    bytes: u64,
    /// The sum of both links in bits per second.
    rate: u64,
    /// The bytes of the file that had arrived at the end of each interval.
    arrived: Vec<u64>,
    /// For each link, the bytes of IP packets that it carried to the near side in each interval.
    carried: [Vec<u64>; PATHS],
    events: Vec<Event>,
    completed_s: Option<f64>,
    failed_s: Option<f64>,
    /// Why it failed.
    error: Option<String>,
    /// The URL of the near side's status page.
    status: String,
    /// A command that uses the same gateway.
    command: String,
}

impl Sessions {
    /// Ends the session before, and begins a download with the settings of the query.
    ///
    /// # Errors
    /// A sentence for the page.
    pub(in crate::demo) async fn start(&self, query: &str) -> Result<Option<State>, String> {
        let (bytes, paths) = read(query)?;
        let mut current = self.0.lock().await;
        *current = None;
        *current = Some(Session::start(bytes, paths).await?);
        Ok(current.as_mut().map(Session::state))
    }

    /// Cuts or repairs a link.
    ///
    /// # Errors
    /// A sentence for the page.
    pub(in crate::demo) async fn set(&self, query: &str) -> Result<Option<State>, String> {
        let link = Link::new(query);
        let path = link.number("path", 1.0, PATHS as f64)? as usize;
        let up = link.text("up") == "true";
        let mut current = self.0.lock().await;
        let session = current.as_mut().ok_or("the gateway does not run any more: start again")?;
        session.set_up(path, up);
        Ok(Some(session.state()))
    }

    /// The session, if there is one.
    pub(in crate::demo) async fn state(&self) -> Option<State> {
        self.0.lock().await.as_mut().map(Session::state)
    }

    /// Ends sessions about which no page asks any more. Never returns.
    pub(in crate::demo) async fn tidy(self: Arc<Self>) {
        loop {
            sleep(FORGOTTEN / 4).await;
            let mut current = self.0.lock().await;
            if current.as_ref().is_some_and(|session| session.asked.elapsed() > FORGOTTEN) {
                *current = None;
            }
        }
    }
}

impl Session {
    async fn start(bytes: u64, paths: [PathSettings; PATHS]) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| format!("a port cannot be opened: {error}"))?;
        let source = listener.local_addr().map_err(|error| error.to_string())?;
        let pair = Pair::start(paths, source).await?;
        let progress = Arc::new(Mutex::new(Progress::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(download::serve(listener, bytes));
        tasks.spawn({
            let (progress, carried, proxy) = (progress.clone(), pair.counter(), pair.proxy);
            async move {
                let arrived = AtomicU64::new(0);
                let fetching = download::fetch(proxy, source, bytes, &arrived);
                let ended = tokio::select! {
                    ended = timeout(LONGEST, fetching) => ended,
                    never = count(&progress, &arrived, carried) => match never {},
                };
                let limit = || Err(format!("given up after {} s", LONGEST.as_secs()));
                lock(&progress).end(ended.unwrap_or_else(|_| limit()).err());
            }
        });
        Ok(Self { pair, paths, bytes, source, progress, asked: Instant::now(), tasks })
    }

    fn set_up(&mut self, path: usize, up: bool) {
        self.pair.set_up(path - 1, up);
        let mut progress = lock(&self.progress);
        let at_s = progress.began.elapsed().as_secs_f64();
        progress.events.push(Event { path, at_s, cut: !up });
    }

    fn state(&mut self) -> State {
        self.asked = Instant::now();
        while self.tasks.try_join_next().is_some() {}
        let progress = lock(&self.progress);
        let steps = |path: usize| {
            let mut before = 0;
            let of = |carried: &[u64; PATHS]| {
                let new = carried[path].saturating_sub(before);
                before = carried[path];
                new
            };
            progress.carried.iter().map(of).collect()
        };
        let ended = progress.ended.clone();
        let after = ended.as_ref().map(|ended| ended.after.as_secs_f64());
        let error = ended.and_then(|ended| ended.error);
        State {
            interval_s: INTERVAL.as_secs_f64(),
            elapsed_s: after.unwrap_or_else(|| progress.began.elapsed().as_secs_f64()),
            bytes: self.bytes,
            rate: self.paths.iter().map(|path| path.rate).sum(),
            arrived: progress.arrived.clone(),
            carried: [steps(0), steps(1)],
            events: progress.events.clone(),
            completed_s: after.filter(|_| error.is_none()),
            failed_s: after.filter(|_| error.is_some()),
            error,
            status: self.pair.status.clone(),
            command: format!(
                "curl --proxy http://{} http://{}/ --output /dev/null",
                self.pair.proxy, self.source
            ),
        }
    }
}

impl Progress {
    fn new() -> Self {
        let (arrived, carried, events) = (Vec::new(), Vec::new(), Vec::new());
        Self { began: Instant::now(), arrived, carried, events, ended: None }
    }

    fn end(&mut self, error: Option<String>) {
        self.ended = Some(Ended { after: self.began.elapsed(), error });
    }
}

/// Counts at the end of each interval.
async fn count(
    progress: &Mutex<Progress>,
    arrived: &AtomicU64,
    carried: impl Fn() -> [u64; PATHS],
) -> std::convert::Infallible {
    let mut ticks = interval(INTERVAL);
    // Intervals that were missed are counted at once, so that the next one is at its time.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    // The first one is now.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let mut progress = lock(progress);
        progress.arrived.push(arrived.load(Ordering::Relaxed));
        progress.carried.push(carried());
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parses the settings: the length of the file, and the links.
fn read(query: &str) -> Result<(u64, [PathSettings; PATHS]), String> {
    let link = Link::new(query);
    let path = |rate, rtt| PathSettings::read(&link, rate, rtt);
    let bytes = (link.number("size", 0.1, 50.0)? * 1e6) as u64;
    Ok((bytes, [path("rate1", "rtt1")?, path("rate2", "rtt2")?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = "size=2&rate1=8&rtt1=20&rate2=4&rtt2=40";

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(read(QUERY).unwrap().0, 2_000_000);
        for (from, to) in [("size=2", "size=0"), ("rate1=8", "rate1=1e9"), ("&rtt2=40", "")] {
            assert!(read(&QUERY.replace(from, to)).is_err(), "{to}");
        }
    }

    async fn until(sessions: &Sessions, done: impl Fn(&State) -> bool) -> State {
        loop {
            let state = sessions.state().await.unwrap();
            if done(&state) {
                return state;
            }
            sleep(INTERVAL / 4).await;
        }
    }

    #[tokio::test]
    async fn a_link_is_cut_and_the_download_goes_on() {
        let sessions = Sessions::default();
        assert!(sessions.state().await.is_none());
        sessions.set("path=1&up=false").await.unwrap_err();
        sessions.start(QUERY).await.unwrap();
        let both = |state: &State| state.carried.iter().all(|of| of.iter().sum::<u64>() > 50_000);
        until(&sessions, both).await;
        let cut = sessions.set("path=1&up=false").await.unwrap().unwrap();
        assert!(cut.completed_s.is_none());
        let done = until(&sessions, |state| state.completed_s.or(state.failed_s).is_some()).await;
        assert_eq!(done.error, None);
        let at = done.events[0].at_s;
        assert!(done.events[0].cut && done.completed_s.unwrap() > at);
        // A packet that was being delivered may be counted in the interval of the cut.
        let after = (at / done.interval_s) as usize + 1;
        let later = done.carried.map(|of| of[after..].iter().sum::<u64>());
        assert!(later[0] == 0 && later[1] > 500_000, "{later:?}");

        // Another one takes its place. Without any link it does not go on.
        sessions.start(QUERY).await.unwrap();
        for path in ["path=1", "path=2"] {
            sessions.set(&format!("{path}&up=false")).await.unwrap();
        }
        let arrived = |state: &State| state.arrived.last().copied();
        let first = until(&sessions, |state| state.arrived.len() > 2).await;
        let later = until(&sessions, |state| state.arrived.len() > 6).await;
        assert_eq!(arrived(&first), arrived(&later));
        sessions.set("path=2&up=true").await.unwrap();
        let done = until(&sessions, |state| state.completed_s.or(state.failed_s).is_some()).await;
        assert_eq!(done.error, None);
    }
}
