//! Generates the page that lists a directory.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use cap_std::fs::{Dir, Metadata};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Characters allowed in a link's path segment without encoding.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Maximum number of listed entries; the page is in memory until it is sent.
const MOST_ENTRIES: usize = 10_000;

/// The first second of the year 10000, which HTTP dates cannot express.
const YEAR_10000: u64 = 253_402_300_800;

struct Entry {
    name: Vec<u8>,
    /// Length of a file; `None` for a directory.
    len: Option<u64>,
    modified: Option<SystemTime>,
}

/// Returns HTML that lists `path`: directories first, then files, each sorted by name. `title` is
/// the path as in the request. Entries that `look` does not find are omitted.
pub(super) fn page(
    root: &Dir,
    path: &Path,
    title: &str,
    look: impl Fn(&Path) -> Option<Metadata>,
) -> io::Result<String> {
    let mut entries = Vec::new();
    let mut complete = true;
    for entry in root.read_dir(path)? {
        if entries.len() >= MOST_ENTRIES {
            complete = false;
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        let Some(metadata) = look(&path.join(&name)) else {
            continue;
        };
        let len = if metadata.is_dir() {
            None
        } else if metadata.is_file() {
            Some(metadata.len())
        } else {
            continue;
        };
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        entries.push(Entry { name: name.as_encoded_bytes().to_vec(), len, modified });
    }
    entries.sort_by(|a, b| (a.len.is_some(), &a.name).cmp(&(b.len.is_some(), &b.name)));
    Ok(render(title, &entries, complete))
}

fn render(title: &str, entries: &[Entry], complete: bool) -> String {
    let name = percent_encoding::percent_decode_str(title).decode_utf8_lossy();
    let heading = escape(&name);
    let mut html = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{heading}</title>\n\
         <style>td {{ padding-right: 2em }} td + td {{ text-align: right }}</style></head>\n\
         <body><h1>{heading}</h1>\n<table>\n"
    );
    if !name.trim_matches('/').is_empty() {
        html.push_str("<tr><td><a href=\"../\">../</a></td></tr>\n");
    }
    for entry in entries {
        let link = percent_encode(&entry.name, SEGMENT);
        let name = escape(&String::from_utf8_lossy(&entry.name));
        let slash = if entry.len.is_none() { "/" } else { "" };
        let len = entry.len.map(|len| len.to_string()).unwrap_or_default();
        let modified = entry.modified.filter(|time| has_date(*time));
        let modified = modified.map(httpdate::fmt_http_date).unwrap_or_default();
        // Writing to a string cannot fail. Without './', the 'a' of a name like 'a:b' would be a
        // scheme.
        let _ = writeln!(
            html,
            "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td>{len}</td><td>{modified}</td></tr>"
        );
    }
    html.push_str("</table>\n");
    if !complete {
        let _ = writeln!(html, "<p>There are more: {} entries are listed.</p>", entries.len());
    }
    html.push_str("</body></html>\n");
    html
}

fn has_date(time: SystemTime) -> bool {
    time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.as_secs() < YEAR_10000)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let entries = [
            Entry { name: b"sub".to_vec(), len: None, modified: None },
            Entry {
                name: b"<b>&\"'?#%".to_vec(),
                len: Some(3),
                modified: Some(SystemTime::UNIX_EPOCH),
            },
        ];
        let html = render("/%3Cscript%3E/", &entries, true);
        assert!(html.contains("<h1>/&lt;script&gt;/</h1>"), "{html}");
        assert!(html.contains("<a href=\"./sub/\">sub/</a>"), "{html}");
        let link = "<a href=\"./%3Cb%3E%26%22%27%3F%23%25\">&lt;b&gt;&amp;&quot;&#39;?#%</a>";
        assert!(html.contains(link), "{html}");
        assert!(
            html.contains("</a></td><td>3</td><td>Thu, 01 Jan 1970 00:00:00 GMT</td>"),
            "{html}"
        );
        assert!(html.contains("<a href=\"../\">") && !html.contains("There are more"));
        assert!(!render("/", &entries, true).contains("\"../\""), "nothing is above the root");
    }

    #[test]
    fn a_long_page_says_that_it_is_not_complete() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..MOST_ENTRIES + 5 {
            std::fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        let root = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        let html = page(&root, Path::new("."), "/", |path| root.metadata(path).ok()).unwrap();
        assert_eq!(html.matches("<tr>").count(), MOST_ENTRIES);
        assert!(html.contains("There are more: 10000 entries are listed"), "{}", html.len());
    }
}
