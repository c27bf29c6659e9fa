//! Handles in fields that serde skips, which the types let pass: clippy sees what a handler does with them itself.

use std::fs::{File, FileTimes, Permissions};
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::SystemTime;

use axum::Json;
use axum::extract::{Form, Path};
use axum::http::StatusCode;
use idem_runtime::{Tx, idempotent};
use serde::Deserialize;
use sqlx::Sqlite;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tokio::task::{AbortHandle, JoinHandle};

use crate::{Fallible, failed};

#[derive(Deserialize)]
pub struct Channels {
    pub number: u64,
    #[serde(skip)]
    sender: Option<Sender<u64>>,
    #[serde(skip)]
    unbounded: Option<UnboundedSender<u64>>,
    #[serde(skip)]
    events: Option<mpsc::Sender<u64>>,
    #[serde(skip)]
    bounded: Option<mpsc::SyncSender<u64>>,
    #[serde(skip)]
    wake: Arc<Notify>,
}

#[idempotent(scope = "account")]
pub async fn channels(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Json(new): Json<Channels>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    if let Some(sender) = new.sender {
        sender.send(account).await.map_err(failed)?; // REFUSED
        sender.try_send(account).map_err(failed)?; // REFUSED
        sender.reserve().await.map_err(failed)?.send(account); // REFUSED
        let later = async move |number| sender.send(number).await; // REFUSED
        later(account).await.map_err(failed)?;
    }
    if let (Some(unbounded), Some(events), Some(bounded)) =
        (new.unbounded, new.events, &new.bounded)
    {
        unbounded.send(account).map_err(failed)?; // REFUSED
        events.send(account).map_err(failed)?; // REFUSED
        bounded.send(account).map_err(failed)?; // REFUSED
        bounded.try_send(account).map_err(failed)?; // REFUSED
    }
    new.wake.notify_one(); // REFUSED
    Ok(StatusCode::CREATED)
}

#[derive(Deserialize)]
pub struct Tasks {
    pub number: u64,
    #[serde(skip)]
    runtime: Option<Handle>,
    #[serde(skip)]
    abort: Option<AbortHandle>,
    #[serde(skip)]
    task: Option<JoinHandle<()>>,
}

#[idempotent(scope = "account")]
pub async fn tasks(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Form(new): Form<Tasks>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    if let (Some(runtime), Some(abort), Some(task)) = (new.runtime, new.abort, new.task) {
        runtime.spawn(async {}); // REFUSED
        runtime.spawn_blocking(|| {}); // REFUSED
        abort.abort(); // REFUSED
        task.abort(); // REFUSED
    }
    Ok(StatusCode::CREATED)
}

#[derive(Deserialize)]
pub struct Streams {
    pub number: u64,
    #[serde(skip)]
    datagrams: Option<Arc<UdpSocket>>,
    #[serde(skip)]
    of_tokio: Option<Arc<tokio::net::UdpSocket>>,
    #[serde(skip)]
    stream: Option<Arc<TcpStream>>,
}

#[idempotent(scope = "account")]
pub async fn streams(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Json(new): Json<Streams>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    let bytes = account.to_be_bytes();
    if let (Some(datagrams), Some(of_tokio), Some(stream)) =
        (new.datagrams, new.of_tokio, new.stream)
    {
        datagrams.send(&bytes).map_err(failed)?; // REFUSED
        datagrams.send_to(&bytes, "[::1]:9").map_err(failed)?; // REFUSED
        of_tokio.send(&bytes).await.map_err(failed)?; // REFUSED
        of_tokio.try_send(&bytes).map_err(failed)?; // REFUSED
        stream.try_write(&bytes).map_err(failed)?; // REFUSED
    }
    Ok(StatusCode::CREATED)
}

/// tokio's file is refused in a field, and so it is reached by a static.
static LOG: OnceLock<tokio::fs::File> = OnceLock::new();

#[derive(Deserialize)]
pub struct Files {
    pub number: u64,
    #[serde(skip)]
    file: Option<Arc<File>>,
    #[serde(skip)]
    permissions: Option<Permissions>,
}

#[idempotent(scope = "account")]
pub async fn files(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Json(new): Json<Files>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    let bytes = account.to_be_bytes();
    if let (Some(file), Some(permissions)) = (&new.file, new.permissions) {
        file.set_len(0).map_err(failed)?; // REFUSED
        file.sync_all().map_err(failed)?; // REFUSED
        file.sync_data().map_err(failed)?; // REFUSED
        file.set_permissions(permissions).map_err(failed)?; // REFUSED
        file.set_modified(SystemTime::UNIX_EPOCH).map_err(failed)?; // REFUSED
        file.set_times(FileTimes::new()).map_err(failed)?; // REFUSED
        file.write_at(&bytes, 0).map_err(failed)?; // REFUSED
        file.write_all_at(&bytes, 0).map_err(failed)?; // REFUSED
    }
    if let Some(file) = LOG.get() {
        file.set_len(0).await.map_err(failed)?; // REFUSED
        file.sync_all().await.map_err(failed)?; // REFUSED
        file.sync_data().await.map_err(failed)?; // REFUSED
    }
    Ok(StatusCode::CREATED)
}

/// Not found: clippy knows `write_all` as `Write`'s alone, which is also the honest one of a `Vec<u8>`.
#[idempotent(scope = "account")]
pub async fn written(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Json(new): Json<Files>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    let mut text = Vec::new();
    text.write_all(b"order").map_err(failed)?;
    if let Some(file) = &new.file {
        (&**file).write_all(&text).map_err(failed)?;
    }
    Ok(StatusCode::CREATED)
}

fn notify(new: &Channels) -> Fallible<()> {
    match &new.events {
        Some(events) => events.send(new.number).map_err(failed),
        None => Ok(()),
    }
}

/// Not found: a helper is not looked into.
#[idempotent(scope = "account")]
pub async fn in_a_helper(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<u64>,
    Json(new): Json<Channels>,
) -> Fallible<StatusCode> {
    crate::insert(tx).await?;
    notify(&new)?;
    Ok(StatusCode::CREATED)
}
