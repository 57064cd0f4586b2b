//! Pods of a fake cluster as an API server sends them, in `ReplicaSet`s of 1 to 50 pods.
//!
//! A pod has 8 to 15 KB of JSON with all fields of a real one, or is padded to any size. The pods of a `ReplicaSet`
//! differ only in texts of equal length. Each state is therefore encoded once, and every pod is a copy with its own
//! texts, so that the cost of the fake server is negligible.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::schema;

/// Creation time of every pod; in Unix time it is [`schema::CREATED`].
const TIME: &str = "2026-11-21T10:30:28Z";

/// Placeholders of a pod's own texts in the encoded `ReplicaSet`.
const NAME: &str = "~name";
const UID: &str = "~uid~uid-~uid-~uid-~uid-~uid~uid~uid";
const IP: &str = "~ip~ip~ip~ip~";
const VERSION: &str = "~version~";

/// Letters of generated names in Kubernetes, sorted.
const LETTERS: &[u8; 27] = b"2456789bcdfghjklmnpqrstvwxz";

/// State of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No container has started.
    Pending,
    Unready,
    Ready,
}

/// Size of the pods.
#[derive(Clone, Copy)]
pub enum Size {
    Realistic,
    /// A single container, and an annotation of this many bytes.
    Padded(usize),
}

/// Pods of one `ReplicaSet`.
pub struct Replicas {
    pub namespace: String,
    owner: String,
    pub pods: usize,
    n: usize,
    size: Size,
    protobuf: [OnceLock<Encoded>; 3],
    json: OnceLock<Encoded>,
}

/// An encoded pod and the positions of its placeholders.
pub struct Encoded {
    pub bytes: Vec<u8>,
    places: Vec<(usize, Own)>,
}

#[derive(Clone, Copy)]
enum Own {
    Name,
    Uid,
    Ip,
    Version,
}

impl Replicas {
    /// The `n`th `ReplicaSet`, with `in_namespace` of them per namespace.
    pub fn new(n: usize, pods: usize, size: Size, in_namespace: usize) -> Self {
        let k = n % in_namespace;
        Self {
            namespace: format!("team-{:04}", n / in_namespace),
            owner: format!("{}-{k:02}-6d5f8b{n:05x}", SERVICES[k * SERVICES.len() / in_namespace]),
            pods,
            n,
            size,
            protobuf: Default::default(),
            json: OnceLock::new(),
        }
    }

    /// Name of a pod.
    pub fn name(&self, k: usize) -> String {
        let mut suffix = [0; 5];
        let mut left = k * 200_003 % 14_348_907;
        for letter in suffix.iter_mut().rev() {
            *letter = LETTERS[left % 27];
            left /= 27;
        }
        format!("{}-{}", self.owner, String::from_utf8(suffix.to_vec()).unwrap())
    }

    pub fn protobuf(&self, state: State) -> &Encoded {
        self.protobuf[state as usize].get_or_init(|| Encoded::new(schema::pod(&self.pod(state))))
    }

    pub fn json(&self) -> &Encoded {
        self.json.get_or_init(|| Encoded::new(self.pod(State::Ready).to_string().into_bytes()))
    }

    /// Appends an encoded pod.
    pub fn write(&self, k: usize, version: u64, encoded: &Encoded, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&encoded.bytes);
        let name = self.name(k);
        let number = self.n * 64 + k;
        for (place, own) in &encoded.places {
            let text = match own {
                Own::Name => name[name.len() - NAME.len()..].to_owned(),
                Own::Uid => format!("{number:08x}-5a6b-4c2e-9f00-{number:012x}"),
                Own::Ip => {
                    format!("10.{:03}.{:03}.{:02}", 100 + k, 100 + number / 100 % 100, number % 90 + 10)
                }
                Own::Version => format!("{version:09}"),
            };
            let at = start + place;
            to[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
    }

    fn image(&self, container: usize) -> (String, String) {
        let repository = format!("registry.example.com/{}/{}-{container}", self.namespace, self.owner);
        let digest = format!("{:032x}{:032x}", self.n + 1, container + 0xc0de);
        (format!("{repository}:1.{}.{container}", self.n % 100), format!("{repository}@sha256:{digest}"))
    }

    fn pod(&self, state: State) -> Value {
        let app = self.owner.rsplit_once('-').unwrap().0;
        let (containers, annotations) = match self.size {
            Size::Padded(bytes) => (1, json!({ "example.com/padding": "x".repeat(bytes) })),
            Size::Realistic => (1 + self.n % 3, annotations(app, self.n)),
        };
        let names = (0..containers).map(|c| ["app", "proxy", "metrics"][c]);
        let names: Vec<_> = names.collect();
        let mut pod = json!({
            "metadata": {
                "name": format!("{}-{NAME}", self.owner), "generateName": format!("{}-", self.owner),
                "namespace": self.namespace, "uid": UID, "resourceVersion": VERSION, "generation": 1,
                "creationTimestamp": TIME, "annotations": annotations,
                "labels": {
                    "app.kubernetes.io/name": app, "app.kubernetes.io/instance": app,
                    "app.kubernetes.io/component": "backend", "app.kubernetes.io/managed-by": "Helm",
                    "app.kubernetes.io/version": "1.27.3", "pod-template-hash": "6d5f8b7c9d",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": self.owner,
                    "uid": format!("7f3e1c9a-0b1d-4c2e-9f00-{:012x}", self.n),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "containers": names.iter().enumerate().map(|(c, name)| json!({
                    "name": name, "image": self.image(c).0, "imagePullPolicy": "IfNotPresent",
                })).collect::<Vec<_>>(),
                "nodeName": format!("ip-10-0-{}-{}.example.internal", self.n % 200, self.n % 250),
            },
            "status": self.status(state, &names),
        });
        if matches!(self.size, Size::Realistic) {
            elaborate(&mut pod, app, self.n, &names);
        }
        pod
    }

    fn status(&self, state: State, names: &[&str]) -> Value {
        let condition = |kind: &str, holds: bool| {
            json!({ "type": kind, "status": if holds { "True" } else { "False" },
                    "lastProbeTime": null, "lastTransitionTime": TIME })
        };
        let (is_started, is_ready) = (state != State::Pending, state == State::Ready);
        let conditions = [
            condition("PodReadyToStartContainers", is_started),
            condition("Initialized", is_started),
            condition("Ready", is_ready),
            condition("ContainersReady", is_ready),
            condition("PodScheduled", true),
        ];
        let statuses = names.iter().enumerate().map(|(c, name)| {
            let (image, id) = self.image(c);
            if state == State::Pending {
                return json!({ "name": name, "image": image, "imageID": "", "ready": false,
                    "restartCount": 0, "started": false, "lastState": {},
                    "state": { "waiting": { "reason": "ContainerCreating" } } });
            }
            json!({ "name": name, "image": image, "imageID": id, "ready": is_ready, "restartCount": 0,
                "started": true, "lastState": {}, "state": { "running": { "startedAt": TIME } },
                "containerID": format!("containerd://{:064x}", self.n * 8 + c) })
        });
        json!({
            "phase": if is_started { "Running" } else { "Pending" }, "conditions": conditions,
            "hostIP": "10.0.117.204", "podIP": IP, "podIPs": [{ "ip": IP }], "startTime": TIME,
            "qosClass": "Burstable", "containerStatuses": statuses.collect::<Vec<_>>(),
        })
    }
}

/// Sorted, as an API server lists them.
const SERVICES: [&str; 8] =
    ["basket", "checkout", "inventory", "payments", "recommendations", "search", "sessions", "users"];

fn annotations(app: &str, n: usize) -> Value {
    json!({
        "checksum/config": format!("{:064x}", n * 7), "checksum/secret": format!("{:064x}", n * 11),
        "prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/metrics",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        "kubectl.kubernetes.io/restartedAt": TIME, "kubectl.kubernetes.io/default-container": "app",
        "example.com/runbook": format!("https://runbooks.example.com/services/{app}/oncall"),
        "example.com/owner": "platform-engineering@example.com",
    })
}

/// Adds the fields of a real pod that are not reported.
fn elaborate(pod: &mut Value, app: &str, n: usize, names: &[&str]) {
    let probe = |path: &str| {
        json!({ "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" }, "initialDelaySeconds": 5,
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 })
    };
    let mount = |name: &str, path: &str| json!({ "name": name, "readOnly": true, "mountPath": path });
    let variables = 8 + n % 7;
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        container["args"] =
            json!(["--config=/etc/service/config.yaml", "--log-format=json", "--log-level=info"]);
        container["ports"] = json!([
            { "name": "http", "containerPort": 8080, "protocol": "TCP" },
            { "name": "metrics", "containerPort": 9090, "protocol": "TCP" },
        ]);
        let env = (0..variables).map(|v| {
            json!({ "name": format!("{}_SETTING_{v:02}", app.to_uppercase().replace('-', "_")),
                    "value": format!("https://{app}-{v}.svc.cluster.local:8443/api/v{v}") })
        });
        container["env"] = env.collect();
        container["resources"] =
            json!({ "limits": { "memory": "512Mi" }, "requests": { "cpu": "250m", "memory": "256Mi" } });
        container["volumeMounts"] = json!([
            mount("config", "/etc/service"),
            mount("tls", "/etc/tls"),
            mount("kube-api-access", "/var/run/secrets/kubernetes.io/serviceaccount"),
        ]);
        container["livenessProbe"] = probe("/livez");
        container["readinessProbe"] = probe("/readyz");
        container["terminationMessagePath"] = json!("/dev/termination-log");
        container["terminationMessagePolicy"] = json!("File");
    }
    let toleration = |key: &str| {
        json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 })
    };
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.extend(
        json!({
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
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    // Managed fields have a key for every field that was set.
    let env = (0..variables).map(|v| {
        let name = format!("{}_SETTING_{v:02}", app.to_uppercase().replace('-', "_"));
        (format!("k:{{\"name\":\"{name}\"}}"), json!({ ".": {}, "f:name": {}, "f:value": {} }))
    });
    let env: serde_json::Map<_, _> = env.collect();
    let owned = names.iter().map(|name| {
        let fields = json!({
            ".": {}, "f:args": {}, "f:env": env, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
            "f:livenessProbe": { ".": {}, "f:failureThreshold": {}, "f:httpGet": { ".": {}, "f:path": {} } },
            "f:readinessProbe": { ".": {}, "f:failureThreshold": {}, "f:httpGet": { ".": {}, "f:path": {} } },
            "f:ports": {}, "f:resources": {}, "f:terminationMessagePath": {}, "f:volumeMounts": {},
        });
        (format!("k:{{\"name\":\"{name}\"}}"), fields)
    });
    let owned: serde_json::Map<_, _> = owned.collect();
    let entry = |manager: &str, fields: Value| {
        json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME,
                "fieldsType": "FieldsV1", "fieldsV1": fields })
    };
    let mut kubelet = entry(
        "kubelet",
        json!({ "f:status": { "f:conditions": {}, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {},
                "f:podIP": {}, "f:podIPs": {}, "f:startTime": {} } }),
    );
    kubelet["subresource"] = json!("status");
    let metadata = json!({ "f:annotations": { ".": {} }, "f:generateName": {}, "f:labels": { ".": {} } });
    let controller = json!({ "f:metadata": metadata, "f:spec": { "f:containers": owned } });
    pod["metadata"]["managedFields"] = json!([entry("kube-controller-manager", controller), kubelet]);
}

impl Encoded {
    fn new(bytes: Vec<u8>) -> Self {
        let texts = [(NAME, Own::Name), (UID, Own::Uid), (IP, Own::Ip), (VERSION, Own::Version)];
        let mut places = Vec::new();
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'~') {
            let own = texts.iter().find(|(text, _)| bytes[at..].starts_with(text.as_bytes()));
            places.extend(own.map(|(_, own)| (at, *own)));
        }
        Self { bytes, places }
    }
}
