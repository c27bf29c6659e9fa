//! Everything that is in some tables of a test's database.

use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};

use crate::servers::{Backend, TestDatabase};

/// The tables, and their columns, whose names begin with `idem_`.
const POSTGRES: &str = "SELECT table_name::text, 't::text' FROM information_schema.tables \
    WHERE table_schema = current_schema() AND table_name LIKE 'idem\\_%'";
const SQLITE: &str = "SELECT m.name, 'lower(hex(' || c.name || '))' \
    FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name LIKE 'idem\\_%' ESCAPE '\\'";
const MYSQL: &str = "SELECT CONVERT(table_name USING utf8mb4), CONCAT('lower(hex(', column_name, '))') \
    FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name LIKE 'idem\\_%'";

/// Every value of the framework's tables, as text or as hexadecimal digits; read on a connection of its own.
///
/// # Panics
///
/// When the database can't be read.
pub async fn dump(database: &TestDatabase) -> Vec<String> {
    macro_rules! through {
        ($connection:ty, $tables:expr) => {{
            let connected = <$connection>::connect(database.url()).await;
            let mut connection = connected.expect("the test's database is reachable");
            let columns: Vec<(String, String)> = sqlx::query_as($tables)
                .fetch_all(&mut connection)
                .await
                .expect("tables are listed");
            let mut all = Vec::new();
            for (table, column) in columns {
                let sql = format!("SELECT {column} FROM {table} t");
                let values: Vec<Option<String>> = sqlx::query_scalar(AssertSqlSafe(sql))
                    .fetch_all(&mut connection)
                    .await
                    .expect("a table is read");
                all.extend(values.into_iter().flatten());
            }
            all
        }};
    }
    match database.backend() {
        Backend::Postgres | Backend::PostgresFewest => through!(PgConnection, POSTGRES),
        Backend::Sqlite => through!(SqliteConnection, SQLITE),
        Backend::MySql => through!(MySqlConnection, MYSQL),
    }
}

/// Whether a word is in one of these, as it is or as the bytes of a column.
pub fn holds(dump: &[String], word: &str) -> bool {
    let bytes: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    dump.iter()
        .any(|value| value.contains(word) || value.contains(&bytes))
}
