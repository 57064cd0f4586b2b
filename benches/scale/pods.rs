//! Pods of a fake cluster as an API server sends them.
//!
//! A pod has 8 to 15 KB of JSON with all fields of a real one. The pods of a `ReplicaSet` differ only in texts of equal
//! length, so that each is a copy of one encoding with its own texts, and the cost of the fake server is negligible.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::protobuf;
use super::replica_set::ReplicaSet;

/// [`CREATED`](super::replica_set::CREATED) in JSON.
const TIME: &str = "2026-11-21T10:30:28Z";

/// Placeholders of a pod's own texts in the encoded `ReplicaSet`.
const NAME: &str = "~name";
const UID: &str = "~uid~uid-~uid-~uid-~uid-~uid~uid~uid";
const IP: &str = "~ip~ip~ip~ip~";
const VERSION: &str = "~version~";

/// Pods of one `ReplicaSet`.
pub struct Replicas {
    pub pods: usize,
    set: ReplicaSet,
    protobuf: OnceLock<Encoded>,
    json: OnceLock<Encoded>,
}

/// An encoded pod and the positions of its placeholders.
pub struct Encoded {
    pub bytes: Vec<u8>,
    places: Vec<(usize, &'static str)>,
}

impl Replicas {
    /// The `n`th `ReplicaSet` of a cluster, with one to three containers.
    pub fn new(n: usize, pods: usize) -> Self {
        let artifacts: Vec<_> = (0..=n % 3).map(|container| (n * 3 + container) as u64).collect();
        let set = ReplicaSet::new(n, n, &artifacts);
        Self { pods, set, protobuf: OnceLock::new(), json: OnceLock::new() }
    }

    /// Name of the `n`th pod.
    pub fn name(&self, n: usize) -> String {
        self.set.pod_name(n)
    }

    pub fn protobuf(&self) -> &Encoded {
        self.protobuf.get_or_init(|| Encoded::new(protobuf::pod(&pod(&self.set))))
    }

    pub fn json(&self) -> &Encoded {
        self.json.get_or_init(|| Encoded::new(pod(&self.set).to_string().into_bytes()))
    }

    /// Appends the `n`th pod.
    pub fn write(&self, n: usize, version: usize, encoded: &Encoded, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&encoded.bytes);
        let name = self.name(n);
        let uid = self.set.pod_uid(n);
        let ip = format!("10.{:03}.{:03}.{:02}", 100 + n, 100 + self.set.deployment % 100, 10 + n % 90);
        let version = format!("{version:09}");
        for (place, placeholder) in &encoded.places {
            let text = match *placeholder {
                NAME => &name[name.len() - NAME.len()..],
                UID => &uid,
                IP => &ip,
                _ => &version,
            };
            to[start + place..][..text.len()].copy_from_slice(text.as_bytes());
        }
    }
}

impl Encoded {
    fn new(bytes: Vec<u8>) -> Self {
        let mut places = Vec::new();
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'~') {
            let texts = [NAME, UID, IP, VERSION].into_iter();
            let found = texts.filter(|text| bytes[at..].starts_with(text.as_bytes())).map(|text| (at, text));
            places.extend(found);
        }
        Self { bytes, places }
    }
}

/// A ready pod.
fn pod(set: &ReplicaSet) -> Value {
    let (app, n) = (set.app.as_str(), set.deployment);
    let names = &["app", "proxy", "metrics"][..set.images.len()];
    let variables: Vec<_> = (0..8 + n % 7)
        .map(|variable| format!("{}_SETTING_{variable:02}", app.to_uppercase().replace('-', "_")))
        .collect();
    let containers = names.iter().zip(&set.images).map(|(name, image)| {
        let env = variables.iter().enumerate().map(|(v, name)| {
            json!({ "name": name, "value": format!("https://{app}-{v}.svc.cluster.local:8443/api/v{v}") })
        });
        json!({
            "name": name, "image": image.reference, "imagePullPolicy": "IfNotPresent",
            "args": ["--config=/etc/service/config.yaml", "--log-format=json", "--log-level=info"],
            "ports": [
                { "name": "http", "containerPort": 8080, "protocol": "TCP" },
                { "name": "metrics", "containerPort": 9090, "protocol": "TCP" },
            ],
            "env": env.collect::<Vec<_>>(),
            "resources": { "limits": { "memory": "512Mi" }, "requests": { "cpu": "250m", "memory": "256Mi" } },
            "volumeMounts": [
                mount("config", "/etc/service"), mount("tls", "/etc/tls"),
                mount("kube-api-access", "/var/run/secrets/kubernetes.io/serviceaccount"),
            ],
            "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    });
    let statuses = names.iter().zip(&set.images).enumerate().map(|(c, (name, image))| {
        json!({ "name": name, "image": image.reference, "imageID": image.id, "ready": true, "restartCount": 0,
            "started": true, "lastState": {}, "state": { "running": { "startedAt": TIME } },
            "containerID": format!("containerd://{:064x}", n * 8 + c) })
    });
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": TIME }));
    json!({
        "metadata": {
            "name": format!("{}-{NAME}", set.name), "generateName": format!("{}-", set.name),
            "namespace": set.namespace, "uid": UID, "resourceVersion": VERSION, "generation": 1,
            "creationTimestamp": TIME,
            "annotations": {
                "checksum/config": format!("{:064x}", n * 7), "checksum/secret": format!("{:064x}", n * 11),
                "prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/metrics",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                "kubectl.kubernetes.io/restartedAt": TIME, "kubectl.kubernetes.io/default-container": "app",
                "example.com/runbook": format!("https://runbooks.example.com/services/{app}/oncall"),
                "example.com/owner": "platform-engineering@example.com",
            },
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/instance": app,
                "app.kubernetes.io/component": "backend", "app.kubernetes.io/managed-by": "Helm",
                "app.kubernetes.io/version": "1.27.3", "pod-template-hash": "6d5f8b7c9d",
            },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set.name,
                                  "uid": set.uid, "controller": true, "blockOwnerDeletion": true }],
            "managedFields": managed_fields(names, &variables),
        },
        "spec": {
            "containers": containers.collect::<Vec<_>>(),
            "nodeName": format!("ip-10-0-{}-{}.example.internal", n % 200, n % 250),
            "volumes": [
                { "name": "config", "configMap": { "name": format!("{app}-config"), "defaultMode": 420 } },
                { "name": "tls", "secret": { "secretName": format!("{app}-tls"), "defaultMode": 420 } },
                { "name": "scratch", "emptyDir": {} },
                { "name": "kube-api-access", "secret": { "secretName": "token", "defaultMode": 420 } },
            ],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "nodeSelector": { "kubernetes.io/os": "linux" }, "serviceAccountName": app, "serviceAccount": app,
            "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0,
            "tolerations": [toleration("not-ready"), toleration("unreachable")],
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running", "conditions": conditions, "hostIP": "10.0.117.204", "podIP": IP,
            "podIPs": [{ "ip": IP }], "startTime": TIME, "qosClass": "Burstable",
            "containerStatuses": statuses.collect::<Vec<_>>(),
        },
    })
}

fn mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "readOnly": true, "mountPath": path })
}

fn probe(path: &str) -> Value {
    json!({ "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" }, "initialDelaySeconds": 5,
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 })
}

fn toleration(key: &str) -> Value {
    json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300 })
}

/// Managed fields have a key for every field that was set.
fn managed_fields(containers: &[&str], variables: &[String]) -> Value {
    let key = |name: &str| format!("k:{{\"name\":\"{name}\"}}");
    let env: Map<_, _> =
        variables.iter().map(|name| (key(name), json!({ ".": {}, "f:name": {}, "f:value": {} }))).collect();
    let probe = json!({ ".": {}, "f:failureThreshold": {}, "f:httpGet": { ".": {}, "f:path": {} } });
    let containers: Map<_, _> = containers
        .iter()
        .map(|name| {
            let fields = json!({
                ".": {}, "f:args": {}, "f:env": env, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                "f:livenessProbe": probe, "f:readinessProbe": probe, "f:ports": {}, "f:resources": {},
                "f:terminationMessagePath": {}, "f:volumeMounts": {},
            });
            (key(name), fields)
        })
        .collect();
    let entry = |manager: &str, fields: &Value| {
        json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME,
                "fieldsType": "FieldsV1", "fieldsV1": fields })
    };
    let metadata = json!({ "f:annotations": { ".": {} }, "f:generateName": {}, "f:labels": { ".": {} } });
    let controller = json!({ "f:metadata": metadata, "f:spec": { "f:containers": containers } });
    let status = json!({ "f:status": { "f:conditions": {}, "f:containerStatuses": {}, "f:hostIP": {},
                         "f:phase": {}, "f:podIP": {}, "f:podIPs": {}, "f:startTime": {} } });
    json!([entry("kube-controller-manager", &controller), entry("kubelet", &status)])
}
