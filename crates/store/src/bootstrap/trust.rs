//! Reconciles trusted signers. A changed entry gets a new row, so that the content of a row never changes.

use crate::Error;
use crate::bootstrap::file::{self, unresolved};
use crate::bootstrap::{Difference, Reconciliation};
use crate::database::columns::{Json, json};
use crate::database::transaction::{execute, fetch_all};
use crate::{Tenant, new_id};
use rules::trust::Trust;
use sqlx::types::Uuid;

/// The trusted signers of an organization, in the order of their declaration.
pub async fn trusted(tenant: &mut Tenant<'_>) -> Result<Vec<Trust>, Error> {
    Ok(open(tenant).await?.into_iter().map(|(_, trust)| trust).collect())
}

async fn open(tenant: &mut Tenant<'_>) -> Result<Vec<(Uuid, Trust)>, Error> {
    const SELECT: &str =
        "SELECT id, content FROM trusted_signers WHERE organization = $1 AND closed_at IS NULL ORDER BY id";
    let rows: Vec<(Uuid, Json<Trust>)> = fetch_all!(tenant.tx, SELECT, tenant.name);
    Ok(rows.into_iter().map(|(id, Json(trust))| (id, trust)).collect())
}

impl Reconciliation<'_> {
    pub(crate) async fn trust(&mut self, declared: &[file::Trust]) -> Result<(), Error> {
        const INSERT: &str =
            "INSERT INTO trusted_signers (id, organization, content, created_at) VALUES ($1, $2, $3, $4)";
        let open = open(&mut self.tenant).await?.into_iter();
        let open = open.map(|(id, trust)| (id, trust.name.clone(), trust)).collect();
        let resolved = declared.iter().map(|declared| {
            let trust =
                declared.resolved.clone().ok_or_else(|| unresolved("the content of a trusted key"))?;
            Ok((declared.name.clone(), trust))
        });
        let Difference { closed, inserted } = Difference::new(open, resolved.collect::<Result<_, Error>>()?);
        self.close("trusted_signers", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, _, trust) in &closed {
            self.record(format!("the {trust} was removed"));
        }
        for trust in inserted.values() {
            execute!(self.tenant.tx, INSERT, new_id(), self.tenant.name, json(trust)?, self.now);
            self.record(format!("the {trust} was added"));
        }
        Ok(())
    }
}
