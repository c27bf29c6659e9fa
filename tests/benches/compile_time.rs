//! What the attribute costs at compile time: handlers under `#[idempotent]`, beside plain ones and beside
//! `#[debug_handler]`, which makes checks of the same kind.
//!
//! ```text
//! cargo bench --profile dev -p idem-tests --bench compile_time -- [--build] [--handlers 200] [--rounds 7]
//! ```
//!
//! A crate with one program for each kind is generated in the target directory, over the workspace's own lock file and
//! without the network. Its dependencies are built first; then the programs take turns, each checked from the start
//! (no incremental compilation), and `--build` builds them too. What is printed are medians, in seconds, and ratios of
//! the medians. `none` has no handlers: what is left of its time is cargo's and the dependencies'.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The bounds that a change must stay below, for checking.
const BOUNDS: [(&str, f64); 2] = [("plain", 1.44), ("debug_handler", 0.52)];

const KINDS: [&str; 4] = ["none", "plain", "debug_handler", "idempotent"];

const MANIFEST: &str = r#"[package]
name = "compile-time"
version = "0.1.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
axum = { version = "0.8", default-features = false, features = ["json", "macros", "tokio", "http1", "original-uri"] }
idem-runtime = { path = "RUNTIME", default-features = false, features = ["sqlite"] }
serde = { version = "1", features = ["derive"] }
sqlx = { version = "0.9", default-features = false, features = ["runtime-tokio", "macros", "sqlite"] }
tokio = { version = "1", features = ["rt", "macros", "net"] }

[profile.dev]
debug = "line-tables-only"
strip = true
"#;

const HEAD: &str = r#"#![allow(unused)]
use axum::{Json, Router, extract::{FromRef, FromRequestParts, State}, http::{StatusCode, request::Parts}};
use axum::{response::{IntoResponse, Response}, routing::post};
use idem_runtime::{EffectFree, Idempotency, Scope, Tx, idempotent};
use serde::Deserialize;
use sqlx::{Sqlite, SqlitePool};

#[derive(Clone, FromRef)]
struct App { idempotency: Idempotency<Sqlite>, pool: SqlitePool, fees: Fees }
#[derive(Clone, Deserialize, EffectFree)]
struct Fees { percent: i64 }
#[derive(Deserialize)]
struct Transfer { from: i64, to: i64, amount: i64 }
#[derive(Clone, Deserialize, EffectFree, Scope)]
struct Account(u64);
impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> { Ok(Account(1)) }
}
struct Failed(sqlx::Error);
impl From<sqlx::Error> for Failed { fn from(error: sqlx::Error) -> Self { Failed(error) } }
impl IntoResponse for Failed { fn into_response(self) -> Response { StatusCode::INTERNAL_SERVER_ERROR.into_response() } }
"#;

struct Settings {
    build: bool,
    handlers: usize,
    rounds: usize,
}

impl Settings {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let number = |name: &str, default| {
            let at = arguments.iter().position(|argument| argument == name);
            let value = at.and_then(|at| arguments.get(at + 1));
            value.map_or(default, |value| {
                value
                    .parse()
                    .unwrap_or_else(|_| panic!("{name} takes a number"))
            })
        };
        Self {
            build: arguments.iter().any(|argument| argument == "--build"),
            handlers: number("--handlers", 200),
            rounds: number("--rounds", 7),
        }
    }
}

fn main() {
    let settings = Settings::from_arguments();
    let program = std::env::current_exe().expect("a bench is a program");
    let target = program
        .ancestors()
        .nth(3)
        .expect("target/profile/deps/bench");
    let project = Project::create(target.join("compile-time"), settings.handlers);
    println!(
        "{} handlers, median of {} rounds",
        settings.handlers, settings.rounds
    );
    let checked = project.turns("check", settings.rounds);
    report("cargo check", &checked);
    let own = checked[3] - checked[0];
    println!(
        "  one handler more: {:.1} ms plain, {:.1} ms with #[debug_handler], {:.1} ms with #[idempotent]",
        per_handler(checked[1] - checked[0], settings.handlers),
        per_handler(checked[2] - checked[0], settings.handlers),
        per_handler(own, settings.handlers),
    );
    if settings.build {
        report(
            "cargo build",
            &project.turns("build", settings.rounds.min(3)),
        );
        for kind in KINDS {
            println!("  {kind:14} {:8.2} MB, stripped", project.megabytes(kind));
        }
    }
    let mut within = true;
    for (kind, bound) in BOUNDS {
        let at = KINDS
            .iter()
            .position(|known| *known == kind)
            .expect("a kind");
        let ratio = checked[3] / checked[at];
        let verdict = if ratio < bound { "below" } else { "NOT BELOW" };
        println!("#[idempotent] / {kind}: {ratio:.2}, {verdict} {bound}");
        within &= ratio < bound;
    }
    if !within {
        std::process::exit(1);
    }
}

fn per_handler(seconds: f64, handlers: usize) -> f64 {
    seconds * 1000.0 / handlers as f64
}

fn report(title: &str, seconds: &[f64]) {
    println!("{title}");
    for (kind, median) in KINDS.iter().zip(seconds) {
        println!(
            "  {kind:14} {median:8.2} s, {:.2} of plain",
            median / seconds[1]
        );
    }
}

/// The generated crate.
struct Project {
    directory: PathBuf,
    sources: Vec<String>,
}

impl Project {
    fn create(directory: PathBuf, handlers: usize) -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = tests.parent().expect("the workspace's directory");
        let runtime = workspace.join("idem-runtime");
        let runtime = runtime.to_str().expect("a path that is text");
        fs::create_dir_all(directory.join("src/bin")).expect("the target directory is writable");
        fs::write(
            directory.join("Cargo.toml"),
            MANIFEST.replace("RUNTIME", runtime),
        )
        .expect("the manifest is written");
        fs::copy(workspace.join("Cargo.lock"), directory.join("Cargo.lock"))
            .expect("the lock file is copied");
        let sources = KINDS.iter().map(|kind| source(kind, handlers)).collect();
        let project = Self { directory, sources };
        for kind in 0..KINDS.len() {
            project.write(kind, 0);
        }
        project
    }

    /// Writes a program; another turn makes it another file for cargo.
    fn write(&self, kind: usize, turn: usize) {
        let path = self.directory.join(format!("src/bin/{}.rs", KINDS[kind]));
        fs::write(path, format!("{}// turn {turn}\n", self.sources[kind]))
            .expect("the program is written");
    }

    /// The median time of each kind, in seconds.
    fn turns(&self, command: &str, rounds: usize) -> Vec<f64> {
        let mut times = vec![Vec::new(); KINDS.len()];
        for kind in KINDS {
            self.cargo(command, kind);
        }
        for turn in 1..=rounds {
            for (kind, times) in times.iter_mut().enumerate() {
                self.write(kind, turn);
                times.push(self.cargo(command, KINDS[kind]));
            }
        }
        times
            .into_iter()
            .map(|mut times| {
                times.sort();
                times[times.len() / 2].as_secs_f64()
            })
            .collect()
    }

    fn cargo(&self, command: &str, kind: &str) -> Duration {
        let start = Instant::now();
        let output = Command::new(env!("CARGO"))
            .args([command, "--offline", "--quiet", "--bin", kind])
            .current_dir(&self.directory)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TARGET_DIR", self.directory.join("target"))
            .output()
            .expect("cargo is there");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "cargo {command} of {kind}: {errors}"
        );
        start.elapsed()
    }

    fn megabytes(&self, kind: &str) -> f64 {
        let program = self.directory.join("target/debug").join(kind);
        let size = fs::metadata(program).expect("it was built").len();
        size as f64 / 1e6
    }
}

fn source(kind: &str, handlers: usize) -> String {
    let handlers = if kind == "none" { 0 } else { handlers };
    let (attribute, database, executor) = match kind {
        "idempotent" => (
            "#[idempotent(scope = \"account\", ttl = \"48h\", state = App)]\n",
            "tx: &mut Tx<Sqlite>",
            "&mut *tx",
        ),
        "debug_handler" => (
            "#[axum::debug_handler(state = App)]\n",
            "State(pool): State<SqlitePool>",
            "&pool",
        ),
        _ => ("", "State(pool): State<SqlitePool>", "&pool"),
    };
    let mut source = HEAD.to_owned();
    let mut routes = String::new();
    for number in 0..handlers {
        write!(
            source,
            "{attribute}async fn h{number}({database}, account: Account, State(fees): State<Fees>, Json(new): Json<Transfer>) \
             -> Result<(StatusCode, String), Failed> {{\n\
             let fee = new.amount * fees.percent / 100;\n\
             sqlx::query(\"UPDATE a SET n = n - ? WHERE id = ?\").bind(new.amount + fee).bind(new.from).execute({executor}).await?;\n\
             sqlx::query(\"UPDATE a SET n = n + ? WHERE id = ?\").bind(new.amount).bind(new.to).execute({executor}).await?;\n\
             Ok((StatusCode::CREATED, format!(\"{{}} moved\", new.amount)))\n}}\n"
        )
        .expect("a string takes all");
        writeln!(
            routes,
            "    let router = router.route(\"/h{number}\", post(h{number}));"
        )
        .expect("a string takes all");
    }
    write!(
        source,
        "fn main() {{\n    let router: Router<App> = Router::new();\n{routes}    std::hint::black_box(&router);\n}}\n"
    )
    .expect("a string takes all");
    source
}
