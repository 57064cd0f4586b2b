//! Parsers of option values.

use std::ffi::OsStr;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::TypedValueParser;

use model::{InvalidText, ShortText, Text, Timestamp, web_url};

/// Treats an empty argument as absent, because a shell expands an unset variable to "".
pub(crate) fn non_empty<T: AsRef<OsStr>>(value: Option<&T>) -> Option<&T> {
    value.filter(|v| !v.as_ref().is_empty())
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port such as 127.0.0.1:8080")
}

pub(crate) fn integer<T>(bounds: RangeInclusive<T>) -> impl TypedValueParser<Value = T>
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let (from, to) = (bounds.start(), bounds.end());
        number.ok_or_else(|| format!("expected an integer from {from} to {to}"))
    }
}

pub(crate) fn time(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).ok_or("expected a date or a time such as 2026-10-03 or 2026-10-03T14:00:00Z")
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|_| "expected a duration such as 90s or 10m")?;
    Duration::try_from(duration)
        .ok()
        .filter(|d| !d.is_zero() && d.as_secs() <= 24 * 60 * 60)
        .ok_or_else(|| "expected a duration above 0 and of at most 24h".to_owned())
}

/// Parses a duration of at least one second, to bound the request rate.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        interval if interval < Duration::from_secs(1) => Err("expected at least 1s".to_owned()),
        interval => Ok(interval),
    }
}

pub(crate) fn named_url(text: &str) -> Result<(String, String), String> {
    let (name, url) = pair(text)?;
    let expected = || "expected a URL with https:// or http:// after the =".to_owned();
    Ok((name, web_url(&url).ok_or_else(expected)?))
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) fn short_text(text: &str) -> Result<ShortText, InvalidText> {
    ShortText::new(text)
}

pub(crate) fn text(text: &str) -> Result<Text, InvalidText> {
    Text::new(text)
}
