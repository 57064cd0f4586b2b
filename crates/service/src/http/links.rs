//! Links in responses and pages. They start with the public URL, never with the `Host` of a request.

use std::collections::BTreeMap;

use sqlx::types::Uuid;
use url::Url;

use model::{Fingerprint, Link, Provider};

#[derive(Debug, Clone)]
pub(crate) struct Links {
    base: Url,
    is_tls: bool,
}

impl Links {
    /// Links below `public_url`. `is_tls`: whether this process terminates TLS.
    pub(crate) fn new(public_url: Url, is_tls: bool) -> Self {
        Self { base: public_url, is_tls }
    }

    /// Whether this process terminates TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The public URL, without a trailing slash.
    pub(crate) fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Operation 4 for a repository.
    pub(crate) fn live_artifacts(
        &self,
        organization: &str,
        repository: &str,
        provider: Option<&Provider>,
    ) -> BTreeMap<&'static str, Link> {
        let mut url = self.operation(&["repos", organization, "live-artifacts", repository]);
        if let Some(provider) = provider {
            url.query_pairs_mut().append_pair("provider", provider.as_str());
        }
        BTreeMap::from([("self", link(&url))])
    }

    /// An artifact: its trails and its page.
    pub(crate) fn artifact(&self, organization: &str, artifact: Fingerprint) -> BTreeMap<&'static str, Link> {
        let mut trails = self.operation(&["trails", organization]);
        trails.query_pairs_mut().append_pair("fingerprint", &artifact.to_string());
        let html = Link { href: self.artifact_page(organization, artifact) };
        BTreeMap::from([("html", html), ("trails", link(&trails))])
    }

    pub(crate) fn artifact_page(&self, organization: &str, artifact: Fingerprint) -> String {
        self.below(&["ui"], &[organization, "artifacts", &artifact.to_string()]).into()
    }

    /// Returns a function that builds the URL of an environment's page from a common start.
    pub(crate) fn environment_pages(&self, organization: &str) -> impl Fn(&str) -> String + use<> {
        let all = self.below(&["ui"], &[organization, "environments"]);
        move |environment| {
            let mut url = all.clone();
            if let Ok(mut path) = url.path_segments_mut() {
                path.push(environment);
            }
            url.into()
        }
    }

    pub(crate) fn environment_page(&self, organization: &str, environment: &str) -> String {
        self.environment_pages(organization)(environment)
    }

    /// The URL of a rule on the page of its policy, or of that page.
    pub(crate) fn rule(&self, organization: &str, policy: &str, number: Option<usize>) -> String {
        let mut url = self.below(&["ui"], &[organization, "policies", policy]);
        url.set_fragment(number.map(|number| format!("rule-{number}")).as_deref());
        url.into()
    }

    pub(crate) fn organization_page(&self, organization: &str) -> String {
        self.below(&["ui"], &[organization]).into()
    }

    pub(crate) fn trail(&self, organization: &str, flow: &str, trail: &str) -> String {
        self.below(&["ui"], &[organization, "flows", flow, "trails", trail]).into()
    }

    pub(crate) fn attestation(
        &self,
        organization: &str,
        flow: &str,
        trail: &str,
        attestation: Uuid,
    ) -> String {
        format!("{}/attestations/{attestation}", self.trail(organization, flow, trail))
    }

    /// The path of a page. Pages link to each other by path, so that the links work for every host name.
    pub(crate) fn page(&self, segments: &[&str]) -> String {
        self.below(&["ui"], segments).path().to_owned()
    }

    /// The path and query of an operation, for links of pages.
    pub(crate) fn data(&self, segments: &[&str], query: &[(&str, &str)]) -> String {
        let mut url = self.operation(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{query}", url.path())
    }

    /// The path of a request as browsers see it: a proxy may have removed a prefix of the public URL.
    pub(crate) fn seen(&self, path: &str) -> String {
        format!("{}{path}", self.base.path().trim_end_matches('/'))
    }

    /// The URL to which a provider redirects after a sign-in: one for each, so that a provider cannot obtain the code of
    /// another one (RFC 9700, section 4.4).
    pub(crate) fn sign_in_callback(&self, organization: &str, issuer: &str) -> String {
        self.below(&["ui"], &["sign-in", "callback", organization, issuer]).into()
    }

    /// The URL to which a provider redirects after a sign-out.
    pub(crate) fn sign_in(&self) -> String {
        self.below(&["ui"], &["sign-in"]).into()
    }

    /// A link that signs in once. The code is a query parameter, since logs contain paths.
    pub(crate) fn invitation(&self, code: &str) -> String {
        let mut url = self.below(&["ui"], &["sign-in"]);
        url.query_pairs_mut().append_pair("once", code);
        url.to_string()
    }

    fn operation(&self, segments: &[&str]) -> Url {
        self.below(&["api", "v2"], segments)
    }

    fn below(&self, start: &[&str], segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(start).extend(segments);
        }
        url
    }
}

fn link(url: &Url) -> Link {
    Link { href: url.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_path_of_public_url_is_kept() {
        let pages = Links::new("https://example.com/evidence/".parse().unwrap(), false);
        let links = pages.live_artifacts("acme & co", "group/cart?", Some(&"gitlab".parse().unwrap()));
        assert_eq!(pages.page(&["acme & co", "a/b"]), "/evidence/ui/acme%20&%20co/a%2Fb");
        let trail = pages.trail("acme", "cart", "build-1~2");
        assert_eq!(trail, "https://example.com/evidence/ui/acme/flows/cart/trails/build-1~2");
        assert_eq!(
            links["self"].href,
            "https://example.com/evidence/api/v2/repos/acme%20&%20co/live-artifacts/group%2Fcart%3F?provider=gitlab"
        );
    }
}
