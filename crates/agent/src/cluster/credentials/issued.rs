//! A credential that is issued on demand, by a plugin or by an OIDC provider, and replaced when `renewal` says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant as AsyncInstant, timeout_at};

use super::issue::Issue;
use super::renewal::Renewal;
use super::{CredentialError, CredentialNumber, IssueError};
use crate::cluster::timeouts::ClusterTimeouts;
use model::failure_log::{FailureLog, LogAction};
use runtime::error_causes;
use runtime::files::BlockingCall;
use runtime::token_file::Token;

/// Interval between log lines about a credential that cannot be replaced.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Runs a plugin, or asks an OIDC provider. Blocks.
type Issuer = dyn Fn() -> Result<Issue, IssueError> + Send + Sync;

pub(in crate::cluster) struct Issued {
    issuer: Arc<Issuer>,
    /// At most one issue at a time. One that hangs does not block later requests beyond their timeouts.
    issues: BlockingCall<Result<Issue, IssueError>>,
    turn: AsyncMutex<()>,
    state: Mutex<State>,
}

struct State {
    current: Issue,
    /// Increases with each issue, so that a response is about the credential of its request.
    number: CredentialNumber,
    renewal: Renewal,
    failures: FailureLog,
}

impl Issued {
    pub(in crate::cluster) fn new(
        issuer: impl Fn() -> Result<Issue, IssueError> + Send + Sync + 'static,
        timeouts: ClusterTimeouts,
    ) -> Self {
        // A second before a credential that was never accepted is replaced. It doubles.
        let first_pause = timeouts.headers / 30;
        let state = State {
            current: Issue::default(),
            number: CredentialNumber::default(),
            renewal: Renewal::new(first_pause),
            failures: FailureLog::new(REMINDER_INTERVAL),
        };
        Self {
            issuer: Arc::new(issuer),
            issues: BlockingCall::default(),
            turn: AsyncMutex::default(),
            state: Mutex::new(state),
        }
    }

    /// The credential of the next request, and its number. Replaces it first if necessary.
    pub(super) async fn next(&self, within: Duration) -> Result<(Issue, CredentialNumber), CredentialError> {
        self.renew(within).await?;
        let mut state = self.state();
        state.renewal.sent();
        Ok((state.current.clone(), state.number))
    }

    /// Replaces the credential if necessary.
    pub(super) async fn renew(&self, within: Duration) -> Result<(), CredentialError> {
        if !self.is_due() {
            return Ok(());
        }
        let deadline = AsyncInstant::now() + within;
        let timed_out = || CredentialError::TimedOut(within);
        let _turn = timeout_at(deadline, self.turn.lock()).await.map_err(|_| timed_out())?;
        // Another request may have replaced it meanwhile.
        if !self.is_due() {
            return Ok(());
        }
        let issuer = Arc::clone(&self.issuer);
        let left = deadline.saturating_duration_since(AsyncInstant::now());
        let issue = self.issues.run(left, move || issuer());
        match issue.await.ok_or_else(timed_out)? {
            Ok(issue) => {
                let mut state = self.state();
                state.renewal.issued(issue.expires, Instant::now());
                (state.current, state.number) = (issue, state.number.next());
                state.failures.recovered(Instant::now());
                Ok(())
            }
            Err(error) => self.keep(error),
        }
    }

    /// Keeps a credential that has not expired: the server may accept it again, such as after its start.
    fn keep(&self, error: IssueError) -> Result<(), CredentialError> {
        let mut state = self.state();
        if state.number == CredentialNumber::default() || state.renewal.is_expired(Timestamp::now()) {
            return Err(CredentialError::Issue(error));
        }
        state.renewal.failed(Instant::now());
        let cause = error_causes::describe(&*error);
        if state.failures.failed(&cause, Instant::now()) != LogAction::Suppress {
            tracing::warn!("failed to renew the credentials of the cluster: {cause}; using the last ones");
        }
        Ok(())
    }

    /// The server answered a request with the credential of this number.
    pub(super) fn answered(&self, number: CredentialNumber, status: StatusCode) {
        let mut state = self.state();
        if state.number == number {
            state.renewal.answered(status);
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.state().current.token.clone()
    }

    fn is_due(&self) -> bool {
        self.state().renewal.is_due(Instant::now(), Timestamp::now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
