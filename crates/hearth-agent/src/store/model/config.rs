//! The settings of a model, and their form on a command line.

use std::fmt;
use std::str::FromStr;

use hearth_shm::SERVERS_MAX;

/// Modelled I/O servers. The default is the one server of the testbed that the cooperative caches
/// for PVFS were measured on, fitted to the published times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// Number of servers.
    pub servers: usize,
    /// Service time of one request in microseconds, without its bytes.
    pub service_us: u64,
    /// Bandwidth of each server in 10^6 bytes per second.
    pub bandwidth_mb: u64,
    /// Stripe in KiB.
    pub stripe_kb: u64,
}

/// Why a model is not a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Not `key=value`.
    #[error("model option `{0}` is not `key=value`")]
    NoValue(String),
    /// No such key.
    #[error("unknown model option `{0}`: expected servers, service_us, bandwidth_mb or stripe_kb")]
    UnknownOption(String),
    /// The value is not a number, or makes no sense.
    #[error("model option `{key}={value}` is not a number from {min} to {max}")]
    OutOfRange {
        /// Which option.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// Least value allowed.
        min: u64,
        /// Greatest value allowed.
        max: u64,
    },
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            servers: 1,
            service_us: 580,
            bandwidth_mb: 110,
            stripe_kb: 64,
        }
    }
}

impl ModelConfig {
    pub(super) fn stripe_bytes(&self) -> u64 {
        self.stripe_kb * 1024
    }

    /// Time that a request for `bytes` occupies a server.
    pub(super) fn service_ns(&self, bytes: u64) -> u64 {
        // 1 MB/s is one byte per microsecond.
        let transfer_ns = bytes.saturating_mul(1000) / self.bandwidth_mb;
        (self.service_us * 1000).saturating_add(transfer_ns)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ModelError> {
        match key {
            "servers" => self.servers = number("servers", value, 1, SERVERS_MAX as u64)? as usize,
            "service_us" => self.service_us = number("service_us", value, 0, 10_000_000)?,
            "bandwidth_mb" => self.bandwidth_mb = number("bandwidth_mb", value, 1, 1_000_000)?,
            "stripe_kb" => self.stripe_kb = number("stripe_kb", value, 4, 1 << 20)?,
            _ => return Err(ModelError::UnknownOption(key.to_owned())),
        }
        Ok(())
    }
}

/// Reads `servers=4,service_us=580`; what is not named keeps its default.
impl FromStr for ModelConfig {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut config = Self::default();
        for option in text
            .split(',')
            .map(str::trim)
            .filter(|option| !option.is_empty())
        {
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| ModelError::NoValue(option.to_owned()))?;
            config.set(key.trim(), value.trim())?;
        }
        Ok(config)
    }
}

impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            servers,
            service_us,
            bandwidth_mb,
            stripe_kb,
        } = self;
        write!(
            f,
            "servers={servers},service_us={service_us},bandwidth_mb={bandwidth_mb},stripe_kb={stripe_kb}"
        )
    }
}

fn number(key: &'static str, value: &str, min: u64, max: u64) -> Result<u64, ModelError> {
    let parsed = value
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number));
    parsed.ok_or_else(|| ModelError::OutOfRange {
        key,
        value: value.to_owned(),
        min,
        max,
    })
}
