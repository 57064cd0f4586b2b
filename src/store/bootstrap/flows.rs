//! Reconciles flows, with their tags and templates.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::{Flow, Journal};
use crate::domain::model::Timestamp;
use crate::store::columns::json;
use crate::store::transaction::{execute, fetch_all};
use crate::store::{Error, Transaction};

#[derive(sqlx::FromRow)]
struct OpenTag {
    id: Uuid,
    flow: String,
    tag: String,
    tag_value: String,
}

impl Transaction {
    pub(super) async fn reconcile_flows(
        &mut self,
        organization: &str,
        flows: &[Flow],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const FLOW: &str = "
            INSERT INTO flows (organization, name, created_at, is_declared) VALUES ($1, $2, $3, $4)
            ON CONFLICT (organization, name) DO UPDATE SET is_declared = excluded.is_declared";
        const UNDECLARE: &str =
            "UPDATE flows SET is_declared = FALSE WHERE organization = $1 AND is_declared";
        // Tags and templates of other flows come from operations and stay.
        let mut owned = self.declared_flows(organization).await?;
        owned.extend(flows.iter().map(|flow| flow.name.as_str().to_owned()));
        execute!(self, UNDECLARE, organization);
        let mut tags: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        let mut templates: BTreeMap<&str, String> = BTreeMap::new();
        let mut ownerships: BTreeMap<&str, String> = BTreeMap::new();
        for flow in flows {
            let name = flow.name.as_str();
            execute!(self, FLOW, organization, name, now, true);
            if !flow.ownership.is_empty() {
                ownerships.insert(name, json(&flow.ownership)?);
            }
            tags.extend(flow.tags.iter().map(|(tag, value)| (name, tag.as_str(), value.as_str())));
            if let Some(template) = &flow.template {
                templates.insert(name, json(template)?);
            }
        }
        self.reconcile_ownerships(organization, ownerships, now, journal).await?;
        let before = journal.changes.len();
        self.reconcile_tags(organization, tags, &owned, now, journal).await?;
        self.reconcile_templates(organization, templates, &owned, now, journal).await?;
        if journal.changes.len() > before {
            // Conditions of policies use tags, and the compliance of trails depends on templates.
            for environment in self.environments_with_policies(organization, false).await? {
                journal.mark_for_evaluation(organization, &environment);
            }
        }
        Ok(())
    }

    async fn declared_flows(&mut self, organization: &str) -> Result<BTreeSet<String>, Error> {
        const SELECT: &str = "SELECT name FROM flows WHERE organization = $1 AND is_declared";
        self.select_names(SELECT, organization).await
    }

    async fn reconcile_ownerships(
        &mut self,
        organization: &str,
        mut wanted: BTreeMap<&str, String>,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, content FROM flow_ownerships WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE flow_ownerships SET closed_at = $1 WHERE organization = $2 AND id = $3";
        const INSERT: &str = "
            INSERT INTO flow_ownerships (id, organization, flow, content, created_at) VALUES ($1, $2, $3, $4, $5)";
        let open: Vec<(Uuid, String, String)> = fetch_all!(self, SELECT, organization);
        for (id, flow, content) in &open {
            match wanted.get(flow.as_str()) {
                Some(wanted_content) if wanted_content == content => _ = wanted.remove(flow.as_str()),
                other => {
                    if other.is_none() {
                        journal.record(organization, format!("the flow {flow} owns nothing"));
                    }
                    self.close(CLOSE, organization, *id, now).await?;
                }
            }
        }
        for (flow, content) in wanted {
            journal.record(organization, format!("the flow {flow} owns {content}"));
            execute!(self, INSERT, Uuid::now_v7(), organization, flow, content, now);
        }
        Ok(())
    }

    async fn reconcile_tags(
        &mut self,
        organization: &str,
        mut wanted: BTreeSet<(&str, &str, &str)>,
        owned: &BTreeSet<String>,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE flow_tags SET closed_at = $1 WHERE organization = $2 AND id = $3";
        const INSERT: &str = "
            INSERT INTO flow_tags (id, organization, flow, tag, tag_value, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let open: Vec<OpenTag> = fetch_all!(self, SELECT, organization);
        for OpenTag { id, flow, tag, tag_value } in open.iter().filter(|tag| owned.contains(&tag.flow)) {
            if !wanted.remove(&(flow.as_str(), tag.as_str(), tag_value.as_str())) {
                self.close(CLOSE, organization, *id, now).await?;
                let change = format!("the tag {tag}={tag_value} of the flow {flow} was removed");
                journal.record(organization, change);
            }
        }
        for (flow, tag, value) in wanted {
            journal.record(organization, format!("the tag {tag}={value} of the flow {flow} was added"));
            execute!(self, INSERT, Uuid::now_v7(), organization, flow, tag, value, now);
        }
        Ok(())
    }

    async fn reconcile_templates(
        &mut self,
        organization: &str,
        mut wanted: BTreeMap<&str, String>,
        owned: &BTreeSet<String>,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, content FROM flow_templates WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE flow_templates SET closed_at = $1 WHERE organization = $2 AND id = $3";
        let open: Vec<(Uuid, String, String)> = fetch_all!(self, SELECT, organization);
        for (id, flow, content) in open.into_iter().filter(|(_, flow, _)| owned.contains(flow)) {
            if wanted.get(flow.as_str()) == Some(&content) {
                wanted.remove(flow.as_str());
            } else {
                self.close(CLOSE, organization, id, now).await?;
                journal.record(organization, format!("the template of the flow {flow} was removed"));
            }
        }
        for (flow, content) in wanted {
            journal.record(organization, format!("the template of the flow {flow} is {content}"));
            self.insert_template(organization, flow, &content, now, None).await?;
        }
        Ok(())
    }
}
