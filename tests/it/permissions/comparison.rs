//! The committed manifests grant the agent exactly the permissions that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Need;
use super::manifest::{Agent, Manifests, Permission};
use super::requests::requests;

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

/// Manifests with agents: rendered charts, and the output of kustomize for the plain manifests.
fn files() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let all = ["chart", "deploy"].map(|folder| std::fs::read_dir(tests.join(folder)).unwrap());
    let all = all.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_grant_exactly_the_used_permissions() {
    // Many rendered charts run the same agent.
    let mut requests_by = BTreeMap::new();
    let mut agents = 0;
    for manifests in files().iter().map(|file| Manifests::read(file)) {
        let file = manifests.file.display();
        let all = manifests.agents().into_iter();
        for Agent { options, permissions, .. } in all.filter(|agent| manifests.creates_account_of(agent)) {
            let mut needs = BTreeSet::new();
            for options in options {
                if !requests_by.contains_key(&options) {
                    requests_by.insert(options.clone(), requests(&options).await);
                }
                needs.extend(requests_by[&options].iter().cloned());
            }
            let differences = difference(&needs, &permissions);
            assert!(differences.is_empty(), "{file}: {differences:#?}");
            agents += 1;
        }
        assert!(
            manifests.unrelated_permissions().is_empty(),
            "{file}: {:?}",
            manifests.unrelated_permissions()
        );
    }
    assert!(agents >= 15, "{agents} agents in {:?}", files());
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
kind: CronJob
metadata: {name: agent, namespace: tools}
spec:
  jobTemplate:
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
