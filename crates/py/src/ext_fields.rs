//! Ext fields of a header, kept as text until they are accessed.
//!
//! Handlers read most headers through a `HeaderReader`, which takes typed values directly from here; a dict is created
//! only for code that accesses it. Responses that are sent once per message are made of these, too.
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Names and values back to back in one string: `(end of the name, end of the value)` of each pair, in the order
/// received.
#[derive(Clone)]
pub struct ExtTexts {
    text: String,
    ends: Vec<(u32, u32)>,
}

impl ExtTexts {
    pub fn new<N: AsRef<str>, V: AsRef<str>>(pairs: &[(N, V)]) -> ExtTexts {
        let len = pairs.iter().map(|(name, value)| name.as_ref().len() + value.as_ref().len()).sum();
        let mut text = String::with_capacity(len);
        let mut ends = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            text.push_str(name.as_ref());
            let name_end = text.len() as u32;
            text.push_str(value.as_ref());
            ends.push((name_end, text.len() as u32));
        }
        ExtTexts { text, ends }
    }

    /// Returns the number of bytes of the pairs.
    pub fn size(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<(u32, u32)>()
    }

    /// Returns the pairs in the order received.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|index| self.pair(index))
    }

    fn pair(&self, index: usize) -> (&str, &str) {
        let begin = if index == 0 { 0 } else { self.ends[index - 1].1 as usize };
        let (name_end, value_end) = self.ends[index];
        (&self.text[begin..name_end as usize], &self.text[name_end as usize..value_end as usize])
    }

    /// Returns the value of a name; of equal names the last one counts, as in a map.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().rev().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.iter() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }
}
