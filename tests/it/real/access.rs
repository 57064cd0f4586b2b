//! Which namespaces are read, and by which right.

use serde_json::json;

use super::{Cluster, Namespace, agent, holds, pod, service};
use crate::daemon::eventually;
use crate::daemon::gate::Gate;
use crate::program::{Outcome, once};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn two_environments_hold_the_pods_of_their_own_namespaces() {
    let (cluster, gate) = (Cluster::given().await, service().await);
    let (shop, pay) = (cluster.namespace().await, cluster.namespace().await);
    shop.add(&pod("web", "web:1", 'a')).await;
    pay.add(&pod("api", "api:1", 'b')).await;
    // The first takes the list of the whole cluster.
    let config = format!(
        "environments:\n- name: both\n  namespacesRegex: [\"^({}|{})$\"]\n- name: payments\n  namespaces: [{}]\n",
        shop.name, pay.name, pay.name
    );
    let daemon = agent(&cluster.kubeconfig(), &gate).config(&config).start();
    holds(&gate, "both", &[&shop, &pay]).await;
    holds(&gate, "payments", &[&pay]).await;
    shop.add(&pod("web-2", "web:1", 'a')).await;
    pay.delete("api").await;
    pay.add(&pod("api-2", "api:2", 'c')).await;
    holds(&gate, "both", &[&shop, &pay]).await;
    holds(&gate, "payments", &[&pay]).await;
    assert!(gate.every_accepted_pod("payments").iter().all(|pod| pod.namespace == pay.name));
    daemon.stop().await;
}

/// A token of a service account that may list and watch the pods of this namespace, and see that it is
/// there.
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
    let answer = namespace.create_object("serviceaccounts/agent/token", &request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// `--once --dry-run` with these options.
async fn dry_run(kubeconfig: &str, options: &[&str]) -> Outcome {
    let program = once()
        .args(["--dry-run", "--environment", "prod"])
        .args(options.iter().copied())
        .kubeconfig(kubeconfig);
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_role_in_one_namespace_is_enough_for_it_and_for_nothing_else() {
    let (cluster, gate) = (Cluster::given().await, service().await);
    let (ours, theirs) = (cluster.namespace().await, cluster.namespace().await);
    theirs.add(&pod("api", "api:1", 'b')).await;
    let kubeconfig = cluster.kubeconfig_of(&token(&ours).await);
    // The authorizer learns of a new Role by a watch of its own.
    let can_list =
        async || dry_run(&kubeconfig, &["--namespace", &ours.name, "--allow-empty"]).await.code == 0;
    eventually("the Role counts", can_list).await;

    let empty = dry_run(&kubeconfig, &["--namespace", &ours.name]).await;
    empty.says(8, &[&format!("no pod is in the namespace \"{}\"", ours.name)]);
    ours.add(&pod("web", "web:1", 'a')).await;
    dry_run(&kubeconfig, &["--namespace", &ours.name]).await.says(0, &["1 artifact "]);
    dry_run(&kubeconfig, &["--namespace", &theirs.name])
        .await
        .says(8, &["403 Forbidden", "pods is forbidden"]);
    dry_run(&kubeconfig, &["--namespace-regex", &ours.name])
        .await
        .says(8, &["403 Forbidden", "at the cluster scope"]);

    let daemon = agent(&kubeconfig, &gate).args(["--namespace", &ours.name]).start();
    holds(&gate, "prod", &[&ours]).await;
    ours.add(&pod("web-2", "web:2", 'c')).await;
    holds(&gate, "prod", &[&ours]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn without_the_right_to_list_the_cluster_nothing_is_reported_until_it_is_given() {
    let (cluster, gate) = (Cluster::given().await, Gate::alone());
    let namespace = cluster.namespace().await;
    namespace.add(&pod("web", "web:1", 'a')).await;
    let kubeconfig = cluster.kubeconfig_of(&token(&namespace).await);
    let daemon = agent(&kubeconfig, &gate).args(["--namespace-regex", &namespace.name]).start();
    daemon.says("403 Forbidden").await;
    assert!(!daemon.is_ready().await);
    assert!(gate.reports().is_empty());

    allow_everywhere(&cluster, &namespace).await;
    holds(&gate, "prod", &[&namespace]).await;
    daemon.stop().await;
}

/// Gives the account of a namespace the right to list and watch all pods, by objects of the namespace's
/// name: it removes these with itself.
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
