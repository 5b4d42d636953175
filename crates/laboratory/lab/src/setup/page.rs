//! A web page that is loaded instead of transfers.

use anabranch_web::QuicCongestion;

use super::network::Network;
use super::stack::Platform;
use crate::tree::{Checked, Fields, problem};
use crate::units::Kind;

/// Maximum size of an object or of the index in bytes.
const MAX_SIZE: f64 = 1e8;

/// Maximum number of connections or streams.
const MAX_STREAMS: u64 = 256;

/// A page, and its transport. The sender is the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Bytes of the index.
    pub index: usize,
    /// Bytes of each embedded object, in order.
    pub objects: Vec<usize>,
    /// Its transport.
    pub carriage: Carriage,
    /// Number of streams used in an association, or of TCP connections.
    pub streams: u16,
    /// Whether requests are written without waiting for earlier answers.
    pub pipelined: bool,
    /// QUIC's congestion control.
    pub quic_congestion: QuicCongestion,
}

/// The transport of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carriage {
    /// Streams of one association.
    #[default]
    Sctp,
    /// TCP connections.
    Tcp,
    /// HTTP/3 over one connection of QUIC.
    Http3,
}

impl Carriage {
    /// The names in scenario files.
    pub const NAMES: [(&'static str, Self); 3] =
        [("sctp", Self::Sctp), ("tcp", Self::Tcp), ("http3", Self::Http3)];
}

/// The names of QUIC's congestion controls in scenario files.
const QUIC_CONGESTION: [(&str, QuicCongestion); 2] =
    [("cubic", QuicCongestion::Cubic), ("new-reno", QuicCongestion::NewReno)];

/// Reads `[page]`.
pub(super) fn read(root: &Fields<'_>, network: &Network, on: Platform) -> Checked<Option<Page>> {
    let Some(fields) = root.table("page")? else { return Ok(None) };
    let line = fields.line();
    let objects = fields.count("objects", 1, 1000)?.unwrap_or(1) as usize;
    let size =
        |key| fields.quantity(key, Kind::Size, 1.0, MAX_SIZE).map(|size| size.map(|s| s as usize));
    let index = size("index")?.unwrap_or(1000);
    let Some(each) = size("object")? else {
        return problem(line, "page.object, the size of each object, is missing");
    };
    let mut sizes = vec![each; objects];
    if let Some(first) = size("first")? {
        sizes[0] = first;
    }
    let carriage = fields.choice("carriage", &Carriage::NAMES)?.unwrap_or_default();
    let streams = fields.count("streams", 1, MAX_STREAMS)?;
    let connections = fields.count("connections", 1, MAX_STREAMS)?;
    let streams = match carriage {
        Carriage::Sctp => streams.unwrap_or(objects as u64),
        Carriage::Tcp => connections.unwrap_or(1),
        // One stream for each object.
        Carriage::Http3 => objects as u64,
    };
    let pipelined = fields.flag("pipelined")?.unwrap_or(true);
    let quic_congestion = fields.choice("quic_congestion", &QUIC_CONGESTION)?.unwrap_or_default();
    fields.finish()?;
    if on == Platform::Emulator {
        return problem(line, "pages are loaded in the simulator only");
    }
    let one_link = |paths: &[super::Path]| matches!(paths, [path] if path.links.len() == 1);
    if !one_link(&network.paths) {
        return problem(line, "a page has a network of one path with one link, from its server");
    }
    let streams = streams as u16;
    Ok(Some(Page { index, objects: sizes, carriage, streams, pipelined, quic_congestion }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use crate::tree::tests::refused;

    pub(crate) const PAGE: &str = r#"
[network]
shape = "links"
hosts = ["server", "client"]
[link.hop]
ends = ["server", "client"]
rate = "1 Mb/s"
delay = "175 ms"
queue = "50 packets"
[path.only]
links = ["hop"]
[association]
profile = "rfc4960"
[page]
objects = 10
object = "10 kB"
"#;

    #[test]
    fn a_page_is_read() {
        let page = read(PAGE).unwrap().page.unwrap();
        let sizes = vec![10_000; 10];
        let expected = Page {
            index: 1000,
            objects: sizes,
            carriage: Carriage::Sctp,
            streams: 10,
            pipelined: true,
            quic_congestion: QuicCongestion::Cubic,
        };
        assert_eq!(page, expected);
        let more = "first = \"1 kB\"\ncarriage = \"tcp\"\nconnections = 6\npipelined = false\n";
        let page = read(&format!("{PAGE}{more}")).unwrap().page.unwrap();
        assert_eq!((page.objects[0], page.objects[1], page.streams), (1000, 10_000, 6));
        assert!(!page.pipelined && page.carriage == Carriage::Tcp);
        let more = "carriage = \"http3\"\nquic_congestion = \"new-reno\"\n";
        let page = read(&format!("{PAGE}{more}")).unwrap().page.unwrap();
        assert_eq!(page.carriage, Carriage::Http3);
        assert_eq!(page.quic_congestion, QuicCongestion::NewReno);
        for (from, to, line, reason) in [
            ("object = \"10 kB\"\n", "", 14, "page.object"),
            ("objects = 10", "objects = 0", 15, "page.objects is 0"),
            ("objects = 10", "carriage = \"pigeon\"", 15, "page.carriage"),
            ("objects = 10", "quic_congestion = \"vegas\"", 15, "page.quic_congestion"),
            ("[page]", "[run]\non = \"emulator\"\n[page]", 16, "simulator only"),
            (
                "[page]",
                "[traffic.a]\nsize = \"1 kB\"\nmessage = \"1 kB\"\n[page]",
                17,
                "[page] excludes traffic",
            ),
        ] {
            refused(read(&PAGE.replace(from, to)), line, reason);
        }
    }
}
