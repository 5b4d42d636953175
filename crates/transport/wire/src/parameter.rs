//! Type-length-value parameters of control chunks.

pub mod kind;
mod known;
mod show;

use core::fmt;

pub use known::Parameter;

use crate::chunk::UnknownAction;
use crate::error::ParameterError;
use crate::tlv::padded;

/// One parameter in wire format (RFC 9260 section 3.2.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |             type              |   length, without padding     |
/// +---------------+---------------+---------------+---------------+
/// |                       value, padded to 4                      |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawParameter<'a> {
    /// Parameter type, or cause code in an ERROR or ABORT.
    pub kind: u16,
    /// The bytes after the header, without padding.
    pub value: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RawParameter<'a> {
    /// Splits the first parameter off `bytes`, which start at `offset`.
    fn split(bytes: &'a [u8], offset: usize) -> Result<Self, ParameterError> {
        let Some(&[a, b, c, d]) = bytes.first_chunk() else {
            return Err(ParameterError::HeaderCut { offset });
        };
        let (kind, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if length < 4 {
            return Err(ParameterError::LengthTooSmall { offset, kind, length });
        }
        let whole = bytes.get(..usize::from(length));
        match whole.and_then(|whole| Some((whole, whole.get(4..)?))) {
            Some((bytes, value)) => Ok(Self { kind, value, bytes }),
            None => Err(ParameterError::BeyondEnd { offset, kind, length, available: bytes.len() }),
        }
    }

    /// Decodes the parameter.
    ///
    /// # Errors
    ///
    /// [`ParameterError`] if the value is invalid for its type. An unknown type is not an error but
    /// [`Parameter::Unknown`].
    pub fn decode(&self) -> Result<Parameter<'a>, ParameterError> {
        Parameter::decode(*self)
    }

    /// How a receiver that does not know the type handles it: its upper two bits.
    #[must_use]
    pub const fn unknown_action(&self) -> UnknownAction {
        UnknownAction::from_bits((self.kind >> 14) as u8)
    }

    /// Header and value without padding, as an error cause reports them.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Display for RawParameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok(parameter) => parameter.fmt(f),
            Err(error) => write!(f, "malformed ({error})"),
        }
    }
}

/// A sequence of parameters in wire format.
///
/// It does not include the padding after the last parameter, because a chunk's length does not count
/// it (RFC 9260 section 3.2). So a buffer filled with [`Parameter::encode`], which pads each parameter,
/// can be wrapped, sent in a chunk and received again as an equal value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Wraps `bytes`, well formed or not.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..) {
            let Ok(parameter) = RawParameter::split(rest, offset) else {
                break;
            };
            let end = offset + parameter.bytes.len();
            offset += padded(parameter.bytes.len());
            if offset == bytes.len() {
                let bytes = bytes.get(..end).unwrap_or(bytes);
                return Self { bytes };
            }
        }
        Self { bytes }
    }

    /// The parameters in order, up to and including the first error.
    #[must_use]
    pub const fn iter(&self) -> ParameterIter<'a> {
        ParameterIter { bytes: self.bytes, offset: 0 }
    }

    /// The first well-formed parameter of type `kind`.
    #[must_use]
    pub fn find(&self, kind: u16) -> Option<RawParameter<'a>> {
        self.iter().map_while(Result::ok).find(|p| p.kind == kind)
    }

    /// Whether the sequence is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes on the wire, without padding after the last parameter.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = Result<RawParameter<'a>, ParameterError>;
    type IntoIter = ParameterIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, parameter) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            match parameter {
                Ok(parameter) => parameter.fmt(f)?,
                Err(error) => write!(f, "malformed ({error})")?,
            }
        }
        f.write_str("]")
    }
}

/// Iterator over [`Parameters`] or [`Causes`](crate::Causes); ends after the
/// first error.
#[derive(Clone, Debug)]
pub struct ParameterIter<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for ParameterIter<'a> {
    type Item = Result<RawParameter<'a>, ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..)?;
        if rest.is_empty() {
            return None;
        }
        let parameter = RawParameter::split(rest, self.offset);
        // req: rfc9260 3.2.1 "MUST ignore the padding bytes"
        self.offset = match parameter {
            Ok(parameter) => self.offset + padded(parameter.bytes.len()),
            Err(_) => self.bytes.len(),
        };
        Some(parameter)
    }
}

impl core::iter::FusedIterator for ParameterIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::testing::hex;

    #[test]
    fn final_padding_does_not_count() {
        let padded = hex("00070005 aa000000 00070006 bbbb0000");
        let parameters = Parameters::new(&padded);
        assert_eq!(parameters.bytes(), &padded[..14]);
        assert_eq!(parameters, Parameters::new(&padded[..14]));
        let values: Vec<_> = parameters.into_iter().map(|p| p.unwrap().value).collect();
        assert_eq!(values, [&[0xaa][..], &[0xbb, 0xbb]]);
        assert!(!parameters.is_empty() && Parameters::default().is_empty());
    }

    #[test]
    fn ends_after_the_first_error() {
        let bytes = hex("c0000004 00070003 00000000");
        let parameters = Parameters::new(&bytes);
        assert_eq!(parameters.bytes(), bytes);
        let mut iter = parameters.iter();
        let first = iter.next().unwrap().unwrap();
        assert_eq!(first.decode(), Ok(Parameter::ForwardTsnSupported));
        assert_eq!(first.bytes(), &bytes[..4]);
        assert_eq!(
            iter.next(),
            Some(Err(ParameterError::LengthTooSmall { offset: 4, kind: 7, length: 3 }))
        );
        assert_eq!(iter.next(), None);
        assert_eq!(
            parameters.to_string(),
            "[forward tsn supported, \
             malformed (parameter 0x0007 at byte 4 has the impossible length 3)]"
        );
        assert_eq!(
            Parameters::new(&[0, 7, 0]).iter().next(),
            Some(Err(ParameterError::HeaderCut { offset: 0 }))
        );
    }

    #[test]
    fn upper_bits_say_what_to_do() {
        for (text, action) in [
            ("3fff0004", UnknownAction::Stop),
            ("7fff0004", UnknownAction::StopAndReport),
            ("bfff0004", UnknownAction::Skip),
            ("ffff0004", UnknownAction::SkipAndReport),
        ] {
            let bytes = hex(text);
            let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
            assert_eq!(raw.unknown_action(), action);
            assert_eq!(raw.decode(), Ok(Parameter::Unknown(raw)));
        }
    }

    #[test]
    fn broken_values_show_as_such() {
        let bytes = hex("00050005 01");
        let raw = Parameters::new(&bytes).find(5).unwrap();
        assert_eq!(raw.to_string(), "malformed (parameter 0x0005 cannot have 1 bytes of value)");
    }
}
