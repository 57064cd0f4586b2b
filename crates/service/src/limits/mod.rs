//! Limits of the service: what is limited, per organization and in total, and how long a request waits.
//!
//! Handlers and pages take a permit here before they read a body or use the store. The module decides neither
//! evaluations nor records. `docs/reference/security.md` has all limits in one table, which a test compares with the code. A limit
//! needs an attack that it prevents, and a test that fails without it.

pub(crate) mod authentication;
pub(crate) mod connections;
pub(crate) mod keyed_semaphore;
pub(crate) mod organization_lock;
pub(crate) mod permit;

use std::time::Duration;

use crate::http::body::{Budget, Pace};
use model::retry::Backoff;
use rules::session;

/// The maximum size of `data_json` of an attestation, in bytes.
pub(crate) const MAX_DATA: u64 = 1024 * 1024;

/// Window of the limits of what a token creates.
pub(crate) const CREATED_WITHIN: Duration = Duration::from_hours(24);

/// Open tokens per organization that were created at runtime.
pub(crate) const MAX_TOKENS: usize = 1_000;

/// Minimum time between two recordings of a token's use, so that not every request writes to the database.
pub(crate) const TOKEN_USE_INTERVAL: Duration = Duration::from_hours(1);

/// Limits and durations of the service; the defaults are those of `serve`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum size of a report, in bytes.
    pub report: u64,
    /// Maximum size of an attestation's attachment, in bytes.
    pub attachment: u64,
    /// Minimum speed of request bodies.
    pub pace: Pace,
    /// Memory for request bodies, in KiB; one organization gets at most half of it.
    pub inbound_kibibytes: u32,
    /// Timeout of a request that waits for a permit.
    pub permit_timeout: Duration,
    /// Timeout of the bootstrap file and the retention for the locks of organizations: longer, since no client retries
    /// them.
    pub background_permit_timeout: Duration,
    /// Memory for responses until clients have read them, in KiB; one organization gets at most half of it.
    pub outbound_kibibytes: u32,
    /// Concurrent requests, including those whose clients have disconnected; one organization gets at most half of them.
    pub requests: usize,
    /// Default of `silent_after` of environments.
    pub silent_after: Duration,
    pub retention_interval: Duration,
    pub checkpoint_interval: Duration,
    /// Requests without a valid token or session that an address may send per `invalid_tokens_within`.
    pub invalid_tokens: u32,
    pub invalid_tokens_within: Duration,
    /// Environments that a token may create per 24 hours, at least 1. Declared environments do not count. On PostgreSQL,
    /// concurrent reports may exceed it by their number.
    pub new_environments: u32,
    /// As [`new_environments`](Self::new_environments), for flows.
    pub new_flows: u32,
    /// As [`new_environments`](Self::new_environments), for trails.
    pub new_trails: u32,
    pub certificate_interval: Duration,
    /// Interval of the search for environments to evaluate, such as after the expiry of an allow-list entry.
    pub evaluation_interval: Duration,
    /// Time after which a request leaves the environments that it queued to the task.
    pub requested_evaluation: Duration,
    /// Interval for checking declared environments for silence, and for refreshing their metrics.
    pub silence_interval: Duration,
    pub token_use_flush_interval: Duration,
    pub delivery: Delivery,
    /// Lifetime of browser sessions.
    pub session: session::SessionTimeouts,
}

#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// Interval for polling the outbox, for retries and for notifications of other replicas.
    pub interval: Duration,
    /// Timeout of an attempt.
    pub timeout: Duration,
    /// Lease of a replica on a notification that it sends; longer than an attempt.
    pub lease: Duration,
    pub backoff: Backoff,
    /// Maximum pause of a target that fails.
    pub max_pause: Duration,
    /// Age at which an undelivered notification is dropped.
    pub max_age: Duration,
    /// Maximum number of targets that are sent to at the same time.
    pub max_targets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            report: 64 * 1024 * 1024,
            attachment: 10 * 1024 * 1024,
            pace: Pace::default(),
            inbound_kibibytes: 256 * 1024,
            permit_timeout: Duration::from_secs(10),
            background_permit_timeout: Duration::from_mins(1),
            outbound_kibibytes: 256 * 1024,
            requests: 1024,
            silent_after: Duration::from_mins(3),
            retention_interval: Duration::from_hours(1),
            checkpoint_interval: Duration::from_hours(1),
            invalid_tokens: 10,
            invalid_tokens_within: Duration::from_mins(1),
            new_environments: 1_000,
            new_flows: 1_000,
            new_trails: 20_000,
            certificate_interval: Duration::from_secs(10),
            evaluation_interval: Duration::from_secs(1),
            requested_evaluation: Duration::from_millis(100),
            silence_interval: Duration::from_secs(5),
            token_use_flush_interval: Duration::from_secs(10),
            delivery: Delivery::default(),
            session: session::SessionTimeouts::default(),
        }
    }
}

impl Limits {
    pub(crate) fn requests_per_organization(&self) -> u32 {
        u32::try_from(self.requests / 2).unwrap_or(u32::MAX)
    }

    /// These limits for a process with this much memory, in bytes. Bodies and responses get a quarter each: parsing them,
    /// and the database, need the rest.
    #[must_use]
    pub fn within(self, memory: u64) -> Self {
        let quarter = u32::try_from(memory / 4 / 1024).unwrap_or(u32::MAX);
        let inbound_kibibytes = self.inbound_kibibytes.min(quarter);
        // A larger body could never acquire its memory.
        let max = Budget::max_per_organization(inbound_kibibytes);
        Self {
            report: self.report.min(max),
            attachment: self.attachment.min(max.saturating_sub(MAX_DATA)),
            inbound_kibibytes,
            outbound_kibibytes: self.outbound_kibibytes.min(quarter),
            ..self
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            backoff: Backoff {
                initial: Duration::from_secs(5),
                max: Duration::from_hours(1),
                max_retry_after: Duration::from_hours(1),
            },
            max_pause: Duration::from_mins(1),
            max_age: Duration::from_hours(24),
            max_targets: 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::unconstrained;

    use super::authentication::LIMITED_SIGN_INS;
    use super::connections::ConnectionShare;
    use super::*;
    use crate::http::body::MEMORY_TIMEOUT;
    use crate::identity::remote_keys::{self, MAX_WAIT};
    use runtime::listener::Bounds;
    use store::environments::events::MAX_WAITING;
    use store::{DatabaseTimeouts, MAX_AUTHENTICATION_CONNECTIONS};

    /// The rows of the table in the documents, up to the column with the attack.
    fn rows() -> Vec<String> {
        let (limits, timeouts, bounds) = (Limits::default(), DatabaseTimeouts::default(), Bounds::default());
        let pool = timeouts.max_connections;
        let share = ConnectionShare::from_pools(pool, pool);
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        let memory = |kibibytes: u32| {
            let [one, all] = [Budget::max_per_organization(kibibytes), u64::from(kibibytes) * 1024];
            let wait = MEMORY_TIMEOUT.as_secs();
            format!("{} | {} | 503 after {wait} s", mebibytes(one), mebibytes(all))
        };
        let (inbound, outbound) = (memory(limits.inbound_kibibytes), memory(limits.outbound_kibibytes));
        let Pace { grace, bytes_per_second } = limits.pace;
        let permit = limits.permit_timeout.as_secs();
        let (connection, lock) = (timeouts.connection.as_secs(), timeouts.lock.as_secs());
        let pooled = format!("{pool} | 503 after up to {} s", permit + connection);
        let (sending, day) = (limits.delivery.max_targets, CREATED_WITHIN.as_secs() / 3600);
        let per_day = |max: u32| format!("{max} per token in {day} h | | 429");
        vec![
            format!(
                "connections | {} per address or IPv6 /64 network | {} | the longest idle one is closed, or else the new one",
                bounds.connections / 2,
                bounds.connections
            ),
            format!(
                "handshake, headers, idle connection, client that does not read | {} s | | closed",
                bounds.headers.as_secs()
            ),
            format!(
                "slow bodies | {} s, then {} KiB per second | | 408",
                grace.as_secs(),
                bytes_per_second / 1024
            ),
            format!(
                "running requests, also of disconnected clients | {} | {} | 503 at once; for the total, after {permit} s",
                limits.requests_per_organization(),
                limits.requests
            ),
            format!(
                "memory of unrecorded reports and attestations | {inbound}; 413 if one needs more than its organization gets"
            ),
            format!("memory of unread responses over 64 KiB | {outbound}"),
            format!("connections to the database for reads and pages | {} | {pooled}", share.reads),
            format!(
                "connections to the database for tokens and sessions | | {MAX_AUTHENTICATION_CONNECTIONS} | 503 after {connection} s"
            ),
            format!(
                "PostgreSQL: connections for reports, heartbeats and sessions | {} | {pooled}",
                share.writes
            ),
            format!("PostgreSQL: attestations (reports wait for them) | 1 | {pooled}"),
            format!(
                "SQLite: writes | one report or attestation, one heartbeat | 1 | 503 after up to {} s (heartbeats: {} s)",
                permit + connection,
                permit + lock
            ),
            format!(
                "signed evidence: bytes beside its payload, JSON values in it | {} KiB, {} million | | 400",
                bundle::MAX_MATERIAL / 1024,
                bundle::MAX_VALUES / 1_000_000
            ),
            "signed evidence that is verified | | 1 | verified later".to_owned(),
            "bills of materials that are read | | 1 | read later".to_owned(),
            "attachments that are unpacked for a page | | 1 | shown later".to_owned(),
            format!("notifications that are being sent | {} | {sending} | sent later", sending / 2),
            format!(
                "notifications that wait for a target, per environment and trigger | {MAX_WAITING} | | merged into the newest"
            ),
            format!("new undeclared environments | {}", per_day(limits.new_environments)),
            format!("new flows | {}", per_day(limits.new_flows)),
            format!("new trails | {}", per_day(limits.new_trails)),
            format!("tokens created at runtime | {MAX_TOKENS} | | 400"),
            format!(
                "sessions of browsers | {} per token or person | | the least recently used session ends",
                limits.session.max_per_token
            ),
            format!(
                "requests without a valid token or session | {} per {} s and address | | 429; sessions and tokens with an unknown key are checked one at a time, sign-ins {LIMITED_SIGN_INS} at a time",
                limits.invalid_tokens,
                limits.invalid_tokens_within.as_secs()
            ),
            format!(
                "requests and sign-ins that wait for an issuer | {} per issuer | | 503; a wait for a key ends after {} s",
                remote_keys::MAX_WAITING,
                MAX_WAIT.as_secs()
            ),
        ]
    }

    #[test]
    fn each_limit_in_the_documents_has_its_attack_and_a_test() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let page = std::fs::read_to_string(format!("{root}docs/reference/security.md")).unwrap();
        let (_, section) = page.split_once("\n### Limits\n").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let table: Vec<_> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        let rows = rows();
        assert_eq!(table.len(), rows.len());
        let sources: String = ["crates", "tests/it"]
            .into_iter()
            .flat_map(|folder| walkdir::WalkDir::new(format!("{root}{folder}")))
            .map(|file| file.unwrap().into_path())
            .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        for (line, row) in table.into_iter().zip(rows) {
            let rest = line.strip_prefix(&format!("| {row} | "));
            let rest =
                rest.unwrap_or_else(|| panic!("docs/reference/security.md:\n{line}\nexpected:\n| {row} | …"));
            let (attack, tests) = rest.split_once(" | ").unwrap();
            let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
            assert!(!attack.is_empty() && !tests.is_empty(), "{line}");
            for test in tests {
                assert!(sources.contains(&format!("fn {test}(")), "{test}: no such test");
            }
        }
    }

    #[test]
    fn bodies_and_responses_get_a_quarter_of_the_memory_each() {
        let kept = |policy: Limits| (policy.inbound_kibibytes, policy.outbound_kibibytes, policy.report);
        let policy = Limits::default();
        assert_eq!(kept(policy.within(4 << 30)), kept(policy));
        assert_eq!(kept(policy.within(256 << 20)), (64 * 1024, 64 * 1024, 32 << 20));
    }

    #[tokio::test]
    async fn largest_body_fits_its_budget_with_any_amount_of_memory() {
        for megabytes in 16..1_024 {
            let policy = Limits::default().within(megabytes * 1_000_000);
            for largest in [policy.report, policy.attachment + MAX_DATA] {
                let mut share = Budget::new(policy.inbound_kibibytes).share("acme");
                let growing = share.grow(usize::try_from(largest).unwrap());
                let grown = unconstrained(growing).now_or_never();
                assert!(grown.is_some_and(|grown| grown.is_ok()), "{largest} bytes of {megabytes} MB");
            }
        }
    }

    #[tokio::test]
    async fn organizations_together_use_at_most_the_memory() {
        let budget = Budget::new(1024);
        let mut shares = ["one", "two", "three"].map(|organization| budget.share(organization));
        let grown = shares.each_mut().map(|share| {
            let growing = share.grow(512 * 1024);
            unconstrained(growing).now_or_never().is_some_and(|grown| grown.is_ok())
        });
        assert_eq!(grown, [true, true, false]);
    }
}
