//! Writes JSON sequentially.

use std::fmt::{Display, Write as _};

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }

    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    /// A value that is valid JSON as is: a number or `true`.
    pub(crate) fn plain(&mut self, key: &str, value: impl Display) {
        self.key(key);
        // Writing to a string does not fail.
        let _ = write!(self.out, "{value}");
    }

    /// The same, if there is a value.
    pub(crate) fn plain_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.plain(key, value);
        }
    }

    /// A time in milliseconds with nanosecond precision.
    pub(crate) fn millis(&mut self, key: &str, nanos: u128) {
        self.plain(key, format_args!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000));
    }

    pub(crate) fn text(&mut self, key: &str, value: impl Display) {
        self.key(key);
        self.out.push('"');
        let _ = write!(Escaped(self.out), "{value}");
        self.out.push('"');
    }

    pub(crate) fn object(&mut self, key: &str, write: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        let mut object = Object::begin(self.out);
        write(&mut object);
        object.end();
    }

    /// A list; `write` writes each item.
    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut String, T),
    ) {
        self.key(key);
        self.out.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            write(self.out, item);
        }
        self.out.push(']');
    }
}

/// Escapes characters that JSON strings must not contain.
struct Escaped<'a>(&'a mut String);

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if c < ' ' => write!(self.0, "\\u{:04x}", u32::from(c))?,
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = String::new();
        let mut object = Object::begin(&mut out);
        object.text("name", "a \"b\" \\ \n\u{1} ä");
        object.millis("time", 1_234_567_890_123);
        object.millis("short", 42);
        object.plain_if("none", None::<u32>);
        object.object("inner", |inner| inner.plain("yes", true));
        object.list("list", [1, 2], |out, item| out.push_str(&format!("[{item}]")));
        object.end();
        let read: serde_json::Value = serde_json::from_str(&out).unwrap();
        let meant = serde_json::json!({
            "name": "a \"b\" \\ \n\u{1} ä", "time": 1_234_567.890_123, "short": 0.000_042,
            "inner": { "yes": true }, "list": [[1], [2]],
        });
        assert_eq!(read, meant);
    }
}
