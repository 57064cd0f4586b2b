//! A panic in one task of the daemon. No input is known to cause one, so the daemon runs within the test, with a log
//! layer that panics.

use std::error::Error as _;
use std::fmt::{self, Debug};

use agent::cluster::{self, Access};
use agent::daemon::{self, DaemonTiming, Setup, TrackDeparted};
use agent::live::collapse::Counting;
use agent::live::confirmation::Emptiness;
use agent::live::selection::Selection;
use agent::{EnvironmentConfig, Plan};
use client::{BaseUrl, Client, IfUnknown, PlainHttp, TokenSource};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{ExpectedEnvironment, eventually, wait_until_in_sync};
use crate::service::ADMIN;

/// Panics on a message with this prefix.
struct Panics(&'static str);

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Self(self.0));
    }
}

impl Visit for Panics {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let matches = field.name() == "message" && fmt::format(format_args!("{value:?}")).starts_with(self.0);
        assert!(!matches, "injected panic");
    }
}

fn environment(name: &str) -> EnvironmentConfig {
    let selection = Selection::new([].into(), vec![], [].into(), vec![]).unwrap();
    let (empty, if_unknown) = (Emptiness::Withheld, IfUnknown::Create);
    EnvironmentConfig { name: name.parse().unwrap(), selection, empty, if_unknown }
}

#[tokio::test]
async fn panicking_task_ends_the_daemon_after_the_other_environments_are_flushed() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a'));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cluster.kubeconfig()).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), ..Access::default() };
    let timing = DaemonTiming::scaled(100);
    let setup = Setup {
        plan: Plan {
            environments: ["prod", "staging"].map(environment).into(),
            counting: Counting::All,
            own_pod: None,
        },
        cluster: cluster::Cluster::configure(
            access,
            cluster::ClusterTimeouts::default(),
            timing.reminder_interval * 100,
        )
        .await
        .unwrap(),
        client: Client::new(
            client::Setup {
                base_url: BaseUrl::parse(&gate.url(), PlainHttp::LoopbackOnly).unwrap(),
                organization: "acme".parse().unwrap(),
                token: TokenSource::Variable(ADMIN.into()),
                ca_file: None,
                command: "test",
            },
            client::RequestTimeouts::default(),
        )
        .unwrap(),
        listener: None,
        track_departed: TrackDeparted::On,
        timing,
    };
    let guard = tracing::subscriber::set_default(registry().with(Panics("prod: 1 pod reported")));
    let shutdown = CancellationToken::new();
    let ended = daemon::run(setup, shutdown.clone()).await.unwrap_err();
    drop(guard);

    assert_eq!(ended.to_string(), "a task of the agent ended unexpectedly");
    assert!(ended.source().unwrap().to_string().contains("injected panic"), "{ended:?}");
    assert!(shutdown.is_cancelled(), "the panic must cancel the other tasks");
    eventually("the watch is closed", async || cluster.open_watches() == 0).await;
    let staging = ExpectedEnvironment { name: "staging", includes: |_| true };
    wait_until_in_sync(&gate, &cluster, staging).await;
}
