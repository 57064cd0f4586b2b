//! Reads the options and permissions of agents from manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::permissions::Need;
use crate::permissions::requests::AgentOptions;

/// A single permission: a verb on a resource, and its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: String,
    pub group: String,
    pub resource: String,
    /// Restricts the permission to one object.
    pub name: Option<String>,
    /// The namespace of the binding; `None` for all namespaces and cluster-scoped objects.
    pub namespace: Option<String>,
}

impl Permission {
    /// Decides like Kubernetes RBAC, without support for `*`, which an agent must not have.
    pub fn covers(&self, need: &Need) -> bool {
        self.verb == need.verb
            && self.group == need.group
            && self.resource == need.resource
            && (self.name.is_none() || self.name == need.name)
            && (self.namespace.is_none() || self.namespace == need.namespace)
    }

    /// Whether the permission is no wider than this need. A permission in all namespaces is too wide for a need in one of
    /// them, unless it names the object.
    pub fn is_no_wider_than(&self, need: &Need) -> bool {
        self.covers(need) && (self.namespace == need.namespace || self.name.is_some())
    }
}

/// Objects that are installed together.
pub struct Manifests {
    /// The file, for messages.
    pub file: PathBuf,
    objects: Vec<Value>,
}

/// A service account of agents.
#[derive(Debug)]
pub struct Agent {
    /// One entry per agent.
    pub options: Vec<AgentOptions>,
    pub permissions: BTreeSet<Permission>,
    name: Value,
    namespace: Value,
}

impl Manifests {
    pub fn read(file: &Path) -> Self {
        Self::parse(file, &std::fs::read_to_string(file).unwrap())
    }

    pub fn parse(file: &Path, yaml: &str) -> Self {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let objects = objects.into_iter().filter(|object| !object.is_null());
        // `kubectl get` and some tools wrap objects in a List.
        let objects = objects.flat_map(|object| match object["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![object],
        });
        Self { file: file.to_owned(), objects: objects.collect() }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    fn find(&self, kind: &str, name: &Value, namespace: &Value) -> &Value {
        let is = |object: &&Value| {
            object["metadata"]["name"] == *name && object["metadata"]["namespace"] == *namespace
        };
        let found = self.of_kind(kind).find(is);
        found.unwrap_or_else(|| panic!("{}: no {kind} {name} in {namespace}", self.file.display()))
    }

    /// All service accounts of agents.
    pub fn agents(&self) -> Vec<Agent> {
        let mut agents = Vec::<Agent>::new();
        for object in &self.objects {
            let spec = &object["spec"];
            let pod = match object["kind"].as_str() {
                Some("Deployment" | "Job") => &spec["template"]["spec"],
                Some("Pod") => spec,
                _ => continue,
            };
            let containers =
                ["initContainers", "containers"].into_iter().filter_map(|list| pod[list].as_array());
            let Some(container) = containers.flatten().find(|container| container["args"][0] == "agent")
            else {
                continue;
            };
            let (name, namespace) = (&pod["serviceAccountName"], &object["metadata"]["namespace"]);
            let options = self.options(namespace, pod, container);
            match agents.iter_mut().find(|agent| agent.name == *name && agent.namespace == *namespace) {
                Some(agent) => agent.options.push(options),
                None => agents.push(Agent {
                    options: vec![options],
                    permissions: self.permissions_of(name, namespace),
                    name: name.clone(),
                    namespace: namespace.clone(),
                }),
            }
        }
        agents
    }

    /// The agent's options, without those for connections.
    fn options(&self, namespace: &Value, pod: &Value, container: &Value) -> AgentOptions {
        let file = self.file.display();
        assert!(container["command"].is_null(), "{file}: the image's entry point is the program");
        let variables = self.variables(namespace, container);
        let texts = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let texts = texts.map(|text| {
            let replaced = variables
                .iter()
                .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value));
            assert!(!replaced.contains("$("), "{file}: {text}");
            replaced
        });
        let mut words = texts.flat_map(|text| match text.split_once('=') {
            Some((option, value)) if option.starts_with("--") => vec![option.to_owned(), value.to_owned()],
            _ => vec![text],
        });
        assert_eq!(words.next().as_deref(), Some("agent"), "{file}");
        let mut options = AgentOptions::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--once" => options.is_once = true,
                "--config" => {
                    options.config = Some(self.mounted(&words.next().unwrap(), namespace, pod, container));
                }
                "--listen" => _ = words.next(),
                _ => options.args.push(word),
            }
        }
        let is_relevant = |(name, _): &(String, String)| name.starts_with("SUPERCARGO_POD_");
        options.env = variables.into_iter().filter(is_relevant).collect();
        options
    }

    /// Content of a container's file that is mounted from a `ConfigMap`.
    fn mounted(&self, path: &str, namespace: &Value, pod: &Value, container: &Value) -> String {
        let (folder, name) = path.rsplit_once('/').unwrap();
        let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mount = all(&container["volumeMounts"]).into_iter().find(|mount| mount["mountPath"] == folder);
        let mount =
            mount.unwrap_or_else(|| panic!("{}: nothing is mounted at {folder}", self.file.display()));
        let volume = all(&pod["volumes"]).into_iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let sources = all(&volume["projected"]["sources"]);
        let maps = sources.iter().chain([&volume]).filter(|source| source["configMap"].is_object());
        let mut maps = maps.map(|source| self.find("ConfigMap", &source["configMap"]["name"], namespace));
        let found = maps.find_map(|map| map["data"][name].as_str());
        found.unwrap_or_else(|| panic!("{}: no {path}", self.file.display())).to_owned()
    }

    /// The variables of a container, as the kubelet fills them in.
    fn variables(&self, namespace: &Value, container: &Value) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let value = |variable: &Value| {
            let from = &variable["valueFrom"];
            let (key, path) = (&from["configMapKeyRef"], from["fieldRef"]["fieldPath"].as_str());
            match path {
                None if key.is_object() => {
                    text(&self.find("ConfigMap", &key["name"], namespace)["data"][text(&key["key"])])
                }
                None => text(&variable["value"]),
                Some("metadata.name") => "agent-0".to_owned(),
                Some("metadata.uid") => "7b0c8a52-1c1e-4b7e-9a51-0d9f1c2b3a41".to_owned(),
                Some("metadata.namespace") => namespace.as_str().unwrap_or("default").to_owned(),
                Some(path) => panic!("unsupported field {path}"),
            }
        };
        let variables = container["env"].as_array().cloned().unwrap_or_default();
        variables.iter().map(|variable| (text(&variable["name"]), value(variable))).collect()
    }

    /// The permissions of a service account, without those of roles that are part of other programs.
    fn permissions_of(&self, account: &Value, namespace: &Value) -> BTreeSet<Permission> {
        let is_bound = |binding: &&Value| {
            let subjects = binding["subjects"].as_array().unwrap();
            subjects.iter().any(|subject| {
                subject["kind"] == "ServiceAccount"
                    && subject["name"] == *account
                    && subject["namespace"] == *namespace
            })
        };
        let everywhere = self.of_kind("ClusterRoleBinding").filter(is_bound).map(|binding| (binding, None));
        let here = self.of_kind("RoleBinding").filter(is_bound).map(|binding| {
            let namespace = &binding["metadata"]["namespace"];
            (binding, Some(namespace.as_str().unwrap_or("default").to_owned()))
        });
        let permissions = everywhere.chain(here).flat_map(|(binding, namespace)| {
            let role = &binding["roleRef"];
            let place = match role["kind"].as_str().unwrap() {
                "Role" => binding["metadata"]["namespace"].clone(),
                _ => Value::Null,
            };
            let role = self.find(role["kind"].as_str().unwrap(), &role["name"], &place);
            let part_of = role["metadata"]["labels"]["app.kubernetes.io/part-of"].as_str();
            if part_of.is_none_or(|name| name == "supercargo") {
                permissions(role, namespace.as_deref())
            } else {
                Vec::new()
            }
        });
        permissions.collect()
    }

    /// Whether these manifests create the agent's service account. The permissions of existing accounts are not known.
    pub fn creates_account_of(&self, agent: &Agent) -> bool {
        let is = |account: &Value| {
            account["metadata"]["name"] == agent.name && account["metadata"]["namespace"] == agent.namespace
        };
        self.of_kind("ServiceAccount").any(is)
    }

    fn bindings(&self) -> impl Iterator<Item = &Value> {
        self.of_kind("RoleBinding").chain(self.of_kind("ClusterRoleBinding"))
    }

    /// Bindings of subjects other than agents, and unbound roles.
    pub fn unrelated_permissions(&self) -> Vec<String> {
        let agents = self.agents();
        let is_agent = |subject: &Value| {
            let is = |agent: &Agent| agent.name == subject["name"] && agent.namespace == subject["namespace"];
            subject["kind"] == "ServiceAccount" && agents.iter().any(is)
        };
        let bindings = self.bindings();
        let others = bindings.filter(|binding| !binding["subjects"].as_array().unwrap().iter().all(is_agent));
        let roles = self.of_kind("Role").chain(self.of_kind("ClusterRole"));
        let is_bound = |role: &&Value| {
            let is = |binding: &Value| {
                let role_ref = &binding["roleRef"];
                role_ref["kind"] == role["kind"] && role_ref["name"] == role["metadata"]["name"]
            };
            self.bindings().any(is)
        };
        let unbound = roles.filter(|role| !is_bound(role));
        others
            .chain(unbound)
            .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]))
            .collect()
    }
}

fn permissions(role: &Value, namespace: Option<&str>) -> Vec<Permission> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut permissions = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    for name in &names {
                        permissions.push(Permission {
                            verb: verb.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            namespace: namespace.map(str::to_owned),
                        });
                    }
                }
            }
        }
    }
    permissions
}
