//! Report about bodies that were kept although they cannot be read: their number, and descriptions of the first ones.

use crate::error::ColumnsError;

/// Report about damaged records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// Number of damaged records.
    pub count: usize,
    /// Descriptions of the first ones. Their number is limited because a topic may be full of them, and people read
    /// this.
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
