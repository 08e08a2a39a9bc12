//! Access to the golden files and the fields of their entries. A missing file or field is a failed test.

use std::path::Path;

use wire::Host;
use wire::json::{self, Value};

/// One entry of a golden file.
pub struct Entry(Value<'static>);

/// The entries of a golden file.
pub fn entries(file: &str) -> Vec<Entry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/golden/bytes").join(file);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Leaked so that entries borrow from it for as long as the tests run.
    let Ok(Value::List(items)) = json::parse(text.leak()) else { panic!("{} is not a list", path.display()) };
    items.into_iter().map(Entry).collect()
}

/// The bytes of hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

impl Entry {
    pub fn of(value: &Value<'static>) -> Entry {
        Entry(value.clone())
    }

    pub fn value(&self, field: &str) -> &Value<'static> {
        self.0.get(field).unwrap_or_else(|| panic!("no {field} in {:?}", self.0))
    }

    pub fn text(&self, field: &str) -> &str {
        self.value(field).as_str().unwrap_or_else(|| panic!("{field} is not text in {:?}", self.0))
    }

    pub fn optional_text(&self, field: &str) -> Option<&str> {
        self.value(field).as_str()
    }

    pub fn list(&self, field: &str) -> &[Value<'static>] {
        let Value::List(items) = self.value(field) else { panic!("{field} is not a list in {:?}", self.0) };
        items
    }

    pub fn long(&self, field: &str) -> i64 {
        let Value::Int(number) = *self.value(field) else { panic!("{field} is not a number in {:?}", self.0) };
        number
    }

    pub fn int(&self, field: &str) -> i32 {
        self.long(field).try_into().unwrap()
    }

    pub fn bytes(&self, field: &str) -> Vec<u8> {
        unhex(self.text(field))
    }

    pub fn host(&self, ip: &str, port: &str) -> Host {
        Host::new(self.text(ip).parse().unwrap(), self.int(port))
    }

    pub fn is_deterministic(&self) -> bool {
        *self.value("deterministic") == Value::Bool(true)
    }
}
