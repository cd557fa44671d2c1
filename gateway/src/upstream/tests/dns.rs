use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, UdpSocket};

use super::*;

/// A record of the name that was asked for, by a pointer to the question.
fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = vec![0xc0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1, 0, 0, 0, 5]);
    record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    record.extend(data);
    record
}

/// The answer to a question: the question with another header, and records.
fn answer(question: &[u8], flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut message = question[..2].to_vec();
    message.extend(flags.to_be_bytes());
    message.extend([0, 1]);
    message.extend(u16::try_from(records.len()).unwrap().to_be_bytes());
    message.extend([0; 4]);
    message.extend(&question[12..question.len() - 11]);
    message.extend(records.concat());
    message
}

/// A nameserver on loopback that answers each question, by its name and kind, with records; none is a name that is not
/// there. With `cut`, over UDP it answers that the answer is cut.
pub(crate) async fn nameserver(
    cut: bool,
    records: impl Fn(&str, u16) -> Option<Vec<Vec<u8>>> + Send + Sync + 'static,
) -> SocketAddr {
    // One port for both: of those that are free for UDP, one that is free for TCP too.
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        match TcpListener::bind(udp.local_addr().unwrap()).await {
            Ok(tcp) => break (udp, tcp),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}"),
        }
    };
    let address = udp.local_addr().unwrap();
    let reply = move |question: &[u8]| {
        let labels: Vec<_> = labels(&question[12..]).collect();
        let at = 12 + labels.iter().map(|label| label.len() + 1).sum::<usize>() + 1;
        let kind = u16::from_be_bytes([question[at], question[at + 1]]);
        match records(&labels.join(".").to_ascii_lowercase(), kind) {
            Some(records) => answer(question, 0x8180, &records),
            None => answer(question, 0x8183, &[]),
        }
    };
    tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            tokio::select! {
                received = udp.recv_from(&mut buffer) => {
                    let (length, peer) = received.unwrap();
                    let question = &buffer[..length];
                    let reply = if cut { answer(question, 0x8380, &[]) } else { reply(question) };
                    udp.send_to(&reply, peer).await.unwrap();
                }
                accepted = tcp.accept() => {
                    let (mut stream, _) = accepted.unwrap();
                    let length = stream.read_u16().await.unwrap();
                    let mut question = vec![0; usize::from(length)];
                    stream.read_exact(&mut question).await.unwrap();
                    let reply = reply(&question);
                    stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
                    stream.write_all(&reply).await.unwrap();
                }
            }
        }
    });
    address
}

fn labels(mut name: &[u8]) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let length = usize::from(name[0]);
        let label = String::from_utf8(name[1..=length].to_vec()).unwrap();
        name = &name[length + 1..];
        (length > 0).then_some(label)
    })
}

/// What the cluster of these tests says: `api` is a Service, `web` has no ClusterIP and two pods, `out` and `chain` are
/// of type ExternalName.
pub(crate) fn services(name: &str, kind: u16) -> Option<Vec<Vec<u8>>> {
    let v4 = |address: [u8; 4]| if kind == A { vec![record(A, &address)] } else { Vec::new() };
    Some(match name {
        "api.team.svc.cluster.local" => v4([10, 96, 0, 7]),
        "web.team.svc.cluster.local" => [v4([10, 244, 0, 1]), v4([10, 244, 0, 2])].concat(),
        // The alias and, as a nameserver adds it, what it leads to.
        "out.team.svc.cluster.local" => [vec![record(CNAME, b"\x04evil\x03net\0")], v4([93, 184, 216, 34])].concat(),
        "chain.team.svc.cluster.local" => [vec![record(CNAME, b"\xc0\x0c")], v4([10, 96, 0, 1])].concat(),
        _ => return None,
    })
}

#[tokio::test]
async fn a_service_has_addresses_and_an_alias_has_none() {
    for cut in [false, true] {
        let server = [nameserver(cut, services).await];
        for (name, expected) in [
            ("api.team.svc.cluster.local.", Ok(vec!["10.96.0.7"])),
            ("api.team.svc.cluster.local", Ok(vec!["10.96.0.7"])),
            ("web.team.svc.cluster.local", Ok(vec!["10.244.0.1", "10.244.0.2"])),
            ("out.team.svc.cluster.local", Err(Alias)),
            ("chain.team.svc.cluster.local", Err(Alias)),
            ("none.team.svc.cluster.local", Ok(vec![])),
        ] {
            let found = addresses(&server, name).await.unwrap();
            let found = found.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(found, expected.map(|all| all.into_iter().map(str::to_owned).collect()), "{name}");
        }
    }
    assert!(addresses(&[], "api.team.svc.cluster.local").await.is_err());
}

#[tokio::test]
async fn a_nameserver_that_does_not_answer_is_passed_over() {
    // Nothing listens there: the system says so at once.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let servers = [silent, nameserver(false, services).await];
    let found = addresses(&servers, "api.team.svc.cluster.local").await.unwrap().unwrap();
    assert_eq!(found, ["10.96.0.7".parse::<IpAddr>().unwrap()]);
}

#[test]
fn only_the_answer_to_the_question_counts() {
    let asked = question([1, 2], "api.team.svc", A).unwrap();
    let good = || answer(&asked, 0x8180, &[record(A, &[10, 0, 0, 1])]);
    assert_eq!(read(&good(), &asked, A).unwrap(), Answer::Addresses(vec![[10, 0, 0, 1].into()]));
    assert_eq!(read(&answer(&asked, 0x8183, &[]), &asked, A).unwrap(), Answer::Addresses(vec![]));
    assert_eq!(read(&answer(&asked, 0x8380, &[]), &asked, A).unwrap(), Answer::Cut);
    assert_eq!(read(&answer(&asked, 0x8180, &[record(DNAME, b"\0")]), &asked, A).unwrap(), Answer::Alias);
    // Records of other kinds, and addresses that are none.
    let odd = answer(&asked, 0x8180, &[record(16, b"text"), record(A, &[1, 2, 3]), record(AAAA, &[0; 16])]);
    assert_eq!(read(&odd, &asked, A).unwrap(), Answer::Addresses(vec![]));
    let other = question([1, 2], "api.other.svc", A).unwrap();
    for (what, message) in [
        ("nothing", Vec::new()),
        ("a question", asked.clone()),
        ("the nameserver fails", answer(&asked, 0x8182, &[])),
        ("another question", answer(&other, 0x8180, &[record(A, &[10, 0, 0, 1])])),
        ("a record that ends early", good()[..good().len() - 1].to_vec()),
    ] {
        assert!(read(&message, &asked, A).is_err(), "{what}");
    }
    for cut in 0..good().len() {
        assert!(read(&good()[..cut], &asked, A).is_err(), "{cut}");
    }
    for name in ["", ".", "a..b", &"x".repeat(64)] {
        assert!(question([0, 0], name, A).is_none(), "{name}");
    }
}
