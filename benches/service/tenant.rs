//! An organization with an environment of a hundred artifacts and a policy, and its requests.

use super::cluster::{environments_with_policy, report};
use super::server::{Client, Organization, Response};

pub(super) const ENVIRONMENT: &str = "prod";
const ARTIFACTS: u64 = 100;

/// Artifacts that always run: the last one alternates between two.
pub(super) const LASTING: std::ops::Range<u64> = 1..ARTIFACTS;

/// A client of the organization, and its number of changes.
pub(super) struct Tenant {
    pub(super) client: Client,
    changes: u64,
}

impl Tenant {
    pub(super) fn organization(name: &str) -> Organization {
        Organization::new(name, environments_with_policy([ENVIRONMENT.to_owned()]))
    }

    /// Attests and reports the artifacts.
    pub(super) fn set_up(mut client: Client) -> Self {
        client.attest_all(1..=ARTIFACTS + 1);
        let mut tenant = Self { client, changes: 0 };
        tenant.change().expect(201);
        tenant
    }

    /// Repeats the last report.
    pub(super) fn heartbeat(&mut self) -> Response {
        self.client.report(ENVIRONMENT, report(LASTING.chain([ARTIFACTS + self.changes % 2])))
    }

    /// Reports another artifact.
    pub(super) fn change(&mut self) -> Response {
        self.changes += 1;
        self.heartbeat()
    }
}
