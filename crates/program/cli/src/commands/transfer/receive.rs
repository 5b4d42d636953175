//! `anabranch receive`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::seal::{Invitation, Seal};
use anabranch::{Association, ConnectOptions, Endpoint, PathState, VantagePoint};
use anabranch_gateway::{UplinkSpec, Uplinks};
use anabranch_transfer::{Event, Failed, Received, Receiver};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tokio::time::{interval, sleep, timeout};

use super::{PORT, digests};
use crate::commands::gateway::config;
use crate::endpoint::{Watch, close, end, sealed};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, duration};
use crate::output::{count, json_line, one_line, print};
use crate::sealed::{keys, uplink};

/// The pause before connecting again.
const PAUSE: Duration = Duration::from_secs(1);

/// Receive what 'anabranch send' offers
///
/// Takes the line that it prints: anb1:... Everything is encrypted, and goes over all uplinks at once. When the transfer
/// is cut, or this command is stopped, the same line goes on where it was. Every file is verified by its SHA-256, and none
/// is overwritten unless --overwrite says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch receive anb1:...
  anabranch receive anb1:... --directory downloads --uplink wlan0,wwan0")]
pub(crate) struct Receive {
    /// The line that the sender has printed
    #[arg(value_name = "LINE")]
    line: Invitation,
    /// Where the files are to be
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Replace files that have the same names
    #[arg(long)]
    overwrite: bool,
    /// Interfaces or local addresses to use at the same time, at most eight [default: all interfaces with a route]
    #[arg(long, value_name = "NAME|ADDR[,...]", value_delimiter = ',', value_parser = uplink)]
    uplink: Vec<UplinkSpec>,
    /// File with the secret key, made if it is missing; the line works for this key only once it was used [default:
    /// receive.key in the user's configuration]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How long an attempt to reach the sender may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    connect_timeout: Duration,
    /// How long to try to reach the sender again after it was lost
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    patience: Duration,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sctp: SctpOptions,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Connected,
    Listed { files: usize, bytes: u64 },
    Began { file: String, bytes: u64, resumed_bytes: u64 },
    File(FileLine),
    Lost { error: &'a str },
    Done { files: usize, failed: usize, bytes: u64, seconds: f64 },
}

/// A file that is there, or cannot be received.
#[derive(Serialize)]
struct FileLine {
    file: String,
    bytes: u64,
    resumed_bytes: u64,
    already: bool,
    sha256: Option<String>,
    error: Option<String>,
}

impl Receive {
    pub(crate) fn sctp(&self) -> &SctpOptions {
        &self.sctp
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        let interrupt = Interrupt::install()?;
        match std::fs::metadata(&self.directory) {
            Ok(found) if found.is_dir() => {}
            _ => {
                let shown = self.directory.display();
                return Err(Failure::failed(format!(
                    "{shown} is not a directory: make it, or choose another --directory"
                )));
            }
        }
        let (endpoint, uplinks) = self.bind()?;
        let began = Instant::now();
        let bar = self.bar();
        let receiver = self.receiver(&bar);
        let result = tokio::select! {
            received = self.fetch(&endpoint, &receiver, &bar) => received,
            ((), ()) = async { tokio::join!(uplinks.follow(None), std::future::pending()) } => Err(Failure::Reported),
            () = interrupt.wait() => Err(Failure::Stopped(
                "interrupted: the same command goes on where it was, as long as the sender waits".to_owned(),
            )),
        };
        bar.finish_and_clear();
        close(&endpoint).await;
        self.report(&result?, began.elapsed())
    }

    fn bind(&self) -> Result<(Endpoint, Uplinks), Failure> {
        let (secret, _) = keys::key(self.key.as_deref(), "receive.key")?;
        let seal = Seal::connect(secret, &self.line);
        let uplinks = match &self.uplink[..] {
            [] => {
                let sender = self.line.addresses().iter().map(SocketAddr::ip).collect();
                Uplinks::with_routes(seal.handle(), sender)
            }
            named => {
                Uplinks::named(seal.handle(), named.to_vec(), None).map_err(Failure::failed)?
            }
        };
        let seal = seal.uplinks(uplinks.uplinks());
        Ok((sealed(&self.sctp, seal, VantagePoint::Client)?, uplinks))
    }

    /// Shows how much is there, and over how many paths it comes, on standard error if it is a terminal.
    fn bar(&self) -> ProgressBar {
        let target = match self.quiet || self.json {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let style = "{msg} {wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} {decimal_bytes_per_sec:>11} {eta:>4}";
        let style = ProgressStyle::with_template(style);
        ProgressBar::with_draw_target(Some(0), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    fn receiver(&self, bar: &ProgressBar) -> Receiver {
        let (bar, json) = (bar.clone(), self.json);
        let events = move |event| {
            let line = match event {
                Event::Listed { files, bytes } => {
                    bar.set_length(bytes);
                    Line::Listed { files, bytes }
                }
                Event::Began { path, size, resumed, .. } => {
                    bar.inc(resumed);
                    let file = path.display().to_string();
                    Line::Began { file, bytes: size, resumed_bytes: resumed }
                }
                Event::Arrived { bytes, .. } => return bar.inc(bytes),
                Event::Ended { received, .. } => {
                    if received.already {
                        bar.inc(received.size);
                    }
                    Line::File(FileLine::new(&received))
                }
                _ => return,
            };
            // A closed standard output is reported at the end.
            if json && let Ok(line) = json_line(&line) {
                let _ = print(&line);
            }
        };
        Receiver::new(self.directory.clone(), self.overwrite, Arc::new(events))
    }

    fn tell(&self, line: &Line<'_>, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json {
            return print(&json_line(line)?);
        }
        complain(&text());
        Ok(())
    }

    /// Fetches everything, over one association after the other.
    async fn fetch(
        &self,
        endpoint: &Endpoint,
        receiver: &Receiver,
        bar: &ProgressBar,
    ) -> Result<Vec<Received>, Failure> {
        let options = ConnectOptions::from(config(&self.sctp)?);
        let mut lost: Option<Instant> = None;
        loop {
            let attempt = self.connect(endpoint, options.clone()).await;
            let association = match (attempt, lost) {
                (Ok(association), _) => association,
                (Err(error), None) => return Err(Failure::Failed(error)),
                (Err(error), Some(since)) if since.elapsed() >= self.patience => {
                    return Err(Failure::Failed(format!(
                        "the sender is gone: {error}; what has arrived is kept: when the sender offers the files \
                         again, 'receive' goes on there"
                    )));
                }
                (Err(_), Some(_)) => {
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let _counted = Watch::connected(&association);
            if self.json {
                print(&json_line(&Line::Connected)?)?;
            }
            let received = tokio::select! {
                received = receiver.receive(&association) => received,
                () = show_paths(&association, bar) => continue,
            };
            match received {
                Ok(received) => {
                    // Everything is there, whatever becomes of the association.
                    let _ = end(&association).await;
                    return Ok(received);
                }
                Err(Failed::Stopped(error)) => {
                    association.abort(b"the receiver stops");
                    return Err(Failure::Failed(error));
                }
                Err(Failed::Lost(error)) => {
                    association.abort(b"connecting again");
                    bar.suspend(|| {
                        self.tell(&Line::Lost { error: &error }, || {
                            format!("the sender is lost ({error}), connecting again")
                        })
                    })?;
                    lost = Some(Instant::now());
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
        options: ConnectOptions,
    ) -> Result<Association, String> {
        let sender = || {
            let addresses = self.line.addresses().iter().map(SocketAddr::to_string);
            addresses.collect::<Vec<_>>().join(", ")
        };
        match timeout(
            self.connect_timeout,
            endpoint.connect(self.line.key().remotes(PORT), options),
        )
        .await
        {
            Ok(Ok(association)) => Ok(association),
            Ok(Err(error)) => Err(format!("cannot reach the sender at {}: {error}", sender())),
            Err(_) => Err(format!(
                "no answer from the sender at {} within {:?}: it has ended, cannot be reached, or somebody else has \
                 used this line",
                sender(),
                self.connect_timeout
            )),
        }
    }

    fn report(&self, received: &[Received], took: Duration) -> Result<(), Failure> {
        let (there, failed): (Vec<_>, Vec<_>) =
            received.iter().partition(|file| file.error.is_none());
        let bytes = there.iter().map(|file| file.size).sum();
        if self.json {
            let (files, failed) = (there.len(), failed.len());
            print(&json_line(&Line::Done { files, failed, bytes, seconds: took.as_secs_f64() })?)?;
        } else {
            let known: Vec<_> =
                there.iter().filter_map(|file| Some((file, file.digest.as_ref()?))).collect();
            let lines = known.into_iter().map(|(file, digest)| {
                (one_line(&file.path.display().to_string()).into_owned(), digest)
            });
            let (files, bytes) = (count(there.len() as u64, "file"), count(bytes, "byte"));
            print(&format!("{files}, {bytes}, verified\n{}", digests(lines)))?;
            failed.iter().filter_map(|file| file.error.as_deref()).for_each(complain);
        }
        if failed.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

impl FileLine {
    fn new(received: &Received) -> Self {
        Self {
            file: received.path.display().to_string(),
            bytes: received.size,
            resumed_bytes: received.resumed,
            already: received.already,
            sha256: received.digest.map(|digest| digest.to_string()),
            error: received.error.clone(),
        }
    }
}

/// Shows the number of paths. Never returns.
async fn show_paths(association: &Association, bar: &ProgressBar) {
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let paths = association.statistics().paths;
        let active = paths.iter().filter(|path| path.state == PathState::Active).count();
        bar.set_message(count(active as u64, "path"));
    }
}
