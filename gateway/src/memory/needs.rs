//! Estimates of the bytes that work and connections need.

use crate::mcp::arguments;

/// One connection: its buffers, its task, its request line and headers.
const CONNECTION: u64 = 16 << 10;
/// Additional bytes of a connection with TLS.
const TLS: u64 = 16 << 10;
/// One open stream of notifications, its connection not counted.
pub(crate) const STREAM: u64 = 8 << 10;
/// Connections may have one eighth of a budget.
const CONNECTIONS: u64 = 8;
/// Memory to parse and validate arguments, as a multiple of their size.
const ARGUMENTS: u64 = 32;
/// Memory of a filter that runs inline, in addition to its input, as a multiple of the input's size.
const LIGHT: u64 = 10;
/// Inputs above this many bytes are not filtered inline.
const LIGHT_BYTES: u64 = 128 << 10;

/// Returns the bytes to validate arguments of length `len`. Arguments over the limit are not parsed.
pub(crate) fn arguments_need(len: usize) -> u64 {
    ARGUMENTS * (len.min(arguments::LIMITS.bytes) as u64)
}

/// Returns the bytes to filter an output of length `len` inline, without the output itself. The engine estimates other
/// filters.
pub(crate) fn light_need(len: usize) -> u64 {
    LIGHT * (len as u64).min(LIGHT_BYTES)
}

/// Returns how many connections a budget allows, and the bytes reserved for them.
pub(crate) fn connection_part(budget: u64, wanted: usize, tls: bool) -> (usize, u64) {
    let each = CONNECTION + if tls { TLS } else { 0 };
    let most = budget / CONNECTIONS / each;
    let connections = wanted.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1);
    (connections, connections as u64 * each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_an_eighth_at_most() {
        let pod = (512 << 20) / 100 * 60;
        for (budget, wanted, connections) in
            [(pod, 10_000, 2_457), (pod, 100, 100), (2 << 30, 10_000, 10_000), (0, 10, 1)]
        {
            let bytes = connections as u64 * CONNECTION;
            assert_eq!(connection_part(budget, wanted, false), (connections, bytes), "{budget}");
        }
        assert_eq!(connection_part(pod, 10_000, true), (1_228, 1_228 * (CONNECTION + TLS)));
    }
}
