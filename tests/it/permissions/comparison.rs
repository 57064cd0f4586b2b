//! The committed manifests grant the agent exactly the permissions that it uses.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::permissions::Need;
use crate::permissions::manifest::{Agent, Manifests, Permission};
use crate::permissions::requests::requests;

/// Missing permissions, and unused ones.
fn difference(needs: &BTreeSet<Need>, permissions: &BTreeSet<Permission>) -> Vec<String> {
    let lacking = needs.iter().filter(|need| !permissions.iter().any(|permission| permission.covers(need)));
    let unused =
        permissions.iter().filter(|permission| !needs.iter().any(|need| permission.is_no_wider_than(need)));
    lacking
        .map(|need| format!("not granted: {need}"))
        .chain(unused.map(|permission| format!("granted but unused: {permission:?}")))
        .collect()
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Rendered charts.
fn renders() -> Vec<Manifests> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files.iter().map(|file| Manifests::read(file)).collect()
}

/// The manifests in `deploy`, put together as kustomize does. `.ci/chart` checks the kinds, namespaces and subjects of its
/// output.
fn kustomizations() -> Vec<Manifests> {
    let generated = |name: &str, namespace: Option<&str>, data: Value| {
        json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
            .to_string()
    };
    let environments = |folder: &str, namespace: &str| {
        let file = read(&format!("deploy/{folder}/environments.yaml"));
        generated("supercargo", Some(namespace), json!({"environments.yaml": file}))
    };
    let cluster = read("deploy/cluster/supercargo.yaml");
    let namespaced = cluster.split("---\n").filter(|object| !object.contains("kind: ClusterRole\n"));
    let namespaced: Vec<_> =
        namespaced.map(|object| object.replace(r#"namespace: "supercargo""#, "namespace: shop")).collect();
    let rights = read("deploy/namespace/rights.yaml")
        .replace("\n  name: supercargo\n", "\n  name: supercargo\n  namespace: shop\n")
        .replace("\n    name: supercargo\n", "\n    name: supercargo\n    namespace: shop\n");
    let sidecar = read("deploy/sidecar/agent.yaml")
        .replace("\n      initContainers:", "\n      serviceAccountName: deployer\n      initContainers:");
    let literals = json!({"baseUrl": "https://compliance.example.com", "org": "acme", "environment": "shop"});
    [
        ("deploy/cluster", vec![cluster.clone(), environments("cluster", "supercargo")]),
        ("deploy/namespace", [namespaced, vec![rights, environments("namespace", "shop")]].concat()),
        (
            "deploy/sidecar",
            vec![
                sidecar,
                read("deploy/sidecar/rights.yaml").replace("set-by-the-component", "deployer"),
                read("examples/sidecar/rights.yaml"),
                generated("supercargo-sidecar", None, literals),
            ],
        ),
    ]
    .map(|(folder, objects)| Manifests::parse(Path::new(folder), &objects.join("\n---\n")))
    .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_grant_exactly_the_used_permissions() {
    let mut agents = 0;
    let mut kinds = BTreeSet::new();
    for manifests in renders().into_iter().chain(kustomizations()) {
        let file = manifests.file.display();
        let all = manifests.agents().into_iter();
        for Agent { options, permissions, .. } in all.filter(|agent| manifests.creates_account_of(agent)) {
            let mut needs = BTreeSet::new();
            for options in options {
                needs.extend(requests(&options).await);
            }
            let differences = difference(&needs, &permissions);
            assert!(differences.is_empty(), "{file}: {differences:#?}");
            agents += 1;
            kinds.extend(permissions.iter().map(|permission| {
                let scope = if permission.namespace.is_some() { "a namespace" } else { "the cluster" };
                format!("{} {} in {scope}", permission.verb, permission.resource)
            }));
        }
        assert!(
            manifests.unrelated_permissions().is_empty(),
            "{file}: {:?}",
            manifests.unrelated_permissions()
        );
    }
    assert_eq!(agents, 5);
    // No kind of permission is missing in all of them.
    let expected = [
        "get namespaces in a namespace",
        "get namespaces in the cluster",
        "list namespaces in the cluster",
        "list pods in a namespace",
        "list pods in the cluster",
        "watch namespaces in the cluster",
        "watch pods in a namespace",
        "watch pods in the cluster",
    ];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// Two environments with their own namespaces and permissions.
const SAMPLE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: agent, namespace: tools}
data:
  environments.yaml: |
    environments:
    - {name: front, namespaces: [shop]}
    - {name: money, namespaces: [pay]}
---
kind: Role
metadata: {name: agent, namespace: shop}
rules:
- {apiGroups: [''], resources: [pods], verbs: [list, watch]}
- {apiGroups: [''], resources: [namespaces], resourceNames: [shop], verbs: [get]}
---
kind: Role
metadata: {name: agent, namespace: pay}
rules:
- {apiGroups: [''], resources: [pods], verbs: [list, watch]}
- {apiGroups: [''], resources: [namespaces], resourceNames: [pay], verbs: [get]}
---
kind: RoleBinding
metadata: {name: agent, namespace: shop}
roleRef: {kind: Role, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: tools}]
---
kind: RoleBinding
metadata: {name: agent, namespace: pay}
roleRef: {kind: Role, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: tools}]
---
kind: Deployment
metadata: {name: agent, namespace: tools}
spec:
  template:
    spec:
      serviceAccountName: agent
      containers:
      - name: agent
        args: [agent, --config, /etc/supercargo/environments.yaml, --listen, '0.0.0.0:8082', --exclude-self]
        env:
        - {name: SUPERCARGO_POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: SUPERCARGO_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
        volumeMounts: [{name: environments, mountPath: /etc/supercargo}]
      volumes: [{name: environments, configMap: {name: agent}}]
";

/// A `--once` run in the namespace that the kubelet fills in.
const ONCE: &str = "\
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [''], resources: [pods], verbs: [list]}
- {apiGroups: [''], resources: [namespaces], verbs: [get]}
---
kind: RoleBinding
metadata: {name: agent, namespace: tools}
roleRef: {kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: tools}]
---
kind: Job
metadata: {name: agent, namespace: tools}
spec:
  template:
    spec:
      serviceAccountName: agent
      containers:
      - name: agent
        args: [agent, --once, --environment, prod, --namespace=$(POD_NAMESPACE)]
        env: [{name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_and_unused_permissions_are_found() {
    let agent = |yaml: &str| Manifests::parse(Path::new("sample"), yaml).agents().pop().unwrap();
    let needs = [requests(&agent(SAMPLE).options[0]).await, requests(&agent(ONCE).options[0]).await];
    let differences = |sample: &str, needs, from: &str, to: &str| {
        assert!(sample.contains(from), "{from}");
        difference(needs, &agent(&sample.replacen(from, to, 1)).permissions).join("; ")
    };
    for (from, to, expected) in [
        ("", "", ""),
        ("[list, watch]", "[list]", "not granted: watch pods in shop"),
        ("[list, watch]", "[watch]", "not granted: list pods in shop"),
        ("[list, watch]", "[list, watch, get]", "granted but unused: Permission { verb: \"get\""),
        (
            "resourceNames: [shop]",
            "resourceNames: [shop, pay]",
            "name: Some(\"pay\"), namespace: Some(\"shop\")",
        ),
        ("resourceNames: [pay]", "resourceNames: [shop]", "not granted: get namespaces pay in pay"),
        ("resourceNames: [pay], ", "", ""),
        ("[pods]", "[pods, secrets]", "resource: \"secrets\""),
        ("[pods]", "[pods, pods/log]", "resource: \"pods/log\""),
        ("apiGroups: ['']", "apiGroups: ['', apps]", "group: \"apps\""),
        (
            "name: agent, namespace: tools}]",
            "name: agent, namespace: shop}]",
            "not granted: list pods in shop",
        ),
    ] {
        let found = differences(SAMPLE, &needs[0], from, to);
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{from} {to}: {found}");
    }
    let parsed = |yaml: &str| Manifests::parse(Path::new("sample"), yaml);
    assert!(
        parsed(SAMPLE).unrelated_permissions().is_empty() && parsed(ONCE).unrelated_permissions().is_empty()
    );
    for (from, to) in
        [("serviceAccountName: agent", "serviceAccountName: other"), ("kind: RoleBinding", "kind: None")]
    {
        assert!(!parsed(&SAMPLE.replace(from, to)).unrelated_permissions().is_empty(), "{from} {to}");
    }
    for (from, to, expected) in [
        ("", "", ""),
        ("verbs: [list]", "verbs: [list, watch]", "granted but unused: Permission { verb: \"watch\""),
        ("verbs: [get]", "verbs: []", "not granted: get namespaces tools in tools"),
        ("kind: RoleBinding", "kind: None", "not granted: list pods in tools"),
        // A ClusterRoleBinding grants more than the agent uses.
        ("kind: RoleBinding", "kind: ClusterRoleBinding", "granted but unused: Permission { verb: \"list\""),
    ] {
        let found = differences(ONCE, &needs[1], from, to);
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{from} {to}: {found}");
    }
}
