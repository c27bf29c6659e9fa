//! Loads an operation that takes idempotency keys, and counts its effects. `--help` says how.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use idem_tests::hammer::arguments::Arguments;
use idem_tests::hammer::count::Source;
use idem_tests::hammer::report::{Counted, Report, Verdict};
use idem_tests::hammer::{Hammer, Unusable};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = match run(&arguments).await {
        Ok(report) => report,
        Err(Unusable(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&report).expect("a report is JSON");
        println!("{json}");
    } else {
        println!("{report}");
    }
    match report.verdict {
        Verdict::Right => ExitCode::SUCCESS,
        Verdict::Wrong => ExitCode::FAILURE,
        Verdict::Open => ExitCode::from(3),
    }
}

async fn run(arguments: &Arguments) -> Result<Report, Unusable> {
    let settings = arguments.settings()?;
    let source = arguments.source(&settings)?;
    let hammer = Arc::new(Hammer::new(settings).await?);
    // Also where a number is not needed, so that a source that does not work is found before anything is sent.
    let before = match arguments.by_key() {
        true => source.by_key(&hammer).await.map(|_| 0)?,
        false => source.number().await?,
    };
    eprintln!("seed {}", hammer.settings().plan.seed);
    let start = Instant::now();
    let told = tokio::spawn(tell(Arc::clone(&hammer)));
    let interrupted = tokio::spawn(end_early(Arc::clone(&hammer)));
    hammer.traffic().await?;
    hammer.resolve().await?;
    let seconds = start.elapsed().as_secs_f64();
    interrupted.abort();
    told.abort();
    tokio::time::sleep(arguments.settle()).await;
    let counted = count(arguments, &source, &hammer, before).await?;
    Ok(Report::new(&hammer, &counted, seconds))
}

async fn count(
    arguments: &Arguments,
    source: &Source,
    hammer: &Hammer,
    before: i64,
) -> Result<Counted, Unusable> {
    let per_key = arguments.effects_per_key();
    if arguments.by_key() {
        return Ok(Counted::ByKey {
            after: source.by_key(hammer).await?,
            per_key: per_key.into(),
        });
    }
    Ok(Counted::Number {
        before,
        after: source.number().await?,
        per_key: per_key.into(),
    })
}

async fn tell(hammer: Arc<Hammer>) {
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        eprintln!("{}", hammer.progress());
    }
}

/// The first Ctrl-C ends the traffic, and the report is made; the second ends the program.
async fn end_early(hammer: Arc<Hammer>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        eprintln!("no new keys; waiting for those under way (Ctrl-C: no report)");
        hammer.stop();
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}
