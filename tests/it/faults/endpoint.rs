//! The receiver of reports behind a proxy: the gate without a service, or the real service with its own listener.

use std::collections::BTreeSet;

use runtime::tls::Files;
use tempfile::TempDir;

use crate::daemon::PROD;
use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::ReportedPod;
use crate::fake::pki::Authority;
use crate::service::{Database, Options, TestService};

/// The receiver of reports.
pub struct Endpoint {
    pub gate: Gate,
    pub url: String,
    pub is_service: bool,
    /// Certificates of the authority and the service.
    pub folder: TempDir,
}

impl Endpoint {
    pub async fn start(is_service: bool, has_tls: bool) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        if !is_service {
            let gate = if has_tls {
                Gate::without_service_over_tls(authority.server(None))
            } else {
                Gate::without_service()
            };
            return Self { url: gate.url(), gate, is_service, folder };
        }
        let options = if has_tls {
            let identity = authority.host("service");
            let file = |name| folder.path().join(name);
            let files = Files { certificate: file("tls.crt"), key: file("tls.key") };
            std::fs::write(&files.certificate, identity.certificate).unwrap();
            std::fs::write(&files.key, identity.key).unwrap();
            Options { tls: Some((files, authority.pem())), ..Options::default() }
        } else {
            Options::default()
        };
        let service = TestService::start_with(Database::sqlite(), options).await;
        Self { url: service.base.clone(), gate: Gate::with_service(service), is_service, folder }
    }

    /// The running pods, and all pods ever reported.
    pub async fn pods(&self) -> (BTreeSet<ReportedPod>, Vec<ReportedPod>) {
        if self.is_service {
            (self.gate.stored_running_pods(PROD.name).await, self.gate.stored_pod_runs(PROD.name).await)
        } else {
            let last = self.gate.last_accepted(PROD.name).map(|report| (*report.pods).clone());
            let all = self.gate.every_accepted_pod(PROD.name).into_iter().collect();
            (last.unwrap_or_default(), all)
        }
    }
}
