//! What becomes of the rest where a part of the daemon panics. It runs within the test, whose log panics:
//! nothing that a cluster or a service says is known to make it do so.

use std::error::Error as _;
use std::fmt::{self, Debug};

use supercargo::agent::daemon::{self, Policy, Setup, Witnessing};
use supercargo::agent::{Environment, Plan};
use supercargo::api::{self, BaseUrl, Client, PlainHttp, TokenSource};
use supercargo::cluster::{self, Access};
use supercargo::domain::live::collapse::Counting;
use supercargo::domain::live::confirmation::Emptiness;
use supercargo::domain::live::selection::Selection;
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::{Environment as Held, eventually, holds_what_the_cluster_holds};
use crate::service::ADMIN;

/// Panics where it is told this.
struct Panics(&'static str);

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Self(self.0));
    }
}

impl Visit for Panics {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let is_it = field.name() == "message" && fmt::format(format_args!("{value:?}")).starts_with(self.0);
        assert!(!is_it, "a part of it breaks down");
    }
}

fn environment(name: &str) -> Environment {
    let selection = Selection::new([].into(), vec![], [].into(), vec![]).unwrap();
    Environment { name: name.parse().unwrap(), selection, empty: Emptiness::Withheld }
}

#[tokio::test]
async fn where_a_part_panics_the_others_have_their_last_word_and_the_daemon_ends() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a'));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cluster.kubeconfig()).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), context: None };
    let policy = Policy::default().hastened(100);
    let setup = Setup {
        plan: Plan {
            environments: ["prod", "staging"].map(environment).into(),
            counting: Counting::All,
            own_pod: None,
        },
        cluster: cluster::Cluster::configure(access, cluster::Patience::default(), policy.remind * 100)
            .await
            .unwrap(),
        client: Client::new(
            api::Setup {
                base_url: BaseUrl::parse(&gate.url(), PlainHttp::LoopbackOnly).unwrap(),
                organization: "acme".parse().unwrap(),
                token: TokenSource::Variable(ADMIN.into()),
                ca_file: None,
            },
            api::Patience::default(),
        )
        .unwrap(),
        listener: None,
        witnessing: Witnessing::On,
        policy,
    };
    let logged = tracing::subscriber::set_default(registry().with(Panics("prod: 1 artifact reported")));
    let shutdown = CancellationToken::new();
    let ended = daemon::run(setup, shutdown.clone()).await.unwrap_err();
    drop(logged);

    assert_eq!(ended.to_string(), "a part of the agent ended on its own");
    assert!(ended.source().unwrap().to_string().contains("a part of it breaks down"), "{ended:?}");
    assert!(shutdown.is_cancelled(), "whoever else goes by it is told");
    eventually("its watch is closed", async || cluster.open_watches() == 0).await;
    let staging = Held { name: "staging", takes: |_| true };
    holds_what_the_cluster_holds(&gate, &cluster, staging).await;
}
