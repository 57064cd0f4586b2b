//! The gate: a recording proxy in front of the service that injects faults into reports.
//!
//! The gate forwards to the real service (`crate::service::TestService`). Without a service, it responds as the interface
//! requires. It imports nothing of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::daemon::support::reported_pod::{ReportedPod, digests, pods_of};
use crate::fake::server::Plan;
use crate::fake::{Reply, Request, Server};
use crate::service::TestService;

/// A fault of one report. "Forwarded" faults reach the service.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status with a message and a Retry-After in seconds. Not forwarded.
    Status(u16, Option<u32>),
    /// The same, with Retry-After as a date (RFC 9110, section 10.2.3).
    StatusUntil(u16, String),
    /// This status before the body is read. The body is never read.
    EarlyStatus(u16),
    /// A foreign response: status, header and body. Not forwarded.
    Foreign(u16, (&'static str, &'static str), &'static str),
    /// No response. Not forwarded.
    Stall,
    /// Closes the connection without a response. Not forwarded.
    Reset,
    /// Closes the connection after this many bytes of the body.
    CutUploadAfter(usize),
    /// Forwarded, then the connection is closed without a response.
    AcceptThenReset,
    /// Forwarded, then the response is cut.
    AcceptThenCut,
    /// Forwarded, with a delayed response.
    AcceptAfter(Duration),
    /// Forwarded, with the response after [`Hold::release`].
    AcceptOnRelease(watch::Receiver<bool>),
    /// Forwarded, but the response always reports a new snapshot.
    NewSnapshot,
}

/// Delays responses until it is released or dropped.
pub struct Hold(watch::Sender<bool>);

/// A fault that delays responses, and its release.
pub fn hold() -> (Fault, Hold) {
    let (sender, receiver) = watch::channel(true);
    (Fault::AcceptOnRelease(receiver), Hold(sender))
}

impl Hold {
    pub fn release(&self) {
        self.0.send_replace(false);
    }
}

/// The head of a report, which rules match.
#[derive(Debug, Clone)]
pub struct ReportHead {
    pub environment: String,
    pub token: String,
}

pub type Rule = crate::daemon::support::rules::Rule<ReportHead, Fault>;

/// A received report.
#[derive(Debug, Clone)]
pub struct Report {
    pub environment: String,
    pub token: String,
    /// When the last byte was read, or the head if the body was not read.
    pub arrived: Instant,
    /// Empty if the body was not read.
    pub body: Bytes,
    pub pods: Arc<BTreeSet<ReportedPod>>,
    /// Whether the service accepted it, even if the response was lost.
    pub is_accepted: bool,
    /// The status that was sent to the agent, if any.
    pub status: Option<u16>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    reports: Vec<Report>,
    problems: Vec<String>,
    /// Without a service: the accepted digests of each environment, and its snapshot number.
    accepted: BTreeMap<String, (BTreeSet<String>, u32)>,
}

struct Shared {
    state: Mutex<State>,
    service_url: Option<String>,
    http: reqwest::Client,
}

/// A running gate.
pub struct Gate {
    server: Server,
    shared: Arc<Shared>,
    service: Option<TestService>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn plan(self: &Arc<Self>, head: &Request) -> Plan {
        let segments: Vec<_> = head.path.trim_matches('/').split('/').collect();
        let (["api", "v2", "environments", _, environment, "report", "K8S"], "PUT") =
            (segments.as_slice(), head.method.as_str())
        else {
            self.state().problems.push(format!("{} {} is no report", head.method, head.path));
            return Plan::HeadOnly(status_reply(404, None));
        };
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let report = ReportHead { environment: (*environment).to_owned(), token: token.to_owned() };
        let fault = self.state().rules.iter().find_map(|rule| rule(&report));
        match fault {
            Some(Fault::EarlyStatus(status)) => {
                self.record(report, Bytes::new(), Some(status));
                Plan::HeadOnly(status_reply(status, None))
            }
            Some(Fault::CutUploadAfter(bytes)) => {
                self.record(report, Bytes::new(), None);
                Plan::CutUploadAfter(bytes)
            }
            fault => {
                let shared = Arc::clone(self);
                Plan::Read(Box::new(move |request| shared.receive(report, fault, request)))
            }
        }
    }

    /// Records a report and returns its number.
    fn record(&self, head: ReportHead, body: Bytes, status: Option<u16>) -> usize {
        let pods = if body.is_empty() { Ok(BTreeSet::new()) } else { pods_of(&body) };
        let mut state = self.state();
        let pods = pods.unwrap_or_else(|problem| {
            state.problems.push(problem);
            BTreeSet::new()
        });
        let ReportHead { environment, token } = head;
        let pods = Arc::new(pods);
        let arrived = Instant::now();
        state.reports.push(Report { environment, token, arrived, body, pods, is_accepted: false, status });
        state.reports.len() - 1
    }

    fn receive(self: &Arc<Self>, head: ReportHead, fault: Option<Fault>, request: &Request) -> Reply {
        let status = match &fault {
            Some(Fault::Status(status, _) | Fault::StatusUntil(status, _) | Fault::Foreign(status, ..)) => {
                Some(*status)
            }
            _ => None,
        };
        let environment = head.environment.clone();
        let number = self.record(head, request.body.clone(), status);
        match fault {
            Some(Fault::Status(status, retry_after)) => return status_reply(status, retry_after),
            Some(Fault::StatusUntil(status, date)) => {
                return status_reply(status, None).with("retry-after", &date);
            }
            Some(Fault::Foreign(status, (name, value), body)) => {
                return Reply::Response(status, vec![(name, value.to_owned())], body.into());
            }
            Some(Fault::Stall) => return Reply::Stall,
            Some(Fault::Reset) => return Reply::Reset,
            _ => {}
        }
        let (shared, request) = (Arc::clone(self), request.clone());
        Reply::Later(Box::pin(async move {
            let (status, body) = shared.forward(&environment, number, &request).await;
            shared.state().reports[number].is_accepted = (200..300).contains(&status);
            let (status, body) = match fault {
                Some(Fault::AcceptThenReset) => return Reply::Reset,
                Some(Fault::AcceptThenCut) => return Reply::Cut(status, Vec::new(), body, 3),
                Some(Fault::AcceptAfter(wait)) => {
                    tokio::time::sleep(wait).await;
                    (status, body)
                }
                Some(Fault::AcceptOnRelease(mut release)) => {
                    let _ = release.wait_for(|is_held| !is_held).await;
                    (status, body)
                }
                Some(Fault::NewSnapshot) => (201, Bytes::from(r#""report processed, new snapshot 7000""#)),
                _ => (status, body),
            };
            shared.state().reports[number].status = Some(status);
            Reply::json(status, body)
        }))
    }

    fn forward<'a>(
        &'a self,
        environment: &'a str,
        number: usize,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>> {
        Box::pin(async move {
            let Some(url) = &self.service_url else { return self.accept(environment, number) };
            let mut forwarded =
                self.http.put(format!("{url}{}?{}", request.path, request.query)).body(request.body.clone());
            for name in [
                "authorization",
                "content-type",
                "user-agent",
                "supercargo-cluster",
                "supercargo-excluded-pods",
            ] {
                if let Some(value) = request.headers.get(name) {
                    forwarded = forwarded.header(name, value);
                }
            }
            let response = async {
                let response = forwarded.send().await?;
                Ok::<_, reqwest::Error>((response.status().as_u16(), response.bytes().await?))
            };
            response.await.unwrap_or_else(|error| (502, Bytes::from(format!("{{\"message\": \"{error}\"}}"))))
        })
    }

    /// Responds as the service would.
    fn accept(&self, environment: &str, number: usize) -> (u16, Bytes) {
        let mut state = self.state();
        let pods = state.reports[number].pods.iter();
        let artifacts: BTreeSet<_> = pods.flat_map(|pod| pod.digests.values().cloned()).collect();
        let (accepted, snapshot) = state.accepted.entry(environment.to_owned()).or_default();
        if *accepted == artifacts && *snapshot > 0 {
            return (200, Bytes::from(r#""report processed, no new snapshots to create""#));
        }
        *accepted = artifacts;
        *snapshot += 1;
        (201, Bytes::from(format!("\"report processed, new snapshot {snapshot}\"")))
    }
}

fn status_reply(status: u16, retry_after: Option<u32>) -> Reply {
    let reply = Reply::json(status, format!(r#"{{"message": "injected {status}"}}"#));
    match retry_after {
        Some(seconds) => reply.with("retry-after", &seconds.to_string()),
        None => reply,
    }
}

impl Gate {
    /// In front of the real service.
    pub fn with_service(service: TestService) -> Self {
        Self::start(Some(service), None)
    }

    /// Without a service.
    pub fn without_service() -> Self {
        Self::start(None, None)
    }

    /// Without a service, over TLS.
    pub fn without_service_over_tls(tls: rustls::ServerConfig) -> Self {
        Self::start(None, Some(tls))
    }

    fn start(service: Option<TestService>, tls: Option<rustls::ServerConfig>) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            service_url: service.as_ref().map(|service| service.base.clone()),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        });
        let planner = Arc::clone(&shared);
        let server = Server::start_planning(tls, move |head| planner.plan(head));
        Self { server, shared, service }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub fn has_service(&self) -> bool {
        self.service.is_some()
    }

    /// The service that reports are forwarded to.
    pub fn service(&self) -> &TestService {
        self.service.as_ref().expect("a gate with a service")
    }

    /// Adds a rule. The first rule that returns a fault applies.
    pub fn inject(&self, rule: Rule) {
        self.shared.state().rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear_faults(&self) {
        self.shared.state().rules.clear();
    }

    /// Responds with 401 to other tokens.
    pub fn accept_only(&self, token: &str) {
        let token = token.to_owned();
        self.inject(Box::new(move |head| (head.token != token).then_some(Fault::Status(401, None))));
    }

    /// Stops listening and drops all connections, or listens again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// All received reports in order. Asserts that each is valid: sorted, and with each pod once.
    pub fn reports(&self) -> Vec<Report> {
        let state = self.shared.state();
        assert!(state.problems.is_empty(), "{:#?}", state.problems);
        state.reports.clone()
    }

    /// The reports that the service accepted.
    pub fn accepted(&self, environment: &str) -> Vec<Report> {
        let is = |report: &Report| report.is_accepted && report.environment == environment;
        self.reports().into_iter().filter(is).collect()
    }

    /// Number of reports that the service accepted.
    pub fn accepted_count(&self, environment: &str) -> usize {
        let state = self.shared.state();
        state.reports.iter().filter(|report| report.is_accepted && report.environment == environment).count()
    }

    pub fn last_accepted(&self, environment: &str) -> Option<Report> {
        self.accepted(environment).pop()
    }

    /// All pods of all accepted reports.
    pub fn every_accepted_pod(&self, environment: &str) -> BTreeSet<ReportedPod> {
        self.accepted(environment).into_iter().flat_map(|report| Arc::unwrap_or_clone(report.pods)).collect()
    }

    /// The running pods in the service's database.
    pub async fn stored_running_pods(&self, environment: &str) -> BTreeSet<ReportedPod> {
        self.query_pod_runs(environment, "p.ended_at IS NULL").await.into_iter().collect()
    }

    /// All pod runs in the service's database, including ended ones.
    pub async fn stored_pod_runs(&self, environment: &str) -> Vec<ReportedPod> {
        self.query_pod_runs(environment, "1 = 1").await
    }

    async fn query_pod_runs(&self, environment: &str, condition: &str) -> Vec<ReportedPod> {
        let sql = format!(
            "SELECT p.namespace, p.pod, CAST(p.created_at AS TEXT), w.digests FROM pod_runs p
             JOIN environments e ON e.id = p.environment
             JOIN workloads w ON w.organization = e.organization AND w.hash = p.workload
             WHERE e.name = '{environment}' AND {condition}"
        );
        let read = |row: String| {
            let [namespace, name, created, running] =
                row.splitn(4, '|').collect::<Vec<_>>().try_into().unwrap();
            let micros: i64 = created.parse().unwrap();
            ReportedPod {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                created: micros / 1_000_000,
                digests: digests(&serde_json::from_str(running).unwrap()).unwrap(),
            }
        };
        self.service().database.rows(&sql).await.into_iter().map(read).collect()
    }
}
