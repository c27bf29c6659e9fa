//! The provider, the server and the database of the demo.

use std::env;
use std::time::Duration;

use idem_runtime::Idempotency;
use sqlx::Pool;
use tempfile::TempDir;

use super::Result;
use crate::database::{self, Db};
use crate::process::Process;
use crate::provider::Entry;

pub(super) struct Stage {
    pub(super) server: Process,
    pub(super) pool: Pool<Db>,
    /// The operator's.
    pub(super) idempotency: Idempotency<Db>,
    pub(super) database_url: String,
    provider: Process,
    http: reqwest::Client,
    /// How many entries the ledger had when the story began.
    told: usize,
    _directory: TempDir,
}

impl Stage {
    pub(super) async fn set() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        let database_url = if cfg!(feature = "sqlite") {
            format!("sqlite:{}", path("payments.db"))
        } else {
            database::url()?
        };
        let ledger = [("ADDR", "127.0.0.1:0"), ("LEDGER", &path("ledger"))];
        let provider = Process::start("provider", &ledger).await?;
        let server = server(&database_url, &provider).await?;
        let pool = database::connect(&database_url).await?;
        Ok(Self {
            server,
            idempotency: Idempotency::new(pool.clone()),
            pool,
            database_url,
            provider,
            http: reqwest::Client::builder().no_proxy().build()?,
            told: 0,
            _directory: directory,
        })
    }

    pub(super) async fn start_server(&mut self) -> Result<()> {
        self.server = server(&self.database_url, &self.provider).await?;
        Ok(())
    }

    /// Waits until the provider has made a payment in this story.
    pub(super) async fn payment(&self) -> Result<()> {
        let paid = async |stage: &Self| Ok(stage.last_payment().await?.is_some());
        self.until("a payment", paid).await
    }

    /// The last payment of this story in the provider's books.
    pub(super) async fn last_payment(&self) -> Result<Option<String>> {
        let entries = self.entries().await?;
        Ok(entries.into_iter().rev().find_map(|entry| entry.payment))
    }

    /// Ends a story: so many requests reached the provider, and made one payment.
    pub(super) async fn end_story(&mut self, kind: &str, requests: usize) -> Result<()> {
        let entries = self.entries().await?;
        let payments = entries.iter().filter(|entry| entry.payment.is_some());
        let payments = payments.count();
        println!(
            "   The provider's ledger: requests for a {kind}: {}, payments: {payments}\n",
            entries.len()
        );
        if !entries.iter().all(|entry| entry.kind == kind) {
            return Err(format!("there should be nothing but requests for a {kind}").into());
        }
        if (entries.len(), payments) != (requests, 1) {
            return Err(format!("there should be {requests} requests and 1 payment").into());
        }
        self.told += entries.len();
        Ok(())
    }

    /// Waits until something is so.
    pub(super) async fn until(
        &self,
        what: &str,
        is_so: impl AsyncFn(&Self) -> Result<bool>,
    ) -> Result<()> {
        for _ in 0..400 {
            if is_so(self).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("after 20 seconds there was not {what}").into())
    }

    /// What the provider's ledger has of this story.
    async fn entries(&self) -> Result<Vec<Entry>> {
        let url = format!("{}/ledger", self.provider.url);
        let mut entries: Vec<Entry> = self.http.get(url).send().await?.json().await?;
        Ok(entries.split_off(self.told))
    }
}

async fn server(database_url: &str, provider: &Process) -> Result<Process> {
    // What goes wrong is meant to, unless somebody asks.
    let log = env::var("RUST_LOG").unwrap_or_else(|_| "off".to_owned());
    let environment = [
        ("RUST_LOG", log.as_str()),
        ("ADDR", "127.0.0.1:0"),
        ("DATABASE_URL", database_url),
        ("PROVIDER_URL", &provider.url),
    ];
    Ok(Process::start("serve", &environment).await?)
}
