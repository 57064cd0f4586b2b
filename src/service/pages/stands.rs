//! How an environment stands now, as every page says it.

use std::time::Duration;

use maud::{Markup, html};

use super::words::{moment, span};
use crate::domain::compliance::Compliance;
use crate::domain::model::Timestamp;
use crate::service::app::Policy;
use crate::store::overview::Environment;

/// How an environment stands now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stands {
    /// How long it may be silent.
    pub(super) longest: Duration,
    /// Whether it has been silent for longer.
    pub(super) is_silent: bool,
    /// Whether what was decided of it still holds.
    pub(super) is_confirmed: bool,
    /// What can be said of it.
    pub(super) compliance: Compliance,
    last_report_at: Option<Timestamp>,
}

impl Stands {
    /// How it stands.
    pub(super) fn of(environment: &Environment, policy: &Policy, now: Timestamp) -> Self {
        let longest = environment.silent_after.unwrap_or(policy.silent_after);
        let last_report_at = environment.last_report_at;
        let is_silent = last_report_at.is_none_or(|last| now.distance(last) > longest);
        let is_over = environment.compliant_until.is_some_and(|until| until <= now);
        let is_confirmed = !is_silent && !is_over;
        let compliance = environment.compliance.confirmed(is_confirmed);
        Self { longest, is_silent, is_confirmed, compliance, last_report_at }
    }

    /// When it was last heard of, and that this is too long ago.
    pub(super) fn heard(&self, now: Timestamp) -> Markup {
        let Some(last) = self.last_report_at else { return html! { "never" } };
        html! {
            (moment(last, now))
            @if self.is_silent { strong.late { " silent for longer than " (span(self.longest)) } }
        }
    }
}
