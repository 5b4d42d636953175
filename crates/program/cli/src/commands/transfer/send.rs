//! `anabranch send`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch::seal::{Invitation, Seal, SecretKey, Token};
use anabranch::{Association, Endpoint, ListenOptions, Listener, VantagePoint};
use anabranch_transfer::{Digest, Offer, Outcome};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::interval;

use super::{PORT, digests};
use crate::address::{ListenAddress, socket};
use crate::commands::gateway::config;
use crate::endpoint::{Watch, close, end, sealed};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::SctpOptions;
use crate::output::{count, json_line, one_line, print, print_first};
use crate::sealed::reach;

/// Send files and directories to one person, who pastes a line
///
/// Prints a line for 'anabranch receive', which works for whoever uses it first. Everything is encrypted, and goes over
/// all uplinks of the receiver at once. A transfer that was cut goes on where it was, and every file is verified by its
/// SHA-256. Ends when the receiver has everything.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch send holiday.mp4
  anabranch send report.pdf pictures/
  anabranch send --public 198.51.100.7:9899 --listen '[::]:9899' holiday.mp4")]
pub(crate) struct Send {
    /// Files and directories
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Addresses and UDP port on which the receiver connects, IPv6 addresses in brackets; port 0 is any free one
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT", default_value = "[::]:0")]
    listen: ListenAddress,
    /// Address and UDP port under which the receiver reaches this host; may be given several times [default: the host's
    /// addresses]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket)]
    public: Vec<SocketAddr>,
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
    Listening { invitation: &'a str, udp_port: u16, files: usize, bytes: u64 },
    Connected { receiver: &'a str },
    Lost { error: Option<&'a str> },
    Done { files: Vec<Sent<'a>>, bytes_sent: u64 },
}

#[derive(Serialize)]
struct Sent<'a> {
    file: &'a str,
    bytes: u64,
    sha256: Option<String>,
}

impl Send {
    pub(crate) fn sctp(&self) -> &SctpOptions {
        &self.sctp
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.listen.udp_port.is_some() {
            return Err(Failure::usage(
                "--listen: the port is that of UDP, so ;udp= is not needed",
            ));
        }
        let interrupt = Interrupt::install()?;
        let offer = Offer::new(&self.files).map_err(Failure::failed)?;
        for skipped in offer.skipped() {
            complain(&format!(
                "{} is a link or a special file, and is left out",
                skipped.display()
            ));
        }
        let (endpoint, listener, invitation) = self.listen()?;
        self.tell_invitation(&offer, endpoint.udp_port(), &invitation)?;
        let result = tokio::select! {
            result = self.serve(&offer, &listener) => result,
            () = interrupt.wait() => Err(Failure::Interrupted),
        };
        drop(listener);
        close(&endpoint).await;
        result
    }

    /// Listens with a key of its own, which ends with this process.
    fn listen(&self) -> Result<(Endpoint, Listener, Invitation), Failure> {
        let secret = SecretKey::generate().map_err(Failure::failed)?;
        let token = Token::generate().map_err(Failure::failed)?;
        let seal = Seal::listen(secret.clone(), reach::sockets(&self.listen)?);
        seal.handle().invite(token.clone());
        let endpoint = sealed(&self.sctp, seal, VantagePoint::Server)?;
        let options = ListenOptions::from(config(&self.sctp)?);
        let listener = endpoint.listen(PORT, options).map_err(Failure::failed)?;
        let addresses = reach::addresses(&self.public, &self.listen, endpoint.udp_port());
        let invitation = Invitation::new(secret.public(), addresses).with_token(token);
        Ok((endpoint, listener, invitation))
    }

    fn tell_invitation(
        &self,
        offer: &Offer,
        udp_port: u16,
        invitation: &Invitation,
    ) -> Result<(), Failure> {
        let invitation = invitation.to_string();
        let (files, bytes) = (offer.list().files.len(), offer.list().bytes());
        if self.json {
            let invitation = &invitation;
            return print_first(&json_line(&Line::Listening {
                invitation,
                udp_port,
                files,
                bytes,
            })?);
        }
        let (files, bytes) = (count(files as u64, "file"), count(bytes, "byte"));
        print_first(&format!(
            "{files}, {bytes}, for whoever first runs\n\n  anabranch receive {invitation}\n\n"
        ))
    }

    fn tell(&self, line: &Line<'_>, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { print(&json_line(line)?) } else { print(&text()) }
    }

    /// Serves the receiver until it has everything. It may come several times.
    async fn serve(&self, offer: &Offer, listener: &Listener) -> Result<(), Failure> {
        let bar = self.bar(offer);
        let (outcomes, mut ended) = mpsc::channel(8);
        let mut ticks = interval(Duration::from_millis(200));
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Some(association) = accepted else { return Err(Failure::failed("the endpoint has ended")) };
                    let receiver = receiver(&association);
                    bar.suspend(|| {
                        let connected = Line::Connected { receiver: &receiver };
                        self.tell(&connected, || "the receiver has connected\n".to_owned())
                    })?;
                    let (offer, outcomes) = (offer.clone(), outcomes.clone());
                    tokio::spawn(async move {
                        let _counted = Watch::accepted(&association);
                        let outcome = offer.serve(&association).await;
                        // The receiver knows already; it ends the association.
                        let _ = end(&association).await;
                        let _ = outcomes.send(outcome).await;
                    });
                }
                Some(outcome) = ended.recv() => match outcome {
                    Outcome::Done => break,
                    Outcome::Ended(error) => bar.suspend(|| {
                        let lost = Line::Lost { error: error.as_deref() };
                        let why = error.as_deref().unwrap_or("it has ended");
                        self.tell(&lost, || {
                            format!("the receiver is lost ({}), and may come back\n", one_line(why))
                        })
                    })?,
                },
                _ = ticks.tick() => bar.set_position(offer.bytes_sent()),
            }
        }
        bar.finish_and_clear();
        self.report(offer)
    }

    fn report(&self, offer: &Offer) -> Result<(), Failure> {
        let digests_of: Vec<Option<Digest>> = offer.digests();
        let files = &offer.list().files;
        let each = || files.iter().zip(&digests_of);
        if self.json {
            let sent = each().map(|(file, digest)| Sent {
                file: &file.path,
                bytes: file.size,
                sha256: digest.map(|digest| digest.to_string()),
            });
            let (files, bytes_sent) = (sent.collect(), offer.bytes_sent());
            return print(&json_line(&Line::Done { files, bytes_sent })?);
        }
        let known: Vec<_> =
            each().filter_map(|(file, digest)| Some((file, digest.as_ref()?))).collect();
        let lines =
            known.into_iter().map(|(file, digest)| (one_line(&file.path).into_owned(), digest));
        print(&format!("the receiver has everything\n{}", digests(lines)))
    }

    /// Shows how much was sent, on standard error if it is a terminal.
    fn bar(&self, offer: &Offer) -> ProgressBar {
        let target = match self.quiet || self.json {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let style = "{wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} {decimal_bytes_per_sec:>11} {eta:>4}";
        let style = ProgressStyle::with_template(style);
        ProgressBar::with_draw_target(Some(offer.list().bytes()), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// The virtual address of a receiver, which captures and logs have.
fn receiver(association: &Association) -> String {
    let addresses = association.peer_addresses();
    addresses.first().map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string())
}
