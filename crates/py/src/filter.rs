//! `Filter`: an SQL92 selector, compiled once and asked about many messages.
use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use wire::filter::Verdict;

use crate::errors::filter_error;

/// An SQL92 selector over the properties of messages.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct Filter(pub Arc<wire::filter::Filter>);

#[pymethods]
impl Filter {
    /// The longest expression, in bytes of UTF-8.
    #[classattr]
    const MAX_TEXT_BYTES: usize = wire::filter::MAX_TEXT;

    #[new]
    #[pyo3(signature = (expression, /))]
    fn new(py: Python<'_>, expression: &str) -> PyResult<Filter> {
        let compiled = wire::filter::Filter::compile(expression);
        compiled.map(|filter| Filter(Arc::new(filter))).map_err(|error| filter_error(py, &error))
    }

    /// A filter for messages that come back for another try: each is asked of the topic it came from.
    #[staticmethod]
    #[pyo3(signature = (by_topic, /))]
    fn of_retries(py: Python<'_>, by_topic: HashMap<String, Py<Filter>>) -> Filter {
        let by_topic = by_topic.into_iter().map(|(topic, filter)| (topic, filter.bind(py).get().0.clone()));
        Filter(Arc::new(wire::filter::Filter::of_retries(by_topic.collect())))
    }

    /// Whether a message with this properties string is wanted.
    #[pyo3(signature = (properties, /))]
    fn matches(&self, properties: &str) -> bool {
        self.0.matches(properties)
    }

    /// What the selector says of a properties string: yes, no, not known, or that it makes no sense.
    #[pyo3(signature = (properties, /))]
    fn verdict(&self, properties: &str) -> &'static str {
        match self.0.verdict(properties) {
            Verdict::True => "TRUE",
            Verdict::False => "FALSE",
            Verdict::Unknown => "UNKNOWN",
            Verdict::Error => "ERROR",
        }
    }
}
