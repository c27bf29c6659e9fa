//! SQL that begins or ends a transaction.

use super::{accepted, faults_in, refused};

const ENDS: &str =
    "the framework ends the transaction; return `Ok` to commit or `Err` to roll back";
const BEGINS: &str = "the framework has begun the transaction";

#[test]
fn statements_that_end_the_transaction_are_found() {
    for sql in [
        "COMMIT",
        " commit ; ",
        "COMMIT AND CHAIN",
        "commit work",
        "ROLLBACK",
        "rollback and chain",
        "END",
        "END TRANSACTION",
        "ABORT",
        "PREPARE TRANSACTION 'a'",
        "SET autocommit = 1",
        "INSERT INTO a VALUES (1); COMMIT",
        "INSERT INTO a VALUES ('it''s; fine'); COMMIT",
        "/* note */ COMMIT",
        "-- note\nCOMMIT",
    ] {
        refused(
            &format!("sqlx::query({sql:?}).execute(&mut *tx).await?;"),
            ENDS,
        );
    }
    for body in [
        r#"sqlx::raw_sql("COMMIT").execute(&mut *tx).await?;"#,
        r#"sqlx::query!("COMMIT").execute(&mut *tx).await?;"#,
        r#"sqlx::query(sqlx::AssertSqlSafe("COMMIT")).execute(&mut *tx).await?;"#,
        r#"query("COMMIT").execute(&mut *tx).await?;"#,
        r#"tx.execute("COMMIT").await?;"#,
        r#"(&mut **tx).execute(sqlx::raw_sql("COMMIT")).await?;"#,
        r#"let db = &mut **tx; db.execute("COMMIT").await?;"#,
        r#"tx.savepoint(async |part| part.execute("ROLLBACK").await).await?;"#,
        r##"sqlx::query(r#"COMMIT"#).execute(helper(tx)).await?;"##,
    ] {
        refused(body, ENDS);
    }
}

#[test]
fn statements_that_begin_another_are_found() {
    for sql in [
        "BEGIN",
        "begin isolation level serializable",
        "START TRANSACTION",
        "BEGIN IMMEDIATE",
    ] {
        refused(&format!("tx.execute({sql:?}).await?;"), BEGINS);
    }
    refused(
        r#"tx.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await?;"#,
        "the framework begins the transaction; set its isolation",
    );
}

#[test]
fn statements_inside_the_transaction_are_honest() {
    for sql in [
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "ROLLBACK TO SAVEPOINT a",
        "rollback work to a",
        "RELEASE SAVEPOINT a",
        "SET LOCAL lock_timeout = '1s'",
        "SET CONSTRAINTS ALL DEFERRED",
        "INSERT INTO a VALUES ('COMMIT'); SELECT 1",
        "INSERT INTO a VALUES ('; COMMIT')",
        "INSERT INTO a VALUES ($$; COMMIT$$)",
        "INSERT INTO a VALUES ($a$; COMMIT; $$; $a$)",
        "SELECT \"commit\" FROM begin -- ; COMMIT",
        "SELECT 1 /* ; COMMIT */",
        "INSERT INTO a VALUES ('\\'; COMMIT; ')",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "DO $$ BEGIN PERFORM 1; END $$",
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END",
        "UPDATE a SET state = CASE WHEN n THEN 1 END; SELECT 1",
        "CREATE TABLE a (n int)",
        "",
    ] {
        accepted(&format!("sqlx::query({sql:?}).execute(&mut *tx).await?;"));
    }
}

#[test]
fn words_elsewhere_are_no_sql() {
    for body in [
        r#"let text = "COMMIT";"#,
        r#"state.machine.execute("COMMIT");"#,
        r#"git.execute("commit").await?;"#,
        r#"query("commit");"#,
        r#"search::query("rollback").fetch_one(index).await?;"#,
        r#"fn sql() { sqlx::query("COMMIT"); }"#,
        r#"println!("COMMIT");"#,
    ] {
        accepted(body);
    }
}

#[test]
fn mysql_commits_by_itself_at_some_statements() {
    let faults = |database, sql: &str| {
        faults_in(
            "",
            database,
            &format!("sqlx::query({sql:?}).execute(&mut *tx).await?;"),
        )
    };
    for sql in [
        "CREATE TABLE a (n int)",
        "drop table a",
        "ALTER TABLE a ADD b int",
        "TRUNCATE a",
        "LOCK TABLES a WRITE",
    ] {
        let found = faults("sqlx::MySql", sql);
        assert!(
            found.len() == 1 && found[0].contains("commits the transaction by itself"),
            "{sql}: {found:?}"
        );
        assert_eq!(faults("Postgres", sql), [""; 0], "{sql}");
    }
    for sql in [
        "CREATE TEMPORARY TABLE a (n int)",
        "INSERT INTO a SELECT 1",
        "DROP TEMPORARY TABLE a",
    ] {
        assert_eq!(faults("MySql", sql), [""; 0], "{sql}");
    }
}
