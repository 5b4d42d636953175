//! The page that lists a directory.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use cap_std::fs::Dir;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// What stands in a link's path segment without encoding.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Entries of a directory that are listed; a page takes memory until it is sent.
const MOST_ENTRIES: usize = 10_000;

struct Entry {
    name: Vec<u8>,
    /// Length of a file; `None` of a directory.
    len: Option<u64>,
}

/// HTML that lists `path`: directories first, each part sorted by name. `title` is the path as
/// the request has it.
pub(super) fn page(root: &Dir, path: &Path, title: &str) -> io::Result<String> {
    let mut entries = Vec::new();
    let mut complete = true;
    for entry in root.read_dir(path)? {
        if entries.len() >= MOST_ENTRIES {
            complete = false;
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        // Follows links within the directory; what leads out or to nowhere is not listed.
        let Ok(metadata) = root.metadata(path.join(&name)) else {
            continue;
        };
        let len = if metadata.is_dir() {
            None
        } else if metadata.is_file() {
            Some(metadata.len())
        } else {
            continue;
        };
        entries.push(Entry { name: name.as_encoded_bytes().to_vec(), len });
    }
    entries.sort_by(|a, b| (a.len.is_some(), &a.name).cmp(&(b.len.is_some(), &b.name)));
    Ok(render(title, &entries, complete))
}

fn render(title: &str, entries: &[Entry], complete: bool) -> String {
    let title = escape(&percent_encoding::percent_decode_str(title).decode_utf8_lossy());
    let mut html = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<ul>\n"
    );
    for entry in entries {
        let link = percent_encode(&entry.name, SEGMENT);
        let name = escape(&String::from_utf8_lossy(&entry.name));
        // Writing to a string cannot fail. The './' keeps 'a:b' from being a scheme.
        let _ = match entry.len {
            Some(len) => {
                writeln!(html, "<li><a href=\"./{link}\">{name}</a> {len} bytes</li>")
            }
            None => writeln!(html, "<li><a href=\"./{link}/\">{name}/</a></li>"),
        };
    }
    html.push_str("</ul>\n");
    if !complete {
        let _ = writeln!(html, "<p>There are more: {} entries are listed.</p>", entries.len());
    }
    html.push_str("</body></html>\n");
    html
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
            Entry { name: b"sub".to_vec(), len: None },
            Entry { name: b"<b>&\"'?#%".to_vec(), len: Some(3) },
        ];
        let html = render("/%3Cscript%3E/", &entries, true);
        assert!(html.contains("<h1>/&lt;script&gt;/</h1>"), "{html}");
        assert!(html.contains("<a href=\"./sub/\">sub/</a>"), "{html}");
        let link = "<a href=\"./%3Cb%3E%26%22%27%3F%23%25\">&lt;b&gt;&amp;&quot;&#39;?#%</a>";
        assert!(html.contains(link), "{html}");
        assert!(!html.contains("There are more"));
    }

    #[test]
    fn a_long_page_says_that_it_is_not_complete() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..MOST_ENTRIES + 5 {
            std::fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        let root = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        let html = page(&root, Path::new("."), "/").unwrap();
        assert_eq!(html.matches("<li>").count(), MOST_ENTRIES);
        assert!(html.contains("There are more: 10000 entries are listed"), "{}", html.len());
    }
}
