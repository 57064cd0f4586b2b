//! `list attestations`.

use clap::Args;

use super::common::{Common, client};
use super::pages::Pages;
use crate::api::{Attestation, Parsed, Resource, Span};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;
use crate::domain::model::FlowName;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Attestations {
    /// Flow name
    flow: FlowName,
    /// Received at or after this time, such as 2026-10-03 or 2026-10-03T14:00Z
    #[arg(long, value_name = "TIME", value_parser = first_second)]
    from: Option<i64>,
    /// Received at or before this time; a date includes the whole day
    #[arg(long, value_name = "TIME", value_parser = last_second)]
    to: Option<i64>,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

#[derive(Debug, thiserror::Error)]
#[error("--from must not be later than --to")]
struct InvalidSpan;

impl Attestations {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(Failure::usage(InvalidSpan));
        }
        let client = client(service)?;
        let span = Span { from: self.from, to: self.to };
        let about = Resource::Flow(self.flow.as_str());
        let fetch = async |page| {
            let attestations = async || client.attestations(&self.flow, span, page).await;
            self.common.request(&client, about, attestations).await
        };
        self.pages.list(&self.common.output, "attestation", self.filter(), fetch, table).await
    }

    fn filter(&self) -> &'static str {
        if self.from.or(self.to).is_some() { " in this period" } else { "" }
    }
}

fn table(attestations: &[Parsed<Attestation>]) -> Table {
    let (mut table, now) = (Table::new(["NAME", "TYPE", "COMPLIANCE", "BY", "RECEIVED", "ID"]), now());
    for Parsed { value: attestation, .. } in attestations {
        table.row([
            Cell::maybe(attestation.attestation_name.as_ref()),
            Cell::maybe(attestation.attestation_type.as_ref()),
            Cell::compliance(attestation.is_compliant),
            Cell::maybe(attestation.reported_by.as_ref()),
            Cell::ago(attestation.created_at, now),
            Cell::text(&attestation.attestation_id),
        ]);
    }
    table
}

/// Parses the start of a UTC date or an RFC 3339 time with optional seconds, in seconds of Unix time.
fn first_second(text: &str) -> Result<i64, String> {
    seconds(text).map(|(first, _)| first)
}

fn last_second(text: &str) -> Result<i64, String> {
    seconds(text).map(|(_, last)| last)
}

/// First and last second of a date or time.
fn seconds(text: &str) -> Result<(i64, i64), String> {
    let expected =
        || "expected a date such as 2026-10-03, or a time with zone such as 2026-10-03T14:00Z".to_owned();
    let non_negative =
        |at: jiff::Timestamp| Some(at.as_second()).filter(|second| *second >= 0).ok_or_else(expected);
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        let second = non_negative(at)?;
        return Ok((second, second));
    }
    let day: jiff::civil::Date = text.parse().map_err(|_| expected())?;
    // jiff ignores a time after the date.
    if text.contains(['T', 't', ' ', ':']) {
        return Err(expected());
    }
    let first = non_negative(day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| expected())?.timestamp())?;
    Ok((first, first + 24 * 60 * 60 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_covers_whole_day_and_time_covers_one_second() {
        assert_eq!(seconds("2026-10-03"), Ok((1_790_985_600, 1_791_071_999)));
        assert_eq!(seconds("2026-10-03T14:00Z"), Ok((1_791_036_000, 1_791_036_000)));
        assert_eq!(seconds("2026-10-03T16:00:00.9+02:00"), Ok((1_791_036_000, 1_791_036_000)));
        for bad in ["", "yesterday", "2026-13-01", "2026-10-03T14:00", "1790985600", "1969-12-31"] {
            assert!(seconds(bad).unwrap_err().contains("expected a date"), "{bad}");
        }
    }
}
