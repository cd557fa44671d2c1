//! Looks up the names of a cluster's Services.
//!
//! The system's resolver follows aliases without saying so, and an alias is what a Service of type `ExternalName` is: a
//! name of one namespace that leads to any other place. So the answer for a Service's name is read here, and a name that
//! is an alias has no addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long one nameserver may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Questions to each nameserver.
const ATTEMPTS: usize = 2;
/// Bytes of an answer over UDP, as EDNS announces it (RFC 6891).
const UDP_BYTES: u16 = 1_232;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const DNAME: u16 = 39;

/// What a nameserver answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The name has these addresses; none where there is no such name.
    Addresses(Vec<IpAddr>),
    /// The name is an alias of another.
    Alias,
    /// The answer is cut: ask over TCP.
    Cut,
}

/// The name is an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alias;

/// The addresses of a name, without a final dot. Ok(Err) where it is an alias of another name.
///
/// # Errors
/// No nameserver answers.
pub(super) async fn addresses(nameservers: &[SocketAddr], name: &str) -> io::Result<Result<Vec<IpAddr>, Alias>> {
    let (v4, v6) = tokio::join!(ask_all(nameservers, name, A), ask_all(nameservers, name, AAAA));
    let mut all = Vec::new();
    for answer in [v4?, v6?] {
        match answer {
            Answer::Addresses(addresses) => all.extend(addresses),
            Answer::Alias => return Ok(Err(Alias)),
            Answer::Cut => return Err(io::Error::new(io::ErrorKind::InvalidData, "the nameserver's answer is cut")),
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
    // Answers of others are dropped by the system.
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

/// A question (RFC 1035, 4.1). None for a name that none can be asked about.
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
        return Err(malformed("the nameserver's answer is none"));
    }
    // It must be the answer to this question, letter for letter: all but header and EDNS.
    let asked = &question[12..question.len() - 11];
    if !rest.take(asked.len())?.eq_ignore_ascii_case(asked) {
        return Err(malformed("the nameserver's answer is to another question"));
    }
    if flags & 0x0200 != 0 {
        return Ok(Answer::Cut);
    }
    match code {
        0 => {}
        // There is no such name.
        3 => return Ok(Answer::Addresses(Vec::new())),
        _ => return Err(io::Error::other("the nameserver fails")),
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

/// The rest of a message.
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
