//! An application whose only job is to be tested from outside. What it serves and what its
//! environment decides is written in `tests/README.md`.

#[path = "../probe/mod.rs"]
mod probe;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    probe::install_events();
    let config = probe::Config::from_environment()?;
    match config.database_url.split(':').next() {
        Some("postgres" | "postgresql") => probe::postgres::run(config).await,
        Some("sqlite") => probe::sqlite::run(config).await,
        Some("mysql" | "mariadb") => probe::mysql::run(config).await,
        _ => Err("DATABASE_URL must start with postgres:, sqlite: or mysql:".into()),
    }
}
