//! `anabranch get -r`: all files below a directory of a server, found through its listings and pages.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_http::{Bounds, Budget, Output, Scheme, Transaction, Url, is_listing, links};
use clap::Args;

use super::attempts::Item;
use super::keep::{Below, Placed, local_name};
use super::{Get, Group, Session, enter, interrupted, path_of};
use crate::failure::{Failure, complain};
use crate::files;
use crate::interrupt::Interrupt;
use crate::options::size;
use crate::output::count;
use crate::progress::Bars;
use crate::report::ConnectionReport;

/// The longest document that is read for its links, in bytes.
const LONGEST_DOCUMENT: u64 = 32 << 20;

/// Options of trees.
#[derive(Clone, Debug, Args)]
pub(super) struct TreeOptions {
    /// Fetch all files below the URL's directory into --out
    ///
    /// Follows links of the server's listings, and of HTML pages, that lead below the directory. Links with a
    /// query, to other servers and to elsewhere are not followed. Names that begin with a dot are refused. An
    /// existing file is replaced only by one that was changed later. Repeat the command to fetch new files and to
    /// continue incomplete ones.
    #[arg(short, long, conflicts_with_all = ["output", "page"])]
    pub(super) recursive: bool,
    /// How many levels of directories to enter below the URL's
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        help_heading = "Trees",
        hide_short_help = true,
        requires = "recursive"
    )]
    depth: u32,
    /// The most files and directories of a tree
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        help_heading = "Trees",
        hide_short_help = true,
        requires = "recursive"
    )]
    max_files: usize,
    /// The most bytes of a tree, listings included
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "100GB",
        help_heading = "Trees",
        hide_short_help = true,
        requires = "recursive",
        value_parser = size
    )]
    max_total: usize,
}

impl TreeOptions {
    /// The budget for the bytes of a tree.
    pub(super) fn budget(&self) -> Option<Arc<Budget>> {
        self.recursive.then(|| Arc::new(Budget::new(self.max_total as u64)))
    }
}

/// Something to fetch.
struct Entry {
    target: String,
    /// Its path below the output directory, or the reason why there is none.
    name: Result<PathBuf, &'static str>,
}

/// The state of a crawl.
struct Crawl {
    start: Url,
    deepest: u32,
    most: usize,
    seen: HashSet<String>,
    /// Local names in use: different targets may have the same name.
    names: HashSet<PathBuf>,
    /// What to fetch next.
    next: Vec<Entry>,
    /// Number of links that were too deep, and of those beyond the maximum number of files.
    left_out: [u64; 2],
}

impl Crawl {
    fn new(start: &Url, options: &TreeOptions) -> Self {
        let mut crawl = Self {
            start: start.clone(),
            deepest: options.depth,
            most: options.max_files,
            seen: HashSet::new(),
            names: HashSet::new(),
            next: Vec::new(),
            left_out: [0; 2],
        };
        crawl.seen.insert(start.target.clone());
        crawl.names.insert("index.html".into());
        let name = Ok("index.html".into());
        crawl.next.push(Entry { target: start.target.clone(), name });
        crawl
    }

    /// Records the targets that a document refers to and that are below the start.
    fn read(&mut self, url: &Url, document: &[u8]) {
        for target in links(url, document) {
            self.enter(target);
        }
    }

    /// Records a target if it is below the start and new.
    fn enter(&mut self, target: String) {
        let below = target.strip_prefix(&self.start.target).filter(|below| !below.is_empty());
        let Some(below) = below.filter(|below| !below.contains('?')) else { return };
        if self.seen.contains(&target) {
            return;
        }
        let depth = u32::try_from(below.trim_end_matches('/').matches('/').count());
        let depth = depth.unwrap_or(u32::MAX).saturating_add(u32::from(target.ends_with('/')));
        if depth > self.deepest {
            self.left_out[0] += 1;
            return;
        }
        if self.seen.len() > self.most {
            self.left_out[1] += 1;
            return;
        }
        let name = match local_name(below) {
            Some(name) if !self.names.insert(name.clone()) => return,
            Some(name) => Ok(name),
            None => Err("its name leads out of the directory, is hidden, or is not a file name"),
        };
        self.seen.insert(target.clone());
        self.next.push(Entry { target, name });
    }

    /// Describes the links that the limits left out, in one sentence.
    fn says(&self, options: &TreeOptions) -> Option<String> {
        let [deep, more] = self.left_out;
        let deep =
            (deep > 0).then(|| format!("{} below --depth {}", count(deep, "link"), options.depth));
        let more = (more > 0)
            .then(|| format!("{} beyond --max-files {}", count(more, "link"), options.max_files));
        let both: Vec<_> = deep.into_iter().chain(more).collect();
        (!both.is_empty()).then(|| format!("not followed: {}", both.join(", ")))
    }
}

/// One round of a tree: what to fetch, and which documents of it to read for links.
#[derive(Default)]
struct Round {
    items: Vec<Item>,
    /// By index of an item: its name below the output directory, and whether it is the document of a directory.
    documents: HashMap<usize, (PathBuf, bool)>,
}

/// A tree that is being fetched.
struct Tree<'a> {
    get: &'a Get,
    crawl: Crawl,
    below: Below,
    /// For the documents of directories, until it is known whether they are listings.
    scratch: tempfile::TempDir,
    done: Vec<Item>,
    /// Number of items so far.
    count: usize,
}

impl Get {
    /// Fetches a tree.
    pub(super) async fn load_tree(mut self) -> Result<(), Failure> {
        let [start] = &self.urls.clone()[..] else {
            return Err(Failure::usage("-r fetches one tree: give one URL"));
        };
        if start.scheme == Scheme::Https
            || !start.target.ends_with('/')
            || start.target.contains('?')
        {
            return Err(Failure::usage(format!(
                "-r fetches what is below a directory: {start} does not end with '/'"
            )));
        }
        // Incomplete files are always continued.
        self.resume = true;
        let groups = self.groups()?;
        self.say_what_multipath_does(&groups);
        self.make_directories(&[])?;
        let failed =
            |error| Failure::failed(format!("no directory for listings can be made: {error}"));
        let mut tree = Tree {
            get: &self,
            crawl: Crawl::new(start, &self.tree),
            below: Below::open(self.out.as_deref().unwrap_or(Path::new(".")))?,
            scratch: tempfile::tempdir().map_err(failed)?,
            done: Vec::new(),
            count: 0,
        };
        let interrupt = Interrupt::install()?;
        let bars = Bars::new(0, !self.quiet && !self.json);
        let mut session = Session::new(&self, &bars, &interrupt);
        let mut connections = Vec::new();
        let ended = tree.fetch(&mut session, &mut connections, &bars).await;
        session.close().await;
        bars.clear();
        ended?;
        let left_out = tree.crawl.says(&self.tree);
        if let Some(left_out) = &left_out {
            complain(left_out);
        }
        self.finish(tree.done, connections)?;
        // The error does not belong to a particular file.
        if left_out.is_some() { Err(Failure::Reported) } else { Ok(()) }
    }
}

impl Tree<'_> {
    /// Fetches in rounds, until no document refers to anything new.
    async fn fetch(
        &mut self,
        session: &mut Session<'_>,
        connections: &mut Vec<ConnectionReport>,
        bars: &Bars,
    ) -> Result<(), Failure> {
        loop {
            let entries = std::mem::take(&mut self.crawl.next);
            if entries.is_empty() {
                return Ok(());
            }
            let Round { items, documents } = self.plan(entries);
            let (waiting, refused): (Vec<_>, Vec<_>) = items.into_iter().partition(Item::waits);
            self.done.extend(refused);
            bars.expect(waiting.len());
            let mut groups = Vec::new();
            for item in waiting {
                enter(&mut groups, self.get.transport_of(&item.url)?, item);
            }
            let files: Vec<_> = groups.iter().flat_map(Group::files).map(Path::to_owned).collect();
            let items = match session.round(groups, connections).await {
                Ok(items) => items,
                Err(Failure::Interrupted) => return Err(interrupted(&files)),
                Err(failure) => return Err(failure),
            };
            for item in items {
                let document = documents.get(&item.index);
                self.settle(item, document);
            }
        }
    }

    /// Decides where each entry is written.
    fn plan(&mut self, entries: Vec<Entry>) -> Round {
        let mut round = Round::default();
        for entry in entries {
            let url = Url { target: entry.target.clone(), ..self.crawl.start.clone() };
            let directory = entry.target.ends_with('/');
            let most = directory.then_some(LONGEST_DOCUMENT);
            let placed = entry.name.map_err(str::to_owned).and_then(|name| {
                let placed = match directory {
                    true => Placed {
                        path: self.scratch.path().join(self.count.to_string()),
                        there: None,
                    },
                    false => self.below.place(&name)?,
                };
                files::written_too(&placed.path).map_err(|failure| {
                    failure.told().0.unwrap_or("its name belongs to another file").to_owned()
                })?;
                if directory || is_page(&name) {
                    round.documents.insert(self.count, (name, directory));
                }
                Ok(placed)
            });
            let (placed, refused) = match placed {
                Ok(placed) => (placed, None),
                Err(why) => (Placed { path: PathBuf::from("-"), there: None }, Some(why)),
            };
            let transaction = Transaction {
                host: url.host_field(),
                target: entry.target,
                source: url.to_string(),
                output: Output::File { path: placed.path, resume: !directory },
                bounds: Bounds { most, newer_than: placed.there },
            };
            let mut item = Item::new(self.count, &url, transaction);
            if let Some(why) = refused {
                item.refuse(why);
            }
            self.count += 1;
            round.items.push(item);
        }
        round
    }

    /// Handles what was fetched: a redirect, a listing, a page or another file.
    fn settle(&mut self, mut item: Item, document: Option<&(PathBuf, bool)>) {
        if let Some(location) = item.moved.take() {
            return self.moved(item, &location);
        }
        if let (None, Some((name, directory))) = (&item.report.error, document) {
            let url = item.url.clone();
            let read = match directory {
                true => match self.keep(&mut item, name) {
                    Ok(Some(document)) => Ok(document),
                    // A listing is not a file.
                    Ok(None) => return,
                    Err(why) => Err(why),
                },
                // The file counts as fetched even if it cannot be read for links.
                false => Ok(self.below.read(name, LONGEST_DOCUMENT).unwrap_or_default()),
            };
            match read {
                Ok(document) => self.crawl.read(&url, &document),
                Err(why) => item.refuse(why),
            }
        }
        self.done.push(item);
    }

    /// Keeps the document of a directory, unless it is a listing, which is only read for links.
    fn keep(&mut self, item: &mut Item, name: &Path) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = path_of(&item.transaction) else { return Ok(None) };
        let document = std::fs::read(path).map_err(|error| error.to_string())?;
        // If it cannot be removed now, it is removed with its directory.
        let _ = std::fs::remove_file(path);
        if is_listing(&item.url, &document) {
            self.crawl.read(&item.url, &document);
            return Ok(None);
        }
        item.report.file = self.below.path(name).display().to_string();
        let written = self.below.update(name, &document, item.modified);
        // Follow its links even if it cannot be written.
        self.crawl.read(&item.url, &document);
        item.report.unchanged = !written?;
        if item.report.unchanged {
            item.report.bytes = None;
        }
        Ok(Some(Vec::new()))
    }

    /// Follows a redirect only within the tree; usually it adds the slash of a directory.
    fn moved(&mut self, mut item: Item, location: &str) {
        let to = item.url.join(location).ok();
        let here = to.filter(|to| {
            let start = &self.crawl.start;
            to.authority == start.authority && to.target.starts_with(&start.target)
        });
        match here {
            Some(to) => self.crawl.enter(to.target),
            None => {
                let said = item.report.error.take().unwrap_or_default();
                item.refuse(format!("{said}: that is not below the directory, and not followed"));
                self.done.push(item);
            }
        }
    }
}

/// Whether to read a file for links.
fn is_page(name: &Path) -> bool {
    let ending = name.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ["html", "htm", "xhtml"].contains(&ending.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: TreeOptions =
        TreeOptions { recursive: true, depth: 3, max_files: 8, max_total: 100 };

    #[test]
    fn a_tree_is_what_is_below_its_start() {
        let start: Url = "http://h/pub/".parse().unwrap();
        let mut crawl = Crawl::new(&start, &OPTIONS);
        crawl.next.clear();
        let document = b"<a href=a>a</a><a href=./sub/>s</a><a href=../up>u</a><a href=/pub/b>b</a>\
            <a href=?C=N;O=D>n</a><a href=.git/>g</a><a href=sub/%2e%2e/x>x</a><a href=//e/pub/c>c</a>\
            <a href=a#again>a</a><a href=./>.</a><a href=%61>a</a><a href=/public>p</a><a href=b?c>b</a>";
        crawl.read(&start, document);
        let found = crawl.next.iter().map(|entry| (entry.target.as_str(), entry.name.is_ok()));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("/pub/a", true),
                ("/pub/sub/", true),
                ("/pub/b", true),
                ("/pub/.git/", false),
                ("/pub/sub/%2e%2e/x", false)
            ]
        );
        assert_eq!(crawl.next[1].name.clone().unwrap(), Path::new("sub/index.html"));
        assert_eq!(crawl.says(&OPTIONS), None);
    }

    #[test]
    fn trees_end_somewhere() {
        let start: Url = "http://h/pub/".parse().unwrap();
        let mut crawl = Crawl::new(&start, &OPTIONS);
        for depth in 0..100 {
            let url = Url { target: format!("/pub/{}", "s/".repeat(depth)), ..start.clone() };
            crawl.read(&url, b"<a href=s/>s</a>");
        }
        assert_eq!(crawl.next.len(), 4);
        let many: String = (0..100).map(|n| format!("<a href={n}>n</a>")).collect();
        crawl.read(&start, many.as_bytes());
        assert_eq!(crawl.next.len(), 9, "the start and 8 more");
        assert_eq!(
            crawl.says(&OPTIONS).unwrap(),
            "not followed: 97 links below --depth 3, 95 links beyond --max-files 8"
        );
    }
}
