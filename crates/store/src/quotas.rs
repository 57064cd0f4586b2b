//! Counts the objects that a token created.

use crate::database::transaction::fetch_optional_scalar;
use crate::{Error, Tenant};
use model::{Fingerprint, Timestamp};

/// Objects that a token creates. Environments in the bootstrap file do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    Environments,
    Flows,
    Trails,
}

macro_rules! nth {
    ($table:literal, $condition:literal) => {
        concat!(
            "SELECT created_at FROM ",
            $table,
            " WHERE organization = $1 AND created_by_token = $2 AND created_at > $3",
            $condition,
            " ORDER BY created_at DESC LIMIT 1 OFFSET $4"
        )
    };
}

/// When the `number`th latest of these was created by a token after `since`; `None` if there are fewer. Counts from 1.
pub async fn nth_created(
    tenant: &mut Tenant<'_>,
    created: Created,
    token: Fingerprint,
    since: Timestamp,
    number: u32,
) -> Result<Option<Timestamp>, Error> {
    let select = match created {
        Created::Environments => nth!("environments", " AND NOT is_declared"),
        Created::Flows => nth!("flows", ""),
        Created::Trails => nth!("trails", ""),
    };
    let newer = i64::from(number.saturating_sub(1));
    Ok(fetch_optional_scalar!(tenant.tx, select, tenant.name, token, since, newer))
}
