//! An OCI image index, or a Docker manifest list: the manifests of an image by platform.
//!
//! The program reads it from files, and the service from requests. The digest of an index is that of its bytes, which list the
//! manifests, so that nobody can add a manifest to an index.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::Fingerprint;
use crate::escape::{Escaped, shortened};

/// Maximum size of an index, in bytes.
pub const MAX_INDEX: usize = 256 * 1024;

pub const MAX_MANIFESTS: usize = 64;

/// The manifests that an index lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageIndex {
    /// SHA-256 of its bytes.
    pub fingerprint: Fingerprint,
    /// All that a runtime may select, at most [`MAX_MANIFESTS`]; not the attestations that a builder adds.
    pub manifests: Vec<PlatformManifest>,
}

/// A manifest, or a nested index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformManifest {
    /// Its digest.
    pub fingerprint: Fingerprint,
    /// `linux/arm64/v8`, or `unknown`; several, if they share the manifest.
    pub platform: String,
    /// Whether it is a nested index.
    #[serde(skip)]
    pub is_index: bool,
}

/// The other digests of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelatedDigests {
    /// The newest image indexes that list the artifact, with its platform.
    pub image_indexes: Vec<PlatformManifest>,
    /// The manifests that the artifact lists.
    pub image_manifests: Vec<PlatformManifest>,
}

impl RelatedDigests {
    /// The indexes that list an artifact, and the manifests that it lists.
    #[must_use]
    pub fn new(listed: &[ListedManifest], artifact: Fingerprint) -> Self {
        let other = |fingerprint, pair: &ListedManifest| PlatformManifest {
            fingerprint,
            platform: pair.platform.clone(),
            is_index: false,
        };
        let indexes = listed.iter().filter(|pair| pair.manifest == artifact);
        let manifests = listed.iter().filter(|pair| pair.index == artifact);
        Self {
            image_indexes: indexes.map(|pair| other(pair.index, pair)).collect(),
            image_manifests: manifests.map(|pair| other(pair.manifest, pair)).collect(),
        }
    }

    /// Whether no other digest is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.image_indexes.is_empty() && self.image_manifests.is_empty()
    }
}

/// An index and one of its manifests, as they are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct ListedManifest {
    #[cfg_attr(feature = "sqlx", sqlx(rename = "image_index"))]
    pub index: Fingerprint,
    #[cfg_attr(feature = "sqlx", sqlx(rename = "fingerprint"))]
    pub manifest: Fingerprint,
    pub platform: String,
    /// Whether evidence counts between them. It does not if too many newer indexes list the manifest.
    pub counts: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageIndex {
    #[error("the image index is too large: expected at most {MAX_INDEX} bytes, got {0}")]
    TooLarge(usize),
    /// The document is not JSON, or has other fields.
    #[error("expected an OCI image index or a Docker manifest list: {}", Escaped(.0))]
    Json(String),
    /// The digest of a manifest is not SHA-256.
    #[error("expected digests sha256:… with 64 lowercase hexadecimal digits, got \"{}\"", Escaped(.0))]
    Digest(String),
    /// No or too many manifests.
    #[error("expected 1 to {MAX_MANIFESTS} manifests of platforms, got {0}")]
    Number(usize),
}

/// Unknown fields are rejected, and repeated ones by serde: a runtime may ignore the case of names or use the last of several
/// fields, and would then select another manifest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    manifests: Vec<Descriptor>,
    #[serde(rename = "schemaVersion", default)]
    _schema_version: IgnoredAny,
    #[serde(rename = "mediaType", default)]
    _media_type: IgnoredAny,
    #[serde(rename = "artifactType", default)]
    _artifact_type: IgnoredAny,
    #[serde(rename = "subject", default)]
    _subject: IgnoredAny,
    #[serde(rename = "annotations", default)]
    _annotations: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    digest: String,
    #[serde(rename = "mediaType", default)]
    media_type: String,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(rename = "size", default)]
    _size: IgnoredAny,
    #[serde(rename = "urls", default)]
    _urls: IgnoredAny,
    #[serde(rename = "data", default)]
    _data: IgnoredAny,
    #[serde(rename = "artifactType", default)]
    _artifact_type: IgnoredAny,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Platform {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    #[serde(rename = "os.version", default)]
    _os_version: IgnoredAny,
    #[serde(rename = "os.features", default)]
    _os_features: IgnoredAny,
    #[serde(rename = "features", default)]
    _features: IgnoredAny,
}

impl Platform {
    /// `linux/arm64/v8`; a missing or invalid part is `unknown`.
    fn name(&self) -> String {
        let is_valid = |part: &&str| {
            (1..=64).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        let part = |part: &Option<String>| part.as_deref().filter(is_valid).unwrap_or("unknown").to_owned();
        let variant = self.variant.as_ref().filter(|variant| !variant.is_empty());
        let variant = variant.map(|variant| format!("/{}", part(&Some(variant.clone()))));
        format!("{}/{}{}", part(&self.os), part(&self.architecture), variant.unwrap_or_default())
    }
}

impl Descriptor {
    fn platform(&self) -> String {
        self.platform.as_ref().map_or_else(|| "unknown".to_owned(), Platform::name)
    }

    /// Whether it is an attestation of a builder, which no runtime selects.
    fn is_attestation(&self) -> bool {
        let is_annotated =
            self.annotations.as_ref().is_some_and(|names| names.contains_key("vnd.docker.reference.type"));
        is_annotated && self.platform() == "unknown/unknown"
    }

    fn is_index(&self) -> bool {
        ["image.index.v1+json", "manifest.list.v2+json"].iter().any(|end| self.media_type.ends_with(end))
    }
}

impl ImageIndex {
    /// Parses the bytes of an index.
    ///
    /// # Errors
    ///
    /// [`InvalidImageIndex`]
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidImageIndex> {
        if bytes.len() > MAX_INDEX {
            return Err(InvalidImageIndex::TooLarge(bytes.len()));
        }
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| InvalidImageIndex::Json(shortened(&error.to_string(), 300)))?;
        let listed: Vec<_> = document.manifests.iter().filter(|listed| !listed.is_attestation()).collect();
        if !(1..=MAX_MANIFESTS).contains(&listed.len()) {
            return Err(InvalidImageIndex::Number(listed.len()));
        }
        let mut manifests: Vec<PlatformManifest> = Vec::new();
        for descriptor in listed {
            let digest = descriptor.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
            let fingerprint: Fingerprint =
                digest.ok_or_else(|| InvalidImageIndex::Digest(shortened(&descriptor.digest, 100)))?;
            let platform = descriptor.platform();
            if let Some(known) = manifests.iter_mut().find(|known| known.fingerprint == fingerprint) {
                known.platform = format!("{}, {platform}", known.platform);
            } else {
                let is_index = descriptor.is_index();
                manifests.push(PlatformManifest { fingerprint, platform, is_index });
            }
        }
        Ok(Self { fingerprint: Fingerprint::from_content(bytes), manifests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(manifests: &str) -> Result<Vec<(String, bool)>, String> {
        let index = ImageIndex::parse(format!("{{\"manifests\": [{manifests}]}}").as_bytes());
        let manifests = index.map_err(|error| error.to_string())?.manifests;
        Ok(manifests.into_iter().map(|manifest| (manifest.platform, manifest.is_index)).collect())
    }

    /// A descriptor of a digest with more members.
    fn descriptor(digit: char, more: &str) -> String {
        format!("{{\"digest\": \"sha256:{}\"{more}}}", digit.to_string().repeat(64))
    }

    #[test]
    fn manifests_have_their_platforms() {
        const ATTESTATION: &str =
            ", \"annotations\": {\"vnd.docker.reference.type\": \"attestation-manifest\"}";
        let on =
            |os: &str, more: &str| format!(", \"platform\": {{\"os\": \"{os}\", \"architecture\": {more}}}");
        for (manifests, expected) in [
            (vec![descriptor('a', &on("linux", "\"arm64\", \"variant\": \"v8\""))], &["linux/arm64/v8"][..]),
            (vec![descriptor('a', ""), descriptor('b', &on("l i", "null"))], &["unknown", "unknown/unknown"]),
            (
                vec![descriptor('a', &on("linux", "\"arm\"")), descriptor('a', &on("linux", "\"arm64\""))],
                &["linux/arm, linux/arm64"],
            ),
            // A runtime ignores an attestation only because of its platform.
            (
                vec![
                    descriptor('a', &on("linux", "\"amd64\"")),
                    descriptor('b', &(on("unknown", "\"unknown\"") + ATTESTATION)),
                    descriptor('c', &(on("linux", "\"amd64\"") + ATTESTATION)),
                    descriptor('d', ATTESTATION),
                    descriptor('e', &on("unknown", "\"unknown\"")),
                ],
                &["linux/amd64", "linux/amd64", "unknown", "unknown/unknown"],
            ),
        ] {
            let found: Vec<_> =
                parse(&manifests.join(",")).unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(found, expected, "{manifests:?}");
        }
        let nested = descriptor('a', ", \"mediaType\": \"application/vnd.oci.image.index.v1+json\"");
        assert_eq!(parse(&nested).unwrap(), [("unknown".to_owned(), true)]);
    }

    #[test]
    fn other_text_and_ambiguous_fields_are_rejected() {
        let one = descriptor('a', "");
        let other = format!(", \"Digest\": \"sha256:{}\"", "b".repeat(64));
        for (text, expected) in [
            (format!("[{one}]"), "expected an OCI image index"),
            ("{\"config\": {}, \"layers\": []}".to_owned(), "unknown field `config`"),
            ("{\"schemaVersion\": 2}".to_owned(), "missing field `manifests`"),
            (format!("{{\"manifests\": [{one}], \"Manifests\": []}}"), "unknown field `Manifests`"),
            (format!("{{\"manifests\": [{one}], \"manifests\": []}}"), "duplicate field `manifests`"),
            (format!("{{\"manifests\": [{}]}}", descriptor('a', &other)), "unknown field `Digest`"),
            ("{\"manifests\": [{\"digest\": \"sha512:00\"}]}".to_owned(), "got \"sha512:00\""),
            ("{\"manifests\": []}".to_owned(), "expected 1 to 64 manifests of platforms, got 0"),
            (format!("{{\"manifests\": [{}]}}", vec![one.as_str(); 65].join(",")), "got 65"),
            (" ".repeat(MAX_INDEX + 1), "at most 262144 bytes, got 262145"),
        ] {
            let error = ImageIndex::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
