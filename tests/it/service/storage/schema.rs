//! The rows of a tenant can be partitioned or placed together: the keys of its tables begin with the organization, and each
//! statement names it.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use crate::service::{Database, TestService};

/// Tables that belong to no tenant, or are found by a hash: all others are those of tenants.
const GLOBAL: [&str; 7] =
    ["_sqlx_migrations", "bootstraps", "issuers", "leases", "organizations", "sessions", "tokens"];

async fn tables(database: &Database) -> BTreeSet<String> {
    let all = if database.is_postgres() {
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"
    } else {
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    };
    database.rows(all).await.into_iter().filter(|table| !GLOBAL.contains(&table.as_str())).collect()
}

async fn keys_of_tenants_contain_the_organization(database: Database) {
    let service = TestService::start(database).await;
    let database = &service.database;
    let tables = tables(database).await;
    assert!(tables.len() > 30, "{tables:?}");
    let (first_of_key, unique_without, foreign_without) = if database.is_postgres() {
        (
            "SELECT c.relname::text FROM pg_index i
               JOIN pg_class c ON c.oid = i.indrelid
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
             WHERE i.indisprimary AND a.attname = 'organization' AND c.relnamespace = 'public'::regnamespace",
            "SELECT c.relname::text || ' ' || i.indexrelid::regclass::text FROM pg_index i
               JOIN pg_class c ON c.oid = i.indrelid
             WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace AND NOT EXISTS
               (SELECT 1 FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum = ANY(i.indkey) AND a.attname = 'organization')",
            "SELECT c.relname::text || ' ' || f.conname::text FROM pg_constraint f
               JOIN pg_class c ON c.oid = f.conrelid
             WHERE f.contype = 'f' AND c.relnamespace = 'public'::regnamespace AND NOT EXISTS
               (SELECT 1 FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum = ANY(f.conkey) AND a.attname = 'organization')",
        )
    } else {
        (
            "SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND c.pk = 1 AND c.name = 'organization'",
            "SELECT t.name || ' ' || i.name FROM sqlite_schema t JOIN pragma_index_list(t.name) i
             WHERE t.type = 'table' AND i.\"unique\" AND NOT EXISTS
               (SELECT 1 FROM pragma_index_info(i.name) c WHERE c.name = 'organization')",
            "SELECT t.name || ' ' || f.\"table\" FROM sqlite_schema t JOIN pragma_foreign_key_list(t.name) f
             WHERE t.type = 'table' GROUP BY t.name, f.id, f.\"table\" HAVING MAX(f.\"from\" = 'organization') = 0",
        )
    };
    let first_of_key: BTreeSet<String> = database.rows(first_of_key).await.into_iter().collect();
    assert_eq!(tables.difference(&first_of_key).collect::<Vec<_>>(), Vec::<&String>::new(), "primary keys");
    for without in [unique_without, foreign_without] {
        let mut without = database.rows(without).await;
        without.retain(|key| key.split(' ').next().is_some_and(|table| tables.contains(table)));
        assert_eq!(without, Vec::<String>::new());
    }
}

crate::service::on_both!(keys_of_tenants_contain_the_organization);

/// The files of a folder and its folders.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The SQL of each function, constant and macro: its string literals, joined.
fn statements(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let comment = Regex::new(r"(?m)^\s*//.*$").unwrap();
    let source = comment.replace_all(source, "");
    let item =
        Regex::new(r"(?m)^ *(?:pub(?:\([^)]*\))? )?(?:(?:async )?fn|const|static|macro_rules!) ").unwrap();
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let starts: Vec<usize> = item.find_iter(&source).map(|found| found.start()).collect();
    let ends = starts.iter().skip(1).copied().chain([source.len()]);
    let text = |(start, end): (&usize, usize)| {
        let literals = literal.captures_iter(&source[*start..end]).map(|found| found[1].to_owned());
        literals.collect::<Vec<_>>().join(" ")
    };
    starts.iter().zip(ends).map(text).collect()
}

#[tokio::test]
async fn statements_on_tables_of_tenants_name_the_organization() {
    let tables = tables(&Database::sqlite()).await;
    let table = Regex::new(r"\b(?:FROM|JOIN|INTO|UPDATE) ([a-z_]+)(?: (?:AS )?([a-z]+)\b)?").unwrap();
    let (mut found, mut without) = (0, Vec::new());
    for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/store/src")) {
        for statement in statements(&std::fs::read_to_string(&file).unwrap()) {
            for used in table.captures_iter(&statement).filter(|used| tables.contains(&used[1])) {
                found += 1;
                let names = used.get(2).map_or(r"(^|[^.a-z])organization\b".to_owned(), |alias| {
                    format!(r"\b{}\.organization\b", alias.as_str())
                });
                if !Regex::new(&names).unwrap().is_match(&statement) {
                    without.push(format!("{}: {}", file.display(), &used[0]));
                }
            }
        }
    }
    assert!(found > 200, "{found}");
    assert_eq!(without, Vec::<String>::new());
}
