//! Sets and removes the tags of environments and flows by operation, and reads them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use crate::database::transaction::{execute, fetch_all};
use crate::{Error, Tenant};
use model::Timestamp;

/// An object with tags, by name.
#[derive(Debug, Clone, Copy)]
pub enum Tagged<'a> {
    Environment(&'a str),
    Flow(&'a str),
}

/// The effect of a change of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTags {
    /// Each change, in words.
    pub changes: Vec<String>,
    /// The number of tags that the object has now.
    pub total: usize,
}

/// The statements for the tags in a table: to select those of an object, to close one, and to insert one.
macro_rules! statements {
    ($table:literal, $object:literal) => {
        (
            concat!(
                "SELECT id, tag, tag_value FROM ",
                $table,
                " WHERE organization = $1 AND ",
                $object,
                " = $2 AND closed_at IS NULL"
            ),
            concat!("UPDATE ", $table, " SET closed_at = $1 WHERE organization = $2 AND id = $3"),
            concat!(
                "INSERT INTO ",
                $table,
                " (id, organization, ",
                $object,
                ", tag, tag_value, created_at) VALUES ($1, $2, $3, $4, $5, $6)"
            ),
        )
    };
}

/// Removes tags of an object, then sets others.
pub async fn change(
    tenant: &mut Tenant<'_>,
    object: Tagged<'_>,
    mut set: BTreeMap<&str, &str>,
    remove: &BTreeSet<&str>,
    now: Timestamp,
) -> Result<ChangedTags, Error> {
    let ((select, close, insert), name) = match object {
        Tagged::Environment(name) => (statements!("environment_tags", "environment"), name),
        Tagged::Flow(name) => (statements!("flow_tags", "flow"), name),
    };
    let open: Vec<(Uuid, String, String)> = fetch_all!(tenant.tx, select, tenant.name, name);
    let (mut changes, mut total) = (Vec::new(), open.len());
    for (id, tag, value) in &open {
        match set.get(tag.as_str()) {
            Some(same) if same == value => _ = set.remove(tag.as_str()),
            Some(_) => {}
            None if remove.contains(tag.as_str()) => changes.push(format!("removed the tag {tag}")),
            None => continue,
        }
        if set.contains_key(tag.as_str()) || remove.contains(tag.as_str()) {
            execute!(tenant.tx, close, now, tenant.name, id);
            total -= 1;
        }
    }
    for (tag, value) in set {
        execute!(tenant.tx, insert, crate::new_id(), tenant.name, name, tag, value, now);
        total += 1;
        changes.push(format!("set the tag {tag}={value}"));
    }
    Ok(ChangedTags { changes, total })
}

/// The tags of an organization's environments; of this environment, if there is one.
pub async fn of_environments(
    tenant: &mut Tenant<'_>,
    environment: Option<&str>,
) -> Result<HashMap<String, BTreeMap<String, String>>, Error> {
    const SELECT: &str = "
        SELECT environment, tag, tag_value FROM environment_tags
        WHERE organization = $1 AND closed_at IS NULL AND ($2 = '' OR environment = $2)";
    Ok(by_object(fetch_all!(tenant.tx, SELECT, tenant.name, environment.unwrap_or_default())))
}

/// The tags of an organization's flows. Few, because people write them.
pub(crate) async fn of_flows(
    tenant: &mut Tenant<'_>,
) -> Result<HashMap<String, BTreeMap<String, String>>, Error> {
    const SELECT: &str =
        "SELECT flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
    Ok(by_object(fetch_all!(tenant.tx, SELECT, tenant.name)))
}

fn by_object(rows: Vec<(String, String, String)>) -> HashMap<String, BTreeMap<String, String>> {
    let mut tags: HashMap<String, BTreeMap<String, String>> = HashMap::new();
    for (object, tag, value) in rows {
        tags.entry(object).or_default().insert(tag, value);
    }
    tags
}
