//! The manifests that are committed grant the agent what it asks for, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Need;
use super::asked::asked;
use super::manifest::{Agent, Manifests, Right};

/// What is wrong: needs that no right covers, and rights that no need has.
fn difference(needs: &BTreeSet<Need>, rights: &BTreeSet<Right>) -> Vec<String> {
    let lacking = needs.iter().filter(|need| !rights.iter().any(|right| right.covers(need)));
    let unused = rights.iter().filter(|right| !needs.iter().any(|need| right.is_no_wider_than(need)));
    lacking
        .map(|need| format!("not granted: {need}"))
        .chain(unused.map(|right| format!("granted, and nobody uses it: {right:?}")))
        .collect()
}

/// What may hold an agent: the renders of the chart, and what kustomize makes of the plain manifests.
fn files() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let all = ["chart", "deploy"].map(|folder| std::fs::read_dir(tests.join(folder)).unwrap());
    let all = all.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_manifest_grants_what_its_agent_asks_for_and_nothing_else() {
    // Many renders of the chart run the same agent.
    let mut asked_by = BTreeMap::new();
    let mut agents = 0;
    for manifests in files().iter().map(|file| Manifests::read(file)) {
        let file = manifests.file.display();
        let all = manifests.agents().into_iter();
        for Agent { how, rights, .. } in all.filter(|agent| manifests.brings_account_of(agent)) {
            let mut needs = BTreeSet::new();
            for how in how {
                if !asked_by.contains_key(&how) {
                    asked_by.insert(how.clone(), asked(&how).await);
                }
                needs.extend(asked_by[&how].iter().cloned());
            }
            let wrong = difference(&needs, &rights);
            assert!(wrong.is_empty(), "{file}: {wrong:#?}");
            agents += 1;
        }
        assert!(manifests.for_others().is_empty(), "{file}: {:?}", manifests.for_others());
    }
    assert!(agents >= 15, "{agents} agents in {:?}", files());
}

/// Two environments in namespaces of their own, and the rights for them.
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

/// The whole cluster, once, of a namespace that the kubelet fills in.
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
async fn a_right_that_lacks_and_one_that_nobody_uses_are_found() {
    let agent = |yaml: &str| Manifests::parse(Path::new("sample"), yaml).agents().pop().unwrap();
    let needs = [asked(&agent(SAMPLE).how[0]).await, asked(&agent(ONCE).how[0]).await];
    let wrong = |sample: &str, needs, from: &str, to: &str| {
        assert!(sample.contains(from), "{from}");
        difference(needs, &agent(&sample.replacen(from, to, 1)).rights).join("; ")
    };
    for (from, to, says) in [
        ("", "", ""),
        ("[list, watch]", "[list]", "not granted: watch pods in shop"),
        ("[list, watch]", "[watch]", "not granted: list pods in shop"),
        ("[list, watch]", "[list, watch, get]", "granted, and nobody uses it: Right { verb: \"get\""),
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
        let wrong = wrong(SAMPLE, &needs[0], from, to);
        assert!(wrong.contains(says) && wrong.is_empty() == says.is_empty(), "{from} {to}: {wrong}");
    }
    let parsed = |yaml: &str| Manifests::parse(Path::new("sample"), yaml);
    assert!(parsed(SAMPLE).for_others().is_empty() && parsed(ONCE).for_others().is_empty());
    for (from, to) in
        [("serviceAccountName: agent", "serviceAccountName: other"), ("kind: RoleBinding", "kind: Nothing")]
    {
        assert!(!parsed(&SAMPLE.replace(from, to)).for_others().is_empty(), "{from} {to}");
    }
    for (from, to, says) in [
        ("", "", ""),
        ("verbs: [list]", "verbs: [list, watch]", "nobody uses it: Right { verb: \"watch\""),
        ("verbs: [get]", "verbs: []", "not granted: get namespaces tools in tools"),
        ("kind: RoleBinding", "kind: Nothing", "not granted: list pods in tools"),
        // Bound everywhere, it is more than is asked for.
        (
            "kind: RoleBinding",
            "kind: ClusterRoleBinding",
            "granted, and nobody uses it: Right { verb: \"list\"",
        ),
    ] {
        let wrong = wrong(ONCE, &needs[1], from, to);
        assert!(wrong.contains(says) && wrong.is_empty() == says.is_empty(), "{from} {to}: {wrong}");
    }
}
