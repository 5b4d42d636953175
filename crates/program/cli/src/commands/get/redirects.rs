//! Follows redirects of files, limits their number, and detects cycles (RFC 9110 section 15.4).

use anabranch_http::Url;

use super::attempts::Item;
use super::{Get, Group, enter};
use crate::options::Transport;

impl Get {
    /// Sorts redirected files into groups to fetch next, and files whose redirects are not followed, with the
    /// reason.
    pub(super) fn redirect(&self, moved: Vec<Item>) -> (Vec<Group>, Vec<Item>) {
        let (mut groups, mut ended) = (Vec::new(), Vec::new());
        for mut item in moved {
            match self.next_hop(&mut item) {
                Ok((url, transport)) => {
                    item.follow(url);
                    enter(&mut groups, transport, item);
                }
                Err(why) => {
                    item.report.error = Some(why);
                    ended.push(item);
                }
            }
        }
        (groups, ended)
    }

    /// The next location of a file, or the reason not to follow the redirect.
    fn next_hop(&self, item: &mut Item) -> Result<(Url, Transport), String> {
        let location = item.moved.take().unwrap_or_default();
        let said = || item.report.error.clone().unwrap_or_default();
        let most = self.max_redirects;
        if most == 0 {
            return Err(said());
        }
        let url = item.url.join(&location);
        let url = url.map_err(|error| format!("{}, which is not a usable URL: {error}", said()))?;
        if url == item.url || item.hops.contains(&url) {
            return Err(format!("{}: the redirects lead in a circle, back to {url}", said()));
        }
        if item.hops.len() >= usize::from(most) {
            return Err(format!("{}: that is one redirect more than the {most} allowed", said()));
        }
        let transport = self.transport_of(&url).map_err(|failure| {
            let why = failure.told().0.unwrap_or_default().to_owned();
            format!("the server redirects to {url}: {why}")
        })?;
        Ok((url, transport))
    }
}
