//! Evaluates trails that policies depend on.

use std::collections::{BTreeSet, HashMap};

use sqlx::types::Uuid;

use crate::database::row_limit::PageBudget;
use crate::database::transaction::{MAX_STATEMENT_ROWS, fetch_for_all};
use crate::trails::{COLUMNS, TrailRow};
use crate::{Error, Tenant};
use model::{ComplianceState, Timestamp};
use rules::verdict::evaluate_trail;

/// The names of trails, and their states by their templates, or else by the current ones of their flows.
pub async fn read(
    tenant: &mut Tenant<'_>,
    trails: &BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, (String, ComplianceState)>, Error> {
    let select = format!("{COLUMNS} FROM trails t WHERE t.organization = ? AND t.id IN (?)");
    let mut compliance = HashMap::new();
    let ids: Vec<Uuid> = trails.iter().copied().collect();
    for chunk in ids.chunks(MAX_STATEMENT_ROWS) {
        let mut rows: Vec<TrailRow> = fetch_for_all!(tenant.tx, select, chunk.iter().copied(), tenant.name);
        crate::trails::read_latest(tenant, &mut rows, &mut PageBudget::unlimited()).await?;
        let flows = rows.iter().filter(|row| row.trail.template.is_none());
        let flows: BTreeSet<&str> = flows.map(|row| row.trail.flow.name.as_str()).collect();
        let templates = crate::trails::templates(tenant, flows).await?;
        for TrailRow { trail, latest, .. } in rows {
            let template = trail.template.as_ref().or_else(|| templates.get(&trail.flow.name));
            // The compliance does not depend on the time.
            let status = evaluate_trail(template, &latest, Timestamp::EPOCH);
            compliance.insert(trail.id, (trail.name, status.status));
        }
    }
    Ok(compliance)
}
