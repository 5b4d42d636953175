//! Both sides of a gateway in this process, with two links between them.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use anabranch::runtime::{ImpairedRuntime, TokioRuntime};
use anabranch::seal::{Allow, Invitation, Seal, SecretKey, Uplink};
use anabranch::{ConnectOptions, Endpoint, ListenOptions, Listener};
use anabranch_gateway::{
    Account, Connect, Far, FarOptions, Link, Near, NearOptions, Page, Rule, Rules, UplinkSpec,
    Uplinks,
};
use anabranch_impair::file::{Direction, ImpairmentFile, PathEntry};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::commands::gateway::{PORT, config, page_token};
use crate::demo::cut::{PATHS, PathSettings};
use crate::failure::Failure;
use crate::options::SctpOptions;

/// The names of the links.
const NAMES: [&str; PATHS] = ["1", "2"];

/// A far side, and a near side with two uplinks.
pub(super) struct Pair {
    links: Arc<ImpairedRuntime>,
    /// The proxy of the near side.
    pub(super) proxy: SocketAddr,
    /// The URL of the near side's status page.
    pub(super) status: String,
    _tasks: JoinSet<()>,
}

impl Pair {
    /// Starts both sides. The far side connects to `source` only.
    ///
    /// # Errors
    /// The system lacks something. The error is a sentence.
    pub(super) async fn start(
        paths: [PathSettings; PATHS],
        source: SocketAddr,
    ) -> Result<Self, String> {
        let config = config(&SctpOptions::default()).map_err(sentence)?;
        let locals = locals()?;
        let secret = SecretKey::generate().map_err(text)?;
        // A port of each version of IP that the uplinks have.
        let mut listen = locals.map(|local| SocketAddr::new(loopback(local), 0)).to_vec();
        listen.dedup();
        let seal = Seal::listen(secret.clone(), listen.clone()).allow(Allow::Any);
        let far = Endpoint::builder().seal(seal).bind().map_err(text)?;
        let listener = far.listen(PORT, ListenOptions::from(config.clone())).map_err(text)?;
        let addresses = listen.into_iter().map(|to| SocketAddr::new(to.ip(), far.udp_port()));
        let invitation = Invitation::new(secret.public(), addresses);

        let runtime = TokioRuntime::current().ok_or("there is no runtime")?;
        let links = Arc::new(ImpairedRuntime::new(Arc::new(runtime), file(paths, locals), 1));
        let seal = Seal::connect(SecretKey::generate().map_err(text)?, &invitation);
        let specs = locals.map(|local| UplinkSpec::always(Uplink::address(local))).to_vec();
        let uplinks = Arc::new(Uplinks::named(seal.handle(), specs, None)?);
        let seal = seal.uplinks(uplinks.uplinks());
        let near = Endpoint::builder().runtime(links.clone()).seal(seal).bind().map_err(text)?;
        let connect: Connect = Box::new(move || {
            let (near, options) = (near.clone(), ConnectOptions::from(config.clone()));
            let remotes = invitation.key().remotes(PORT);
            Box::pin(async move { near.connect(remotes, options).await.map_err(text) })
        });
        let link = Link::new(connect, |_| {});
        let page = Page::new(page_token().map_err(sentence)?, Arc::clone(&uplinks));
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(text)?;
        let address = proxy.local_addr().map_err(text)?;
        let status = format!("http://{address}{}", page.path());
        let options = NearOptions { page: Some(page), ..NearOptions::default() };
        let near = Near::new(Arc::clone(&link), &options, Arc::new(|_| {}));

        let mut tasks = JoinSet::new();
        tasks.spawn(serve(far, listener, source.to_string().parse().map_err(text)?));
        tasks.spawn(async move { near.serve(proxy).await });
        tasks.spawn(async move { uplinks.follow(Some(&link)).await });
        Ok(Self { links, proxy: address, status, _tasks: tasks })
    }

    /// Cuts a link, silently, or repairs it.
    pub(super) fn set_up(&self, path: usize, up: bool) {
        if let Some(name) = NAMES.get(path) {
            self.links.set_up(name, up);
        }
    }

    /// Counts the bytes of IP packets that each link has carried to the near side.
    pub(super) fn counter(&self) -> impl Fn() -> [u64; PATHS] + Send + use<> {
        let links = self.links.clone();
        move || {
            let mut carried = [0; PATHS];
            for link in links.links() {
                let path = NAMES.iter().position(|name| link.name.as_deref() == Some(name));
                if let (Some(path), Direction::Receive) = (path, link.direction) {
                    carried[path] += link.statistics.delivered_bytes;
                }
            }
            carried
        }
    }
}

/// The far side.
async fn serve(_endpoint: Endpoint, listener: Listener, allowed: Rule) {
    let rules = Rules { allow: vec![allowed], only_allowed: true, ..Rules::default() };
    let far = Far::new(FarOptions { rules, ..FarOptions::default() }, Arc::new(|_| {}));
    let mut associations = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = associations.join_next() => continue,
        };
        let Some(association) = accepted else { return };
        let far = far.clone();
        associations.spawn(async move {
            // What went wrong is seen by the near side, which connects again.
            let _ = far.serve(&association, &Account::unlimited()).await;
        });
    }
}

/// The address of each uplink. Not every system has several of IPv4 on its loopback interface.
fn locals() -> Result<[IpAddr; PATHS], String> {
    let of = |last: u8| IpAddr::from([127, 0, 0, last]);
    let choices = [[of(2), of(3)], [of(1), Ipv6Addr::LOCALHOST.into()]];
    let usable =
        |locals: &[IpAddr; PATHS]| locals.iter().all(|local| UdpSocket::bind((*local, 0)).is_ok());
    let chosen = choices.into_iter().find(usable);
    chosen.ok_or_else(|| "this host has only one address on its loopback interface".to_owned())
}

fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// The links as an impairment file says it.
fn file(paths: [PathSettings; PATHS], locals: [IpAddr; PATHS]) -> ImpairmentFile {
    let entry = |((path, local), name): ((PathSettings, IpAddr), &str)| PathEntry {
        name: Some(name.to_owned()),
        local: Some(local),
        remote: None,
        direction: None,
        config: path.link(),
    };
    let paths = paths.into_iter().zip(locals).zip(NAMES).map(entry).collect();
    ImpairmentFile { seed: None, paths }
}

fn sentence(failure: Failure) -> String {
    failure.told().0.unwrap_or_default().to_owned()
}

fn text(error: impl Display) -> String {
    error.to_string()
}
