//! A simulated agent: the cadence of the real one, and a client over TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use agent::live::cadence::{
    BeginResult, Cadence, CadenceTiming, Draft, Knowledge, Step, UploadFailure, UploadResult, View,
};
use agent::live::departed_pods::Contents;
use agent::live::departure::Revision;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::StatusCode;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::RETRY_AFTER;
use hyper_util::rt::TokioIo;
use model::retry::{StatusClass, classify, retry_after};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsConnector;

use crate::cluster::Cluster;
use crate::server::report_request;

pub(super) const ORGANIZATION: &str = "fleet";

/// Divides all durations of the agents.
pub(super) const TIME_SCALE: u32 = 5;

/// The service closes idle connections after 30 s; a little earlier, so that no request meets the end.
const IDLE: Duration = Duration::from_secs(29);

/// Timeout of the real agent for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// State that all agents and the phases share.
pub(super) struct Shared {
    tls: ClientConfig,
    replicas: Vec<SocketAddr>,
    pub(super) results: Mutex<Results>,
}

impl Shared {
    pub(super) fn new(tls: ClientConfig, replicas: Vec<SocketAddr>) -> Self {
        Self { tls, replicas, results: Mutex::default() }
    }
}

/// Results of the requests of a phase.
#[derive(Default)]
pub(super) struct Results {
    /// Milliseconds of accepted reports, from the connection on.
    pub(super) times: Vec<f64>,
    pub(super) server_errors: usize,
    /// Requests with another status, or without a response.
    pub(super) failed: usize,
}

/// Link between the phases and one agent.
#[derive(Default)]
pub(super) struct Control {
    /// Number of rollouts in its cluster.
    pub(super) rollouts: AtomicU64,
    changed: Notify,
    /// Number of rollouts in the last accepted report, and its time.
    pub(super) accepted: Mutex<Option<(u64, Instant)>>,
}

impl Control {
    pub(super) fn roll_out(&self) {
        self.rollouts.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

pub(super) struct Agent {
    number: usize,
    shared: Arc<Shared>,
    control: Arc<Control>,
    tls: TlsConnector,
    cluster: Cluster,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// Name of an agent's environment and token.
pub(super) fn name(number: usize) -> String {
    format!("cluster_{number}")
}

impl Agent {
    pub(super) fn new(number: usize, pods: usize, shared: &Arc<Shared>, control: &Arc<Control>) -> Self {
        // Tickets of its own, as in a process of its own.
        let mut tls = shared.tls.clone();
        tls.resumption = Resumption::in_memory_sessions(4);
        Self {
            number,
            shared: Arc::clone(shared),
            control: Arc::clone(control),
            tls: Arc::new(tls).into(),
            cluster: Cluster::new(number, pods),
            connection: None,
        }
    }

    /// Reports until the runtime ends.
    pub(super) async fn run(mut self) {
        let mut cadence = Cadence::new(CadenceTiming::scaled(TIME_SCALE), self.number as u64);
        let (mut revision, mut rollouts) = (Revision::default().next(), 0);
        let mut used = Instant::now();
        loop {
            while rollouts < self.control.rollouts.load(Ordering::Relaxed) {
                self.cluster.roll_out();
                rollouts += 1;
                revision = revision.next();
            }
            let now = Instant::now();
            let view = View { revision, knowledge: Knowledge::Contact(now), has_departed_pods: false };
            match cadence.next(&view, now) {
                Step::Send { reason } => {
                    let draft = Draft { reason, revision, hash: rollouts, contents: Contents::Running };
                    if cadence.begin(draft, now) == BeginResult::Upload {
                        let result = self.report().await;
                        used = Instant::now();
                        if matches!(result, UploadResult::Accepted { .. }) {
                            *self.control.accepted.lock().unwrap() = Some((rollouts, used));
                        }
                        cadence.finish(result, used);
                    }
                }
                Step::Wait { until } => {
                    let idle_at = self.connection.as_ref().map(|_| used + IDLE / TIME_SCALE);
                    let (control, far) = (Arc::clone(&self.control), now + RESPONSE_TIMEOUT);
                    tokio::select! {
                        () = sleep_until(until.unwrap_or(far).into()) => {}
                        () = sleep_until(idle_at.unwrap_or(far).into()) => self.connection = None,
                        () = control.changed.notified() => {}
                    }
                }
                step => panic!("{step:?}"),
            }
        }
    }

    async fn report(&mut self) -> UploadResult {
        let begin = Instant::now();
        let response = timeout(RESPONSE_TIMEOUT, self.exchange()).await.map_err(BoxError::from).flatten();
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        let mut results = self.shared.results.lock().unwrap();
        match response {
            Ok((status, _)) if status.is_success() => {
                results.times.push(milliseconds);
                UploadResult::Accepted { new_snapshot: Some(status == StatusCode::CREATED) }
            }
            Ok((status, wait)) => {
                if status.is_server_error() {
                    results.server_errors += 1;
                } else {
                    results.failed += 1;
                }
                let failure = match classify(status.as_u16()) {
                    StatusClass::Transient => UploadFailure::Transient,
                    _ => UploadFailure::Permanent,
                };
                let retry_after = wait.and_then(|wait| retry_after(&wait, SystemTime::now()));
                UploadResult::Failed { failure, retry_after }
            }
            Err(_) => {
                results.failed += 1;
                self.connection = None;
                UploadResult::Failed { failure: UploadFailure::Transient, retry_after: None }
            }
        }
    }

    /// Sends a report. Returns the status, and the value of Retry-After.
    async fn exchange(&mut self) -> Result<(StatusCode, Option<String>), BoxError> {
        let name = name(self.number);
        let request = report_request(ORGANIZATION, &name, &name, self.cluster.body());
        let mut open = None;
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
        {
            open = Some(connection);
        }
        let connection = match open {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let response = self.connection.insert(connection).send_request(request).await?;
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).map(|wait| wait.to_str().map(str::to_owned));
        response.into_body().collect().await?;
        Ok((status, wait.transpose()?))
    }

    /// Connects to any replica, from an address of its own: the service limits the connections of an address.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, BoxError> {
        let replica = *fastrand::choice(&self.shared.replicas).ok_or("there is no replica")?;
        let socket = TcpSocket::new_v4()?;
        let [.., high, low] = u32::try_from(self.number + 1)?.to_be_bytes();
        socket.bind((Ipv4Addr::new(127, 1, high, low), 0).into())?;
        let stream = socket.connect(replica).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::try_from("localhost")?, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The service may close the connection.
        tokio::spawn(connection);
        Ok(sender)
    }
}
