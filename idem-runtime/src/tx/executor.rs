//! `&mut *tx` is an executor, as in every sqlx example. One implementation a backend: a generic one makes users' own generic
//! code overflow (E0275).

use sqlx::Database;

use super::Tx;

macro_rules! executor {
    ($db:ty) => {
        const _: () = {
            use futures_core::future::BoxFuture;
            use futures_core::stream::BoxStream;
            use sqlx::{Describe, Either, Execute, Executor, SqlStr};

            type Row = <$db as Database>::Row;
            type Done = <$db as Database>::QueryResult;

            impl<'c> Executor<'c> for &'c mut Tx<$db> {
                type Database = $db;

                fn fetch_many<'e, 'q: 'e, E>(
                    self,
                    query: E,
                ) -> BoxStream<'e, sqlx::Result<Either<Done, Row>>>
                where
                    'c: 'e,
                    E: 'q + Execute<'q, $db>,
                {
                    (&mut **self).fetch_many(query)
                }

                fn fetch_optional<'e, 'q: 'e, E>(
                    self,
                    query: E,
                ) -> BoxFuture<'e, sqlx::Result<Option<Row>>>
                where
                    'c: 'e,
                    E: 'q + Execute<'q, $db>,
                {
                    (&mut **self).fetch_optional(query)
                }

                fn prepare_with<'e>(
                    self,
                    sql: SqlStr,
                    parameters: &'e [<$db as Database>::TypeInfo],
                ) -> BoxFuture<'e, sqlx::Result<<$db as Database>::Statement>>
                where
                    'c: 'e,
                {
                    (&mut **self).prepare_with(sql, parameters)
                }

                fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<$db>>>
                where
                    'c: 'e,
                {
                    (&mut **self).describe(sql)
                }
            }
        };
    };
}

#[cfg(feature = "mysql")]
executor!(sqlx::MySql);
#[cfg(feature = "postgres")]
executor!(sqlx::Postgres);
#[cfg(feature = "sqlite")]
executor!(sqlx::Sqlite);
