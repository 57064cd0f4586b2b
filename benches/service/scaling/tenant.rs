//! An organization with an environment of a hundred artifacts and a policy, and its operations.

use std::io;

use super::policy::{FLOW, NAME, environments_with_policy};
use crate::cluster::{attestation, digest, report};
use crate::server::{Connection, Organization, Response, bearer, get, report_head, token};

/// The environment, and its number of artifacts.
pub(super) const ENVIRONMENT: &str = "prod";
const ARTIFACTS: u64 = 100;

/// The trail with the first attestation.
pub(super) const TRAIL: &str = "first";

#[derive(Clone, Copy)]
pub(super) enum Operation {
    Heartbeat,
    ChangedReport,
    Attestation,
    Read,
    Page,
}

impl Operation {
    pub(super) const ALL: [Self; 5] =
        [Self::Heartbeat, Self::ChangedReport, Self::Attestation, Self::Read, Self::Page];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Heartbeat => "unchanged report",
            Self::ChangedReport => "changed report",
            Self::Attestation => "attestation",
            Self::Read => "live artifacts",
            Self::Page => "page of the environment",
        }
    }

    /// Status of a successful response.
    fn status(self) -> u16 {
        match self {
            Self::Heartbeat | Self::Read | Self::Page => 200,
            Self::ChangedReport | Self::Attestation => 201,
        }
    }
}

/// A client of the organization.
pub(super) struct Tenant {
    organization: String,
    /// Header with the cookie of a browser session.
    pub(super) cookie: String,
    reports: u64,
    attestations: u64,
}

impl Tenant {
    pub(super) fn settings() -> String {
        environments_with_policy([ENVIRONMENT])
    }

    pub(super) fn organization(name: &str) -> Organization {
        Organization::new(name, Self::settings())
    }

    /// Attests and reports the artifacts of an organization, and signs in.
    pub(super) fn set_up(connection: &mut Connection, organization: &str) -> Self {
        let data = attestation(NAME, true, 1..=ARTIFACTS + 1);
        connection.attest(organization, FLOW, TRAIL, &data).expect(201);
        let cookie = String::new();
        let mut tenant = Self { organization: organization.to_owned(), cookie, reports: 0, attestations: 0 };
        tenant.sign_in(connection);
        tenant.send(connection, Operation::ChangedReport);
        tenant
    }

    pub(super) fn sign_in(&mut self, connection: &mut Connection) {
        self.cookie = format!("Cookie: {}", connection.sign_in(&token(&self.organization)));
    }

    pub(super) fn send(&mut self, connection: &mut Connection, operation: Operation) -> Response {
        self.try_send(connection, operation).unwrap().expect(operation.status())
    }

    /// Sends a request that the service may reject. Fails if the service closes the connection.
    pub(super) fn try_send(
        &mut self,
        connection: &mut Connection,
        operation: Operation,
    ) -> io::Result<Response> {
        let organization = &self.organization;
        match operation {
            Operation::Heartbeat => self.report(connection),
            Operation::ChangedReport => {
                self.reports += 1;
                self.report(connection)
            }
            Operation::Attestation => {
                self.attestations += 1;
                let data = attestation(NAME, true, [1 + self.attestations % (ARTIFACTS - 1)]);
                let trail = format!("next-{}", self.attestations);
                connection.try_attest(organization, FLOW, &trail, &data, "")
            }
            Operation::Read => {
                let path = format!("/api/v2/repos/{organization}/live-artifacts/acme/shop");
                connection.try_send(&get(&path, &bearer(organization)), &[])
            }
            Operation::Page => {
                let path = format!("/ui/{organization}/environments/{ENVIRONMENT}");
                connection.try_send(&get(&path, &self.cookie), &[])
            }
        }
    }

    /// Reports the current artifacts: the last one alternates between two.
    fn report(&self, connection: &mut Connection) -> io::Result<Response> {
        let body = report((1..ARTIFACTS).chain([ARTIFACTS + self.reports % 2]), 1);
        connection.try_send(&report_head(&self.organization, ENVIRONMENT, &body), &body)
    }

    /// Digest of an artifact that always runs.
    pub(super) fn artifact() -> String {
        digest(1)
    }
}
