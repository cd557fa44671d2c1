//! The client and the upstream: blocking, on threads of their own, and without allocations per call.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Returns a listener that tokio can take over, and its address.
pub(super) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    listener.set_nonblocking(true).expect("does not block");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A server that answers every request with the same body.
pub(super) struct Upstream {
    pub(super) url: String,
}

impl Upstream {
    pub(super) fn start(body: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        let answer = [head.as_bytes(), body].concat();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = answer.clone();
                thread::spawn(move || serve(stream.expect("a connection"), &answer));
            }
        });
        Self { url }
    }
}

/// Answers the requests of one connection. They have no body.
fn serve(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).expect("is set");
    let (mut buffer, mut filled) = ([0; 4096], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer[filled..]) {
        filled += read;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            filled = 0;
            stream.write_all(answer).expect("the gateway reads");
        }
    }
}

/// A client with one connection.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_nodelay(true).expect("is set");
        Self { stream, buffer: vec![0; 1 << 20], filled: 0 }
    }

    /// Sends a request, waits for the whole answer, and returns its size.
    pub(super) fn call(&mut self, request: &[u8]) -> usize {
        self.stream.write_all(request).expect("the gateway reads");
        self.filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[self.filled..]).expect("the gateway answers");
            assert!(read > 0, "the gateway closed the connection: {}", String::from_utf8_lossy(self.answer()));
            self.filled += read;
            if length(self.answer()) == Some(self.filled) {
                return self.filled;
            }
        }
    }

    /// Returns the last answer.
    pub(super) fn answer(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

/// Returns the length of a whole answer, once its head has arrived.
fn length(answer: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length: ";
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let start = answer[..head].windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let digits = answer[start..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}
