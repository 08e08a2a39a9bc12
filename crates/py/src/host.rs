//! Hosts as `(ip, port)` with the address as text, the form in which `asyncio` returns a peer's name.
use std::net::IpAddr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use wire::Host;

/// Host argument: the first two items of a tuple, so that the four-item names of IPv6 sockets are accepted, too.
pub struct HostArgument(pub Host);

impl<'py> FromPyObject<'_, 'py> for HostArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = object.get_item(0)?;
        let text = text.cast::<PyString>()?.to_str()?;
        let port: i32 = object.get_item(1)?.extract()?;
        let ip: IpAddr =
            text.parse().map_err(|_| PyValueError::new_err(format!("{text:?} is not an IPv4 or IPv6 address")))?;
        Ok(HostArgument(Host::new(ip, port)))
    }
}

impl HostArgument {
    /// Returns the given host, or `0.0.0.0:0` for `None`.
    pub fn or_unspecified(argument: Option<HostArgument>) -> Host {
        argument.map_or(Host::UNSPECIFIED, |HostArgument(host)| host)
    }
}

/// Converts a host to a Python tuple.
pub fn host_tuple(host: Host) -> (String, i32) {
    (host.ip.to_string(), host.port)
}
