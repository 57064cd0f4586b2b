//! The digest in a container's `status.imageID`.
//!
//! Each runtime writes it in its own way (the container runtime interface leaves the form open):
//! containerd as `repository@sha256:H`, dockershim with a scheme before it, CRI-O as a bare `H`.

use std::fmt;

use crate::domain::model::Fingerprint;

/// What an `imageID` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageId<'a> {
    /// The SHA-256 digest.
    pub(crate) digest: Fingerprint,
    /// The repository that the digest belongs to. Without one, the digest is that of the image's
    /// configuration, which is all that the runtime knows.
    pub(crate) repository: Option<&'a str>,
}

/// Why a container is not in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerSkip {
    /// It has no image ID: its image was not pulled yet, or the kubelet lost it.
    NotStarted,
    /// Its digest is of an algorithm other than SHA-256, which the interface has no place for.
    OtherAlgorithm,
    /// Its image ID holds nothing that is a digest.
    NoDigest,
    /// Its pod has more of them than are kept of one.
    TooMany,
}

impl fmt::Display for ContainerSkip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStarted => "not started",
            Self::OtherAlgorithm => "with a digest other than SHA-256",
            Self::NoDigest => "without a digest in the image ID",
            Self::TooMany => "beyond those that are kept of one pod",
        })
    }
}

/// Reads an `imageID`.
///
/// # Errors
///
/// The reason for which the container is left out.
pub(crate) fn parse(image_id: &str) -> Result<ImageId<'_>, ContainerSkip> {
    if image_id.is_empty() {
        return Err(ContainerSkip::NotStarted);
    }
    let without_scheme = image_id.split_once("://").map_or(image_id, |(_, rest)| rest);
    let (repository, digest) = match without_scheme.rsplit_once('@') {
        Some((repository, digest)) => (Some(repository).filter(|r| !r.is_empty()), digest),
        None => (None, without_scheme),
    };
    let hex = match digest.split_once(':') {
        Some(("sha256", hex)) => hex,
        Some((algorithm, _)) if is_algorithm(algorithm) => return Err(ContainerSkip::OtherAlgorithm),
        // A bare H is CRI-O's way to write an image without a repository; behind an `@` it is none.
        None if repository.is_none() => digest,
        _ => return Err(ContainerSkip::NoDigest),
    };
    let digest = Fingerprint::from_hex(hex).ok_or(ContainerSkip::NoDigest)?;
    Ok(ImageId { digest, repository })
}

/// The SHA-256 digest of an image as tools write it: `H`, `sha256:H`, or behind a name and an `@`.
#[must_use]
pub fn digest_of(image: &str) -> Option<Fingerprint> {
    parse(image).ok().map(|id| id.digest)
}

/// Whether a text is `sha256:H` or `H`: a digest where a name should be.
pub(crate) fn is_bare(name: &str) -> bool {
    Fingerprint::from_hex(name.strip_prefix("sha256:").unwrap_or(name)).is_some()
}

/// The registered and the usual other algorithms (OCI image specification, "Digests").
fn is_algorithm(word: &str) -> bool {
    matches!(word, "sha512" | "sha384" | "blake3" | "sha1" | "md5")
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

    #[test]
    fn each_runtime_s_way_to_write_a_digest_is_read() {
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
    fn what_is_no_sha256_digest_is_skipped_with_its_reason() {
        use ContainerSkip::{NoDigest, NotStarted, OtherAlgorithm};
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
    fn a_bare_digest_is_told_from_a_name() {
        assert!(is_bare(H) && is_bare(&format!("sha256:{H}")));
        assert!(!is_bare("nginx") && !is_bare("") && !is_bare(&format!("nginx@sha256:{H}")));
    }
}
