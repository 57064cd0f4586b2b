//! `list attestations`.

use clap::Args;

use super::{Common, Pages, client};
use crate::api::{About, Attestation, Kept, Span};
use crate::cli::output::{Cell, Table, now};
use crate::cli::{Failure, Service};
use crate::domain::model::FlowName;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Attestations {
    /// The flow
    flow: FlowName,
    /// Received at this time or later: 2026-10-03, or 2026-10-03T14:00Z
    #[arg(long, value_name = "TIME", value_parser = first_second)]
    from: Option<i64>,
    /// Received at this time or earlier; a day counts to its end
    #[arg(long, value_name = "TIME", value_parser = last_second)]
    to: Option<i64>,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Everything that a flow attested in October, as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

/// A span that no moment is in.
#[derive(Debug, thiserror::Error)]
#[error("--from is later than --to; a time before it was expected")]
struct Backwards;

impl Attestations {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(Failure::usage(Backwards));
        }
        let client = client(service)?;
        let span = Span { from: self.from, to: self.to };
        let about = About::Flow(self.flow.as_str());
        let ask = async |page| {
            let attestations = async || client.attestations(&self.flow, span, page).await;
            self.common.ask(&client, about, attestations).await
        };
        self.pages.list(&self.common.output, "attestation", self.asked(), ask, table).await
    }

    fn asked(&self) -> &'static str {
        if self.from.or(self.to).is_some() { " of that time" } else { "" }
    }
}

fn table(attestations: &[Kept<Attestation>]) -> Table {
    let (mut table, now) = (Table::new(["NAME", "TYPE", "COMPLIANCE", "BY", "RECEIVED", "ID"]), now());
    for Kept { known: attestation, .. } in attestations {
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

/// A day of UTC, or a moment (RFC 3339; the seconds may be left out), in seconds of Unix time.
fn first_second(text: &str) -> Result<i64, String> {
    moment(text).map(|(first, _)| first)
}

fn last_second(text: &str) -> Result<i64, String> {
    moment(text).map(|(_, last)| last)
}

/// The first and the last second of what is written.
fn moment(text: &str) -> Result<(i64, i64), String> {
    let expected =
        || "a day as 2026-10-03, or a time with its zone as 2026-10-03T14:00Z, was expected".to_owned();
    let seconds =
        |at: jiff::Timestamp| Some(at.as_second()).filter(|second| *second >= 0).ok_or_else(expected);
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        let second = seconds(at)?;
        return Ok((second, second));
    }
    let day: jiff::civil::Date = text.parse().map_err(|_| expected())?;
    // A date alone: whatever follows it was not understood.
    if text.contains(['T', 't', ' ', ':']) {
        return Err(expected());
    }
    let first = seconds(day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| expected())?.timestamp())?;
    Ok((first, first + 24 * 60 * 60 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_lasts_to_its_end_and_a_moment_is_one_second() {
        assert_eq!(moment("2026-10-03"), Ok((1_790_985_600, 1_791_071_999)));
        assert_eq!(moment("2026-10-03T14:00Z"), Ok((1_791_036_000, 1_791_036_000)));
        assert_eq!(moment("2026-10-03T16:00:00.9+02:00"), Ok((1_791_036_000, 1_791_036_000)));
        for bad in ["", "yesterday", "2026-13-01", "2026-10-03T14:00", "1790985600", "1969-12-31"] {
            assert!(moment(bad).unwrap_err().contains("was expected"), "{bad}");
        }
    }
}
