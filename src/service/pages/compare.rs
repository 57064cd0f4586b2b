//! Any two snapshots of an environment, side by side.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sqlx::types::Uuid;

use super::parts::allow_list;
use super::parts::environment_status::Present;
use super::parts::escape::text;
use super::parts::format::{count, stamp, written};
use super::parts::layout::{self, Way};
use super::parts::pagination;
use super::parts::refusal::Refusal;
use super::parts::table::verdict;
use super::parts::urls::Place;
use super::pure::intervals::{SILENCES, Silent, looked_at};
use super::pure::running::Verdicts;
use super::pure::snapshot_diff::{Artifacts, Difference, Row, Shown, artifacts, rows, shown, total};
use super::search::digest_link;
use super::session::Visitor;
use super::timeline::{facts, stood};
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::Problem;
use crate::service::http::segments::Segments;
use crate::store::Transaction;
use crate::store::timeline::{Kept, Snapshot, Workload};

/// What is to be compared, as it stands in the URL.
#[derive(Debug, Clone, Copy)]
struct Asked {
    from: Option<i64>,
    to: Option<i64>,
    /// Only this difference.
    only: Option<Difference>,
    page: usize,
}

/// A snapshot, and what was decided about what ran in it.
struct Side {
    snapshot: Snapshot,
    silent: Silent,
    /// The moment at which it is looked at.
    at: Timestamp,
    /// Whether anybody knows what ran then.
    is_confirmed: bool,
    verdicts: HashMap<Fingerprint, Verdict>,
}

/// Two snapshots; without them, the form that asks for them.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, name)): Segments<(String, String)>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Response, Refusal> {
    visitor.of(&organization)?;
    let asked = Asked::read(&uri)?;
    let mut transaction = app.store.read().await?;
    let environment = transaction.one_of_overview(&organization, &name).await?.ok_or(Refusal::NotFound)?;
    let kept = transaction.kept_snapshots(environment.id).await?;
    let last = environment.snapshot;
    let place = Place { app: &app, organization: &organization, environment: &name };
    let present = Present::of(&environment, &app, app.now());
    let (mut status, mut result) = (StatusCode::OK, html! {});
    if let Some((from, to)) = asked.from.zip(asked.to) {
        let why = [from, to].into_iter().find_map(|number| missing(number, &kept, last));
        result = if let Some(why) = why {
            status = StatusCode::NOT_FOUND;
            html! { p.problem role="alert" { (why) } }
        } else {
            let from = Side::read(&mut transaction, environment.id, from, &kept).await?;
            let to = Side::read(&mut transaction, environment.id, to, &kept).await?;
            let ran = transaction.ran_at_either(&organization, environment.id, (from.at, to.at)).await?;
            Comparison { place, asked, from: &from, to: &to, present }.markup(ran)
        };
    }
    drop(transaction);
    let first = kept.first.unwrap_or(last);
    let chosen = (asked.from.unwrap_or((last - 1).max(first)), asked.to.unwrap_or(last));
    let content = html! {
        h1 { (text(&name)) ": " @if let Some((from, to)) = asked.from.zip(asked.to) {
            "snapshots " (from) " and " (to)
        } @else { "two snapshots" } }
        (chooser(place, (first, last), chosen))
        (result)
    };
    let way = Way { above: &[(&name, place.now()), ("Timeline", place.timeline(1))], ..Way::default() };
    Ok((status, layout::placed(&app, "Compared", Some(&visitor), way, &content)).into_response())
}

/// The form that asks for two snapshots.
pub(super) fn chooser(place: Place<'_>, (first, last): (i64, i64), (from, to): (i64, i64)) -> Markup {
    let field = |name: &str, label: &str, value: i64| {
        html! {
            div {
                label for=(name) { (label) }
                input id=(name) name=(name) type="number" required min=(first) max=(last) value=(value);
            }
        }
    };
    html! {
        @if last > 0 {
            form.filter action=(place.compare()) {
                (field("from", "Compare snapshot", from))
                (field("to", "with snapshot", to))
                button type="submit" { "Compare" }
            }
        }
    }
}

/// Why a snapshot cannot be shown.
fn missing(number: i64, kept: &Kept, last: i64) -> Option<String> {
    let first = kept.first.unwrap_or_default();
    if last == 0 {
        Some("This environment was never reported: there is no snapshot yet.".to_owned())
    } else if number > last {
        Some(format!("There is no snapshot {number}: the last is {last}."))
    } else if number < first {
        let horizon =
            kept.horizon_at.map(|horizon| format!(" what ended before {} was removed;", written(horizon)));
        Some(format!(
            "Snapshot {number} is past the retention:{} the first that is kept is {first}.",
            horizon.unwrap_or_default()
        ))
    } else {
        None
    }
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let parameters = Parameters::read(uri, &["from", "to", "only", "page"])?;
        let only = parameters.field("only").map(|text| {
            let all = Difference::ALL.into_iter();
            let expected = Difference::ALL.map(word).join(", ");
            let problem = || Problem::field("only", &format!("one of {expected} was expected"));
            all.into_iter().find(|difference| word(*difference) == text).ok_or_else(problem)
        });
        let (from, to) = (parameters.number("from")?, parameters.number("to")?);
        Ok(Self { from, to, only: only.transpose()?, page: pagination::asked(&parameters)? })
    }
}

/// A difference's word in URLs.
fn word(difference: Difference) -> &'static str {
    match difference {
        Difference::OnlyFrom => "from",
        Difference::OnlyTo => "to",
        Difference::Pods => "pods",
        Difference::Verdict => "verdict",
        Difference::Same => "same",
    }
}

impl Side {
    async fn read(
        transaction: &mut Transaction,
        environment: Uuid,
        number: i64,
        kept: &Kept,
    ) -> Result<Self, Refusal> {
        let numbers = (number, number);
        // One between others may be removed before they are.
        let snapshot = transaction.snapshots(environment, numbers).await?.pop().ok_or(Refusal::NotFound)?;
        let silences = transaction.silences(environment, numbers, SILENCES).await?;
        let at = looked_at(&snapshot, kept);
        let verdicts = allow_list::verdicts(transaction, environment, Some(at)).await?;
        let silent = Silent::of(&snapshot, &silences);
        // Of what is past the retention the first moment that is kept is looked at, which may lie in a silence.
        let is_confirmed =
            at == snapshot.received_at || transaction.around(environment, at).await?.gap.is_none();
        Ok(Self { snapshot, silent, at, is_confirmed, verdicts })
    }

    fn verdicts(&self) -> Verdicts<'_> {
        Verdicts { kept: &self.verdicts, is_confirmed: self.is_confirmed }
    }
}

/// Two snapshots, and which part of what differs is shown.
#[derive(Clone, Copy)]
struct Comparison<'a> {
    place: Place<'a>,
    asked: Asked,
    from: &'a Side,
    to: &'a Side,
    present: Present,
}

impl Comparison<'_> {
    fn numbers(&self) -> (i64, i64) {
        (self.from.snapshot.number, self.to.snapshot.number)
    }

    fn markup(&self, ran: Vec<Workload>) -> Markup {
        let (from, to) = self.numbers();
        let sum = |of: fn(&Workload) -> i64| ran.iter().map(of).sum();
        let pods: (i64, i64) = (sum(|workload| workload.pods.0), sum(|workload| workload.pods.1));
        let artifacts = artifacts(ran);
        let rows = rows((&artifacts.0, self.from.verdicts()), (&artifacts.1, self.to.verdicts()));
        let shown = shown(&rows, self.asked.only, self.asked.page);
        html! {
            p { a href=(self.place.compared(to, from)) { "Swap: " (to) " and " (from) } }
            div.sides { (self.side(self.from, &artifacts.0, pods.0)) (self.side(self.to, &artifacts.1, pods.1)) }
            @if from == to { p { "This is one snapshot: nothing differs." } }
            ul.counts aria-label="What differs" {
                @for difference in Difference::ALL {
                    @let total = i64::try_from(total(&rows, difference)).unwrap_or(i64::MAX);
                    li {
                        @if total > 0 {
                            @let is_shown = (self.asked.only == Some(difference)).then_some("true");
                            a href=(self.at(Some(difference), 1)) aria-current=[is_shown] {
                                (total) " " (self.said(difference))
                            }
                        } @else { "0 " (self.said(difference)) }
                    }
                }
                @if self.asked.only.is_some() { li { a href=(self.at(None, 1)) { "All" } } }
            }
            @if shown.rows.is_empty() { p { "Nothing is listed here." } } @else { (self.table(&shown)) }
            (shown.paged.links(|page| self.at(self.asked.only, page)))
        }
    }

    /// The address of a part of this.
    fn at(&self, only: Option<Difference>, page: usize) -> String {
        let (from, to) = self.numbers();
        let mut address = self.place.compared(from, to);
        if let Some(only) = only {
            address = format!("{address}&only={}", word(only));
        }
        if page > 1 { format!("{address}&page={page}") } else { address }
    }

    fn said(&self, difference: Difference) -> String {
        let (from, to) = self.numbers();
        match difference {
            Difference::OnlyFrom => format!("only in {from}"),
            Difference::OnlyTo => format!("only in {to}"),
            Difference::Pods => "in another number of pods".to_owned(),
            Difference::Verdict => "judged otherwise".to_owned(),
            Difference::Same => "the same".to_owned(),
        }
    }

    fn side(&self, side: &Side, artifacts: &Artifacts, pods: i64) -> Markup {
        let Side { snapshot, silent, at, .. } = side;
        let artifacts = count(i64::try_from(artifacts.len()).unwrap_or(i64::MAX), "artifact", "artifacts");
        html! {
            article.snapshot {
                h2 { "Snapshot " (snapshot.number) " " (stood(snapshot)) }
                (facts(snapshot, silent, self.present))
                p {
                    (artifacts) " in " (count(pods, "pod", "pods"))
                    ", counted at " (stamp(*at))
                }
                p { a href=(self.place.at(*at)) { "What ran then" } }
            }
        }
    }

    fn table(&self, shown: &Shown<'_>) -> Markup {
        let (from, to) = self.numbers();
        let caption = format!("Snapshots {from} and {to}");
        html! {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table.runs {
                    caption { (caption) (shown.paged.said()) }
                    thead {
                        tr {
                            th scope="col" { "Image" }
                            th scope="col" { "Pods in " (from) }
                            th scope="col" { "Pods in " (to) }
                            th scope="col" { "Verdict when " (from) " came" }
                            th scope="col" { "Verdict when " (to) " came" }
                        }
                    }
                    @for group in shown.rows.chunk_by(|one, next| one.difference == next.difference) {
                        tbody {
                            @if let Some(first) = group.first() {
                                tr { th.group scope="rowgroup" colspan="5" { (self.heading(first.difference)) } }
                            }
                            @for row in group { (self.row(row)) }
                        }
                    }
                }
            }
        }
    }

    fn heading(&self, difference: Difference) -> String {
        let said = self.said(difference);
        match difference {
            Difference::OnlyFrom | Difference::OnlyTo => said.replacen("only", "Only", 1),
            Difference::Pods | Difference::Verdict => format!("In both, {said}"),
            Difference::Same => "In both, the same".to_owned(),
        }
    }

    fn row(&self, row: &Row<'_>) -> Markup {
        let (numbers, (from, to)) = (self.numbers(), row.pods);
        let side = |side: &Side, pods: Option<i64>| {
            let missing = "nothing was decided about it";
            let verdict = pods.map(|_| verdict(&side.verdicts(), &row.artifact, missing));
            html! { td data-name={ "Verdict when " (side.snapshot.number) " came" } { @if let Some(verdict) = verdict { (verdict) } @else { "–" } } }
        };
        let pods = |number: i64, pods: Option<i64>| {
            html! { td data-name={ "Pods in " (number) } { @if let Some(pods) = pods { (pods) } @else { "–" } } }
        };
        html! {
            tr {
                td.image {
                    (text(row.name)) " "
                    (digest_link(self.place.app, self.place.organization, &row.artifact))
                    @if let Some(was) = row.was { span.why { "it was " (text(was)) } }
                }
                (pods(numbers.0, from)) (pods(numbers.1, to))
                (side(self.from, from)) (side(self.to, to))
            }
        }
    }
}
