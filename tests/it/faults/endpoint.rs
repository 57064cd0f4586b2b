//! Who takes reports behind a proxy: the gate by itself, or the service itself, whose listener is part of it then.

use std::collections::BTreeSet;

use supercargo::process::tls::Files;
use tempfile::TempDir;

use crate::daemon::PROD;
use crate::daemon::gate::Gate;
use crate::daemon::reported::Reported;
use crate::fake::pki::Authority;
use crate::service::{Database, Options, Running};

/// Who takes the reports.
pub struct Endpoint {
    pub gate: Gate,
    pub url: String,
    pub is_service: bool,
    /// The authority's certificate, and that of the service.
    pub folder: TempDir,
}

impl Endpoint {
    pub async fn start(is_service: bool, has_tls: bool) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        if !is_service {
            let gate = if has_tls { Gate::alone_over(authority.server(None)) } else { Gate::alone() };
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
        let service = Running::start_with(Database::sqlite(), options).await;
        Self { url: service.base.clone(), gate: Gate::before(service), is_service, folder }
    }

    /// What it holds now, and what it ever held.
    pub async fn holds(&self) -> (BTreeSet<Reported>, Vec<Reported>) {
        if self.is_service {
            (self.gate.what_it_holds(PROD.name).await, self.gate.what_it_ever_held(PROD.name).await)
        } else {
            let last = self.gate.last_accepted(PROD.name).map(|report| (*report.pods).clone());
            let every = self.gate.every_accepted_pod(PROD.name).into_iter().collect();
            (last.unwrap_or_default(), every)
        }
    }
}
