//! Calls that leave the transaction, and queries on something else.

use super::{accepted, faults, faults_in, refused};

const SPAWN: &str =
    "a spawned task outlives the transaction: its effects are not undone by a rollback";
const CONNECTS: &str = "opens a connection outside the transaction; use `tx`";
const SERVICE: &str = "talks to another service, and no rollback takes that back";
const DISK: &str = "writes to the disk, and no rollback takes that back";
const OUTSIDE: &str = "runs outside the transaction; ";

#[test]
fn tasks_and_threads_are_found() {
    for body in [
        "tokio::spawn(async {});",
        "::tokio::spawn(async {});",
        "tokio::task::spawn_blocking(|| 1).await;",
        "task::spawn_local(async {});",
        "let handle = std::thread::spawn(|| {});",
        "actix_web::rt::spawn(async {}); ",
        "async_std::task::spawn(async {}).await",
        "smol::spawn(async {}).detach();",
        "rayon::spawn(|| {});",
        "let mut set = tokio::task::JoinSet::new(); set.spawn(async {});",
        "let mut set: JoinSet<()> = JoinSet::new(); set.spawn_blocking(|| {});",
        "tokio::runtime::Handle::current().spawn(async {});",
        "std::thread::Builder::new().name(name).spawn(|| {});",
        "use tokio::spawn; spawn(async {});",
        "use tokio::{self as t, task::spawn_blocking as sb}; { sb(|| 1); }",
        "use tokio::task; task::spawn(async {});",
        "(tokio::spawn)(async {});",
        "tokio::runtime::Runtime::new()?.spawn(async {});",
        "Handle::try_current()?.spawn(async {});",
        "tokio::runtime::Builder::new_current_thread().build()?.spawn(async {});",
    ] {
        refused(body, SPAWN);
    }
}

#[test]
fn what_only_looks_like_a_spawn_is_not_one() {
    for body in [
        "spawn(async {});",
        "task::spawn(&new).await?;",
        "thread::spawn(new.title);",
        "game::spawn(monster);",
        "monsters.spawn(new.kind);",
        "std::thread::scope(|scope| { scope.spawn(|| {}); });",
        "let spawn = tokio::spawn;",
        "fn later() { tokio::spawn(async {}); }",
        r#"let text = "tokio::spawn(async {})";"#,
        "html! { tokio::spawn(async {}) };",
        "stringify!(tokio::spawn(async {}));",
        "tokio::join!(insert(&new), tokio::time::sleep(pause));",
    ] {
        accepted(body);
    }
}

#[test]
fn closures_blocks_and_well_known_macros_are_part_of_the_body() {
    for body in [
        "let later = || tokio::spawn(async {});",
        "async { tokio::spawn(async {}) }.await;",
        "if ready { loop { tokio::spawn(async {}); } }",
        "tokio::join!(async { tokio::spawn(async {}) }, other());",
        "let (a, b) = futures::try_join!(first(), async { tokio::spawn(async {}); Ok(()) })?;",
        "tokio::select! { _ = sleep() => {}, done = async { tokio::spawn(async {}) } => { done }, }",
        "tokio::select! { biased; _ = sleep(), if on => { tokio::spawn(async {}); } else => {} }",
        "let all = vec![tokio::spawn(async {})];",
        r#"println!("{:?}", tokio::spawn(async {}));"#,
        "tx.savepoint(async |tx| { tokio::spawn(async {}); Ok(()) }).await?;",
    ] {
        refused(body, SPAWN);
    }
}

#[test]
fn new_connections_are_found() {
    for body in [
        "let pool = PgPool::connect(URL).await?;",
        "let pool = sqlx::PgPool::connect_lazy(URL)?;",
        "let pool = sqlx::Pool::<Postgres>::connect(URL).await?;",
        "let pool = Pool::connect_with(options).await?;",
        "let mut db = sqlx::sqlite::SqliteConnection::connect(URL).await?;",
        "let pool = PgPoolOptions::new().max_connections(1).connect(URL).await?;",
        "use sqlx::mysql::MySqlPoolOptions as Options; Options::new();",
    ] {
        refused(body, CONNECTS);
    }
    for body in [
        "let pool = SwimmingPool::connect(pipe);",
        "let options = PoolOptions::new();",
        "let connection = Connection::connect(tx).await?;",
        "Pool::connect(tx, &new).await?;",
    ] {
        accepted(body);
    }
}

#[test]
fn other_services_and_the_disk_are_found() {
    for body in [
        "reqwest::get(URL).await?;",
        "let client = reqwest::Client::new();",
        "use reqwest::get as fetch; fetch(URL).await?;",
        "let client = redis::Client::open(URL)?;",
        "tokio::net::TcpStream::connect(ADDRESS).await?;",
    ] {
        refused(body, SERVICE);
    }
    for body in [
        "std::fs::write(path, new.text)?;",
        "tokio::fs::remove_file(path).await?;",
        "use std::fs; fs::rename(a, b)?;",
        "let file = std::fs::File::create(path)?;",
    ] {
        refused(body, DISK);
    }
    for body in [
        "let text = std::fs::read_to_string(path)?;",
        "let file = std::fs::File::open(path)?;",
        "File::create(tx, &new).await?;",
        "fs::rename(tx, old, new).await?;",
        "Client::new();",
        "get(URL);",
    ] {
        accepted(body);
    }
}

#[test]
fn queries_on_something_else_are_found() {
    for body in [
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(&pool).await?;"#,
        r#"sqlx::query("INSERT INTO a VALUES ($1)").bind(new.n).execute(&state.pool).await?;"#,
        r#"sqlx::query_as::<_, Row>("SELECT 1").fetch_one(&*POOL).await?;"#,
        r#"sqlx::query_scalar(SQL).fetch_optional(db::POOL.get().unwrap()).await?;"#,
        r#"query("SELECT n FROM a").fetch_all(other_pool()).await?;"#,
        r#"sqlx::query!("SELECT 1").fetch_one(&pool.clone()).await?;"#,
        r#"let pool = state.pool.clone(); sqlx::query("SELECT 1").execute(&pool).await?;"#,
        r#"let mut other = POOL.acquire().await?; sqlx::query("SELECT 1").execute(&mut *other).await?;"#,
        r#"let query = sqlx::query("SELECT 1").bind(1); query.execute(&pool).await?;"#,
        r#"if let Some(other) = POOL.get() { sqlx::query("SELECT 1").execute(other).await?; }"#,
        r#"match POOL.get() { Some(other) => sqlx::query("SELECT 1").execute(other).await?, None => {} }"#,
        r#"let mut rows = QueryBuilder::new("SELECT 1"); rows.build().fetch_all(&pool).await?;"#,
        r#"pool.execute(sqlx::query("SELECT 1")).await?;"#,
        r#"POOL.get().unwrap().execute("INSERT INTO a VALUES (1)").await?;"#,
        r#"tokio::try_join!(insert(tx), sqlx::query("SELECT 1").execute(&pool))?;"#,
        r#"tx.savepoint(async |tx| { sqlx::query("SELECT 1").execute(&pool).await }).await?;"#,
    ] {
        refused(body, OUTSIDE);
    }
    refused(
        "let other = pool.begin().await?;",
        "goes outside the transaction; use `tx`",
    );
    refused(
        "let other = db::pool().begin().await?;",
        "goes outside the transaction; use `tx`",
    );
}

#[test]
fn queries_on_the_transaction_are_honest() {
    for body in [
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(&mut *tx).await?;"#,
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(&mut **tx).await?;"#,
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(tx).await?;"#,
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(tx.as_mut()).await?;"#,
        r#"sqlx::query("INSERT INTO a VALUES (1)").execute(tx.deref_mut()).await?;"#,
        r#"let db = &mut **tx; sqlx::query("SELECT 1").execute(&mut *db).await?;"#,
        r#"let pool = &mut *tx; sqlx::query("SELECT 1").execute(&mut *pool).await?;"#,
        r#"tx.savepoint(async |part| sqlx::query("SELECT 1").execute(&mut *part).await).await?;"#,
        r#"tx.savepoint(async |pool| sqlx::query("SELECT 1").execute(&mut *pool).await).await?;"#,
        r#"let mut unit = UnitOfWork::new(); unit.enlist(tx); sqlx::query("SELECT 1").execute(unit.db()).await?;"#,
        r#"let mut unit = state.unit(); unit.enlist(&mut *tx); sqlx::query("SELECT 1").execute(unit.db()).await?;"#,
        r#"let mut db = &mut *other(); db = tx; sqlx::query("SELECT 1").execute(db).await?;"#,
        r#"sqlx::query("SELECT 1").execute(state.connection(tx)).await?;"#,
        r#"sqlx::query("SELECT 1").execute(executor(tx)).await?;"#,
        r#"let executor = || &mut *tx; sqlx::query("SELECT 1").execute(executor()).await?;"#,
        r#"sqlx::query("SELECT 1").execute(match new.kind { _ => &mut *tx }).await?;"#,
        r#"let Context { db, .. } = Context { db: tx }; sqlx::query("SELECT 1").execute(db).await?;"#,
        r#"for db in [&mut *tx] { sqlx::query("SELECT 1").execute(db).await?; }"#,
        r#"let insert = async |db: &mut PgConnection| sqlx::query("SELECT 1").execute(db).await; insert(tx).await?;"#,
        r#"with!(tx, |db| sqlx::query("SELECT 1").execute(db));"#,
    ] {
        accepted(body);
    }
}

#[test]
fn what_only_looks_like_a_query_is_not_one() {
    for body in [
        "state.repo.execute(&new).await?;",
        "command.execute(account).await?;",
        "state.cache.fetch_one(account.id);",
        r#"state.engine.execute("INSERT INTO a VALUES (1)");"#,
        r#"search::query("begin").execute(account).await?;"#,
        r#"query("begin").execute(pool).await?;"#,
        r#"query("select red shoes").fetch_all(account).await?;"#,
        r#"query("paint the wall").execute(pool).await?;"#,
        "state.repo.insert(tx, &new).await?;",
        "let permit = LIMIT.acquire().await?;",
        "let span = TIMER.begin();",
        "SERVICE.get().unwrap().run(tx, account.id).await?;",
    ] {
        accepted(body);
    }
}

#[test]
fn a_reason_allows_a_call_on_its_statement_alone() {
    let allow = r#"#[allow(clippy::disallowed_methods, reason = "hashes a password")]"#;
    accepted(&format!(
        "{allow} let hash = tokio::task::spawn_blocking(hash).await?;"
    ));
    accepted(&format!("{allow} tokio::spawn(async {{}});"));
    accepted(&format!("{allow} {{ tokio::spawn(async {{}}); }}"));
    let read = r#"let rate: i64 = sqlx::query_scalar("SELECT 1").fetch_one(&*REPLICA).await?;"#;
    accepted(&format!("{allow} {read}"));
    refused(
        &format!("{allow} let a = hash(); tokio::spawn(async {{}});"),
        SPAWN,
    );
    refused(
        "#[allow(clippy::disallowed_methods)] tokio::spawn(async {});",
        SPAWN,
    );
    refused(
        r#"#[allow(unused, reason = "none")] tokio::spawn(async {});"#,
        SPAWN,
    );
    assert_eq!(
        faults_in(
            allow,
            "Postgres",
            "tokio::spawn(async {}); std::fs::write(a, b);"
        ),
        [""; 0]
    );
    // No reason lets a handler end its transaction.
    assert_eq!(
        faults(&format!(
            r#"{allow} sqlx::query("COMMIT").execute(&mut *tx).await?;"#
        ))
        .len(),
        1
    );
}

#[test]
fn all_faults_of_a_body_come_together() {
    let faults = faults(
        r#"tokio::spawn(async {}); sqlx::query("COMMIT").execute(&pool).await?; reqwest::get(URL).await?;"#,
    );
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn files_that_are_opened_for_writing_and_programs_are_found() {
    for body in [
        "std::fs::OpenOptions::new().append(true).open(path)?;",
        "OpenOptions::new().read(true).write(true).create(true).open(path).await?;",
        "File::options().write(true).open(path)?;",
        "let mut options = OpenOptions::new(); options.create_new(true);",
    ] {
        refused(body, DISK);
    }
    for body in [
        "std::process::Command::new(\"mail\").spawn()?;",
        "use std::process; process::Command::new(\"mail\").status()?;",
        "tokio::process::Command::new(\"mail\").output().await?;",
    ] {
        refused(
            body,
            "runs another program, and no rollback takes back what that does",
        );
    }
    for body in [
        "OpenOptions::new().read(true).open(path)?;",
        "OpenOptions::new().write(false).open(path)?;",
        "Command::new(new.title).spawn()?;",
        "pages.append(true);",
    ] {
        accepted(body);
    }
}
