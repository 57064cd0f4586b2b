//! Reports carry the version and the command of the agent, and on request the identity of its cluster.

use serde_json::{Value, json};

use crate::daemon::DaemonBuilder;
use crate::daemon::support::cluster::{Cluster, Grant, grants, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::{gate_with_service, start_synced};
use crate::program::once;
use crate::service::ADMIN;

/// The UID of every namespace of the cluster.
const IDENTITY: &str = "0c558854-1f14-4c86-ac4c-3f62f048bad0";

/// Cluster and mark of each agent of `prod`.
async fn agents(gate: &Gate) -> Vec<Value> {
    let agents = gate.service().read("/environments/acme/prod/agents").await;
    let agents = agents.as_array().unwrap().iter();
    let described = |agent: &Value| {
        assert_eq!(agent["user_agent"], concat!("supercargo/", env!("CARGO_PKG_VERSION"), " (agent)"));
        json!([agent["cluster"], agent["is_overwritten"]])
    };
    agents.map(described).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_sends_version_command_and_identity_of_its_cluster() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    let builder = || DaemonBuilder::new(&cluster, &gate).args(["--cluster-identity"]);
    start_synced(&cluster, &gate, builder()).await.stop().await;
    let (known, unknown) = (json!([IDENTITY, false]), json!([null, false]));
    assert_eq!(agents(&gate).await, std::slice::from_ref(&known));
    // Only once, at the start.
    assert_eq!(cluster.api_requests().iter().filter(|request| !request.is_about_pods()).count(), 1);

    // Without the permission, the agent reports all the same.
    let is_about_pods = |grant: &Grant| grant.resource == "pods";
    cluster.allow_only(grants(None).into_iter().filter(is_about_pods));
    let accepted = gate.accepted_count("prod");
    let daemon = builder().start();
    daemon.wait_for_reports("unchanged", 1).await;
    assert!(gate.accepted_count("prod") > accepted);
    let log = daemon.stop().await;
    let lines: Vec<_> = log.iter().filter(|line| line.contains("identity of the cluster")).collect();
    assert_eq!(lines.len(), 1, "{log:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("grant \"get\" on \"namespaces\""), "{lines:#?}");
    assert_eq!(agents(&gate).await, [unknown.clone(), known.clone()]);

    cluster.allow_only(grants(None));
    let program = once().kubeconfig(&cluster.kubeconfig()).env("SUPERCARGO_BASE_URL", &gate.url());
    let program = program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", ADMIN);
    let program = program.args(["--environment", "prod", "--cluster-identity"]);
    tokio::task::spawn_blocking(move || program.run()).await.unwrap().expect(0, &[]);
    assert_eq!(agents(&gate).await, [known, unknown]);
}
