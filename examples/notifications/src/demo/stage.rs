//! The broker, the processes and the databases of the demo.

use std::env;
use std::time::Duration;

use async_nats::jetstream::stream::Stream;
use axum::http::StatusCode;
use idem_runtime::Idempotency;
use idem_runtime::outbox::{Messages, Outbox};
use tempfile::TempDir;

use super::Result;
use super::accounts::Accounts;
use super::client::{Client, Placed};
use crate::broker::{self, Broker};
use crate::database::{self, Db};
use crate::ledger::Entry;
use crate::process::Process;
use crate::receiver::Seen;
use crate::stream;

/// Short, as if the shop were away for longer than the stream's window is: what it publishes again is stored again.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(500);

// Fields are dropped in this order: first the parts, then the broker, then the files.
pub(super) struct Stage {
    pub(super) shop: Process,
    pub(super) ledger: Process,
    pub(super) receiver: Process,
    pub(super) client: Client,
    pub(super) placed: Vec<Placed>,
    stream: Stream,
    /// An operator's view of the shop.
    outbox: Outbox<Db>,
    places: Places,
    broker: Option<Broker>,
    _directory: TempDir,
}

/// Where everything is.
struct Places {
    nats: String,
    receiver: String,
    databases: [String; 3],
}

impl Stage {
    pub(super) async fn set() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let database = |part: &str| {
            if cfg!(feature = "sqlite") {
                let path = directory.path().join(part);
                return Ok(format!("sqlite:{}.db", path.display()));
            }
            database::url(part)
        };
        let databases = [
            database("shop")?,
            database("ledger")?,
            database("receiver")?,
        ];
        let (nats, broker) = match env::var("NATS_URL") {
            Ok(url) => (url, None),
            Err(_) => {
                let broker = Broker::start().await?;
                (broker.url(), Some(broker))
            }
        };
        let stream = stream::open(&async_nats::connect(&nats).await?, DUPLICATE_WINDOW).await?;
        let places = Places {
            nats,
            receiver: format!("127.0.0.1:{}", broker::free_port()),
            databases,
        };
        let receiver = places.receiver().await?;
        let ledger = places.ledger().await?;
        let shop = places.shop().await?;
        let pool = database::connect(&places.databases[0]).await?;
        let stage = Self {
            shop,
            ledger,
            receiver,
            client: Client::new()?,
            placed: Vec::new(),
            stream,
            outbox: Idempotency::new(pool).outbox(),
            places,
            broker,
            _directory: directory,
        };
        if stage.accounts().await?.len() > 0 || stage.stream_counts().await?.0 > 0 {
            return Err(
                "the demo needs an empty database and a NATS server without its streams".into(),
            );
        }
        Ok(stage)
    }

    /// Sends an order, which is made.
    pub(super) async fn place(
        &mut self,
        account: &'static str,
        item: &'static str,
    ) -> Result<Placed> {
        let placed = Placed::new(account, item);
        let answer = self.client.send(&self.shop.url, &placed).await?;
        if answer.status != StatusCode::CREATED {
            return Err(format!("an order is answered {answer}").into());
        }
        self.placed.push(placed.clone());
        Ok(placed)
    }

    pub(super) async fn start_shop(&mut self) -> Result<()> {
        self.shop = self.places.shop().await?;
        Ok(())
    }

    pub(super) async fn start_ledger(&mut self) -> Result<()> {
        self.ledger = self.places.ledger().await?;
        Ok(())
    }

    pub(super) async fn start_receiver(&mut self) -> Result<()> {
        self.receiver = self.places.receiver().await?;
        Ok(())
    }

    /// Kills the broker, if it is the demo's own.
    pub(super) async fn kill_broker(&mut self) -> Result<bool> {
        match &mut self.broker {
            Some(broker) => broker.kill().await?,
            None => return Ok(false),
        }
        Ok(true)
    }

    pub(super) async fn restart_broker(&mut self) -> Result<()> {
        if let Some(broker) = &mut self.broker {
            broker.restart().await?;
        }
        Ok(())
    }

    /// Leaves nothing on a broker that goes on.
    pub(super) async fn clear(self) -> Result<()> {
        if self.broker.is_none() {
            let client = async_nats::connect(&self.places.nats).await?;
            stream::remove(&client).await?;
        }
        Ok(())
    }

    /// Messages in the stream, and how often the ledger was delivered one.
    pub(super) async fn stream_counts(&self) -> Result<(u64, u64)> {
        let info = self.stream.get_info().await?;
        let consumer = self.stream.consumer_info(stream::LEDGER).await?;
        Ok((info.state.messages, consumer.delivered.consumer_sequence))
    }

    /// Messages that are staged and not known to be published.
    async fn waiting(&self) -> Result<u64> {
        let counts = self.outbox.counts().await?;
        Ok(counts.pending + counts.delayed + counts.failed)
    }

    /// Events among them.
    pub(super) async fn events_waiting(&self) -> Result<usize> {
        let events = Messages::all().topic("order.placed");
        Ok(self.outbox.list(&events).await?.len())
    }

    pub(super) async fn accounts(&self) -> Result<Accounts> {
        let url = format!("{}/ledger", self.ledger.url);
        Ok(Accounts::of(self.client.get::<Vec<Entry>>(&url).await?))
    }

    pub(super) async fn seen(&self) -> Result<Seen> {
        let url = format!("{}/seen", self.receiver.url);
        Ok(self.client.get(&url).await?)
    }

    /// Waits until everybody has heard of everything, for 20 seconds.
    pub(super) async fn settled(&self) -> Result<()> {
        let orders = i64::try_from(self.placed.len())?;
        for _ in 0..400 {
            if self.waiting().await? == 0
                && self.accounts().await?.len() >= self.placed.len()
                && self.seen().await?.counted >= orders
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("after 20 seconds not everybody had heard of everything".into())
    }

    /// Everybody has heard of every order once.
    pub(super) async fn end_story(&self) -> Result<()> {
        let accounts = self.accounts().await?;
        accounts.check(&self.placed)?;
        let seen = self.seen().await?;
        println!(
            "   Orders: {}, entries in the ledger: {}, webhooks counted: {}.\n",
            self.placed.len(),
            accounts.len(),
            seen.counted
        );
        let orders = i64::try_from(self.placed.len())?;
        if (seen.ids, seen.counted) != (orders, orders) {
            return Err(format!("the receiver has {seen:?} of {orders} orders").into());
        }
        Ok(())
    }
}

impl Places {
    async fn shop(&self) -> Result<Process> {
        let webhooks = format!("http://{}/hooks", self.receiver);
        let more = [("ADDR", "127.0.0.1:0"), ("WEBHOOK_URL", webhooks.as_str())];
        self.start("shop", &self.databases[0], &more).await
    }

    async fn ledger(&self) -> Result<Process> {
        let more = [("ADDR", "127.0.0.1:0")];
        self.start("ledger", &self.databases[1], &more).await
    }

    async fn receiver(&self) -> Result<Process> {
        let more = [("ADDR", self.receiver.as_str())];
        self.start("receiver", &self.databases[2], &more).await
    }

    async fn start(
        &self,
        part: &str,
        database_url: &str,
        more: &[(&str, &str)],
    ) -> Result<Process> {
        // What goes wrong is meant to, unless somebody asks.
        let log = env::var("RUST_LOG").unwrap_or_else(|_| "off".to_owned());
        let mut environment = vec![
            ("RUST_LOG", log.as_str()),
            ("DATABASE_URL", database_url),
            ("NATS_URL", self.nats.as_str()),
        ];
        environment.extend(more);
        Ok(Process::start(part, &environment).await?)
    }
}
