//! How many effects there are, by another way than the answers.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use axum::http::HeaderMap;
use reqwest::Url;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};
use tokio::process::Command;

use super::sender::addresses;
use super::{Hammer, Unusable};

/// How long one look may take.
const LOOK: Duration = Duration::from_secs(60);

/// Where effects are seen.
#[derive(Clone, Debug)]
pub enum Source {
    /// A JSON document, and where in it (RFC 6901) the array of effects or their number is.
    Url {
        /// What is asked.
        url: Url,
        /// Empty for the whole document.
        pointer: String,
        /// With which fields.
        headers: HeaderMap,
        /// Whether it may be on another machine.
        allow_remote: bool,
    },
    /// A query.
    Sql {
        /// The database's URL, as sqlx takes it. Never printed.
        database: String,
        /// Gives a number, or a text for each effect.
        query: String,
    },
    /// A file with a line for each effect. None is there before the first.
    File(PathBuf),
    /// A shell's command, which prints a number, or a line for each effect.
    Command(String),
}

/// Effects of the run's keys, by number of the key.
pub type ByKey = BTreeMap<u64, u64>;

impl Source {
    /// How many effects there are.
    ///
    /// # Errors
    ///
    /// When the source does not say.
    pub async fn number(&self) -> Result<i64, Unusable> {
        let number = async {
            match self {
                Source::Url { pointer, .. } => number_in(&self.document().await?, pointer),
                Source::Sql { database, query } => select(database, query).await?.single(),
                Source::File(_) => Ok(self.lines().await?.len().try_into().unwrap_or(i64::MAX)),
                Source::Command(_) => {
                    let output = self.output().await?;
                    let number = output.trim().parse();
                    number.map_err(|_| format!("it printed no number, but {:?}", brief(&output)))
                }
            }
        };
        self.in_time(number).await
    }

    /// How many effects each of the run's keys has had: those whose text holds it.
    ///
    /// # Errors
    ///
    /// When the source does not say.
    pub async fn by_key(&self, hammer: &Hammer) -> Result<ByKey, Unusable> {
        let texts = async {
            match self {
                Source::Url { pointer, .. } => texts_in(&self.document().await?, pointer),
                Source::Sql { database, query } => select(database, query).await?.all(),
                Source::File(_) | Source::Command(_) => self.lines().await,
            }
        };
        let texts = self.in_time(texts).await?;
        let plan = &hammer.settings().plan;
        let keys = (0..hammer.begun()).map(|number| (plan.key(number).key, number));
        Ok(held_by(&texts, &keys.collect()))
    }

    async fn in_time<T>(
        &self,
        look: impl Future<Output = Result<T, String>>,
    ) -> Result<T, Unusable> {
        let source = match self {
            Source::Url { url, .. } => url.to_string(),
            Source::Sql { query, .. } => query.clone(),
            Source::File(path) => path.display().to_string(),
            Source::Command(command) => command.clone(),
        };
        tokio::time::timeout(LOOK, look)
            .await
            .unwrap_or_else(|_| Err(format!("nothing within {} s", LOOK.as_secs())))
            .map_err(|why| Unusable(format!("the effects can't be counted: {source}: {why}")))
    }

    async fn document(&self) -> Result<Value, String> {
        let Source::Url {
            url,
            headers,
            allow_remote,
            ..
        } = self
        else {
            return Ok(Value::Null);
        };
        let addresses = addresses(url, *allow_remote)
            .await
            .map_err(|error| error.0)?;
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .resolve_to_addrs(url.host_str().unwrap_or_default(), &addresses)
            .build()
            .map_err(|error| error.to_string())?;
        let request = client.get(url.clone()).headers(headers.clone());
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("answered {status}"));
        }
        let answer = answer.json().await;
        answer.map_err(|error| format!("answered no JSON: {error}"))
    }

    async fn lines(&self) -> Result<Vec<String>, String> {
        let text = match self {
            Source::File(path) => match tokio::fs::read_to_string(path).await {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
                Err(error) => return Err(error.to_string()),
            },
            _ => self.output().await?,
        };
        Ok(text.lines().map(str::to_owned).collect())
    }

    async fn output(&self) -> Result<String, String> {
        let Source::Command(command) = self else {
            return Ok(String::new());
        };
        let output = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("it ended with {}", output.status));
        }
        String::from_utf8(output.stdout).map_err(|_| "it printed no text".to_owned())
    }
}

/// What a query gave, as its first column is.
enum Column {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Column {
    fn single(self) -> Result<i64, String> {
        match self {
            Column::Numbers(numbers) if numbers.len() == 1 => Ok(numbers[0]),
            Column::Numbers(numbers) => Err(format!("it gave {} rows, not one", numbers.len())),
            Column::Texts(_) => Err("it gave texts, not a number".to_owned()),
        }
    }

    fn all(self) -> Result<Vec<String>, String> {
        match self {
            Column::Texts(texts) => Ok(texts),
            Column::Numbers(_) => Err("it gave a number, not a text for each effect".to_owned()),
        }
    }
}

async fn select(database: &str, query: &str) -> Result<Column, String> {
    // The user's own statement, in the user's own database.
    let sql = || AssertSqlSafe(query.to_owned());
    // A macro: the statements are alike, and their types are not.
    macro_rules! ask {
        ($connection:ty) => {{
            let mut connection = <$connection>::connect(database)
                .await
                .map_err(|error| said(&error))?;
            let numbers = sqlx::query_scalar::<_, i64>(sql())
                .fetch_all(&mut connection)
                .await;
            let column = match numbers {
                Ok(numbers) if !numbers.is_empty() => Ok(Column::Numbers(numbers)),
                Ok(_) | Err(sqlx::Error::ColumnDecode { .. }) => {
                    let texts = sqlx::query_scalar::<_, String>(sql())
                        .fetch_all(&mut connection)
                        .await;
                    texts.map(Column::Texts).map_err(|error| said(&error))
                }
                Err(error) => Err(said(&error)),
            };
            let _ = connection.close().await;
            column
        }};
    }
    match database.split(':').next() {
        Some("postgres" | "postgresql") => ask!(PgConnection),
        Some("mysql" | "mariadb") => ask!(MySqlConnection),
        Some("sqlite") => ask!(SqliteConnection),
        _ => Err("a database's URL begins with postgres:, mysql: or sqlite:".to_owned()),
    }
}

fn said(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::ColumnDecode { .. } => {
            "its first column is neither a 64-bit integer nor a text: cast it".to_owned()
        }
        // It would name the URL.
        sqlx::Error::Configuration(_) => "the database's URL is wrong".to_owned(),
        error => error.to_string(),
    }
}

fn pointed<'a>(document: &'a Value, pointer: &str) -> Result<&'a Value, String> {
    let found = document.pointer(pointer);
    found.ok_or_else(|| format!("the document has nothing at {pointer:?}"))
}

fn number_in(document: &Value, pointer: &str) -> Result<i64, String> {
    let value = pointed(document, pointer)?;
    if let Some(elements) = value.as_array() {
        return Ok(elements.len().try_into().unwrap_or(i64::MAX));
    }
    let number = value.as_i64();
    number.ok_or_else(|| format!("neither an array nor a number is at {pointer:?}"))
}

fn texts_in(document: &Value, pointer: &str) -> Result<Vec<String>, String> {
    let elements = pointed(document, pointer)?.as_array();
    let elements = elements.ok_or_else(|| format!("no array is at {pointer:?}"))?;
    Ok(elements.iter().map(Value::to_string).collect())
}

/// For each key in how many of the texts it is. All keys are of one length.
fn held_by(texts: &[String], keys: &HashMap<String, u64>) -> ByKey {
    let mut held = ByKey::new();
    let Some(length) = keys.keys().next().map(String::len) else {
        return held;
    };
    for text in texts {
        let windows = text.as_bytes().windows(length);
        let mut here: Vec<u64> = windows
            .filter_map(|window| keys.get(std::str::from_utf8(window).ok()?).copied())
            .collect();
        here.sort_unstable();
        here.dedup();
        for number in here {
            *held.entry(number).or_default() += 1;
        }
    }
    held
}

fn brief(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_its_effects_in_an_array_or_a_number() {
        let document = json!({"count": 3, "rows": [1, 2], "name": "x"});
        assert_eq!(number_in(&document, "/count"), Ok(3));
        assert_eq!(number_in(&document, "/rows"), Ok(2));
        assert_eq!(number_in(&json!([1, 2, 3]), ""), Ok(3));
        for wrong in ["", "/name", "/none"] {
            assert!(number_in(&document, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_effect_is_its_key_s_wherever_the_key_is_in_it() {
        let keys = ["aaaa", "bbbb", "cccc"].map(str::to_owned);
        let keys = keys.into_iter().zip(0..).collect();
        let texts = ["x aaaa y aaaa", "bbbb", "é-aaaa-é", "dddd aaa", ""].map(str::to_owned);
        assert_eq!(held_by(&texts, &keys), ByKey::from([(0, 2), (1, 1)]));
    }

    #[tokio::test]
    async fn a_command_and_a_file_are_read() {
        let command = |text: &str| Source::Command(text.to_owned());
        assert_eq!(command("echo 12").number().await.ok(), Some(12));
        for wrong in ["echo twelve", "exit 3", "echo"] {
            let error = command(wrong).number().await.expect_err(wrong).0;
            assert!(error.contains(wrong), "{error}");
        }
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let path = directory.path().join("ledger");
        let file = Source::File(path.clone());
        assert_eq!(file.number().await.ok(), Some(0));
        std::fs::write(&path, "one\ntwo\n").expect("a file");
        assert_eq!(file.number().await.ok(), Some(2));
    }

    #[tokio::test]
    async fn a_query_gives_a_number_or_texts() {
        let sql = |query: &str| Source::Sql {
            database: "sqlite::memory:".to_owned(),
            query: query.to_owned(),
        };
        assert_eq!(sql("SELECT 7").number().await.ok(), Some(7));
        for wrong in [
            "SELECT 'a'",
            "SELECT 1 UNION SELECT 2",
            "SELECT",
            "SELECT x'ff'",
        ] {
            assert!(sql(wrong).number().await.is_err(), "{wrong}");
        }
        let Source::Sql { database, query } = sql("SELECT 'a' UNION SELECT 'b'") else {
            unreachable!("it is SQL");
        };
        let texts = select(&database, &query).await.and_then(Column::all);
        assert_eq!(texts, Ok(vec!["a".to_owned(), "b".to_owned()]));
    }
}
