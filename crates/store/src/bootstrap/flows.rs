//! Reconciles flows, with their tags and templates.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::Error;
use crate::bootstrap::file::Flow;
use crate::bootstrap::{Difference, Reconciliation};
use crate::database::columns::json;
use crate::database::transaction::{execute, fetch_all, fetch_scalars};
use rules::ownership::Ownership;

impl Reconciliation<'_> {
    pub(crate) async fn flows(&mut self, flows: &[Flow]) -> Result<(), Error> {
        const DECLARED: &str = "SELECT name FROM flows WHERE organization = $1 AND is_declared";
        const UNDECLARE: &str =
            "UPDATE flows SET is_declared = FALSE WHERE organization = $1 AND is_declared";
        const FLOW: &str = "
            INSERT INTO flows (organization, name, created_at, is_declared) VALUES ($1, $2, $3, $4)
            ON CONFLICT (organization, name) DO UPDATE SET is_declared = excluded.is_declared";
        // Tags and templates of other flows come from operations and stay.
        let before: Vec<String> = fetch_scalars!(self.tenant.tx, DECLARED, self.tenant.name);
        let names = flows.iter().map(|flow| flow.name.as_str().to_owned());
        let owned: BTreeSet<String> = names.chain(before).collect();
        execute!(self.tenant.tx, UNDECLARE, self.tenant.name);
        for flow in flows {
            execute!(self.tenant.tx, FLOW, self.tenant.name, flow.name.as_str(), self.now, true);
        }
        self.ownerships(flows).await?;
        let changes = self.journal.changes.len();
        self.tags(flows, &owned).await?;
        self.templates(flows, &owned).await?;
        if self.journal.changes.len() > changes {
            // Conditions of policies use tags, and the compliance of trails depends on templates.
            self.mark_environments_with_policies().await?;
        }
        Ok(())
    }

    async fn ownerships(&mut self, flows: &[Flow]) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, content FROM flow_ownerships WHERE organization = $1 AND closed_at IS NULL";
        const INSERT: &str = "
            INSERT INTO flow_ownerships (id, organization, flow, content, created_at) VALUES ($1, $2, $3, $4, $5)";
        let mut declared = BTreeMap::new();
        for Flow { name, repositories, images, .. } in flows {
            let ownership = Ownership { repositories: repositories.clone(), images: images.clone() };
            if !ownership.is_empty() {
                declared.insert(name.as_str().to_owned(), json(&ownership)?);
            }
        }
        let open = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        let Difference { closed, inserted } = Difference::new(open, declared);
        self.close("flow_ownerships", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, flow, _) in closed.iter().filter(|(_, flow, _)| !inserted.contains_key(flow)) {
            self.record(format!("the flow {flow} owns nothing"));
        }
        for (flow, content) in inserted {
            let id = crate::new_id();
            execute!(self.tenant.tx, INSERT, id, self.tenant.name, &flow, &content, self.now);
            self.record(format!("the flow {flow} owns {content}"));
        }
        Ok(())
    }

    async fn tags(&mut self, flows: &[Flow], owned: &BTreeSet<String>) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
        const INSERT: &str = "
            INSERT INTO flow_tags (id, organization, flow, tag, tag_value, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let open: Vec<(Uuid, String, String, String)> = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        let open = open.into_iter().filter(|(_, flow, ..)| owned.contains(flow));
        let open = open.map(|(id, flow, tag, value)| (id, (flow, tag), value));
        let declared = flows.iter().flat_map(|flow| {
            flow.tags.iter().map(|(tag, value)| ((flow.name.to_string(), tag.to_string()), value.clone()))
        });
        let Difference { closed, inserted } = Difference::new(open.collect(), declared.collect());
        self.close("flow_tags", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, (flow, tag), value) in closed {
            self.record(format!("the tag {tag}={value} of the flow {flow} was removed"));
        }
        for ((flow, tag), value) in inserted {
            let id = crate::new_id();
            execute!(self.tenant.tx, INSERT, id, self.tenant.name, &flow, &tag, &value, self.now);
            self.record(format!("the tag {tag}={value} of the flow {flow} was added"));
        }
        Ok(())
    }

    async fn templates(&mut self, flows: &[Flow], owned: &BTreeSet<String>) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, content FROM flow_templates WHERE organization = $1 AND closed_at IS NULL";
        let mut declared = BTreeMap::new();
        for flow in flows {
            if let Some(template) = &flow.template {
                declared.insert(flow.name.as_str().to_owned(), json(template)?);
            }
        }
        let mut open: Vec<(Uuid, String, String)> = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        open.retain(|(_, flow, _)| owned.contains(flow));
        let Difference { closed, inserted } = Difference::new(open, declared);
        self.close("flow_templates", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, flow, _) in closed {
            self.record(format!("the template of the flow {flow} was removed"));
        }
        for (flow, content) in inserted {
            crate::flows::insert_template(&mut self.tenant, &flow, &content, self.now, None).await?;
            self.record(format!("the template of the flow {flow} is {content}"));
        }
        Ok(())
    }
}
