//! What is refused in a handler that keeps no key.

use super::tokens;
use crate::{lints::repeat_safe, repeat_safe::Design};

fn faults(design: Design, body: &str) -> Vec<String> {
    repeat_safe(design, &tokens(&format!("{{ {body} }}"))).messages()
}

fn faults_of_sql(design: Design, sql: &str) -> Vec<String> {
    let run = faults(
        design,
        &format!("sqlx::query({sql:?}).bind(id).execute(&pool).await?;"),
    );
    let executed = faults(design, &format!("pool.execute({sql:?}).await?;"));
    assert_eq!(run, executed, "{sql}");
    run
}

#[test]
fn increments_are_found() {
    for sql in [
        "UPDATE a SET n = n + 1 WHERE id = $1",
        "UPDATE a SET n = a.n - 1, m = 2 WHERE id = $1",
        "UPDATE a SET m = 2, n = $1 + n WHERE id = 1",
        "UPDATE a SET \"n\" = n * 2",
        "UPDATE a SET text = text || 'more' WHERE id = $1",
        "UPDATE a SET n = n - $2 WHERE id = $1 AND n >= $2",
        "INSERT INTO a VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET n = a.n + 1",
        "INSERT INTO a VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET n = a.n + excluded.n",
    ] {
        for design in [Design::ClientId, Design::Conditional, Design::Precondition] {
            let found = faults_of_sql(design, sql);
            assert!(
                found.len() == 1 && found[0].starts_with("a repeat changes `"),
                "{sql}: {found:?}"
            );
        }
    }
}

#[test]
fn what_does_not_match_again_is_honest() {
    for sql in [
        "UPDATE a SET version = version + 1, n = $1 WHERE id = $2 AND version = $3",
        "UPDATE a SET stock = stock - 1, state = 'sold' WHERE id = $1 AND state = 'free'",
        "UPDATE a SET n = n + 1, paid_at = now() WHERE id = $1 AND paid_at IS NULL",
        "UPDATE a SET n = greatest(n, $1) WHERE id = $2",
        "UPDATE a SET n = coalesce(n, $1) + 0 WHERE id = $2",
        "UPDATE a SET n = m + 1 WHERE id = $2",
        "UPDATE a SET n = $1 WHERE id = $2 AND m = m + 1",
        "INSERT INTO a VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1",
        "SELECT n + 1 FROM a",
        "DELETE FROM a WHERE id = $1",
    ] {
        assert_eq!(faults_of_sql(Design::Conditional, sql), [""; 0], "{sql}");
    }
}

#[test]
fn an_insert_under_the_client_s_id_says_what_a_repeat_does() {
    let blind = "INSERT INTO a (id, n) VALUES ($1, $2)";
    let found = faults_of_sql(Design::ClientId, blind);
    assert!(
        found.len() == 1 && found[0].contains("ON CONFLICT (id) DO NOTHING"),
        "{found:?}"
    );
    assert_eq!(faults_of_sql(Design::Conditional, blind), [""; 0]);
    for sql in [
        "INSERT INTO a VALUES ($1) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO a VALUES (?) ON DUPLICATE KEY UPDATE id = id",
        "INSERT IGNORE INTO a VALUES (?)",
        "INSERT OR IGNORE INTO a VALUES (?)",
        "INSERT OR REPLACE INTO a VALUES (?)",
        "REPLACE INTO a VALUES (?)",
        "INSERT INTO a SELECT $1 WHERE NOT EXISTS (SELECT FROM a WHERE id = $1)",
        "MERGE INTO a USING b ON a.id = b.id WHEN NOT MATCHED THEN INSERT VALUES (1)",
        "SELECT 'INSERT INTO a'",
    ] {
        assert_eq!(faults_of_sql(Design::ClientId, sql), [""; 0], "{sql}");
    }
    let handled = format!(
        "match sqlx::query({blind:?}).execute(&pool).await {{ Err(e) if e.is_unique_violation() => {{}} _ => {{}} }}"
    );
    assert_eq!(faults(Design::ClientId, &handled), [""; 0]);
}
