//! Selection of namespaces, and permissions.

use serde_json::json;

use crate::daemon::eventually;
use crate::daemon::support::gate::Gate;
use crate::program::{Outcome, once};
use crate::real::{Cluster, Namespace, agent, pod, service, wait_until_reported};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn two_environments_report_the_pods_of_their_namespaces() {
    let (cluster, gate) = (Cluster::from_variable().await, service().await);
    let (shop, pay) = (cluster.namespace().await, cluster.namespace().await);
    shop.add(&pod("web", "web:1", 'a')).await;
    pay.add(&pod("api", "api:1", 'b')).await;
    // The first environment lists the whole cluster.
    let config = format!(
        "environments:\n- name: both\n  namespacesRegex: [\"^({}|{})$\"]\n- name: payments\n  namespaces: [{}]\n",
        shop.name, pay.name, pay.name
    );
    let daemon = agent(&cluster.kubeconfig(), &gate).config(&config).start();
    wait_until_reported(&gate, "both", &[&shop, &pay]).await;
    wait_until_reported(&gate, "payments", &[&pay]).await;
    shop.add(&pod("web-2", "web:1", 'a')).await;
    pay.delete("api").await;
    pay.add(&pod("api-2", "api:2", 'c')).await;
    wait_until_reported(&gate, "both", &[&shop, &pay]).await;
    wait_until_reported(&gate, "payments", &[&pay]).await;
    assert!(gate.every_accepted_pod("payments").iter().all(|pod| pod.namespace == pay.name));
    daemon.stop().await;
}

/// A token of a service account with permissions for this namespace: list and watch pods, get the namespace.
async fn token(namespace: &Namespace) -> String {
    let metadata = json!({"metadata": {"name": "agent"}});
    namespace.create_object("serviceaccounts", &metadata).await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]);
    let role = json!({"metadata": {"name": "agent"}, "rules": rules});
    namespace.create_in_group(rbac, "roles", &role).await;
    let binding = json!({
        "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": namespace.name}],
    });
    namespace.create_in_group(rbac, "rolebindings", &binding).await;
    let request = json!({"spec": {"expirationSeconds": 3600}});
    let response = namespace.create_object("serviceaccounts/agent/token", &request).await;
    response["status"]["token"].as_str().unwrap().to_owned()
}

/// Runs `--once --dry-run` with these options.
async fn dry_run(kubeconfig: &str, options: &[&str]) -> Outcome {
    let program = once()
        .args(["--dry-run", "--environment", "prod"])
        .args(options.iter().copied())
        .kubeconfig(kubeconfig);
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn role_in_one_namespace_suffices_for_it_only() {
    let (cluster, gate) = (Cluster::from_variable().await, service().await);
    let (allowed, denied) = (cluster.namespace().await, cluster.namespace().await);
    denied.add(&pod("api", "api:1", 'b')).await;
    let kubeconfig = cluster.kubeconfig_with_token(&token(&allowed).await);
    // The authorizer learns of new Roles asynchronously.
    let can_list =
        async || dry_run(&kubeconfig, &["--namespace", &allowed.name, "--allow-empty"]).await.code == 0;
    eventually("the Role is effective", can_list).await;

    let empty = dry_run(&kubeconfig, &["--namespace", &allowed.name]).await;
    empty.expect(8, &[&format!("no pods in the namespace \"{}\"", allowed.name)]);
    allowed.add(&pod("web", "web:1", 'a')).await;
    dry_run(&kubeconfig, &["--namespace", &allowed.name]).await.expect(0, &["1 pod "]);
    dry_run(&kubeconfig, &["--namespace", &denied.name])
        .await
        .expect(8, &["403 Forbidden", "pods is forbidden"]);
    dry_run(&kubeconfig, &["--namespace-regex", &allowed.name])
        .await
        .expect(8, &["403 Forbidden", "at the cluster scope"]);

    let daemon = agent(&kubeconfig, &gate).args(["--namespace", &allowed.name]).start();
    wait_until_reported(&gate, "prod", &[&allowed]).await;
    allowed.add(&pod("web-2", "web:2", 'c')).await;
    wait_until_reported(&gate, "prod", &[&allowed]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn without_cluster_permission_no_report_is_sent_until_it_is_granted() {
    let (cluster, gate) = (Cluster::from_variable().await, Gate::without_service());
    let namespace = cluster.namespace().await;
    namespace.add(&pod("web", "web:1", 'a')).await;
    let kubeconfig = cluster.kubeconfig_with_token(&token(&namespace).await);
    let daemon = agent(&kubeconfig, &gate).args(["--namespace-regex", &namespace.name]).start();
    daemon.wait_for_line("403 Forbidden").await;
    assert!(!daemon.is_ready().await);
    assert!(gate.reports().is_empty());

    allow_everywhere(&cluster, &namespace).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    daemon.stop().await;
}

/// Lets the namespace's service account list and watch all pods. The objects have the namespace's name, and are removed
/// with it.
async fn allow_everywhere(cluster: &Cluster, namespace: &Namespace) {
    let labels = json!({"supercargo-test": "true"});
    let metadata = json!({"name": namespace.name, "labels": labels});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]);
    let role = json!({"metadata": metadata, "rules": rules});
    cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace.name},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": namespace.name}],
    });
    cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
}
