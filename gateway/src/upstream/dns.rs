//! Looks up the names of a cluster's Services.
//!
//! The system's resolver follows aliases silently. A Service of type `ExternalName` is an alias: a name of one
//! namespace that may lead anywhere. Therefore this module reads the answer for a Service's name itself, and an alias
//! has no addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Time limit for one question to a nameserver.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum questions to each nameserver.
const ATTEMPTS: usize = 2;
/// Maximum bytes of an answer over UDP, announced with EDNS (RFC 6891).
const UDP_BYTES: u16 = 1_232;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const DNAME: u16 = 39;

/// The answer of a nameserver.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The name has these addresses; empty if the name does not exist.
    Addresses(Vec<IpAddr>),
    /// The name is an alias of another.
    Alias,
    /// The answer is truncated: ask over TCP.
    Cut,
}

/// The name is an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alias;

/// Returns the addresses of a name, or `Ok(Err)` if it is an alias of another name.
///
/// # Errors
/// No nameserver answered.
pub(super) async fn addresses(nameservers: &[SocketAddr], name: &str) -> io::Result<Result<Vec<IpAddr>, Alias>> {
    let (v4, v6) = tokio::join!(ask_all(nameservers, name, A), ask_all(nameservers, name, AAAA));
    let mut all = Vec::new();
    for answer in [v4?, v6?] {
        match answer {
            Answer::Addresses(addresses) => all.extend(addresses),
            Answer::Alias => return Ok(Err(Alias)),
            Answer::Cut => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the nameserver's answer is truncated"));
            }
        }
    }
    Ok(Ok(all))
}

async fn ask_all(nameservers: &[SocketAddr], name: &str, kind: u16) -> io::Result<Answer> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no nameserver is known");
    for _ in 0..ATTEMPTS {
        for server in nameservers {
            let asked = timeout(TIMEOUT, ask(*server, name, kind)).await;
            match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

async fn ask(server: SocketAddr, name: &str, kind: u16) -> io::Result<Answer> {
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random numbers"))?;
    let question = question(id, name, kind).ok_or_else(|| malformed("the name is too long"))?;
    let local: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(local).await?;
    // The system drops packets from other senders.
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let answer = loop {
        let length = socket.recv(&mut buffer).await?;
        if buffer[..length].starts_with(&id) {
            break read(&buffer[..length], &question, kind)?;
        }
    };
    if answer != Answer::Cut {
        return Ok(answer);
    }
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(|_| malformed("the name is too long"))?;
    stream.write_all(&[&length.to_be_bytes(), question.as_slice()].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    stream.read_exact(&mut buffer[..length]).await?;
    read(&buffer[..length], &question, kind)
}

fn malformed(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Returns a question (RFC 1035, 4.1), or none for an invalid name.
fn question(id: [u8; 2], name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut message = id.to_vec();
    // Recursion desired; one question and one additional record.
    message.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    // EDNS: the root's name, OPT, the size of answers, no flags, no options.
    message.extend([0, 0, 41]);
    message.extend(UDP_BYTES.to_be_bytes());
    message.extend([0; 6]);
    Some(message)
}

/// Reads an answer to a question.
fn read(message: &[u8], question: &[u8], kind: u16) -> io::Result<Answer> {
    let mut rest = Reader(message);
    let mut header = || rest.u16();
    let [_id, flags, questions, answers, _, _] = [header()?, header()?, header()?, header()?, header()?, header()?];
    let code = flags & 0x000f;
    if flags & 0x8000 == 0 || questions != 1 {
        return Err(malformed("the nameserver's answer is malformed"));
    }
    // The answer must repeat the question, without header and EDNS.
    let asked = &question[12..question.len() - 11];
    if !rest.take(asked.len())?.eq_ignore_ascii_case(asked) {
        return Err(malformed("the nameserver's answer is to another question"));
    }
    if flags & 0x0200 != 0 {
        return Ok(Answer::Cut);
    }
    match code {
        0 => {}
        // The name does not exist.
        3 => return Ok(Answer::Addresses(Vec::new())),
        _ => return Err(io::Error::other("the nameserver reports a failure")),
    }
    let mut addresses = Vec::new();
    for _ in 0..answers {
        rest.name()?;
        let (found, _class, _ttl) = (rest.u16()?, rest.u16()?, rest.take(4)?);
        let length = usize::from(rest.u16()?);
        let data = rest.take(length)?;
        match found {
            CNAME | DNAME => return Ok(Answer::Alias),
            A if kind == A => addresses.extend(<[u8; 4]>::try_from(data).map(IpAddr::from)),
            AAAA if kind == AAAA => addresses.extend(<[u8; 16]>::try_from(data).map(IpAddr::from)),
            _ => {}
        }
    }
    Ok(Answer::Addresses(addresses))
}

/// The unread rest of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| malformed("the nameserver's answer ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> io::Result<u16> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Skips a name: labels up to an empty one, or to a pointer.
    fn name(&mut self) -> io::Result<()> {
        loop {
            match self.take(1)?[0] {
                0 => return Ok(()),
                length @ 1..64 => drop(self.take(usize::from(length))?),
                0xc0.. => return self.take(1).map(drop),
                _ => return Err(malformed("the nameserver's answer has a malformed name")),
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/dns.rs"]
pub(super) mod tests;
