//! Connections that a handler can close without an answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Accepts closable connections.
pub(crate) struct Connections(pub(crate) TcpListener);

/// A handle on the connection that a request came on.
#[derive(Clone)]
pub(crate) struct Connection(Arc<AtomicBool>);

impl Connection {
    /// Nothing more is written on it: it ends instead of the answer.
    pub(crate) fn close(&self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(crate) struct Closable {
    stream: TcpStream,
    closed: Arc<AtomicBool>,
}

impl Closable {
    fn check(&self) -> io::Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Listener for Connections {
    type Io = Closable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Closable, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        let closed = Arc::new(AtomicBool::new(false));
        (Closable { stream, closed }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Connections>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Connection {
        Connection(Arc::clone(&stream.io().closed))
    }
}

impl AsyncRead for Closable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Closable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.check() {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
