//! The association with the far side, which is set up again whenever it is lost.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::seal::VirtualNetwork;
use anabranch::{Association, PathStatistics, PathTotals};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::udp::Flows;
use crate::protocol::{Content, parse_reply, request};
use crate::reading::read;
use crate::status::{Refusal, Status};
use crate::stream::Stream;
use crate::target::Target;

/// How long a client waits for an association, or for a free stream of it.
const PATIENCE: Duration = Duration::from_secs(15);

/// The pause before connecting again, at first and at most. It doubles with each failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// Sets up an association with the far side. The error is a sentence.
pub type Connect = Box<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<Association, String>> + Send>> + Send + Sync,
>;

/// What happened to the association.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LinkEvent {
    /// It is established.
    Up(Association),
    /// It ended, for this reason. It is set up again.
    Down(String),
    /// It could not be set up, for this reason. Another attempt follows.
    Failed(String),
}

/// The state of the association.
#[derive(Clone, Debug)]
enum State {
    Down(Option<String>),
    Up(Association),
}

/// The current association.
#[derive(Debug)]
pub struct Link {
    state: watch::Receiver<State>,
    flows: Arc<Flows>,
    /// What the paths of earlier associations have carried.
    past: Arc<Mutex<Paths>>,
    keeping: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Link {
    /// Sets up an association with `connect`, and again when it is lost. `tell` is called for each change; it must not
    /// block. Must be called within a tokio runtime.
    pub fn new(connect: Connect, tell: impl Fn(LinkEvent) + Send + Sync + 'static) -> Arc<Self> {
        let (sender, state) = watch::channel(State::Down(None));
        let flows = Arc::new(Flows::default());
        let past = Arc::new(Mutex::new(Paths::default()));
        let keeping =
            tokio::spawn(keep(connect, tell, sender, Arc::clone(&flows), Arc::clone(&past)));
        Arc::new(Self { state, flows, past, keeping })
    }

    /// The association, if there is one at the moment.
    pub fn association(&self) -> Option<Association> {
        match &*self.state.borrow() {
            State::Up(association) => Some(association.clone()),
            State::Down(_) => None,
        }
    }

    /// The flows of UDP over the association.
    pub(crate) fn flows(&self) -> &Arc<Flows> {
        &self.flows
    }

    /// Why there is no association at the moment, if there was an attempt.
    pub(crate) fn error(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Up(_) => None,
            State::Down(error) => error.clone(),
        }
    }

    /// What the paths with each number have carried over all associations.
    pub(crate) fn carried(&self) -> Paths {
        // Locked first: an association that ends meanwhile is not counted twice.
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = past.clone();
        if let Some(association) = self.association() {
            all.add(&association.statistics().paths);
        }
        all
    }

    /// Asks the far side for a connection. The stream is ready for bytes at once; its first bytes are the reply.
    pub(crate) async fn open(&self, content: Content, target: &Target) -> Result<Stream, Refusal> {
        match timeout(PATIENCE, self.open_unlimited(content, target)).await {
            Ok(opened) => opened,
            Err(_) => Err(match &*self.state.borrow() {
                State::Up(_) => {
                    Refusal::new(Status::Busy, "all streams to the far side are in use")
                }
                State::Down(None) => Status::Lost.into(),
                State::Down(Some(error)) => Refusal::new(Status::Lost, error),
            }),
        }
    }

    async fn open_unlimited(&self, content: Content, target: &Target) -> Result<Stream, Refusal> {
        let mut state = self.state.clone();
        loop {
            let association = match state.wait_for(|state| matches!(state, State::Up(_))).await {
                Ok(state) => match &*state {
                    State::Up(association) => association.clone(),
                    State::Down(_) => continue,
                },
                // The link is gone.
                Err(_) => return Err(Status::Lost.into()),
            };
            if let Ok(halves) = association.open_stream().await {
                let mut stream = Stream::new(halves);
                if stream.writer.write_bytes(request(content, target)).await.is_ok() {
                    return Ok(stream);
                }
            }
            // The association has just ended: wait for the next one.
            if state.changed().await.is_err() {
                return Err(Status::Lost.into());
            }
        }
    }
}

/// Reads the reply at the beginning of a stream.
pub(crate) async fn reply(stream: &mut Stream) -> Result<(), Refusal> {
    match read(&mut stream.reader, parse_reply).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => {
            Err(Refusal::new(Status::Failed, "the far side does not speak this protocol"))
        }
        Err(error) => Err(lost(&error)),
    }
}

/// What a broken stream means for a client that waits for the reply.
fn lost(error: &io::Error) -> Refusal {
    Refusal::new(Status::Lost, format!("the far side was lost: {error}"))
}

/// Totals of paths by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths(BTreeMap<u8, PathTotals>);

impl Paths {
    fn add(&mut self, paths: &[PathStatistics]) {
        for path in paths {
            *self.0.entry(number(path)).or_default() += PathTotals::from(path);
        }
    }

    /// The totals of the path with this number.
    pub(crate) fn of(&self, number: u8) -> PathTotals {
        self.0.get(&number).copied().unwrap_or_default()
    }
}

/// The number of a path: under the seal that of its uplink, otherwise its name in the association.
pub(crate) fn number(path: &PathStatistics) -> u8 {
    match VirtualNetwork::split(path.remote) {
        Some((_, number)) => number,
        None => u8::try_from(path.id.number()).unwrap_or(u8::MAX),
    }
}

/// Keeps an association.
async fn keep(
    connect: Connect,
    tell: impl Fn(LinkEvent) + Send + Sync,
    state: watch::Sender<State>,
    flows: Arc<Flows>,
    past: Arc<Mutex<Paths>>,
) {
    let mut pause = PAUSES.0;
    loop {
        let error = match connect().await {
            Ok(association) => {
                pause = PAUSES.0;
                tell(LinkEvent::Up(association.clone()));
                // This takes its streams before any connection can.
                let datagrams = flows.carry(&association);
                state.send_replace(State::Up(association.clone()));
                let (error, ()) = tokio::join!(ended(&association), datagrams);
                tell(LinkEvent::Down(error.clone()));
                let mut past = past.lock().unwrap_or_else(PoisonError::into_inner);
                past.add(&association.statistics().paths);
                state.send_replace(State::Down(Some(error.clone())));
                drop(past);
                error
            }
            Err(error) => {
                tell(LinkEvent::Failed(error.clone()));
                error
            }
        };
        state.send_replace(State::Down(Some(error)));
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Waits until an association has ended, or its peer begins to end it. Returns why.
async fn ended(association: &Association) -> String {
    // The far side opens no streams and sends no messages, so this waits for the end of receiving.
    let end = loop {
        match association.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    end.unwrap_or_else(|| "the far side has ended the association".to_owned())
}
