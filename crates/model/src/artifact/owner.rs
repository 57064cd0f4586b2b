//! Infers the top-level owner of a pod: the Deployment of a `ReplicaSet`, the `CronJob` of a Job.
//!
//! Called by pages, operations and notifications. Reports and stored data name the direct owner, as Kubernetes does. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::OwnerReference;

/// The owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether both follow from the name of a `ReplicaSet` or Job. Other controllers may use the same form of names.
    pub is_inferred: bool,
}

impl Owner {
    /// The controller, or the first owner; `None` for a pod without one.
    #[must_use]
    pub fn new(owners: &[OwnerReference]) -> Option<Self> {
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        let owner = controller.or(owners.first())?;
        let inferred = infer(owner);
        let (kind, name) = inferred.unwrap_or((
            owner.kind.as_deref().unwrap_or_default(),
            owner.name.as_deref().unwrap_or_default(),
        ));
        Some(Self { kind: kind.to_owned(), name: name.to_owned(), is_inferred: inferred.is_some() })
    }
}

/// The kinds that kubectl shortens, as it does.
const SHORT_KINDS: [(&str, &str); 5] = [
    ("CronJob", "cj"),
    ("DaemonSet", "ds"),
    ("Deployment", "deploy"),
    ("ReplicaSet", "rs"),
    ("StatefulSet", "sts"),
];

impl Owner {
    /// As kubectl takes it: `deploy/cart`.
    #[must_use]
    pub fn short(&self) -> String {
        let short = SHORT_KINDS.into_iter().find(|(kind, _)| *kind == self.kind);
        let kind = short.map_or_else(|| self.kind.to_ascii_lowercase(), |(_, short)| short.to_owned());
        format!("{kind}/{}", self.name)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.kind.is_empty() || self.name.is_empty() { "" } else { " " };
        write!(f, "{}{between}{}", self.kind, self.name)?;
        f.write_str(if self.is_inferred { " (inferred)" } else { "" })
    }
}

/// The characters that Kubernetes writes for the ten digits of a `pod-template-hash`: `rand.SafeEncodeString` of a decimal
/// number maps them to these of its alphabet.
const HASH: &str = "456789bcdf";

/// 2020-01-01 in minutes. A name with eight smaller digits ends with a date.
const FIRST_MINUTE: &str = "26297280";

/// Infers the controller from the owner's name, which is `<deployment>-<pod-template-hash>` or
/// `<cronjob>-<minutes since the epoch>`. Hashes of fewer than 7 characters (one in 4,000) are ignored, because other
/// suffixes look like them.
fn infer(owner: &OwnerReference) -> Option<(&'static str, &str)> {
    let (name, suffix) = owner.name.as_deref()?.rsplit_once('-')?;
    let kind = match (owner.api_version.as_deref()?, owner.kind.as_deref()?) {
        ("apps/v1", "ReplicaSet")
            if (7..=10).contains(&suffix.len()) && suffix.chars().all(|c| HASH.contains(c)) =>
        {
            "Deployment"
        }
        ("batch/v1", "Job")
            if suffix.len() == 8 && suffix.bytes().all(|b| b.is_ascii_digit()) && suffix >= FIRST_MINUTE =>
        {
            "CronJob"
        }
        _ => return None,
    };
    (!name.is_empty()).then_some((kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str, name: &str, controller: Option<bool>) -> OwnerReference {
        let fields = serde_json::json!({
            "apiVersion": api_version, "kind": kind, "name": name, "controller": controller,
        });
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn deployment_and_cron_job_are_inferred_from_names() {
        for (api_version, kind, name, expected) in [
            ("apps/v1", "ReplicaSet", "cart-7d9f8b6c5d", "Deployment cart (inferred)"),
            ("apps/v1", "ReplicaSet", "cart-api-66b6c48dd5", "Deployment cart-api (inferred)"),
            ("apps/v1", "ReplicaSet", "cart-98bcd7f", "Deployment cart (inferred)"),
            // Shorter or longer than almost every hash, and characters that no hash has.
            ("apps/v1", "ReplicaSet", "cart-db", "ReplicaSet cart-db"),
            ("apps/v1", "ReplicaSet", "cart-8bcd7f", "ReplicaSet cart-8bcd7f"),
            ("apps/v1", "ReplicaSet", "cart-7d9f8b6c5d4", "ReplicaSet cart-7d9f8b6c5d4"),
            ("apps/v1", "ReplicaSet", "cart-7d9f8b6c5x", "ReplicaSet cart-7d9f8b6c5x"),
            ("apps/v1", "ReplicaSet", "7d9f8b6c5d", "ReplicaSet 7d9f8b6c5d"),
            ("apps/v1", "ReplicaSet", "-7d9f8b6c5d", "ReplicaSet -7d9f8b6c5d"),
            ("example.com/v1", "ReplicaSet", "cart-7d9f8b6c5d", "ReplicaSet cart-7d9f8b6c5d"),
            ("apps/v1", "StatefulSet", "cart-7d9f8b6c5d", "StatefulSet cart-7d9f8b6c5d"),
            ("batch/v1", "Job", "backup-29834075", "CronJob backup (inferred)"),
            ("batch/v1", "Job", "backup-20261126", "Job backup-20261126"),
            ("batch/v1", "Job", "backup-1790000000", "Job backup-1790000000"),
            ("batch/v1", "Job", "backup-2983407x", "Job backup-2983407x"),
            ("batch/v1", "Job", "migrate", "Job migrate"),
            ("", "", "", ""),
        ] {
            let owner = Owner::new(&[owner(api_version, kind, name, Some(true))]).unwrap();
            assert_eq!(owner.to_string(), expected, "{kind} {name}");
        }
    }

    #[test]
    fn short_owner_is_a_kubectl_argument() {
        for (api_version, kind, name, expected) in [
            ("apps/v1", "ReplicaSet", "cart-7d9f8b6c5d", "deploy/cart"),
            ("apps/v1", "ReplicaSet", "cart", "rs/cart"),
            ("apps/v1", "StatefulSet", "ledger", "sts/ledger"),
            ("batch/v1", "Job", "backup-29834075", "cj/backup"),
            ("batch/v1", "Job", "migrate", "job/migrate"),
            ("argoproj.io/v1alpha1", "Rollout", "cart", "rollout/cart"),
        ] {
            assert_eq!(Owner::new(&[owner(api_version, kind, name, Some(true))]).unwrap().short(), expected);
        }
    }

    #[test]
    fn owner_is_the_controller_or_the_first_owner() {
        let name = |owners: &[OwnerReference]| Owner::new(owners).map(|owner| owner.to_string());
        let first = owner("v1", "A", "a", None);
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[first.clone(), owner("v1", "B", "b", Some(true))]).unwrap(), "B b");
        assert_eq!(name(&[first, owner("v1", "B", "b", Some(false))]).unwrap(), "A a");
    }
}
