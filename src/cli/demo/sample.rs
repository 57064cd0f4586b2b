//! What the demo is about: the example's cluster, who built what runs in it, and a new image.
//!
//! Pure: pods in, pods out.

use serde_json::{Value, json};

use crate::domain::model::Fingerprint;

/// What `kubectl get pods -A -o json` would print of the cluster.
pub(super) const PODS: &str = include_str!("../../../examples/pods.json");

/// An image, and what the pipeline that built it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Build {
    /// What is built, which is also the name of its flow.
    pub(super) name: &'static str,
    /// The image as pods name it.
    pub(super) image: &'static str,
    /// Its tag.
    pub(super) version: &'static str,
    /// The commit that it was built from.
    pub(super) commit: &'static str,
    /// How many unit tests ran.
    pub(super) tests: u32,
    /// How many of them failed.
    pub(super) failures: u32,
}

/// What runs of the shop's web pages.
pub(super) const WEB: Build = Build {
    name: "web",
    image: "registry.example.com/shop/web:1.4.2",
    version: "1.4.2",
    commit: "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21",
    tests: 412,
    failures: 0,
};

/// What runs of the shop's cart.
pub(super) const CART: Build = Build {
    name: "cart",
    image: "registry.example.com/shop/cart:5.3.1",
    version: "5.3.1",
    commit: "b80d913a5e7c4f2186d0c9b7e3a1f5d42c68097b",
    tests: 188,
    failures: 0,
};

/// What runs of the payments: nothing kept it from being deployed.
pub(super) const API: Build = Build {
    name: "api",
    image: "registry.example.com/pay/api:2.0.4",
    version: "2.0.4",
    commit: "e5a96f0c1d7b4832a6c9e0f3b5d81742a90ce6f8",
    tests: 96,
    failures: 1,
};

/// What is rolled out in place of [`WEB`].
pub(super) const NEXT_WEB: Build = Build {
    name: "web",
    image: "registry.example.com/shop/web:1.5.0",
    version: "1.5.0",
    commit: "c07d3b58f2e94a6170bd5c8e3f9a1264d7b0e5c9",
    tests: 431,
    failures: 0,
};

/// What is rolled out in place of [`NEXT_WEB`], and nobody attests.
pub(super) const UNTESTED_WEB: &str = "registry.example.com/shop/web:1.6.0";

/// What the web pages keep things in: others build it.
pub(super) const CACHE: &str = "redis:8.2";

/// The name of the pod that comes beside the one that waits in the example.
const NEW_POD: &str = "web-7c9d4f6b5-c2v8d";

/// What runs [`UNTESTED_WEB`]: a workload and its pods, each with its uid.
const UNTESTED: (&str, &str) = ("web-5b9c8f7d6", "c1f0a7d2-6e3b-4f85-9b0d-2a7e4c9d1f63");
const UNTESTED_PODS: [(&str, &str); 2] = [
    ("web-5b9c8f7d6-4xk9p", "8e2b5d70-1c4f-4a96-b3e8-7d09f5a1c264"),
    ("web-5b9c8f7d6-w7m2s", "f37a9c15-52d8-4e0b-8c6f-b14e0d83a97f"),
];

/// When they come.
const UNTESTED_SINCE: &str = "2026-09-15T12:20:04Z";

/// When it comes, a minute after the one that waits.
const NEW_POD_SINCE: &str = "2026-09-15T12:00:58Z";

impl Build {
    /// The repository that it is built from.
    pub(super) fn repository(&self) -> String {
        format!("acme/{}", self.name)
    }

    /// The commit as people write it, which is also the name of the trail.
    pub(super) fn trail(&self) -> String {
        short(self.commit, 7)
    }

    /// The image without its registry.
    pub(super) fn short_image(&self) -> &'static str {
        short_image(self.image)
    }

    /// Where people find the repository.
    pub(super) fn repository_url(&self) -> String {
        format!("https://github.com/{}", self.repository())
    }

    /// What its test runner wrote.
    pub(super) fn results(&self) -> String {
        let tests = (1..=self.tests).map(|number| {
            let outcome = if number <= self.failures { "<failure message=\"not as expected\"/>" } else { "" };
            format!("  <testcase classname=\"{}\" name=\"test {number}\">{outcome}</testcase>\n", self.name)
        });
        format!("<testsuite name=\"{}\">\n{}</testsuite>\n", self.name, tests.collect::<String>())
    }
}

/// An image without its registry.
pub(super) fn short_image(image: &str) -> &str {
    image.split_once('/').map_or(image, |(_, image)| image)
}

/// The first so many characters.
pub(super) fn short(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// The digest by which the pods run an image.
pub(super) fn digest_of(pods: &Value, image: &str) -> Option<Fingerprint> {
    let statuses =
        pods.get("items")?.as_array()?.iter().filter_map(|pod| pod.pointer("/status/containerStatuses"));
    statuses
        .filter_map(Value::as_array)
        .flatten()
        .filter(|status| status.get("image").and_then(Value::as_str) == Some(image))
        .find_map(|status| status.get("imageID")?.as_str()?.rsplit_once("@sha256:")?.1.parse().ok())
}

/// The digest of an image that nobody has built.
pub(super) fn made_up_digest(image: &str) -> Fingerprint {
    Fingerprint::of(image.as_bytes())
}

/// The pods after a rollout: the pod of the new image that waits has started, and the pods of the old
/// image gave way to another one of the new. `None` where there is no pod that waits.
pub(super) fn rolled_out(mut pods: Value, from: &Build, to: &Build, digest: Fingerprint) -> Option<Value> {
    let items = pods.get_mut("items")?.as_array_mut()?;
    items.retain(|pod| image(pod) != Some(from.image));
    let waiting = items.iter_mut().find(|pod| image(pod) == Some(to.image))?;
    let since = waiting.pointer("/metadata/creationTimestamp")?.as_str()?.to_owned();
    start(waiting, to.image, digest, &since)?;
    let mut another = waiting.clone();
    let metadata = another.get_mut("metadata")?.as_object_mut()?;
    metadata.insert("name".into(), NEW_POD.into());
    metadata.insert("uid".into(), "0d0b2b1c-7f43-4c0e-9f0c-5a2f1e6d8b37".into());
    metadata.insert("creationTimestamp".into(), NEW_POD_SINCE.into());
    start(&mut another, to.image, digest, NEW_POD_SINCE)?;
    items.push(another);
    Some(pods)
}

/// The image of a pod's first container.
fn image(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/containers/0/image")?.as_str()
}

/// The pods of the shop's web pages and of their cache.
pub(super) fn storefront(pods: &Value) -> Option<Value> {
    let mut pods = pods.clone();
    let is_its = |pod: &Value| [Some(NEXT_WEB.image), Some(CACHE)].contains(&image(pod));
    pods.get_mut("items")?.as_array_mut()?.retain(is_its);
    Some(pods)
}

/// The storefront's pods once two others in place of [`NEXT_WEB`]'s run [`UNTESTED_WEB`].
pub(super) fn untested(mut pods: Value, digest: Fingerprint) -> Option<Value> {
    let items = pods.get_mut("items")?.as_array_mut()?;
    let its = items.iter_mut().filter(|pod| image(pod) == Some(NEXT_WEB.image));
    for (pod, (name, uid)) in its.zip(UNTESTED_PODS) {
        let (owner, owner_uid) = UNTESTED;
        for (place, value) in [
            ("/metadata/name", name),
            ("/metadata/uid", uid),
            ("/metadata/creationTimestamp", UNTESTED_SINCE),
            ("/metadata/ownerReferences/0/name", owner),
            ("/metadata/ownerReferences/0/uid", owner_uid),
            ("/spec/containers/0/image", UNTESTED_WEB),
        ] {
            *pod.pointer_mut(place)? = value.into();
        }
        start(pod, UNTESTED_WEB, digest, UNTESTED_SINCE)?;
    }
    Some(pods)
}

/// Has a pod run its only container.
fn start(pod: &mut Value, image: &str, digest: Fingerprint, since: &str) -> Option<()> {
    let (repository, _) = image.rsplit_once(':')?;
    *pod.pointer_mut("/status/phase")? = "Running".into();
    *pod.pointer_mut("/status/containerStatuses/0")? = json!({
        "name": pod.pointer("/spec/containers/0/name")?,
        "image": image,
        "imageID": format!("{repository}@sha256:{digest}"),
        "ready": true,
        "restartCount": 0,
        "started": true,
        "state": {"running": {"startedAt": since}},
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Value {
        serde_json::from_str(PODS).unwrap()
    }

    fn names(pods: &Value, of: &str) -> Vec<String> {
        let pods = pods["items"].as_array().unwrap().iter().filter(|pod| image(pod) == Some(of));
        pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_example_runs_what_the_demo_attests() {
        let digests = [WEB, CART, API].map(|build| digest_of(&pods(), build.image));
        assert!(digests.iter().all(Option::is_some), "{digests:?}");
        assert_eq!(digest_of(&pods(), NEXT_WEB.image), None, "it waits");
    }

    #[test]
    fn after_the_rollout_the_new_image_alone_runs_and_all_else_is_as_it_was() {
        let digest = made_up_digest(NEXT_WEB.image);
        let after = rolled_out(pods(), &WEB, &NEXT_WEB, digest).unwrap();
        assert_eq!(digest_of(&after, NEXT_WEB.image), Some(digest));
        assert_eq!(digest_of(&after, WEB.image), None);
        assert_eq!(names(&pods(), NEXT_WEB.image), ["web-7c9d4f6b5-nq6zt"]);
        assert_eq!(names(&after, NEXT_WEB.image), ["web-7c9d4f6b5-nq6zt", NEW_POD]);
        assert_eq!(digest_of(&after, API.image), digest_of(&pods(), API.image));
        assert_eq!(after["items"].as_array().unwrap().len(), pods()["items"].as_array().unwrap().len());
    }

    #[test]
    fn the_storefront_is_web_pages_and_a_cache_before_and_after_and_no_pod_of_the_pages_stays() {
        let digests = [NEXT_WEB.image, UNTESTED_WEB].map(made_up_digest);
        let after = rolled_out(pods(), &WEB, &NEXT_WEB, digests[0]).unwrap();
        let before = storefront(&after).unwrap();
        let after = untested(before.clone(), digests[1]).unwrap();
        for (pods, runs, digest, not) in [
            (&before, NEXT_WEB.image, digests[0], UNTESTED_WEB),
            (&after, UNTESTED_WEB, digests[1], NEXT_WEB.image),
        ] {
            assert_eq!(
                (names(pods, runs).len(), names(pods, CACHE).len(), names(pods, not).len()),
                (2, 1, 0)
            );
            assert_eq!((digest_of(pods, runs), digest_of(pods, not)), (Some(digest), None));
            assert_eq!(digest_of(pods, CACHE), digest_of(&self::pods(), CACHE));
            assert_eq!(pods["items"].as_array().unwrap().len(), 3);
        }
        assert!(
            names(&after, UNTESTED_WEB).iter().all(|name| !names(&before, NEXT_WEB.image).contains(name))
        );
    }
}
