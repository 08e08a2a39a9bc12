//! `Filter`: an SQL92 selector, compiled once and evaluated for many messages.
use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use wire::filter::Verdict;

use crate::errors::filter_error;

/// SQL92 selector over the properties of messages.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct Filter(pub Arc<wire::filter::Filter>);

#[pymethods]
impl Filter {
    /// Maximum length of an expression, in bytes of UTF-8.
    #[classattr]
    const MAX_TEXT_BYTES: usize = wire::filter::MAX_TEXT;

    #[new]
    #[pyo3(signature = (expression, /))]
    fn new(py: Python<'_>, expression: &str) -> PyResult<Filter> {
        let compiled = wire::filter::Filter::compile(expression);
        compiled.map(|filter| Filter(Arc::new(filter))).map_err(|error| filter_error(py, &error))
    }

    /// Creates a filter for retried messages: each is matched by the filter of its original topic.
    #[staticmethod]
    #[pyo3(signature = (by_topic, /))]
    fn of_retries(py: Python<'_>, by_topic: HashMap<String, Py<Filter>>) -> Filter {
        let by_topic = by_topic.into_iter().map(|(topic, filter)| (topic, filter.bind(py).get().0.clone()));
        Filter(Arc::new(wire::filter::Filter::of_retries(by_topic.collect())))
    }

    /// True if the filter matches a message with this properties string.
    #[pyo3(signature = (properties, /))]
    fn matches(&self, properties: &str) -> bool {
        self.0.matches(properties)
    }

    /// Returns the result of the selector for a properties string: `TRUE`, `FALSE`, `UNKNOWN` or `ERROR`.
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
