//! `supercargo list digests`.

use super::columns::Format::{Ago, Digest, Text};
use super::columns::{Column, items, table};
use super::common::{Common, organization};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;

const DIGESTS: &[Column] = &[
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("IMAGES", "/names", Text),
    Column::new("RUNNING IN", "/running_in", Text),
    Column::new("EXITED FROM", "/exited_from", Text),
    Column::new("STARTED", "/started_at", Ago),
    Column::new("ENDED", "/ended_at", Ago),
];

/// Prints the digests that run, or that ran at or after `since`, in seconds of Unix time.
pub(super) async fn list(
    service: &ServiceOptions,
    since: Option<i64>,
    common: &Common,
) -> Result<(), Failure> {
    let list = common.read_list(service, &organization(&["digests"]).with("since", since)).await?;
    if list.items.is_empty() {
        tracing::info!("no digest found");
    }
    let raw = list.into_raw();
    common.output.print(&raw, || table(DIGESTS, items(&raw, "/data")))
}

/// The time this long ago, in seconds of Unix time.
pub(super) fn since(text: &str) -> Result<i64, String> {
    let past = || {
        let span: jiff::Span = text.parse().ok()?;
        let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        let second = now.checked_sub(span).ok()?.timestamp().as_second();
        (0..=now.timestamp().as_second()).contains(&second).then_some(second)
    };
    past().ok_or_else(|| "expected an age such as 12h, 30d or 4w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_a_time_in_the_past() {
        let now = jiff::Timestamp::now().as_second();
        for (text, seconds) in [("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200), ("0s", 0)] {
            let ago = now - since(text).unwrap();
            assert!((seconds - 1..=seconds).contains(&ago), "{text}: {ago}");
        }
        for bad in ["", "30", "-1d", "d", "99999w"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
