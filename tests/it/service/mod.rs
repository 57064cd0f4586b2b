//! The service, over real HTTP, on SQLite and on PostgreSQL.
//!
//! Each test is a function of a [`Database`]. `on_sqlite!` runs it on a new SQLite file. `on_both!` runs it also on a
//! new database of the PostgreSQL server that `SUPERCARGO_TEST_DATABASE` names (`docs/reference/testing.md`): tests whose result
//! depends on SQL, locks or the order of text. All other tests use `on_sqlite!`.

pub(crate) mod environments;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod records;
pub(crate) mod rules;
pub(crate) mod storage;
pub(crate) mod support;

use model::reason::Reason;

pub use support::database::Database;
pub use support::test_service::{
    Options, Response, TestService, bootstrap, digest, eventually, folder, form, pod, report,
};

/// A token of the default bootstrap file.
pub const ADMIN: &str = "admin-0123456789abcdef0123456789";
pub const READER: &str = "reader-0123456789abcdef012345678";
/// Limited to the environment `prod`.
pub const REPORTER: &str = "reporter-0123456789abcdef0123456";
/// Limited to the flow `cart`.
pub const ATTESTER: &str = "attester-0123456789abcdef0123456";
/// Limited to the flow `cart` and the environment `prod`.
pub const APPROVER: &str = "approver-0123456789abcdef0123456";
/// Admin of the organization `stranger`.
pub const STRANGER: &str = "stranger-0123456789abcdef0123456";
pub const EXPIRED: &str = "expired-0123456789abcdef01234567";

/// Rows that end in the stored reasons of a verdict, with the texts of these.
pub(crate) fn in_words(rows: Vec<String>) -> Vec<String> {
    let row = |row: String| {
        let (verdict, reasons) = row.split_once(" [").unwrap();
        let reasons: Vec<Reason> = serde_json::from_str(&format!("[{reasons}")).unwrap();
        let texts: Vec<_> = reasons.iter().map(Reason::to_string).collect();
        format!("{verdict} {}", serde_json::to_string(&texts).unwrap())
    };
    rows.into_iter().map(row).collect()
}

/// Asserts that the committed file matches the code; `INSTA_UPDATE=always` writes it.
pub fn assert_committed(file: &str, text: &str) {
    let path = format!("{}/examples/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "run with INSTA_UPDATE=always");
}

/// Runs each test on SQLite and on PostgreSQL.
macro_rules! on_both {
    ($($(#[$only:meta])* $test:ident),* $(,)?) => {
        mod sqlite {
            $($(#[$only])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::service::Database::sqlite()).await;
            })*
        }
        mod postgres {
            $($(#[$only])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
            async fn $test() {
                super::$test(crate::service::Database::postgres().await).await;
            })*
        }
    };
}
pub(crate) use on_both;

/// Runs each test on SQLite only.
macro_rules! on_sqlite {
    ($($(#[$only:meta])* $test:ident),* $(,)?) => {
        mod sqlite_only {
            $($(#[$only])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::service::Database::sqlite()).await;
            })*
        }
    };
}
pub(crate) use on_sqlite;
