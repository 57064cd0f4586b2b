//! An attestation: the tests that went wrong first, then all else that was kept of it.

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};
use sqlx::types::Uuid;

use super::parts::attested_artifacts::{data, facts, results};
use super::parts::escape::{lines, text};
use super::parts::failed_tests::{Evidence, MOST as TESTS, examine};
use super::parts::format::{badge_of, passed};
use super::parts::layout::{self, Way};
use super::parts::list::more;
use super::parts::refusal::Refusal;
use super::parts::urls;
use super::session::Visitor;
use crate::domain::attestation::junit::Wrong;
use crate::domain::model::{Fingerprint, JunitResult};
use crate::service::app::App;
use crate::service::http::segments::Segments;
use crate::store::AtMost;

/// The attestation; 404 where it is none of this trail.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, flow, trail, id)): Segments<(String, String, String, String)>,
    visitor: Visitor,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let id: Uuid = id.parse().map_err(|_| Refusal::NotFound)?;
    let mut transaction = app.store.read().await?;
    let attested = transaction.attestation(&organization, id).await?;
    let attested = attested.filter(|attested| (&attested.flow, &attested.trail) == (&flow, &trail));
    let Some(attested) = attested else { return Err(Refusal::NotFound) };
    let artifacts = transaction.artifacts_of_attestation(id).await?;
    let went_wrong = attested.results.iter().any(|result| result.wrong() > 0);
    let file = if went_wrong { transaction.attachment(&organization, id).await? } else { None };
    drop(transaction);
    let evidence = match file {
        Some(file) => Some(examine(file).await),
        None => None,
    };
    let to = urls::trail(&app, &organization, &flow, &trail);
    let content = html! {
        h1 { (text(&attested.name)) " " (passed(attested.passes)) }
        @if attested.is_superseded { p.late { "A later attestation of this name took its place." } }
        @if !attested.description.is_empty() { p { (lines(&attested.description)) } }
        @if went_wrong { (failures(evidence.as_ref(), &attested.results)) }
        section {
            h2 { "Results" }
            (results(&attested.results))
        }
        section {
            h2 { "About" }
            dl {
                dt { "Flow" }
                dd { (text(&flow)) }
                dt { "Trail" }
                dd { a href=(to) { (text(&trail)) } }
                (self::artifacts(&app, &organization, &artifacts))
                (facts(&attested))
            }
            (data(&attested.user_data))
        }
    };
    let way = Way { above: &[(&flow, String::new()), (&trail, to)], ..Way::default() };
    Ok(layout::placed(&app, &attested.name, Some(&visitor), way, &content))
}

fn artifacts(app: &App, organization: &str, artifacts: &AtMost<Fingerprint>) -> Markup {
    html! {
        @if !artifacts.listed.is_empty() {
            dt { "Artifacts" }
            dd {
                ul.plain {
                    @for artifact in &artifacts.listed {
                        li { a href=(urls::artifact(app, organization, artifact)) { code.whole { "sha256:" (artifact) } } }
                    }
                }
                (more(artifacts.cut_at(), "artifacts"))
            }
        }
    }
}

/// The tests that went wrong, or why they cannot be told.
fn failures(evidence: Option<&Evidence>, results: &[JunitResult]) -> Markup {
    let wrong: u64 = results.iter().map(|result| u64::from(result.wrong())).sum();
    html! {
        section {
            h2 { "Went wrong" }
            @match evidence {
                None => p { "No file came with it: there are only the totals." },
                Some(Evidence::Another) => p { "The file that came with it is no JUnit XML: there are only the totals." },
                Some(Evidence::Broken) => p { "The file that came with it cannot be unpacked: there are only the totals." },
                Some(Evidence::Large) => p { "The file that came with it is too large to be read here: there are only the totals." },
                Some(Evidence::Tests(tests)) => {
                    @for test in tests { (failure(test)) }
                    @if u64::try_from(tests.len()).is_ok_and(|shown| shown < wrong) {
                        p { "The file tells of " (tests.len()) " of " (wrong) @if tests.len() == TESTS { ", as many as are shown" } "." }
                    }
                }
            }
        }
    }
}

fn failure(test: &Wrong) -> Markup {
    let name = if test.name.is_empty() { &test.suite } else { &test.name };
    html! {
        article.test {
            h3 { (text(name)) " " (badge_of("bad", if test.is_error { "error" } else { "failed" })) }
            @if !test.class.is_empty() || !test.suite.is_empty() {
                p.why { (text(if test.class.is_empty() { &test.suite } else { &test.class })) }
            }
            @if !test.message.is_empty() { p { (lines(&test.message)) } }
            @if !test.output.is_empty() { pre { (lines(&test.output)) } }
        }
    }
}
