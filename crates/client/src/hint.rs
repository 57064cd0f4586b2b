//! Hints about how to fix an error of a request.

use std::fmt;
use std::time::Duration;

use super::{Client, Error};
use model::escape::Escaped;
use model::{Fingerprint, Provider};
use runtime::error_causes;

/// The parameter of live artifacts, and the field of an attestation.
const PROVIDER_FIELDS: [&str; 2] = ["provider", "repo_info.provider"];

/// The resource of a request, for hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each resource is identified by its name or number")]
pub enum Resource<'a> {
    Organization,
    Environment(&'a str),
    /// The environment of a report.
    Reported(&'a str),
    Flow(&'a str),
    Repository(&'a str),
    Approval(&'a str, u64),
    NewApproval(&'a str, &'a str),
    Artifact(Fingerprint),
    Action(u64),
    /// Another kind of resource, and its name.
    Named(&'static str, &'a str),
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organization => f.write_str("organization"),
            Self::Environment(name) | Self::Reported(name) => write!(f, "environment \"{}\"", Escaped(name)),
            Self::Flow(name) => write!(f, "flow \"{}\"", Escaped(name)),
            Self::Repository(name) => write!(f, "repository \"{}\"", Escaped(name)),
            Self::Approval(flow, number) => write!(f, "approval {number} of the flow \"{}\"", Escaped(flow)),
            Self::NewApproval(flow, environment) => {
                write!(f, "flow \"{}\" and the environment \"{}\"", Escaped(flow), Escaped(environment))
            }
            Self::Artifact(fingerprint) => write!(f, "artifact {fingerprint}"),
            Self::Action(number) => write!(f, "action {number}"),
            Self::Named(kind, name) => write!(f, "{kind} \"{}\"", Escaped(name)),
        }
    }
}

impl Client {
    /// A hint about how to fix an error of a request for this resource.
    #[must_use]
    pub fn hint(&self, error: &Error, resource: Resource<'_>) -> Option<String> {
        let Self { base_url, .. } = self;
        match error {
            error if error.is_not_http() => {
                Some("the server does not speak plain http; is it https?".to_owned())
            }
            Error::UnexpectedResponse { .. } => {
                Some(format!("check the base URL {base_url}: expected the service at {base_url}/api/v2"))
            }
            Error::Unreachable { source, .. } => {
                let trust = "check the host name, and set --ca-file to the server's certificate authority";
                match error_causes::tls_failure(source) {
                    Some(tls) => Some(tls.hint(trust)),
                    None if error.has_no_connection() => {
                        Some(format!("is the service running at {base_url}?"))
                    }
                    None => None,
                }
            }
            Error::Answered { status, fields, clock_skew, .. } => match status.as_u16() {
                401 | 403 => Some(self.authorization_hint(resource, *clock_skew)),
                404 => Some(self.not_found_hint(resource)),
                413 if matches!(resource, Resource::Flow(_)) => {
                    Some("send fewer or smaller files at a time".to_owned())
                }
                // The service found several repositories with this name.
                _ if fields.iter().any(|field| PROVIDER_FIELDS.contains(&field.as_str())) => {
                    let providers = Provider::NAMES.join(", ");
                    Some(format!("set the provider of the repository by --provider: {providers}"))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A hint about a resource that does not exist. The error itself has the URL.
    #[must_use]
    pub fn not_found_hint(&self, resource: Resource<'_>) -> String {
        let Self { organization, base_url, .. } = self;
        match resource {
            Resource::Organization => {
                format!("check the base URL {base_url} and the organization \"{organization}\"")
            }
            Resource::Reported(_) => format!(
                "check the name, the organization and the base URL {base_url}; --create (`create: true` in the file of --config) creates the environment"
            ),
            Resource::Environment(_) => format!(
                "`supercargo list environments` lists the environments of the organization \"{organization}\"; a new one is known once it is declared, or reported with --create"
            ),
            Resource::Flow(_) => format!(
                "`supercargo list flows` lists the flows of the organization \"{organization}\"; some services require that a flow is created first"
            ),
            Resource::Repository(_) => format!(
                "check the name and the organization \"{organization}\"; a repository is known once an attestation names it (attest junit --repository)"
            ),
            Resource::Approval(..) | Resource::Named(..) => {
                format!("check the {resource} and the organization \"{organization}\"")
            }
            Resource::NewApproval(..) => format!(
                "check the {resource}; both are known once they are declared, attested or reported in the organization \"{organization}\""
            ),
            Resource::Artifact(_) => format!(
                "check the digest and the organization \"{organization}\"; an artifact is known once it is attested, reported or running; the digest of an image's configuration, which runtimes report for some images, is never attested (see docs/guides/troubleshooting.md)"
            ),
            Resource::Action(_) => format!(
                "check the number and the organization \"{organization}\"; `supercargo list actions` lists the actions"
            ),
        }
    }

    fn authorization_hint(&self, resource: Resource<'_>, clock_skew: Option<Duration>) -> String {
        let Self { token, organization, .. } = self;
        let may = match resource {
            Resource::Reported(_) => format!("may report the {resource}"),
            _ => "has the required role".to_owned(),
        };
        let check = format!(
            "check that the token from {token} belongs to the organization \"{organization}\" and {may}"
        );
        match clock_skew.map(|skew| skew.as_secs() / 60) {
            None => check,
            Some(minutes) => format!(
                "{check}, and check the clock of this machine: it differs from the service's by {minutes} minutes"
            ),
        }
    }
}
