//! How an environment, or an artifact in one, stands now, as every page says it.

use maud::{Markup, html};

use super::format::{aged, span};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;
use crate::service::app::App;
use crate::store::artifacts::Running;
use crate::store::overview::Environment;

/// How one of them stands now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) now: Timestamp,
    /// How long what was decided of it holds.
    pub(crate) validity: Validity,
    /// What was decided of it.
    pub(crate) decided: Compliance,
}

impl Present {
    /// How an environment stands.
    pub(crate) fn of(environment: &Environment, app: &App, now: Timestamp) -> Self {
        let validity = environment.validity(app.policy.silent_after);
        Self { now, validity, decided: environment.compliance }
    }

    /// How an artifact stands where it runs.
    pub(crate) fn of_artifact(running: &Running, app: &App, now: Timestamp) -> Self {
        let validity = running.environment.validity(app.policy.silent_after);
        Self { now, validity, decided: running.verdict.compliance }
    }

    /// Whether nobody says what runs there.
    pub(crate) fn is_silent(&self) -> bool {
        self.validity.is_silent(self.now)
    }

    /// Whether what was decided of it still holds.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.validity.holds(self.now)
    }

    /// What can be said of it.
    pub(crate) fn compliance(&self) -> Compliance {
        self.decided.confirmed(self.is_confirmed())
    }

    /// When it was last heard of, and that this is too long ago.
    pub(crate) fn heard(&self) -> Markup {
        let Some(last) = self.validity.last_report_at else { return html! { "never" } };
        html! {
            (aged(last, self.now))
            @if self.is_silent() {
                strong.late { " silent for longer than " (span(self.validity.silent_after)) }
            }
        }
    }
}
