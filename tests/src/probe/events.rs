//! Every event and span of the framework's, as text: for a test that reads what is not to be there.

use std::io::{self, Write};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Adds to the text that `GET /events` gives.
#[derive(Clone, Copy)]
struct Keep;

impl Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TEXT.lock().expect("no holder panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Keep {
    type Writer = Keep;

    fn make_writer(&self) -> Keep {
        *self
    }
}

/// Logs to standard error what `RUST_LOG` says, and keeps what `KEEP_EVENTS` says, if it does.
pub(crate) fn install() {
    let kept = std::env::var("KEEP_EVENTS").ok().map(|filter| {
        tracing_subscriber::fmt::layer()
            .with_writer(Keep)
            .with_ansi(false)
            .with_filter(EnvFilter::new(filter))
    });
    let logged = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_filter(EnvFilter::from_default_env());
    tracing_subscriber::registry()
        .with(logged)
        .with(kept)
        .init();
}

/// What was kept so far.
pub(crate) fn text() -> String {
    let text = TEXT.lock().expect("no holder panics");
    String::from_utf8_lossy(&text).into_owned()
}
