//! Growing buffers of one column, in Arrow's layout from the first byte on.
//!
//! ```text
//! text, bytes    offsets  0 | end of 1st | end of 2nd …      bytes  1st 2nd …
//! list of text   offsets  0 | elements up to 1st row …       texts of all elements
//! ```

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, MapArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use crate::column::{entries_field, key_field, property_fields};
use crate::recycling::Spares;

/// Texts or byte strings, one after the other.
#[derive(Debug)]
pub(crate) struct Texts {
    offsets: Vec<i32>,
    pub(crate) bytes: Vec<u8>,
    spares: Spares,
}

impl Texts {
    pub(crate) fn new() -> Texts {
        Texts { offsets: vec![0], bytes: Vec::new(), spares: Spares::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.end();
    }

    /// Adds one text several times.
    fn push_times(&mut self, text: &[u8], times: usize) {
        let (start, len) = (self.bytes.len(), text.len());
        self.offsets.extend((1..=times).map(|end| (start + end * len) as i32));
        self.bytes.reserve(times * len);
        let mut there = times.min(1);
        self.bytes.extend_from_slice(&text[..there * len]);
        while there < times {
            let more = there.min(times - there);
            self.bytes.extend_from_within(start..start + more * len);
            there += more;
        }
    }

    /// Ends the current element: it consists of the bytes added to `bytes` since the last element.
    #[inline]
    pub(crate) fn end(&mut self) {
        // The builder's bounds are far below the largest offset.
        self.offsets.push(self.bytes.len() as i32);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    #[inline]
    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.bytes.truncate(self.offsets[len] as usize);
    }

    /// Returns the buffers and replaces them by new ones of the same capacity, because the next batch will be similar.
    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        let offsets = std::mem::replace(&mut self.offsets, offsets);
        let room = self.spares.take(self.bytes.len());
        let bytes = std::mem::replace(&mut self.bytes, room);
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), self.spares.lend(bytes))
    }

    pub(crate) fn finish_binary(&mut self) -> ArrayRef {
        let (offsets, bytes) = self.take();
        Arc::new(BinaryArray::new(offsets, bytes, None))
    }

    /// Returns the text array. All bytes were valid UTF-8 when they were pushed; Arrow checks them again, which costs
    /// little compared to copying them.
    pub(crate) fn finish_text(&mut self, nulls: Option<NullBuffer>) -> StringArray {
        let (offsets, bytes) = self.take();
        StringArray::new(offsets, bytes, nulls)
    }
}

/// Texts that may be null.
#[derive(Debug)]
pub(crate) struct OptionalTexts {
    texts: Texts,
    nulls: NullBufferBuilder,
}

impl OptionalTexts {
    pub(crate) fn new() -> OptionalTexts {
        OptionalTexts { texts: Texts::new(), nulls: NullBufferBuilder::new(0) }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: Option<&str>) {
        self.texts.push(text.unwrap_or_default().as_bytes());
        self.nulls.append(text.is_some());
    }

    fn push_times(&mut self, text: Option<&str>, times: usize) {
        self.texts.push_times(text.unwrap_or_default().as_bytes(), times);
        match text {
            Some(_) => self.nulls.append_n_non_nulls(times),
            None => self.nulls.append_n_nulls(times),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        let nulls = self.nulls.finish();
        Arc::new(self.texts.finish_text(nulls))
    }
}

/// Texts that mostly repeat the previous one, or are null: repetitions are counted, and the text is written when a
/// different one follows.
#[derive(Debug)]
pub(crate) struct TextRuns {
    written: OptionalTexts,
    current: Option<String>,
    times: usize,
}

impl TextRuns {
    pub(crate) fn new() -> TextRuns {
        TextRuns { written: OptionalTexts::new(), current: None, times: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: Option<&str>) {
        if self.current.as_deref() != text {
            self.write();
            self.current = text.map(str::to_owned);
        }
        self.times += 1;
    }

    /// Adds the last text again.
    #[inline]
    pub(crate) fn push_again(&mut self) {
        self.times += 1;
    }

    fn write(&mut self) {
        self.written.push_times(self.current.as_deref(), std::mem::take(&mut self.times));
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.write();
        self.written.finish()
    }
}

/// List of texts per row.
#[derive(Debug)]
pub(crate) struct TextLists {
    offsets: Vec<i32>,
    texts: Texts,
}

impl TextLists {
    pub(crate) fn new() -> TextLists {
        TextLists { offsets: vec![0], texts: Texts::new() }
    }

    #[inline]
    pub(crate) fn push<'a>(&mut self, list: impl Iterator<Item = &'a str>) {
        for text in list {
            self.texts.push(text.as_bytes());
        }
        self.offsets.push(self.texts.len() as i32);
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.offsets, vec![0])));
        Arc::new(ListArray::new(key_field(), offsets, Arc::new(self.texts.finish_text(None)), None))
    }
}

/// Map of texts per row.
#[derive(Debug)]
pub(crate) struct TextMaps {
    offsets: Vec<i32>,
    names: Texts,
    values: Texts,
}

impl TextMaps {
    /// Number of entries from which a table is used to find a name that occurs twice.
    const MANY: usize = 24;

    pub(crate) fn new() -> TextMaps {
        TextMaps { offsets: vec![0], names: Texts::new(), values: Texts::new() }
    }

    /// Adds a row, and calls `tell` with each entry. When a name occurs twice the later entry wins, as for every reader
    /// of properties.
    #[inline]
    pub(crate) fn push<'a>(&mut self, properties: &'a str, mut tell: impl FnMut(&'a str, &'a str)) {
        let first = self.names.len();
        let mut plain = true;
        for (name, value) in wire::properties::iter(properties) {
            tell(name, value);
            if !plain {
                continue;
            }
            let count = self.names.len() - first;
            if count >= Self::MANY || (first..first + count).any(|at| self.names.get(at) == name.as_bytes()) {
                self.push_with_table(first, properties);
                plain = false;
                continue;
            }
            self.names.push(name.as_bytes());
            self.values.push(value.as_bytes());
        }
        self.offsets.push(self.names.len() as i32);
    }

    /// Writes the row that begins at `first` again: each name at its first position, with its last value.
    #[cold]
    fn push_with_table(&mut self, first: usize, properties: &str) {
        self.names.truncate(first);
        self.values.truncate(first);
        let last: std::collections::HashMap<_, _> = wire::properties::iter(properties).collect();
        let mut written = std::collections::HashSet::with_capacity(last.len());
        for (name, _) in wire::properties::iter(properties) {
            if written.insert(name) {
                self.names.push(name.as_bytes());
                self.values.push(last[name].as_bytes());
            }
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.offsets, vec![0])));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.names.finish_text(None)), Arc::new(self.values.finish_text(None))];
        let entries = StructArray::new(property_fields(), columns, None);
        Arc::new(MapArray::new(entries_field(), offsets, entries, None, false))
    }
}
