//! The digest in a container's `status.imageID`.
//!
//! The container runtime interface does not define its format:
//! containerd as `repository@sha256:H`, dockershim with a scheme before it, CRI-O as a bare `H`.

use crate::Fingerprint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageId<'a> {
    pub digest: Fingerprint,
    /// The repository of the digest. Without one, the digest is that of the image configuration, since the
    /// runtime knows no other.
    pub repository: Option<&'a str>,
}

/// Text that is not an image ID with a SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageId {
    /// The image is not pulled, or the kubelet lost the status.
    #[error("the image ID is empty")]
    NotStarted,
    /// The interface requires SHA-256.
    #[error("the digest in the image ID is not SHA-256")]
    OtherAlgorithm,
    #[error("the image ID contains no digest")]
    NoDigest,
}

/// Parses an `imageID`.
///
/// # Errors
///
/// If it contains no SHA-256 digest.
pub fn parse(image_id: &str) -> Result<ImageId<'_>, InvalidImageId> {
    if image_id.is_empty() {
        return Err(InvalidImageId::NotStarted);
    }
    let without_scheme = image_id.split_once("://").map_or(image_id, |(_, rest)| rest);
    let (repository, digest) = match without_scheme.rsplit_once('@') {
        Some((repository, digest)) => (Some(repository).filter(|r| !r.is_empty()), digest),
        None => (None, without_scheme),
    };
    let hex = match digest.split_once(':') {
        Some(("sha256", hex)) => hex,
        Some((algorithm, _)) if is_algorithm(algorithm) => return Err(InvalidImageId::OtherAlgorithm),
        // CRI-O writes a bare H for an image without a repository; after an `@` it is invalid.
        None if repository.is_none() => digest,
        _ => return Err(InvalidImageId::NoDigest),
    };
    let digest = Fingerprint::from_hex(hex).ok_or(InvalidImageId::NoDigest)?;
    Ok(ImageId { digest, repository })
}

/// The SHA-256 digest in an image reference: `H`, `sha256:H` or `name@sha256:H`.
#[must_use]
pub fn digest_of(image: &str) -> Option<Fingerprint> {
    parse(image).ok().map(|id| id.digest)
}

/// Whether a name is only a digest: `sha256:H` or `H`.
#[must_use]
pub fn is_bare_digest(name: &str) -> bool {
    Fingerprint::from_hex(name.strip_prefix("sha256:").unwrap_or(name)).is_some()
}

/// The name of an image for people: without its registry and its digest.
#[must_use]
pub fn short_name(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    match name.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) || registry == "localhost" => path,
        _ => name,
    }
}

/// Other registered or common algorithms (OCI image specification, "Digests").
fn is_algorithm(word: &str) -> bool {
    matches!(word, "sha512" | "sha384" | "blake3" | "sha1" | "md5")
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

    #[test]
    fn short_name_has_neither_registry_nor_digest() {
        for (image, expected) in [
            ("registry.example.com/shop/cart:5.3.1", "shop/cart:5.3.1"),
            ("localhost/cart", "cart"),
            ("reg:5000/a/b@sha256:7c9b", "a/b"),
            ("shop/cart", "shop/cart"),
            ("sha256:7c9b", "sha256:7c9b"),
            ("", ""),
        ] {
            assert_eq!(short_name(image), expected, "{image}");
        }
    }

    #[test]
    fn digest_formats_of_all_runtimes_are_parsed() {
        for (image_id, repository) in [
            (format!("docker.io/library/nginx@sha256:{H}"), Some("docker.io/library/nginx")),
            (format!("docker-pullable://reg:5000/a/b@sha256:{H}"), Some("reg:5000/a/b")),
            (format!("repo@sha256:{}", H.to_uppercase()), Some("repo")),
            (format!("repo:1@sha256:{H}"), Some("repo:1")),
            (format!("docker://sha256:{H}"), None),
            (format!("sha256:{H}"), None),
            (H.to_owned(), None),
            (format!("@sha256:{H}"), None),
        ] {
            let digest = H.parse().unwrap();
            assert_eq!(parse(&image_id), Ok(ImageId { digest, repository }), "{image_id}");
        }
    }

    #[test]
    fn other_image_ids_are_rejected_with_a_reason() {
        use InvalidImageId::{NoDigest, NotStarted, OtherAlgorithm};
        for (image_id, reason) in [
            (String::new(), NotStarted),
            (format!("repo@sha512:{H}{H}"), OtherAlgorithm),
            (format!("repo@sha256:{}", H.split_at(1).1), NoDigest),
            (format!("repo@sha256:{H}0"), NoDigest),
            (format!("repo@sha256:{}g", H.split_at(1).1), NoDigest),
            (format!("repo@sha256:{}９", H.split_at(1).1), NoDigest),
            (format!("repo@SHA256:{H}"), NoDigest),
            (format!("repo@{H}"), NoDigest),
            (format!(" sha256:{H}"), NoDigest),
            ("nginx:1.27".to_owned(), NoDigest),
            ("docker://".to_owned(), NoDigest),
            ("образ".to_owned(), NoDigest),
        ] {
            assert_eq!(parse(&image_id), Err(reason), "{image_id}");
        }
    }

    #[test]
    fn bare_digest_is_distinguished_from_a_name() {
        assert!(is_bare_digest(H) && is_bare_digest(&format!("sha256:{H}")));
        assert!(
            !is_bare_digest("nginx") && !is_bare_digest("") && !is_bare_digest(&format!("nginx@sha256:{H}"))
        );
    }
}
