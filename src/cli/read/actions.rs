//! Columns of `list actions` and `get action`.

use serde_json::Value;

use super::columns::Format::{Ago, Custom, Lines, Text};
use super::columns::{Column, at, items, text, time};
use crate::cli::output::{Cell, ago, now};

pub(super) const NOTIFICATIONS: &[Column] = &[
    Column::new("NUMBER", "/number", Text),
    Column::new("NAME", "/name", Text),
    Column::new("STATE", "/is_failing", Custom(state)),
    Column::new("ENVIRONMENTS", "/environments", Text),
    Column::new("TRIGGERS", "/triggers", Text),
    Column::new("TARGETS", "/targets", Custom(targets)),
    Column::new("LAST SUCCESS", "/last_success_timestamp", Ago),
];

pub(super) const ACTION: &[Column] = &[
    Column::new("number", "/number", Text),
    Column::new("name", "/name", Text),
    Column::new("type", "/type", Text),
    Column::new("state", "/is_failing", Custom(state)),
    Column::new("environments", "/environments", Text),
    Column::new("flows", "/flows", Text),
    Column::new("triggers", "/triggers", Text),
    Column::new("target", "/targets", Lines(delivery)),
    Column::new("last success", "/last_success_timestamp", Ago),
    Column::new("last failure", "/last_failure_timestamp", Ago),
    Column::new("created by", "/created_by", Text),
    Column::new("created", "/created_at", Ago),
    Column::new("modified", "/last_modified_at", Ago),
];

fn state(is_failing: &Value) -> Cell {
    Cell::state(match is_failing.as_bool() {
        Some(true) => "failing",
        Some(false) => "working",
        None => "no deliveries",
    })
}

fn targets(targets: &Value) -> Cell {
    Cell::text(items(targets, "").map(target).collect::<Vec<_>>().join(", "))
}

/// A target and its last delivery.
fn delivery(to: &Value) -> Cell {
    let name = at(to, "/name").as_str().map(|name| format!("{name}: ")).unwrap_or_default();
    let sent = match (time(at(to, "/last_success_at")), time(at(to, "/last_failure_at"))) {
        // A delivery that did not reach all recipients is both.
        (success, Some(failure)) if success <= Some(failure) => {
            let error = at(to, "/last_error").as_str().map(|error| format!(": {error}")).unwrap_or_default();
            format!(", failing, last {}{error}", ago(failure, now()))
        }
        (success, _) => success.map(|at| format!(", delivered {}", ago(at, now()))).unwrap_or_default(),
    };
    Cell::text(format!("{name}{}{sent}", target(to)))
}

/// Type and destination of a target, as far as the service returns them.
fn target(target: &Value) -> String {
    let kind = at(target, "/type").as_str().unwrap_or("-");
    let channel = at(target, "/context/channel_name").as_str();
    if let Some(to) = channel.or(at(target, "/webhook").as_str()) {
        return format!("{kind} {to}");
    }
    let recipients = items(target, "/recipients").map(|recipient| format!(" {}", text(recipient)));
    format!("{kind}{}", recipients.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failing_target_shows_its_last_error() {
        let at = 1.5;
        for (success, failure, error, expected) in [
            (json!(at), json!(null), json!(null), ", delivered "),
            (json!(null), json!(at), json!("HTTP status 503"), ": HTTP status 503"),
            (
                json!(at),
                json!(at),
                json!("the mail server refused a@b.c: 550"),
                ": the mail server refused a@b.c: 550",
            ),
            (json!(at), json!(at - 1.0), json!(null), ", delivered "),
            (json!(at - 1.0), json!(at), json!(null), ", failing, last "),
        ] {
            let to = json!({
                "type": "EMAIL", "last_success_at": success, "last_failure_at": failure, "last_error": error,
            });
            let cell = format!("{:?}", delivery(&to));
            assert!(cell.contains(expected), "{cell}");
        }
    }
}
