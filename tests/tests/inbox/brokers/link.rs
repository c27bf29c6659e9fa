//! A connection that can be cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// In front of a broker.
pub(super) struct Link {
    address: SocketAddr,
    cuts: watch::Sender<u32>,
    task: JoinHandle<()>,
}

impl Link {
    pub(super) async fn to(server: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = watch::Sender::new(0);
        let each = cuts.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut cut = each.subscribe();
                tokio::spawn(async move {
                    let Ok(mut broker) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut broker) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Link {
            address,
            cuts,
            task,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection. New ones are carried.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}
