//! Columns as Arrow, numbers without a copy, and without a library of it: the C data interface and the C stream interface
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>), in a capsule
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).
//!
//! A stream has one batch: a structure with a child for each column. Numbers are doubles that may be missing, counts
//! unsigned integers of 64 bits, texts UTF-8 with offsets of 64 bits, and a text that is the same in all rows is a
//! dictionary of one.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use anabranch_lab::export::{Column, Values};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// ARROW_FLAG_NULLABLE.
const NULLABLE: i64 = 2;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

/// What a column's buffers are.
enum Buffer {
    /// The numbers of a column, where they are.
    Column(Arc<Column>),
    Bytes(Vec<u8>),
    Doubles(Vec<f64>),
    Offsets(Vec<i64>),
    Keys(Vec<i32>),
}

impl Buffer {
    fn start(&self) -> *const c_void {
        match self {
            Self::Column(column) => match &column.values {
                Values::Numbers(numbers) => numbers.as_slice().as_ptr().cast(),
                Values::Counts(values) => values.as_ptr().cast(),
                _ => ptr::null(),
            },
            Self::Bytes(values) => values.as_ptr().cast(),
            Self::Doubles(values) => values.as_ptr().cast(),
            Self::Offsets(values) => values.as_ptr().cast(),
            Self::Keys(values) => values.as_ptr().cast(),
        }
    }
}

/// A column, or the whole table: it has children and no values.
struct Data {
    name: CString,
    format: &'static CStr,
    length: usize,
    missing: usize,
    /// The first one says which values are there; `None` if all are.
    buffers: Vec<Option<Buffer>>,
    children: Vec<Arc<Data>>,
    dictionary: Option<Arc<Data>>,
}

impl Data {
    fn new(name: &str, format: &'static CStr, length: usize, buffers: Vec<Buffer>) -> Self {
        // Names come from files without NUL, and would end there.
        let name = CString::new(name.replace('\0', "")).unwrap_or_default();
        let buffers = std::iter::once(None).chain(buffers.into_iter().map(Some)).collect();
        Self { name, format, length, missing: 0, buffers, children: Vec::new(), dictionary: None }
    }

    fn table(columns: &[Arc<Column>]) -> Self {
        let length = columns.first().map_or(0, |column| column.values.len());
        let children = columns.iter().map(|column| Arc::new(Self::column(column))).collect();
        Self { children, ..Self::new("", c"+s", length, Vec::new()) }
    }

    fn column(column: &Arc<Column>) -> Self {
        let name = &column.name;
        let length = column.values.len();
        let shared = || vec![Buffer::Column(Arc::clone(column))];
        match &column.values {
            Values::Numbers(numbers) => {
                let mut data = Self::new(name, c"g", length, shared());
                data.missing = numbers.missing();
                if let (true, Some(first)) = (data.missing > 0, data.buffers.first_mut()) {
                    *first = Some(Buffer::Bytes(bits(numbers.iter().map(|one| one.is_some()))));
                }
                data
            }
            Values::Spelled(chosen) => {
                let values = chosen.iter().map(|(_, number)| *number).collect();
                Self::new(name, c"g", length, vec![Buffer::Doubles(values)])
            }
            Values::Counts(_) => Self::new(name, c"L", length, shared()),
            Values::Texts(values) => Self::texts(name, length, values.iter()),
            Values::Named(chosen) => Self::texts(name, length, chosen.iter()),
            Values::Same(text, _) => {
                let dictionary = Some(Arc::new(Self::texts("", 1, std::iter::once(text))));
                let keys = vec![Buffer::Keys(vec![0; length])];
                Self { dictionary, ..Self::new(name, c"i", length, keys) }
            }
        }
    }

    fn texts<'a>(name: &str, length: usize, values: impl Iterator<Item = &'a String>) -> Self {
        let mut offsets = Vec::with_capacity(length + 1);
        offsets.push(0_i64);
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend_from_slice(value.as_bytes());
            offsets.push(bytes.len() as i64);
        }
        let buffers = vec![Buffer::Offsets(offsets), Buffer::Bytes(bytes)];
        Self::new(name, c"U", length, buffers)
    }
}

/// One bit for each, the first one in the lowest bit of the first byte.
fn bits(there: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bytes = vec![0_u8; there.len().div_ceil(8)];
    for (index, there) in there.enumerate() {
        if let Some(byte) = bytes.get_mut(index / 8) {
            *byte |= u8::from(there) << (index % 8);
        }
    }
    bytes
}

/// What the pointers of a [`Schema`] point to.
struct SchemaOwner {
    data: Arc<Data>,
    children: Vec<*mut Schema>,
}

fn schema(data: &Arc<Data>) -> Schema {
    let child = |data: &Arc<Data>| Box::into_raw(Box::new(schema(data)));
    let children = data.children.iter().map(child).collect();
    let dictionary = data.dictionary.as_ref().map_or(ptr::null_mut(), child);
    let mut owner = Box::new(SchemaOwner { data: Arc::clone(data), children });
    Schema {
        format: owner.data.format.as_ptr(),
        name: owner.data.name.as_ptr(),
        metadata: ptr::null(),
        flags: NULLABLE,
        n_children: owner.children.len() as i64,
        children: owner.children.as_mut_ptr(),
        dictionary,
        release: Some(release_schema),
        private: Box::into_raw(owner).cast(),
    }
}

/// # Safety
/// `schema` is one that [`schema`](fn@schema) made, and was not released, or null.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the caller gives a pointer that is valid or null.
    let Some(schema) = (unsafe { schema.as_mut() }) else { return };
    if schema.release.take().is_none() {
        return;
    }
    // SAFETY: `private` is the box that `schema` made, and is freed once, because `release` is now empty.
    let owner = unsafe { Box::from_raw(schema.private.cast::<SchemaOwner>()) };
    let dictionary = (!schema.dictionary.is_null()).then_some(schema.dictionary);
    for child in owner.children.iter().copied().chain(dictionary) {
        // SAFETY: each child is a box of its own. One that the consumer moved away has no `release`.
        unsafe {
            release_schema(child);
            drop(Box::from_raw(child));
        }
    }
}

/// What the pointers of an [`Array`] point to.
struct ArrayOwner {
    /// Keeps the buffers.
    _data: Arc<Data>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

fn array(data: &Arc<Data>) -> Array {
    let child = |data: &Arc<Data>| Box::into_raw(Box::new(array(data)));
    let children = data.children.iter().map(child).collect();
    let dictionary = data.dictionary.as_ref().map_or(ptr::null_mut(), child);
    let start = |buffer: &Option<Buffer>| buffer.as_ref().map_or(ptr::null(), Buffer::start);
    let buffers = data.buffers.iter().map(start).collect();
    let mut owner = Box::new(ArrayOwner { _data: Arc::clone(data), buffers, children });
    Array {
        length: data.length as i64,
        null_count: data.missing as i64,
        offset: 0,
        n_buffers: owner.buffers.len() as i64,
        n_children: owner.children.len() as i64,
        buffers: owner.buffers.as_mut_ptr(),
        children: owner.children.as_mut_ptr(),
        dictionary,
        release: Some(release_array),
        private: Box::into_raw(owner).cast(),
    }
}

/// # Safety
/// `array` is one that [`array`](fn@array) made, and was not released, or null.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: the caller gives a pointer that is valid or null.
    let Some(array) = (unsafe { array.as_mut() }) else { return };
    if array.release.take().is_none() {
        return;
    }
    // SAFETY: `private` is the box that `array` made, and is freed once, because `release` is now empty.
    let owner = unsafe { Box::from_raw(array.private.cast::<ArrayOwner>()) };
    let dictionary = (!array.dictionary.is_null()).then_some(array.dictionary);
    for child in owner.children.iter().copied().chain(dictionary) {
        // SAFETY: each child is a box of its own. One that the consumer moved away has no `release`.
        unsafe {
            release_array(child);
            drop(Box::from_raw(child));
        }
    }
}

/// What a [`Stream`] gives.
struct StreamOwner {
    data: Arc<Data>,
    is_taken: bool,
}

/// # Safety
/// `stream` was made by [`capsule`] and not released; `out` points to memory for a schema.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let owner = &*(*stream).private.cast::<StreamOwner>();
        out.write(schema(&owner.data));
    }
    0
}

/// # Safety
/// `stream` was made by [`capsule`] and not released; `out` points to memory for an array.
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as the caller promises, and it uses a stream on one thread at a time. All zeros are an array that was
    // released, which is the end.
    unsafe {
        let owner = &mut *(*stream).private.cast::<StreamOwner>();
        match std::mem::replace(&mut owner.is_taken, true) {
            false => out.write(array(&owner.data)),
            true => out.write_bytes(0, 1),
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    ptr::null()
}

/// # Safety
/// `stream` was made by [`capsule`], or is null.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the caller gives a pointer that is valid or null.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    if stream.release.take().is_some() {
        // SAFETY: `private` is the box that `capsule` made, and is freed once.
        drop(unsafe { Box::from_raw(stream.private.cast::<StreamOwner>()) });
    }
}

/// A stream in a capsule. The consumer may move the stream away, which leaves it without `release`.
#[repr(transparent)]
struct InCapsule(Stream);

// SAFETY: everything that it points to is owned, and immutable but for `is_taken`, which only the consumer changes.
unsafe impl Send for InCapsule {}

impl Drop for InCapsule {
    fn drop(&mut self) {
        // SAFETY: the stream was made by `capsule`.
        unsafe { release_stream(&mut self.0) }
    }
}

/// A table as a capsule with a stream of one batch.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    columns: &[Arc<Column>],
) -> PyResult<Bound<'py, PyCapsule>> {
    let data = py.detach(|| Arc::new(Data::table(columns)));
    let owner = Box::new(StreamOwner { data, is_taken: false });
    let stream = Stream {
        get_schema,
        get_next,
        get_last_error,
        release: Some(release_stream),
        private: Box::into_raw(owner).cast(),
    };
    PyCapsule::new_with_value(py, InCapsule(stream), c"arrow_array_stream")
}
