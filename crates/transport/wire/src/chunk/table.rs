//! The macro for the table of chunks.

/// Generates [`Chunk`](super::Chunk) and the constants of [`kind`](super::kind) from rows:
///
/// ```text
/// /// What the chunk does.
/// Variant(Type<'a>) [flags] = CONSTANT 0x00, "NAME", "source";
/// ```
///
/// `Type` has `parse(&RawChunk) -> Result<Self, ChunkError>`, `encode_value(&self, &mut Vec<u8>)` and
/// `Display`. With `[flags]` it also has `flags(&self) -> u8`; the flags of other chunks are 0. Chunks
/// that consist only of a header are listed under `headers`, without a type.
macro_rules! chunks {
    (
        values { $($(#[$doc:meta])* $variant:ident($value:ty) $([$flags:ident])?
            = $constant:ident $kind:literal, $name:literal, $source:literal;)* }
        headers { $($(#[$bare_doc:meta])* $bare:ident
            = $bare_constant:ident $bare_kind:literal, $bare_name:literal, $bare_source:literal;)* }
    ) => {
        /// A decoded chunk.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Chunk<'a> {
            $($(#[$doc])* $variant($value),)*
            $($(#[$bare_doc])* $bare,)*
            /// An unknown type.
            Unknown(RawChunk<'a>),
        }

        impl<'a> Chunk<'a> {
            fn decode(raw: RawChunk<'a>) -> Result<Self, ChunkError> {
                Ok(match raw.kind {
                    $(kind::$constant => Self::$variant(<$value>::parse(&raw)?),)*
                    $(kind::$bare_constant => Self::$bare,)*
                    _ => Self::Unknown(raw),
                })
            }

            /// The chunk's type.
            #[must_use]
            pub const fn kind(&self) -> u8 {
                match self {
                    $(Self::$variant(_) => kind::$constant,)*
                    $(Self::$bare => kind::$bare_constant,)*
                    Self::Unknown(raw) => raw.kind,
                }
            }

            const fn flags(&self) -> u8 {
                match self {
                    $(Self::$variant(_chunk) => 0 $(| _chunk.$flags())?,)*
                    $(Self::$bare => 0,)*
                    Self::Unknown(raw) => raw.flags,
                }
            }

            fn encode_value(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant(chunk) => chunk.encode_value(out),)*
                    $(Self::$bare => {})*
                    Self::Unknown(raw) => out.extend_from_slice(raw.value),
                }
            }

            /// Writes a space and the value as text, or nothing if the chunk has no value.
            fn fmt_value(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(chunk) => write!(f, " {chunk}"),)*
                    $(Self::$bare => Ok(()),)*
                    Self::Unknown(raw) => write!(f, " {} bytes", raw.raw_len()),
                }
            }
        }

        /// The constants and names of [`kind`].
        mod kinds {
            $(#[doc = concat!($name, " (", $source, ").")] pub const $constant: u8 = $kind;)*
            $(#[doc = concat!($bare_name, " (", $bare_source, ").")]
            pub const $bare_constant: u8 = $bare_kind;)*

            /// All known chunk types, in no particular order.
            pub const ALL: &[u8] = &[$($kind,)* $($bare_kind,)*];

            /// The name of a known chunk type, as in its specification.
            #[must_use]
            pub const fn name(kind: u8) -> Option<&'static str> {
                match kind {
                    $($kind => Some($name),)*
                    $($bare_kind => Some($bare_name),)*
                    _ => None,
                }
            }
        }
    };
}

pub(super) use chunks;
