//! A client that blocks its thread, so that a kill comes when it should and not when a timer fires.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request for an order, whose key, account and item are the same text: nothing else has it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) token: String,
    /// Of the session, where there is one.
    pub(crate) cookie: Option<String>,
}

impl Request {
    fn text(&self) -> String {
        let token = &self.token;
        let body = format!(r#"{{"item":"{token}","quantity":2}}"#);
        let cookie = self.cookie.as_ref();
        let cookie = cookie.map_or(String::new(), |cookie| format!("cookie: {cookie}\r\n"));
        format!(
            "POST /orders HTTP/1.1\r\nhost: peers\r\nconnection: close\r\nauthorization: {token}\r\n\
             idempotency-key: {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{cookie}\r\n{body}",
            body.len()
        )
    }

    /// Sends it.
    pub(crate) fn send(&self, address: SocketAddr) -> std::io::Result<Sent> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(self.text().as_bytes())?;
        Ok(Sent(stream))
    }
}

/// A request that is on its way.
pub(crate) struct Sent(TcpStream);

impl Sent {
    /// The status of its answer; `None` when none came whole.
    pub(crate) fn status(mut self) -> Option<u16> {
        let mut answer = Vec::new();
        // What came before the connection broke counts.
        let _ = self.0.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        if body.len() < length.unwrap_or(0) {
            return None;
        }
        head.get(9..12)?.parse().ok()
    }
}

/// Logs in, where a contender has sessions: the cookie.
pub(crate) fn log_in(address: SocketAddr) -> std::io::Result<Option<String>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        b"POST /login HTTP/1.1\r\nhost: peers\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let cookie = value.split(';').next()?.trim();
        name.eq_ignore_ascii_case("set-cookie")
            .then(|| cookie.to_owned())
    }))
}
