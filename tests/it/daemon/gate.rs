//! The gate: it stands before a service, misbehaves as it is told, and keeps every report.
//!
//! Behind it is the real service (`crate::service::Running`) or, where a test looks at nothing but the
//! reports, nobody: then the gate itself says what the interface says. It never imports what it tests.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::reported::{Reported, digests, pods_of};
use crate::fake::server::Plan;
use crate::fake::{Reply, Seen, Server};
use crate::service::Running;

/// What goes wrong with one report.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status and a message, with so many seconds of Retry-After; the service hears nothing.
    Says(u16, Option<u32>),
    /// The same, with a date (RFC 9110, section 10.2.3) in Retry-After.
    SaysUntil(u16, String),
    /// The same before the body is read, which it never is.
    SaysAtOnce(u16),
    /// What is not the service answers: this status, this header and this body; the service hears nothing.
    Foreign(u16, (&'static str, &'static str), &'static str),
    /// No answer at all; the service hears nothing.
    Stall,
    /// The connection is closed instead of an answer; the service hears nothing.
    Reset,
    /// The connection is closed after so many bytes of the body.
    CutUploadAfter(usize),
    /// The service takes it, and the connection is closed instead of its answer.
    TakenThenCut,
    /// The service takes it, and its answer is cut in the middle.
    AnswerCut,
    /// The service takes it, and its answer comes so much later.
    After(Duration),
    /// The service takes it, and its answer comes when the [`Hold`] lets go.
    Held(watch::Receiver<bool>),
    /// The service takes it, and whatever it says, the agent is told of a new snapshot.
    NewSnapshot,
}

/// Keeps answers back until it lets go, or is dropped.
pub struct Hold(watch::Sender<bool>);

/// A fault that keeps answers back, and what lets them go.
pub fn hold() -> (Fault, Hold) {
    let (keeper, kept) = watch::channel(true);
    (Fault::Held(kept), Hold(keeper))
}

impl Hold {
    pub fn let_go(&self) {
        self.0.send_replace(false);
    }
}

/// A report that arrives: what a rule looks at.
#[derive(Debug, Clone)]
pub struct Put {
    pub environment: String,
    pub token: String,
}

pub type Rule = super::rules::Rule<Put, Fault>;

/// A report that arrived.
#[derive(Debug, Clone)]
pub struct Report {
    pub environment: String,
    pub token: String,
    /// When its last byte was read, or its head where the body was not.
    pub arrived: Instant,
    /// Nothing where the body was not read.
    pub body: Bytes,
    pub pods: Arc<BTreeSet<Reported>>,
    /// Whether the service took it, whatever the agent was told.
    pub is_accepted: bool,
    /// The status that the agent was told; `None` where it was told nothing, or not yet.
    pub told: Option<u16>,
}

#[derive(Default)]
struct Kept {
    rules: Vec<Rule>,
    reports: Vec<Report>,
    problems: Vec<String>,
    /// Where nobody is behind the gate: what it took for each environment, and its snapshots.
    taken: BTreeMap<String, (BTreeSet<String>, u32)>,
}

struct Shared {
    kept: Mutex<Kept>,
    /// The address of the service, if there is one.
    behind: Option<String>,
    http: reqwest::Client,
}

/// An endpoint that is running.
pub struct Gate {
    server: Server,
    shared: Arc<Shared>,
    service: Option<Running>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    fn plan(self: &Arc<Self>, head: &Seen) -> Plan {
        let segments: Vec<_> = head.path.trim_matches('/').split('/').collect();
        let (["api", "v2", "environments", _, environment, "report", "K8S"], "PUT") =
            (segments.as_slice(), head.method.as_str())
        else {
            self.kept().problems.push(format!("{} {} is no report", head.method, head.path));
            return Plan::HeadOnly(says(404, None));
        };
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let put = Put { environment: (*environment).to_owned(), token: token.to_owned() };
        let fault = self.kept().rules.iter().find_map(|rule| rule(&put));
        match fault {
            Some(Fault::SaysAtOnce(status)) => {
                self.keep(put, Bytes::new(), Some(status));
                Plan::HeadOnly(says(status, None))
            }
            Some(Fault::CutUploadAfter(bytes)) => {
                self.keep(put, Bytes::new(), None);
                Plan::CutUploadAfter(bytes)
            }
            fault => {
                let shared = Arc::clone(self);
                Plan::Read(Box::new(move |seen| shared.receive(put, fault, seen)))
            }
        }
    }

    /// Keeps a report: its number.
    fn keep(&self, put: Put, body: Bytes, told: Option<u16>) -> usize {
        let pods = if body.is_empty() { Ok(BTreeSet::new()) } else { pods_of(&body) };
        let mut kept = self.kept();
        let pods = pods.unwrap_or_else(|problem| {
            kept.problems.push(problem);
            BTreeSet::new()
        });
        let Put { environment, token } = put;
        let pods = Arc::new(pods);
        let arrived = Instant::now();
        kept.reports.push(Report { environment, token, arrived, body, pods, is_accepted: false, told });
        kept.reports.len() - 1
    }

    fn receive(self: &Arc<Self>, put: Put, fault: Option<Fault>, seen: &Seen) -> Reply {
        let told = match &fault {
            Some(Fault::Says(status, _) | Fault::SaysUntil(status, _) | Fault::Foreign(status, ..)) => {
                Some(*status)
            }
            _ => None,
        };
        let environment = put.environment.clone();
        let number = self.keep(put, seen.body.clone(), told);
        match fault {
            Some(Fault::Says(status, retry_after)) => return says(status, retry_after),
            Some(Fault::SaysUntil(status, date)) => return says(status, None).with("retry-after", &date),
            Some(Fault::Foreign(status, (name, value), body)) => {
                return Reply::Answer(status, vec![(name, value.to_owned())], body.into());
            }
            Some(Fault::Stall) => return Reply::Stall,
            Some(Fault::Reset) => return Reply::Reset,
            _ => {}
        }
        let (shared, seen) = (Arc::clone(self), seen.clone());
        Reply::Later(Box::pin(async move {
            let (status, body) = shared.forward(&environment, number, &seen).await;
            shared.kept().reports[number].is_accepted = (200..300).contains(&status);
            let (status, body) = match fault {
                Some(Fault::TakenThenCut) => return Reply::Reset,
                Some(Fault::AnswerCut) => return Reply::Cut(status, Vec::new(), body, 3),
                Some(Fault::After(wait)) => {
                    tokio::time::sleep(wait).await;
                    (status, body)
                }
                Some(Fault::Held(mut held)) => {
                    let _ = held.wait_for(|is_held| !is_held).await;
                    (status, body)
                }
                Some(Fault::NewSnapshot) => (201, Bytes::from(r#""report processed, new snapshot 7000""#)),
                _ => (status, body),
            };
            shared.kept().reports[number].told = Some(status);
            Reply::json(status, body)
        }))
    }

    fn forward<'a>(
        &'a self,
        environment: &'a str,
        number: usize,
        seen: &'a Seen,
    ) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>> {
        Box::pin(async move {
            let Some(behind) = &self.behind else { return self.take(environment, number) };
            let mut request = self.http.put(format!("{behind}{}", seen.path)).body(seen.body.clone());
            for name in ["authorization", "content-type", "user-agent"] {
                if let Some(value) = seen.headers.get(name) {
                    request = request.header(name, value);
                }
            }
            let answered = async {
                let answer = request.send().await?;
                Ok::<_, reqwest::Error>((answer.status().as_u16(), answer.bytes().await?))
            };
            answered.await.unwrap_or_else(|error| (502, Bytes::from(format!("{{\"message\": \"{error}\"}}"))))
        })
    }

    /// What the service would say.
    fn take(&self, environment: &str, number: usize) -> (u16, Bytes) {
        let mut kept = self.kept();
        let pods = kept.reports[number].pods.iter();
        let artifacts: BTreeSet<_> = pods.flat_map(|pod| pod.digests.values().cloned()).collect();
        let (taken, snapshot) = kept.taken.entry(environment.to_owned()).or_default();
        if *taken == artifacts && *snapshot > 0 {
            return (200, Bytes::from(r#""report processed, no new snapshots to create""#));
        }
        *taken = artifacts;
        *snapshot += 1;
        (201, Bytes::from(format!("\"report processed, new snapshot {snapshot}\"")))
    }
}

fn says(status: u16, retry_after: Option<u32>) -> Reply {
    let reply = Reply::json(status, format!(r#"{{"message": "the gate says {status}"}}"#));
    match retry_after {
        Some(seconds) => reply.with("retry-after", &seconds.to_string()),
        None => reply,
    }
}

impl Gate {
    /// Before the real service.
    pub fn before(service: Running) -> Self {
        Self::start(Some(service), None)
    }

    /// Before nobody.
    pub fn alone() -> Self {
        Self::start(None, None)
    }

    /// The same over TLS.
    pub fn alone_over(tls: rustls::ServerConfig) -> Self {
        Self::start(None, Some(tls))
    }

    fn start(service: Option<Running>, tls: Option<rustls::ServerConfig>) -> Self {
        let shared = Arc::new(Shared {
            kept: Mutex::default(),
            behind: service.as_ref().map(|service| service.base.clone()),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        });
        let planning = Arc::clone(&shared);
        let server = Server::start_planning(tls, move |head| planning.plan(head));
        Self { server, shared, service }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub fn has_service(&self) -> bool {
        self.service.is_some()
    }

    /// The service behind it.
    pub fn service(&self) -> &Running {
        self.service.as_ref().expect("a service behind the gate")
    }

    /// One more rule; the first that finds a fault is followed.
    pub fn misbehave(&self, rule: Rule) {
        self.shared.kept().rules.push(rule);
    }

    /// No rule holds any longer.
    pub fn behave(&self) {
        self.shared.kept().rules.clear();
    }

    /// Says 401 to every other token.
    pub fn accept_only(&self, token: &str) {
        let token = token.to_owned();
        self.misbehave(Box::new(move |put| (put.token != token).then_some(Fault::Says(401, None))));
    }

    /// Refuses connections, having dropped those that there are, or takes them again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// Every report that arrived, in order. Each has to be one: sorted, and with each pod once.
    pub fn reports(&self) -> Vec<Report> {
        let kept = self.shared.kept();
        assert!(kept.problems.is_empty(), "{:#?}", kept.problems);
        kept.reports.clone()
    }

    /// Keeps no body and no pods but those of the last report, for who runs for long.
    pub fn forget(&self) {
        self.server.forget();
        let mut kept = self.shared.kept();
        let old = kept.reports.len().saturating_sub(1);
        for report in &mut kept.reports[..old] {
            report.body = Bytes::new();
            report.pods = Arc::default();
        }
    }

    /// Those that the service took.
    pub fn accepted(&self, environment: &str) -> Vec<Report> {
        let is = |report: &Report| report.is_accepted && report.environment == environment;
        self.reports().into_iter().filter(is).collect()
    }

    /// The number of reports that the service took.
    pub fn accepted_so_far(&self, environment: &str) -> usize {
        let kept = self.shared.kept();
        kept.reports.iter().filter(|report| report.is_accepted && report.environment == environment).count()
    }

    pub fn last_accepted(&self, environment: &str) -> Option<Report> {
        self.accepted(environment).pop()
    }

    /// Every pod of every report that the service took.
    pub fn every_accepted_pod(&self, environment: &str) -> BTreeSet<Reported> {
        self.accepted(environment).into_iter().flat_map(|report| Arc::unwrap_or_clone(report.pods)).collect()
    }

    /// The pods that run, as the real service keeps it.
    pub async fn what_it_holds(&self, environment: &str) -> BTreeSet<Reported> {
        self.runs(environment, "p.ended_at IS NULL").await.into_iter().collect()
    }

    /// Each run of a pod that the real service keeps, those included that ended.
    pub async fn what_it_ever_held(&self, environment: &str) -> Vec<Reported> {
        self.runs(environment, "1 = 1").await
    }

    async fn runs(&self, environment: &str, which: &str) -> Vec<Reported> {
        let sql = format!(
            "SELECT p.namespace, p.pod, CAST(p.created_at AS TEXT), w.digests FROM pod_runs p
             JOIN environments e ON e.id = p.environment
             JOIN workloads w ON w.organization = e.organization AND w.hash = p.workload
             WHERE e.name = '{environment}' AND {which}"
        );
        let read = |row: String| {
            let [namespace, name, created, running] =
                row.splitn(4, '|').collect::<Vec<_>>().try_into().unwrap();
            let micros: i64 = created.parse().unwrap();
            Reported {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                created: micros / 1_000_000,
                digests: digests(&serde_json::from_str(running).unwrap()).unwrap(),
            }
        };
        self.service().database.rows(&sql).await.into_iter().map(read).collect()
    }
}
