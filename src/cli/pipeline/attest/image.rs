//! Reads the digests of an image, of its index and its manifests, from the output of build tools.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::cli::files::{self, FileError, quoted};
use model::escape::{Escaped, shortened};
use model::image_id::digest_of;
use model::{Fingerprint, ImageIndex, InvalidImageIndex, MAX_INDEX};

#[derive(Debug, Args)]
pub(super) struct ImageFiles {
    /// OCI layout of one image; its index and all manifests are attested
    #[arg(long, value_name = "DIR")]
    image_layout: Option<PathBuf>,
    /// Image index, byte for byte; it and all manifests are attested
    #[arg(long, value_name = "FILE")]
    image_index: Option<PathBuf>,
    /// Metadata file of docker buildx, buildctl or buildah, with the digest of the image
    #[arg(long, value_name = "FILE")]
    metadata_file: Option<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct ImageDigests {
    /// All digests; an index precedes its manifests.
    pub(super) digests: Vec<Fingerprint>,
    /// The indexes with their content.
    pub(super) indexes: Vec<(Fingerprint, String)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ImageError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not UTF-8", quoted(.0))]
    Text(PathBuf),
    #[error("{} is not an image index", quoted(.0))]
    Index(PathBuf, #[source] InvalidImageIndex),
    #[error("{} has the digest sha256:{}: expected the one in its name", quoted(.0), .1)]
    Corrupt(PathBuf, Fingerprint),
    #[error("the image layout {} has {} images: expected 1; copy the image to a directory of its own", quoted(.0), .1)]
    Several(PathBuf, usize),
    #[error("the image layout {} has more than {MAX_BLOBS} indexes and manifests", quoted(.0))]
    TooMany(PathBuf),
    #[error("failed to parse {} (--metadata-file) as JSON", quoted(.0))]
    Json(PathBuf, #[source] serde_json::Error),
    #[error("{} (--metadata-file) contains no digest: expected \"containerimage.digest\": \"sha256:…\"", quoted(.0))]
    NoDigest(PathBuf),
    #[error("{} (--metadata-file) has the digest sha256:{}, which is not in the image of --image-layout or --image-index: use files of one build, and the index exactly as the registry has it", quoted(.0), .1)]
    Other(PathBuf, Fingerprint),
}

/// Maximum number of indexes and manifests of an image layout.
const MAX_BLOBS: usize = 256;

/// Maximum size of a manifest, in bytes: registries accept no larger ones.
const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// Maximum size of a file of metadata, in bytes. It may contain the provenance of the build.
const MAX_METADATA: u64 = 16 * 1024 * 1024;

impl ImageFiles {
    /// The digests of all given files.
    pub(super) fn read(&self) -> Result<ImageDigests, ImageError> {
        let mut image = ImageDigests::default();
        if let Some(folder) = &self.image_layout {
            image.add_layout(folder)?;
        }
        if let Some(path) = &self.image_index {
            let bytes = files::read(MAX_INDEX as u64, path)?;
            let index = image.add_index(path, bytes)?;
            image.add(index.fingerprint);
            index.manifests.iter().for_each(|manifest| image.add(manifest.fingerprint));
        }
        if let Some(path) = &self.metadata_file {
            image.add_metadata(path)?;
        }
        Ok(image)
    }
}

impl ImageDigests {
    /// Adds a digest, unless it is known.
    pub(super) fn add(&mut self, digest: Fingerprint) {
        if !self.digests.contains(&digest) {
            self.digests.push(digest);
        }
    }

    fn add_index(&mut self, path: &Path, bytes: Vec<u8>) -> Result<ImageIndex, ImageError> {
        let index = ImageIndex::parse(&bytes).map_err(|error| ImageError::Index(path.to_owned(), error))?;
        let text = String::from_utf8(bytes).map_err(|_| ImageError::Text(path.to_owned()))?;
        self.indexes.push((index.fingerprint, text));
        Ok(index)
    }

    /// Adds the image of an image layout, whose `index.json` lists images and is not itself an index of the image.
    fn add_layout(&mut self, folder: &Path) -> Result<(), ImageError> {
        let path = folder.join("index.json");
        let images = ImageIndex::parse(&files::read(MAX_INDEX as u64, &path)?);
        let mut blobs = images.map_err(|error| ImageError::Index(path, error))?.manifests;
        if blobs.len() != 1 {
            return Err(ImageError::Several(folder.to_owned(), blobs.len()));
        }
        let mut number = 0;
        while let Some(blob) = blobs.get(number).cloned() {
            number += 1;
            if number > MAX_BLOBS {
                return Err(ImageError::TooMany(folder.to_owned()));
            }
            let path = folder.join("blobs/sha256").join(blob.fingerprint.to_string());
            let bytes = files::read(MAX_MANIFEST, &path)?;
            let digest = Fingerprint::from_content(&bytes);
            if digest != blob.fingerprint {
                return Err(ImageError::Corrupt(path, digest));
            }
            self.add(digest);
            if blob.is_index {
                let listed = self.add_index(&path, bytes)?.manifests;
                blobs.extend(listed.into_iter().filter(|new| !self.digests.contains(&new.fingerprint)));
            }
        }
        Ok(())
    }

    /// Adds the digest of the metadata of a build; those of several images, if it built several.
    fn add_metadata(&mut self, path: &Path) -> Result<(), ImageError> {
        let metadata: Value = serde_json::from_slice(&files::read(MAX_METADATA, path)?)
            .map_err(|error| ImageError::Json(path.to_owned(), error))?;
        let images =
            std::iter::once(&metadata).chain(metadata.as_object().into_iter().flat_map(|all| all.values()));
        let (mut is_empty, has_image) = (true, !self.digests.is_empty());
        for image in images {
            let digest = image.get("containerimage.digest").and_then(Value::as_str).and_then(digest_of);
            let Some(digest) = digest else { continue };
            is_empty = false;
            if self.digests.contains(&digest) {
                continue;
            }
            if has_image {
                return Err(ImageError::Other(path.to_owned(), digest));
            }
            self.add(digest);
            let kind = image.pointer("/containerimage.descriptor/mediaType").and_then(Value::as_str);
            let is_manifest = |kind: &str| {
                ["image.manifest.v1+json", "distribution.manifest.v2+json"]
                    .iter()
                    .any(|end| kind.ends_with(end))
            };
            if !kind.is_some_and(is_manifest) {
                let kind = Escaped(&shortened(kind.unwrap_or("unknown type"), 100)).to_string();
                tracing::warn!(
                    "only the digest sha256:{digest} ({kind}) is attested: the metadata lists no manifests of platforms; set --image-index or --image-layout"
                );
            }
        }
        if is_empty { Err(ImageError::NoDigest(path.to_owned())) } else { Ok(()) }
    }
}
