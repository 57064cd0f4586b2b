//! The current status of an environment, or of an artifact in it, as all pages show it.

use maud::{Markup, html};

use crate::layout::parts::format::{badge, compliance_badge, duration, timestamp_with_age};
use crate::site::Site;
use model::Timestamp;
use model::reason::Reason;
use rules::compliance::Compliance;
use rules::environment_status::Verdict;
use rules::validity::Validity;
use store::artifacts::CurrentRun;
use store::environments::EnvironmentOverview;

/// The stored verdict, and whether it is still valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentStatus {
    pub(crate) now: Timestamp,
    /// The period in which the stored verdict is valid.
    pub(crate) validity: Validity,
    pub(crate) stored: Compliance,
    /// The time of the stored verdict, if the environment waits to be evaluated.
    pub(crate) last_evaluated_at: Option<Timestamp>,
}

impl CurrentStatus {
    pub(crate) fn from_environment(environment: &EnvironmentOverview, site: &Site, now: Timestamp) -> Self {
        let validity = environment.validity(site.silent_after);
        let last_evaluated_at = environment.last_evaluated_at;
        Self { now, validity, stored: environment.compliance, last_evaluated_at }
    }

    pub(crate) fn from_run(run: &CurrentRun, site: &Site, now: Timestamp) -> Self {
        let validity = run.environment.validity(site.silent_after);
        let last_evaluated_at = run.environment.last_evaluated_at;
        Self { now, validity, stored: run.artifact.verdict.compliance, last_evaluated_at }
    }

    /// Whether the agent has not reported for longer than `silentAfter`.
    pub(crate) fn is_silent(&self) -> bool {
        self.validity.is_silent(self.now)
    }

    /// Whether the stored verdict is still valid.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.validity.is_valid(self.now)
    }

    /// The verdict to show: an unconfirmed `COMPLIANT` becomes `UNKNOWN`.
    pub(crate) fn compliance(&self) -> Compliance {
        self.stored.confirmed(self.is_confirmed())
    }

    /// The verdict to show, with its time while a change waits to be evaluated.
    pub(crate) fn badge(&self) -> Markup {
        html! {
            (compliance_badge(self.compliance()))
            @if let Some(at) = self.last_evaluated_at { " evaluating, last evaluated " (timestamp_with_age(at, self.now)) }
        }
    }

    /// The verdict of an environment to show, with the reason if it runs too few artifacts.
    pub(crate) fn environment_badge(&self, environment: &EnvironmentOverview) -> Markup {
        html! {
            @if environment.policies > 0 || self.stored != Compliance::Unknown { (self.badge()) }
            @else { (badge("none", "no policy")) }
            @if environment.has_failed { strong.warning { " evaluation failed" } }
            @if let Some(absence) = &environment.absence { strong.warning { " " (absence.finding()) } }
        }
    }

    /// The time of the last report, with a warning if the environment is silent.
    pub(crate) fn last_report(&self) -> Markup {
        let Some(last) = self.validity.last_report_at else { return html! { "never" } };
        html! {
            (timestamp_with_age(last, self.now))
            @if self.is_silent() {
                strong.warning { " no reports for longer than " (duration(self.validity.silent_after)) }
            }
        }
    }
}

/// The reason of a verdict. Without a stored verdict it is `missing`, or that there is no policy if `missing` is empty.
pub(crate) fn verdict_reason(stored: Option<&Verdict>, shown: Compliance, missing: &str) -> String {
    match stored {
        None if !missing.is_empty() => missing.to_owned(),
        Some(Verdict { compliance: Compliance::NonCompliant, reasons, .. }) => Reason::join(reasons, "; "),
        Some(Verdict { compliance: Compliance::Compliant, .. }) if shown != Compliance::Compliant => {
            "was compliant; not confirmed since".to_owned()
        }
        Some(Verdict { compliance: Compliance::Compliant, is_allowed: true, reasons }) => {
            format!("on the allow-list; {}", Reason::join(reasons, "; "))
        }
        Some(Verdict { compliance: Compliance::Compliant, .. }) => "meets the policy".to_owned(),
        _ => "the environment has no policy".to_owned(),
    }
}
