//! How many bytes things need. All estimates are in this one place.

use crate::mcp::arguments;

/// One connection: its buffers, its task, its request line and headers.
const CONNECTION: u64 = 16 << 10;
/// What TLS adds to a connection.
const TLS: u64 = 16 << 10;
/// One open stream of notifications, its connection not counted.
pub(crate) const STREAM: u64 = 8 << 10;
/// The part of a budget that connections may have: one in eight.
const CONNECTIONS: u64 = 8;
/// What reading and validating arguments takes, as a multiple of them.
const ARGUMENTS: u64 = 32;
/// What a filter that runs in passing holds in addition to its input, as a multiple of it.
const LIGHT: u64 = 10;
/// Inputs above this many bytes are not filtered in passing.
const LIGHT_BYTES: u64 = 128 << 10;

/// Bytes to validate arguments of that length; longer ones than may be are not read.
pub(crate) fn arguments_need(len: usize) -> u64 {
    ARGUMENTS * (len.min(arguments::LIMITS.bytes) as u64)
}

/// Bytes to filter an output of that length in passing, the output itself not counted. What other filters need, the engine
/// says.
pub(crate) fn light_need(len: usize) -> u64 {
    LIGHT * (len as u64).min(LIGHT_BYTES)
}

/// How many connections a budget allows, and the bytes that are set aside for them.
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
