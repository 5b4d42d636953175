//! `anabranch get --page`: loads a document and what it embeds, and reports when each part arrived.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch_http::tcp::TcpClient;
use anabranch_http::{Authority, FetchError, OpenStreams, PageLoad, PageRequest, Url, load_page};
use clap::Args;

use super::Get;
use super::associations::Associations;
use super::filmstrip::Filmstrip;
use super::http3::Http3Options;
use super::keep::{Below, local_name};
use super::page_report::{Carried, PageReport};
use crate::address::resolve;
use crate::endpoint::end;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{Transport, duration};
use crate::output::{filled, print, print_json};
use crate::progress::PageBar;
use crate::transport::sctp;

/// Default number of streams of an association for a page.
const STREAMS: u16 = 64;

/// Options of pages.
#[derive(Clone, Debug, Args)]
pub(super) struct PageOptions {
    /// Load a document and what it embeds, and report when each part arrived
    ///
    /// The files are kept only if --out names a directory.
    #[arg(long, help_heading = "Pages", conflicts_with_all = ["output", "resume", "pipeline", "placement", "urgency", "incremental"])]
    pub(super) page: bool,
    /// TCP connections for a page: the document over the first one, then the embedded objects over all [default: 1]
    #[arg(long, value_name = "N", help_heading = "Pages", hide_short_help = true, requires = "page", conflicts_with = "streams", value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: Option<u16>,
    /// Request an object of a page only when the one before it on the stream has arrived, not immediately
    #[arg(long, help_heading = "Pages", hide_short_help = true, requires = "page")]
    one_by_one: bool,
    /// Draw which of a page's pictures had arrived at some moments, and how much of each
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Pages",
        hide_short_help = true,
        requires = "page"
    )]
    filmstrip: Option<PathBuf>,
    /// Moments of the film strip, after the request for the document [default: when 25, 50, 75 and 100 % of
    /// all pictures had arrived, and when the first byte of the last one had]
    #[arg(long, value_name = "TIME,...", help_heading = "Pages", hide_short_help = true, value_delimiter = ',', value_parser = duration, requires = "filmstrip")]
    moments: Vec<Duration>,
    #[command(flatten)]
    pub(super) http3: Http3Options,
}

/// A loader of pages from the library, over some transport.
pub(super) trait Loader {
    async fn load(
        &self,
        request: &PageRequest,
        clock: &(dyn Fn() -> Duration + Sync),
    ) -> Result<PageLoad, FetchError>;
}

/// The loader for connections whose streams carry HTTP/1.1.
struct Streams<'a, C>(&'a C);

impl<C: OpenStreams> Loader for Streams<'_, C> {
    async fn load(
        &self,
        request: &PageRequest,
        clock: &(dyn Fn() -> Duration + Sync),
    ) -> Result<PageLoad, FetchError> {
        load_page(self.0, request, clock).await
    }
}

impl Get {
    /// Number of streams of an association; the default is higher for a page.
    pub(super) fn association_streams(&self) -> u16 {
        let default = if self.page.page { STREAMS } else { super::STREAMS };
        self.streams.unwrap_or(default)
    }

    /// Loads a page.
    pub(super) async fn load_page(self) -> Result<(), Failure> {
        let [url] = &self.urls[..] else {
            return Err(Failure::usage("--page loads one page: give one URL"));
        };
        if self.is_http3(url)? {
            let interrupt = Interrupt::install()?;
            let (page, carried) = tokio::select! {
                loaded = self.carry_http3(url) => loaded?,
                () = interrupt.wait() => return Err(Failure::Interrupted),
            };
            return self.tell(url, &page, carried);
        }
        let group = self.groups()?;
        let transport = group.first().map_or(Transport::Tcp, |group| group.transport);
        if self.page.connections.is_some() && transport != Transport::Tcp {
            return Err(Failure::usage("--connections is for TCP; --streams is for SCTP"));
        }
        let interrupt = Interrupt::install()?;
        let sctp = self.bind_sctp(&group)?;
        let loading = self.carry(url, transport, sctp.as_ref());
        let loaded = tokio::select! {
            loaded = loading => loaded,
            () = interrupt.wait() => Err(Failure::Interrupted),
        };
        if let Some(sctp) = sctp {
            sctp.close().await;
        }
        let (page, carried) = loaded?;
        self.tell(url, &page, carried)
    }

    /// Loads the page over its transport.
    async fn carry(
        &self,
        url: &Url,
        transport: Transport,
        sctp: Option<&sctp::Client>,
    ) -> Result<(PageLoad, Carried), Failure> {
        let remotes = resolve(&url.authority).await?;
        let begun = Instant::now();
        let Some(sctp) = sctp else {
            let locals = self.client.local.iter().map(|local| local.socket(0));
            let locals = locals.collect::<Result<_, _>>()?;
            let client = TcpClient::connect(remotes, locals, self.client.connect_timeout).await;
            let client = client.map_err(|error| no_connection(&url.authority, &error))?;
            let connecting = begun.elapsed();
            let most = self.page.connections.or(self.streams).unwrap_or(1);
            let page = self.load(url, &client, Some(most)).await?;
            let connections = client.paths().len() as u64;
            return Ok((page, Carried::tcp(transport, connecting, connections)));
        };
        let timeout = self.client.connect_timeout;
        let associations =
            Associations::connect(sctp, &url.authority, remotes, timeout, self.retry).await?;
        let connecting = begun.elapsed();
        let page = self.load(url, &associations, self.streams).await;
        let last = associations.last().await;
        let carried =
            Carried::sctp(transport, connecting, associations.count(), &last.statistics());
        match page {
            // All objects have arrived, so the result of the shutdown does not matter.
            Ok(_) => drop(end(&last).await),
            Err(_) => last.abort(b"the page did not come"),
        }
        Ok((page?, carried))
    }

    async fn load<C: OpenStreams>(
        &self,
        url: &Url,
        connection: &C,
        streams: Option<u16>,
    ) -> Result<PageLoad, Failure> {
        self.load_with(url, streams, Streams(connection)).await
    }

    pub(super) async fn load_with(
        &self,
        url: &Url,
        streams: Option<u16>,
        loader: impl Loader,
    ) -> Result<PageLoad, Failure> {
        let mut request = PageRequest::new(url.host_field(), &url.target);
        request.streams = streams.map(usize::from);
        request.pipelined = !self.page.one_by_one;
        request.keep = self.page.filmstrip.is_some() || self.out.is_some();
        request.silence = self.client.silence();
        let bar = PageBar::new(!self.quiet && !self.json);
        let begun = Instant::now();
        let page = loader.load(&request, &|| begun.elapsed()).await;
        bar.clear();
        page.map_err(|error| Failure::failed(format!("{url}: {error}")))
    }

    /// Writes the files to keep, and reports how the page arrived.
    fn tell(&self, url: &Url, page: &PageLoad, carried: Carried) -> Result<(), Failure> {
        for object in page.objects.iter().chain([&page.index]) {
            if let Some(error) = &object.error {
                complain(&format!("{}: {error}", object.target));
            }
        }
        let kept = self.out.as_ref().map(|directory| keep(page, directory)).transpose()?;
        let mut report = PageReport::new(url, page, carried);
        if let Some(directory) = &self.page.filmstrip {
            report.filmstrip =
                Some(Filmstrip::new(page, &self.page.moments).draw(directory, &url.to_string())?);
        }
        match (self.json, self.quiet) {
            (true, _) => print_json(&report)?,
            (false, true) => {}
            (false, false) => print(&filled(&report.summary(self.paths)))?,
        }
        if page.is_complete() && kept != Some(false) { Ok(()) } else { Err(Failure::Reported) }
    }
}

fn no_connection(authority: &Authority, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot connect to {authority}: {error}"))
}

/// Writes complete objects into `directory`, under their names on the server. Returns whether all were written.
fn keep(page: &PageLoad, directory: &Path) -> Result<bool, Failure> {
    let below = Below::open(directory)?;
    let mut all = true;
    let whole =
        page.objects.iter().chain([&page.index]).filter(|object| object.completed.is_some());
    for object in whole {
        let written = match (local_name(&object.target), &object.body) {
            (None, _) => {
                Err("its name leads out of the directory, is hidden, or is not a file name".into())
            }
            (_, None) => Err("at most 256 MiB of a page are kept; 'get' its URL by itself".into()),
            (Some(name), Some(body)) => below.write(&name, body),
        };
        if let Err(why) = written {
            complain(&format!("{} is not kept: {why}", object.target));
            all = false;
        }
    }
    Ok(all)
}
