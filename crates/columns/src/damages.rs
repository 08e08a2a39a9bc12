//! Bodies that were kept although they cannot be read: how many, and the first of them by name.

use crate::error::ColumnsError;

/// What was noted about damaged records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// How many there were.
    pub count: usize,
    /// What is wrong with the first ones. A topic may be full of them, and somebody has to read this.
    pub texts: Vec<String>,
}

impl Damages {
    const MOST_TEXTS: usize = 8;

    pub(crate) fn note(&mut self, error: &ColumnsError) {
        self.count += 1;
        if self.texts.len() < Self::MOST_TEXTS {
            self.texts.push(error.to_string());
        }
    }
}
