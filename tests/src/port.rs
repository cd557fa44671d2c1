//! Ports that stay reserved while the process that listens on them is restarted.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Below the range of ephemeral ports, so that no outgoing connection takes a reserved port.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port of loopback that no other test takes before this is dropped. Tests run as processes of their own: what keeps
/// them apart is a locked file.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a free port.
    ///
    /// # Errors
    /// None is free, or the folder of temporary files cannot be written.
    pub fn reserve() -> Result<Self> {
        let folder = std::env::temp_dir().join("tamis-test-ports");
        fs::create_dir_all(&folder)?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
        // Where to begin: tests that start at the same moment should not all try the same ports.
        let from = process::id().wrapping_mul(7919).wrapping_add(nanos / 1000);
        (0..u32::from(COUNT))
            .filter_map(|step| u16::try_from(from.wrapping_add(step) % u32::from(COUNT)).ok())
            .find_map(|offset| {
                let number = FIRST + offset;
                let lock = File::create(folder.join(number.to_string())).ok()?;
                lock.try_lock().ok()?;
                TcpListener::bind(("127.0.0.1", number)).ok()?;
                Some(Self { number, _lock: lock })
            })
            .with_context(|| format!("no free port, or {} cannot be written", folder.display()))
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::Port;

    #[test]
    fn a_port_is_reserved_once() {
        let mut numbers: Vec<u16> = Vec::new();
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().expect("is free")).collect();
        numbers.extend(ports.iter().map(Port::number));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ports.len());
    }
}
