//! The page of an attestation: failed tests first, then results, facts and user data.

use axum::extract::State;
use maud::{Markup, html};
use sqlx::types::Uuid;

use crate::engine::failed_tests::{FailedTests, MAX_TESTS, read_failed_tests};
use crate::layout::parts::attestation::{JUNIT, data, facts, results};
use crate::layout::parts::escape::{lines, text};
use crate::layout::parts::format::{badge, result_badge};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::latest_note;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls;
use crate::layout::session::OrganizationPage;
use crate::site::{PageSite, Site};
use junit::FailedTest;
use model::{Fingerprint, JunitResult};
use store::AtMost;

/// The page; 404 if the attestation belongs to another trail.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest, user, .. }: OrganizationPage<(String, String, String)>,
) -> Result<HtmlPage, Refusal> {
    let (flow, trail, id) = rest;
    let id: Uuid = id.parse().map_err(|_| Refusal::NotFound)?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let attested = store::attestations::details::get(tenant, id).await?;
    let attested = attested.filter(|attested| (&attested.flow_name, &attested.trail_name) == (&flow, &trail));
    let Some(attested) = attested else { return Err(Refusal::NotFound) };
    let listed = &attested.attestation;
    let artifacts = store::attestations::details::artifacts(tenant, id).await?;
    let has_failures = attested.junit_results.iter().any(|result| result.unsuccessful() > 0);
    let file = if has_failures { store::attestations::details::attachment(tenant, id).await? } else { None };
    drop(transaction);
    let tests = match file {
        Some(file) => read_failed_tests(file).await,
        None if attested.attachment.is_some() => FailedTests::Removed,
        None => FailedTests::NoFile,
    };
    let trail_url = urls::trail(&site, &organization, &flow, &trail);
    let content = html! {
        h1 { (text(&listed.attestation_name)) " " (result_badge(listed.is_compliant)) }
        @if attested.is_superseded { p.warning { "Superseded by a later attestation of the same name." } }
        @if !listed.description.is_empty() { p { (lines(&listed.description)) } }
        @if has_failures { (failed_tests(&tests, &attested.junit_results)) }
        @if listed.attestation_type == JUNIT {
            section {
                h2 { "Results" }
                (results(&attested.junit_results))
            }
        }
        section {
            h2 { "Details" }
            dl {
                dt { "Type" }
                dd { (text(&listed.attestation_type)) }
                dt { "Flow" }
                dd { (text(&flow)) }
                dt { "Trail" }
                dd { a href=(trail_url) { (text(&trail)) } }
                (crate::resources::attestations::page::artifacts(&site, &organization, &artifacts))
                (facts(&attested, &site.links.data(&["attachments", &organization, &id.to_string()], &[])))
            }
            (data("Data", attested.other_fields.get()))
            (data("User data", listed.user_data.as_str()))
        }
    };
    let id = id.to_string();
    let query = [("attestation_id", id.as_str())];
    let alternate =
        Alternate::new(&site, &["attestations", &organization], &query, &["get", "attestation", &id]);
    let navigation = Navigation {
        parents: &[(&flow, String::new()), (&trail, trail_url)],
        alternate: Some(&alternate),
        ..Navigation::default()
    };
    Ok(layout::page_with_navigation(&site, &listed.attestation_name, Some(&user), navigation, &content))
}

fn artifacts(site: &Site, organization: &str, artifacts: &AtMost<Fingerprint>) -> Markup {
    html! {
        @if !artifacts.listed.is_empty() {
            dt { "Artifacts" }
            dd {
                ul.plain {
                    @for artifact in &artifacts.listed {
                        li { a href=(urls::artifact(site, organization, artifact)) { code.whole { "sha256:" (artifact) } } }
                    }
                }
                (latest_note(artifacts.cut_at(), "artifacts"))
            }
        }
    }
}

/// The failed tests, or the reason why they are not available.
fn failed_tests(tests: &FailedTests, results: &[JunitResult]) -> Markup {
    let total: u64 = results.iter().map(|result| u64::from(result.unsuccessful())).sum();
    html! {
        section {
            h2 { "Failed tests" }
            @match tests {
                FailedTests::NoFile => p { "Only totals are available: no file was attached." },
                FailedTests::Removed => p { "Only totals are available: the attached file was removed by retention." },
                FailedTests::OtherFormat => p { "Only totals are available: the attached file is not JUnit XML." },
                FailedTests::Corrupt => p { "Only totals are available: the attached file is corrupt." },
                FailedTests::TooLarge => p { "Only totals are available: the attached file is too large." },
                FailedTests::Found(tests) => {
                    @for test in tests { (failed_test(test)) }
                    @if u64::try_from(tests.len()).is_ok_and(|shown| shown < total) {
                        p {
                            @if tests.len() == MAX_TESTS { "Only the first " (MAX_TESTS) " of " (total) " failed tests are shown." }
                            @else { "The attached file contains " (tests.len()) " of " (total) " failed tests." }
                        }
                    }
                }
            }
        }
    }
}

fn failed_test(test: &FailedTest) -> Markup {
    let name = if test.name.is_empty() { &test.suite } else { &test.name };
    html! {
        article.test {
            h3 { (text(name)) " " (badge("bad", if test.is_error { "error" } else { "failed" })) }
            @if !test.class.is_empty() || !test.suite.is_empty() {
                p.reason { (text(if test.class.is_empty() { &test.suite } else { &test.class })) }
            }
            @if !test.message.is_empty() { p { (lines(&test.message)) } }
            @if !test.output.is_empty() { pre { (lines(&test.output)) } }
        }
    }
}
