//! Chunks, parameters and causes.

use super::Reader;
use super::lex::Token;
use crate::failure::{Failure, Place};
use crate::node::{Item, Node, Value};
use crate::schema::{self, Class, Schema};

/// Maximum nesting of nodes.
const MAX_DEPTH: usize = 8;

impl Reader {
    pub(super) fn node(&mut self) -> Result<Node, Failure> {
        self.node_at(0)
    }

    fn node_at(&mut self, depth: usize) -> Result<Node, Failure> {
        let place = self.place();
        let name = self.word("the name of a chunk, parameter or cause")?;
        let Some(schema) = schema::find(&name) else {
            let message = format!("no chunk, parameter or cause is called {name}");
            return Err(Failure::script(&place, message));
        };
        if depth > MAX_DEPTH {
            return Err(Failure::script(&place, "too many brackets"));
        }
        self.sign('[')?;
        let mut node =
            Node { name, place: Some(place), fields: Vec::new(), items: Vec::new(), raw: None };
        let mut first = true;
        while !self.eat(']') {
            if !first {
                self.sign(',')?;
            }
            first = false;
            if self.eat_gap() {
                node.items.push(Item::Gap);
                continue;
            }
            let key_follows = self.peek_behind(1) == Some(&Token::Sign('='));
            if key_follows {
                let (key, value) = self.field(schema, depth)?;
                node.fields.push((key, value));
            } else {
                let place = self.place();
                if !schema.nested {
                    let message = format!("{} has no parameters or causes", schema.name);
                    return Err(Failure::script(&place, message));
                }
                node.items.push(Item::Node(self.node_at(depth + 1)?));
            }
        }
        Ok(node)
    }

    fn field(&mut self, schema: &Schema, depth: usize) -> Result<(String, Value), Failure> {
        let place = self.place();
        let key = self.word("the name of a field")?;
        let is_chunk = matches!(schema.class, Class::Chunk(_) | Class::AnyChunk);
        let known = schema.has_field(&key) || key == "len" || (key == "flgs" && is_chunk);
        if !known {
            let message = format!("{} has no field {key}", schema.name);
            return Err(Failure::script(&place, message));
        }
        self.sign('=')?;
        let value = self.value(schema, &key, &place, depth)?;
        Ok((key, value))
    }

    fn value(
        &mut self,
        schema: &Schema,
        key: &str,
        place: &Place,
        depth: usize,
    ) -> Result<Value, Failure> {
        if self.eat_gap() {
            return Ok(Value::Any);
        }
        match key {
            "val" | "info" => {
                if let Some(value) = self.cookie()? {
                    return Ok(value);
                }
                self.bytes().map(|bytes| bytes.map_or(Value::Any, Value::Bytes))
            }
            "hmac" => self.mac(),
            "addr" => match self.address() {
                Some(address) => Ok(Value::Address(address)),
                None => Ok(Value::Bytes(self.text("an address")?.into_bytes())),
            },
            "params" => Ok(Value::Nodes(self.nodes(depth)?)),
            "param" | "chk" => Ok(Value::Nodes(vec![Item::Node(self.node_at(depth + 1)?)])),
            "gaps" | "nr_gaps" | "dups" | "types" | "ids" | "sids" | "hmac_ids" => self.list(key),
            "flgs" => self.flags(schema, place),
            "type" => self.kind(),
            _ => self.number_or_range(limit(key)),
        }
    }

    /// `valid`, `wrong`, or bytes.
    fn mac(&mut self) -> Result<Value, Failure> {
        if let Some(Token::Word(_)) = self.peek() {
            let place = self.place();
            return match self.word("a MAC")?.as_str() {
                "valid" => Ok(Value::Mac { valid: true }),
                "wrong" => Ok(Value::Mac { valid: false }),
                _ => Err(Failure::script(&place, "a MAC is valid, wrong, '...' or bytes")),
            };
        }
        self.bytes().map(|bytes| bytes.map_or(Value::Any, Value::Bytes))
    }

    fn flags(&mut self, schema: &Schema, place: &Place) -> Result<Value, Failure> {
        if let Some(Token::Word(_)) = self.peek() {
            let letters = self.word("flags")?;
            let flags = schema::flags(schema.name, &letters);
            let message = format!("{} has no such flags: {letters}", schema.name);
            return flags.map(Value::Number).ok_or_else(|| Failure::script(place, message));
        }
        self.number_or_range(255)
    }

    /// A chunk type by number or name, or a parameter type.
    fn kind(&mut self) -> Result<Value, Failure> {
        if let Some(Token::Word(name)) = self.peek() {
            let number = match name.as_str() {
                "IPv4" => Some(5),
                "IPv6" => Some(6),
                "HOSTNAME" => Some(11),
                _ => match schema::find(name).map(|schema| schema.class) {
                    Some(Class::Chunk(kind)) => Some(u64::from(kind)),
                    Some(Class::Parameter(kind)) => Some(u64::from(kind)),
                    _ => schema::chunk_type(name).map(u64::from),
                },
            };
            let number = number.ok_or_else(|| self.unexpected("a type"))?;
            self.at += 1;
            return Ok(Value::Number(number));
        }
        self.number_or_range(65_535)
    }

    fn number_or_range(&mut self, limit: u64) -> Result<Value, Failure> {
        let low = self.number("a number or '...'", limit)?;
        if self.eat('~') {
            return Ok(Value::Range(low, self.number("a number", limit)?));
        }
        Ok(Value::Number(low))
    }

    fn list(&mut self, key: &str) -> Result<Value, Failure> {
        self.sign('[')?;
        let mut list = Vec::new();
        loop {
            if self.eat(']') {
                return Ok(Value::List(list));
            }
            if list.is_empty() && self.eat_gap() {
                self.sign(']')?;
                return Ok(Value::Any);
            }
            if !list.is_empty() {
                self.sign(',')?;
            }
            list.push(match key {
                "gaps" | "nr_gaps" => {
                    let start = self.number("the start of a gap block", 65_535)?;
                    self.sign(':')?;
                    Value::Pair(start, self.number("the end of a gap block", 65_535)?)
                }
                "ids" => {
                    self.sign('{')?;
                    let stream = self.number("a stream", 65_535)?;
                    self.sign(',')?;
                    let second = self.number("a stream sequence number", 65_535)?;
                    let third = self.eat(',');
                    let mid = match third {
                        true => self.number("a message identifier", u64::from(u32::MAX))?,
                        false => 0,
                    };
                    self.sign('}')?;
                    match third {
                        true => Value::Skipped(stream, second, mid),
                        false => Value::Stream(stream, second),
                    }
                }
                "dups" => Value::Number(self.number("a TSN", u64::from(u32::MAX))?),
                "hmac_ids" => Value::Number(self.number("an algorithm", 65_535)?),
                _ => self.kind()?,
            });
        }
    }

    fn nodes(&mut self, depth: usize) -> Result<Vec<Item>, Failure> {
        self.sign('[')?;
        let mut nodes = Vec::new();
        while !self.eat(']') {
            if !nodes.is_empty() {
                self.sign(',')?;
            }
            let gap = self.eat_gap();
            nodes.push(if gap { Item::Gap } else { Item::Node(self.node_at(depth + 1)?) });
        }
        Ok(nodes)
    }

    /// `"text"` or `[0x01, 2]`; `None` for `[...]`.
    pub(super) fn bytes(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(Token::Text(_)) = self.peek() {
            return Ok(Some(self.text("bytes")?.into_bytes()));
        }
        self.sign('[')?;
        let mut bytes = Vec::new();
        loop {
            if self.eat(']') {
                return Ok(Some(bytes));
            }
            if bytes.is_empty() && self.eat_gap() {
                self.sign(']')?;
                return Ok(None);
            }
            if !bytes.is_empty() {
                self.sign(',')?;
            }
            bytes.push(self.number("a byte", 255)? as u8);
        }
    }

    /// `cookie(2)`, `cookie(2, flip=10)`, `cookie(2, cut=10)`.
    fn cookie(&mut self) -> Result<Option<Value>, Failure> {
        if self.peek() != Some(&Token::Word("cookie".to_owned())) {
            return Ok(None);
        }
        self.at += 1;
        self.sign('(')?;
        let tag = self.number("a tag", u64::from(u32::MAX))?;
        let (mut flip, mut cut) = (None, None);
        while self.eat(',') {
            let what = self.word("'flip' or 'cut'")?;
            self.sign('=')?;
            let number = Some(self.number("a position", 65_535)? as usize);
            match what.as_str() {
                "flip" => flip = number,
                "cut" => cut = number,
                _ => return Err(self.unexpected("'flip' or 'cut' before this")),
            }
        }
        self.sign(')')?;
        Ok(Some(Value::Cookie { tag, flip, cut }))
    }
}

/// The largest value of a field.
fn limit(key: &str) -> u64 {
    match key {
        "len"
        | "os"
        | "is"
        | "sid"
        | "ssn"
        | "code"
        | "current"
        | "shkey_id"
        | "hmac_id"
        | "new"
        | "number_of_new_streams" => u64::from(u16::MAX),
        _ => u64::from(u32::MAX),
    }
}
