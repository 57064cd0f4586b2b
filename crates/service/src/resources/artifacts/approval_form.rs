//! The approvals of an artifact on its page, and the forms that approve it or withdraw an approval, for users with a token
//! of role approve or admin.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::app::App;
use crate::engine::approval::{self, NewApproval};
use crate::http::context::SignedIn;
use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::layout::form::Form;
use crate::layout::parts::escape::{lines, text, url_link};
use crate::layout::parts::format::{badge, timestamp};
use crate::layout::parts::list::{MAX_LISTED, empty, latest_note, table};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{self, EnvironmentLinks};
use crate::layout::session::OrganizationForm;
use crate::site::Site;
use model::access::{Operation, Role};
use model::escape::Escaped;
use model::{Approval, ApprovalItem, ApprovalState, EnvironmentName, Fingerprint, FlowName, Text};
use store::AtMost;
use store::bootstrap::KnownNames;

/// The query parameters of the artifact's page that name an approval to be confirmed.
pub(crate) const PARAMETERS: [&str; 2] = ["flow", "approved"];

/// Maximum size of the form, in bytes: a text of 64 KiB, with each byte encoded as three.
const MAX_FORM_BYTES: u64 = 256 * 1024;

/// Maximum length of a comment that a browser accepts, in characters.
const MAX_COMMENT_CHARS: usize = 10_000;

/// Approves the artifact, or withdraws an approval, and redirects to its page, which confirms it.
pub(crate) async fn submit(
    State(app): State<App>,
    OrganizationForm { organization, rest: fingerprint, caller, .. }: OrganizationForm<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let artifact: Fingerprint = fingerprint.parse().map_err(|_| Refusal::NotFound)?;
    let mut form = Form::read(&app, &organization, &headers, body, MAX_FORM_BYTES).await?;
    let flow: FlowName = Problem::parse("flow", form.take("flow").trim())?;
    let (withdrawn, environment) = (form.take("withdraw"), form.take("environment"));
    // Browsers send line breaks as CRLF.
    let comment = form.take("comment").replace("\r\n", "\n");
    let comment = Text::new(comment.trim()).map_err(|error| Problem::field("comment", &error))?;
    let path = urls::artifact(&app.site, &organization, &artifact);
    // The page exists: what does not is a name in the form.
    let refused = |problem: Problem| match problem.status() {
        StatusCode::NOT_FOUND => Problem::invalid(problem.text()),
        _ => problem,
    };
    if !withdrawn.is_empty() {
        let number = Problem::number("withdraw", &withdrawn)?;
        approval::withdraw(&app, &caller, &organization, &flow, number, &comment).await.map_err(refused)?;
        return Ok(Redirect::to(&path).into_response());
    }
    let environment: EnvironmentName = Problem::parse("environment", environment.trim())?;
    let new = NewApproval { decision: Some((comment, Text::default())), ..NewApproval::default() };
    let approved =
        approval::approve(&app, &caller, &organization, &flow, artifact, Some(&environment), new).await;
    let (_, approval) = approved.map_err(refused)?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("flow", flow.as_str()).append_pair("approved", &approval.release_number.to_string());
    Ok(Redirect::to(&format!("{path}?{}", query.finish())).into_response())
}

/// Confirms the approval that the query names, unless it was withdrawn.
pub(crate) fn confirmation(
    approvals: &[Approval],
    parameters: &Parameters,
    artifact: &str,
) -> Result<Markup, Problem> {
    let (flow, number) = (parameters.field("flow"), parameters.number("approved")?);
    let approved = approvals.iter().find(|approval| {
        Some(approval.flow.as_str()) == flow
            && Some(approval.release_number) == number
            && approval.withdrawal.is_none()
    });
    Ok(html! {
        @if let Some(approval) = approved {
            @for ApprovalItem { decision: signed, .. } in &approval.approvals {
                p.notice role="status" {
                    "Approved " (text(artifact)) " for "
                    @match &approval.environment { Some(name) => (text(name.as_str())), None => "any environment" }
                    ": approval " (approval.release_number) " of flow " (text(&approval.flow)) ", by " (text(&signed.approved_by)) ", "
                    (timestamp(signed.timestamp))
                }
            }
        }
    })
}

/// The approvals of an artifact, with the forms for users who may approve. `flows` have evidence of the artifact.
pub(crate) fn section(
    site: &Site,
    user: &SignedIn,
    artifact: Fingerprint,
    approvals: &AtMost<Approval>,
    flows: &BTreeSet<&str>,
    known: &KnownNames,
) -> Markup {
    let organization = &user.organization;
    let rows = html! {
        @for approval in &approvals.listed {
            tr {
                th scope="row" { (text(&approval.flow)) " " (approval.release_number) }
                td { (state(approval)) (withdrawal(site, user, artifact, approval)) }
                td {
                    @match &approval.environment {
                        Some(name) if known.environments.contains(name.as_str()) => {
                            (EnvironmentLinks { site, organization, environment: name.as_str() }.link())
                        }
                        // The environment was neither declared nor reported: no page.
                        Some(name) => (text(name.as_str())),
                        None => "any",
                    }
                }
                td { (lines(&approval.description)) }
                td {
                    ul.plain {
                        @for ApprovalItem { decision: signed, .. } in &approval.approvals {
                            li {
                                (text(&signed.approved_by)) ", " (timestamp(signed.timestamp))
                                @if !signed.comment.is_empty() { ": " (lines(&signed.comment)) }
                                @if !signed.approval_url.is_empty() { " (" (url_link(&signed.approval_url)) ")" }
                            }
                        }
                        @if let Some(withdrawn) = &approval.withdrawal {
                            li {
                                "withdrawn by " (text(&withdrawn.withdrawn_by)) ", " (timestamp(withdrawn.timestamp))
                                @if !withdrawn.comment.is_empty() { ": " (lines(&withdrawn.comment)) }
                            }
                        }
                    }
                }
                td { @match &approval.created_by { Some(token) => (text(token)), None => "none (file)" } }
                td { (timestamp(approval.last_modified_at)) }
            }
        }
    };
    let columns = ["Flow and number", "State", "Environment", "Description", "By", "Token", "Last changed"];
    html! {
        section {
            h2 { "Approvals" }
            @if approvals.listed.is_empty() {
                (empty("No approvals.", "supercargo approve --environment NAME FLOW DIGEST"))
            }
            @else { (table("Approvals", &columns, &rows)) }
            (latest_note(approvals.cut_at(), "approvals"))
            (form(site, user, artifact, flows, known))
        }
    }
}

fn state(approval: &Approval) -> Markup {
    let (class, word) = match approval.state {
        _ if approval.withdrawal.is_some() => ("bad", "withdrawn"),
        ApprovalState::Approved => ("good", "approved"),
        ApprovalState::Unapproved => ("bad", "not approved"),
        ApprovalState::Pending => ("open", "pending"),
    };
    badge(class, word)
}

/// The form, for users whose token may approve. `flows` are those of the artifact.
fn form(
    site: &Site,
    user: &SignedIn,
    artifact: Fingerprint,
    flows: &BTreeSet<&str>,
    known: &KnownNames,
) -> Markup {
    if !matches!(user.role, Role::Approve | Role::Admin) {
        return html! {};
    }
    let may_name = |flow: &&str| user.role.permits(&user.scope, Operation::Approve(flow)).is_ok();
    let mut flows: Vec<&str> = flows.iter().copied().filter(may_name).collect();
    if flows.is_empty() {
        flows = known.flows.iter().map(String::as_str).filter(may_name).collect();
    }
    let environments = known.environments.iter().map(String::as_str);
    let may_approve_for = |name: &&str| user.role.permits_approval_for(&user.scope, Some(name)).is_ok();
    let environments: Vec<&str> = environments.filter(may_approve_for).collect();
    if flows.is_empty() || environments.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Approve this artifact" }
        form.filter method="post" action=(urls::artifact(site, &user.organization, &artifact)) {
            (name_field("flow", "Flow", &flows))
            (environment_field(&environments))
            div {
                label for="comment" { "Comment" }
                textarea id="comment" name="comment" rows="1" maxlength=(MAX_COMMENT_CHARS) {}
            }
            button type="submit" { "Approve" }
        }
    }
}

/// The form that withdraws an approval of a token, for users whose token may make it.
fn withdrawal(site: &Site, user: &SignedIn, artifact: Fingerprint, approval: &Approval) -> Markup {
    let flow = approval.flow.as_str();
    let environment = approval.environment.as_ref().map(EnvironmentName::as_str);
    let may_withdraw = user.role.permits(&user.scope, Operation::Approve(flow)).is_ok()
        && user.role.permits_approval_for(&user.scope, environment).is_ok();
    let label = format!("Reason to withdraw approval {} of flow {flow}", approval.release_number);
    html! {
        @if may_withdraw && approval.created_by.is_some() && approval.withdrawal.is_none() {
            form.withdraw method="post" action=(urls::artifact(site, &user.organization, &artifact)) {
                input type="hidden" name="flow" value=(flow);
                input type="hidden" name="withdraw" value=(approval.release_number);
                input name="comment" aria-label=(label) placeholder="Reason" maxlength=(MAX_COMMENT_CHARS) autocomplete="off";
                button type="submit" { "Withdraw" }
            }
        }
    }
}

/// A list of environments, of which none is chosen unless there is one only. Too many for a list are suggestions.
fn environment_field(environments: &[&str]) -> Markup {
    if environments.len() > MAX_LISTED {
        return name_field("environment", "Environment", environments);
    }
    html! {
        div {
            label for="environment" { "Environment" }
            select id="environment" name="environment" required {
                @if environments.len() > 1 { option value="" { "choose" } }
                @for name in environments { option value=(name) { (Escaped(name).to_string()) } }
            }
        }
    }
}

/// An input with suggestions, filled in if there is one only.
fn name_field(name: &str, label: &str, suggestions: &[&str]) -> Markup {
    let list = format!("{name}-names");
    let only = if let [only] = suggestions { only } else { "" };
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) list=(list) value=(only) required maxlength="255" autocomplete="off";
            datalist id=(list) { @for suggestion in suggestions.iter().take(MAX_LISTED) { option value=(suggestion) {} } }
        }
    }
}
