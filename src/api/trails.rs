//! Operation 1: list trails.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use crate::domain::model::Fingerprint;

/// A trail. What else the service says of it is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Trail {
    /// Its name in its flow.
    pub name: String,
    /// Whether it is as its flow expects.
    pub is_compliant: bool,
}

/// A list as it comes: with its page, or bare where the service knows none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Page { data: Vec<T> },
    Bare(Vec<T>),
}

impl Client {
    /// GETs the first page of the trails that attest an artifact, newest first:
    /// `/trails/{org}?fingerprint=`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn trails_of(&self, artifact: Fingerprint) -> Result<Vec<Trail>, Error> {
        let request = self.request(Method::GET, &["trails", self.organization().as_str()]);
        let listed = self.get(request.with("fingerprint", &artifact.to_string())).await?;
        Ok(match listed {
            Listed::Page { data } | Listed::Bare(data) => data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_with_its_page_or_bare() {
        for text in [
            r#"{"data": [{"name": "a", "is_compliant": true, "events": []}], "pagination": {"total": 1}}"#,
            r#"[{"name": "a", "is_compliant": true}]"#,
        ] {
            let (Listed::Page { data } | Listed::Bare(data)) =
                serde_json::from_str::<Listed<Trail>>(text).unwrap();
            assert_eq!(data, [Trail { name: "a".to_owned(), is_compliant: true }]);
        }
    }
}
