//! A search: artifacts by digest, image, pod and commit, flows and trails.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};

use super::parts::escape::text;
use super::parts::format::{short, stamp};
use super::parts::layout::{self, Way};
use super::parts::refusal::Refusal;
use super::parts::urls::{self, Place};
use super::session::Visitor;
use crate::domain::model::Fingerprint;
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::segments::Segments;
use crate::store::AtMost;
use crate::store::search::{Artifact, LATEST, Pod, Trail, Words};

/// The fewest hex digits that a digest or commit is looked up by.
const FEWEST: usize = 7;

/// The most characters that are looked for: of an image whose name is longer, as many are its whole name here.
const LONGEST: usize = 255;

/// What was found, a group for each kind.
pub(super) async fn page(
    State(app): State<App>,
    Segments(organization): Segments<String>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let parameters = Parameters::read(&uri, &["q"])?;
    let wanted: String = parameters.text("q").unwrap_or_default().trim().chars().take(LONGEST).collect();
    let results = if wanted.is_empty() {
        html! { p { "Nothing was asked for." } }
    } else {
        let groups = groups(&app, &organization, &wanted).await?;
        html! {
            @if groups.is_empty() { p { "Nothing was found." } }
            @for group in &groups { (group) }
        }
    };
    let content = html! {
        h1 { "Search" @if !wanted.is_empty() { ": " (text(&wanted)) } }
        p {
            "A digest or commit by its first " (FEWEST) " digits or more; an image, pod, flow or trail by any part of "
            "its name. Of images and pods that ran, the latest of each environment are looked through for a part, "
            (LATEST) " in all but 100 at least; of trails the latest " (LATEST) ". Older ones are found by their whole "
            "names."
        }
        (results)
    };
    let way = Way { searched: &wanted, ..Way::default() };
    Ok(layout::placed(&app, "Search", Some(&visitor), way, &content))
}

async fn groups(app: &App, organization: &str, wanted: &str) -> Result<Vec<Markup>, Refusal> {
    let mut transaction = app.store.read().await?;
    let words = Words::new(wanted);
    let artifact = |artifact: &Artifact| self::artifact(app, organization, artifact);
    let trail = |trail: &Trail| self::trail(app, organization, trail);
    let mut groups = Vec::new();
    if let Some(digits) = digest(wanted) {
        let (first, last) = between(&digits);
        let found = transaction.find_artifacts(organization, first, last).await?;
        groups.push(group("Digests", &found, artifact));
    }
    if let Some(digits) = digits(wanted) {
        let found = transaction.find_built(organization, &digits).await?;
        groups.push(group("Built from commits", &found, |(commit, fingerprint)| {
            let built = Artifact { fingerprint: *fingerprint, name: String::new() };
            html! { code.whole { (commit) } ": " (artifact(&built)) }
        }));
        let found = transaction.find_trails_of(organization, &digits).await?;
        groups.push(group("Trails of commits", &found, trail));
    }
    groups.push(group("Images", &transaction.find_images(organization, &words).await?, artifact));
    let found = transaction.find_pods(organization, &words).await?;
    groups.push(group("Pods", &found, |found| pod(app, organization, found)));
    let found = transaction.find_flows(organization, &words).await?;
    groups.push(group("Flows", &found, |flow| text(flow)));
    groups.push(group("Trails", &transaction.find_trails(organization, &words).await?, trail));
    Ok(groups.into_iter().flatten().collect())
}

/// What was found of a kind; nothing where nothing was.
fn group<T>(title: &str, found: &AtMost<T>, shown: impl Fn(&T) -> Markup) -> Option<Markup> {
    (!found.listed.is_empty()).then(|| {
        html! {
            section {
                h2 { (title) }
                ul.found { @for found in &found.listed { li { (shown(found)) } } }
                @if let Some(listed) = found.cut_at() { p { "There are more than these " (listed) ": say more of the name." } }
            }
        }
    })
}

/// An artifact by its name, with what leads to it.
pub(super) fn artifact(app: &App, organization: &str, artifact: &Artifact) -> Markup {
    html! {
        @if !artifact.name.is_empty() { (text(&artifact.name)) " " }
        (digest_link(app, organization, &artifact.fingerprint))
    }
}

/// The start of a digest, which leads to the artifact.
pub(super) fn digest_link(app: &App, organization: &str, artifact: &Fingerprint) -> Markup {
    html! {
        a href=(urls::artifact(app, organization, artifact)) title=(artifact) { code { (short(artifact)) } }
    }
}

fn trail(app: &App, organization: &str, trail: &Trail) -> Markup {
    html! { a href=(urls::trail(app, organization, &trail.flow, &trail.name)) { (text(&trail.name)) } " in " (text(&trail.flow)) }
}

fn pod(app: &App, organization: &str, pod: &Pod) -> Markup {
    let place = Place { app, organization, environment: &pod.environment };
    html! {
        (text(&pod.namespace)) "/" (text(&pod.name)) " in " (place.link())
        ", " (stamp(pod.started_at)) " to "
        @match pod.ended_at { Some(ended) => (stamp(ended)), None => "now" }
        ul {
            @for (name, fingerprint) in &pod.digests {
                li { (artifact(app, organization, &Artifact { fingerprint: *fingerprint, name: name.clone() })) }
            }
        }
    }
}

/// The digits of a digest, whole or its beginning, with `sha256:` or without, as pages shorten it or behind an image.
fn digest(wanted: &str) -> Option<String> {
    let wanted = wanted.rsplit_once('@').map_or(wanted, |(_, digest)| digest).trim_end_matches('…');
    digits(wanted.strip_prefix("sha256:").unwrap_or(wanted))
}

/// Hex digits that are enough to look something up by, in lower case.
fn digits(wanted: &str) -> Option<String> {
    let is_enough = (FEWEST..=64).contains(&wanted.len()) && wanted.bytes().all(|b| b.is_ascii_hexdigit());
    is_enough.then(|| wanted.to_ascii_lowercase())
}

/// The first and the last fingerprint that begin with these digits.
fn between(digits: &str) -> (Fingerprint, Fingerprint) {
    let filled = |with: char, otherwise| {
        let rest = 64_usize.saturating_sub(digits.len());
        let digits: String = digits.chars().chain(std::iter::repeat_n(with, rest)).collect();
        Fingerprint::from_hex(&digits).unwrap_or_else(|| Fingerprint::from([otherwise; 32]))
    };
    (filled('0', 0), filled('f', 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_known_by_seven_digits_with_its_algorithm_or_without() {
        for (wanted, expected) in [
            ("abcdef0", Some("abcdef0")),
            ("sha256:ABCDEF0", Some("abcdef0")),
            ("registry.example.com/cart@sha256:abcdef01", Some("abcdef01")),
            ("abcdef012345…", Some("abcdef012345")),
            ("abcdef", None),
            ("sha256:abcdef", None),
            ("abcdefg", None),
            ("sha512:abcdef0", None),
            ("", None),
        ] {
            assert_eq!(digest(wanted).as_deref(), expected, "{wanted}");
        }
        assert!(digest(&"a".repeat(64)).is_some() && digest(&"a".repeat(65)).is_none());
    }

    #[test]
    fn a_beginning_is_all_that_lies_between_two_fingerprints() {
        let (first, last) = between("abcdef0");
        assert_eq!(first.to_string(), format!("abcdef0{}", "0".repeat(57)));
        assert_eq!(last.to_string(), format!("abcdef0{}", "f".repeat(57)));
        let whole = "7".repeat(64);
        let (first, last) = between(&whole);
        assert_eq!((first, first.to_string()), (last, whole));
    }
}
