//! Packages of bills of materials: `CycloneDX` JSON 1.2 to 1.7, and SPDX JSON 2.2, 2.3 and 3.0.

mod cyclonedx;
mod maven;
mod spdx2;
mod spdx3;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeSet;
use std::str::FromStr;

use packageurl::PackageUrl;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

pub use version::{Answer, InvalidRequirement, Requirement};

/// Most packages that are read of one document. The largest known images have fewer than 20,000.
pub const MAX_PACKAGES: usize = 100_000;

/// Longest name or version in bytes; longer ones are no names of packages, and an index takes no more.
const MAX_TEXT: usize = 512;

/// Longest package URL in bytes.
const MAX_PURL: usize = 2_048;

/// Where a marker is expected in content that is not valid JSON, in bytes.
const BEGINNING: usize = 4_096;

/// A package as a bill of materials names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// The type of its package URL, such as `maven`; empty without one.
    pub purl_type: String,
    /// Such as `org.apache.logging.log4j` or `@angular`; empty without one.
    pub namespace: String,
    pub name: String,
    /// Empty if the document has none. An epoch that is a qualifier of an RPM package is in front of it.
    pub version: String,
    /// As the document writes it; empty if it has none, or an invalid one.
    pub purl: String,
}

/// The packages of a bill of materials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Such as `CycloneDX 1.6`.
    pub format: String,
    pub packages: BTreeSet<Package>,
}

/// A bill of materials that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{format} is not supported: expected CycloneDX 1.2 to 1.7, or SPDX 2.2, 2.3 or 3.0")]
    Unsupported { format: String },
    #[error("invalid {format} document")]
    Invalid { format: String, source: serde_json::Error },
    #[error("a package of this {format} has an empty name, or one of more than {MAX_TEXT} bytes")]
    Name { format: String },
    #[error("a package of this {format} has a NUL character")]
    Nul { format: String },
    #[error("this {format} has more than {MAX_PACKAGES} packages")]
    TooMany { format: String },
}

/// What tells the format.
#[derive(Deserialize)]
struct Markers<'a> {
    #[serde(rename = "bomFormat")]
    bom_format: Option<String>,
    #[serde(rename = "specVersion", borrow)]
    spec_version: Option<&'a RawValue>,
    #[serde(rename = "spdxVersion")]
    spdx_version: Option<String>,
    #[serde(rename = "@context", borrow)]
    context: Option<&'a RawValue>,
    #[serde(rename = "@graph")]
    graph: Option<IgnoredAny>,
}

impl Document {
    /// Reads a bill of materials; `None` if the content is none, so far as its first level tells.
    ///
    /// Every component and package counts, nested ones too, once for each package URL. Those that `CycloneDX` marks as
    /// excluded are not in the artifact, and files and data are no packages.
    ///
    /// # Errors
    ///
    /// If it says that it is one, and its version is not supported, or its content is invalid.
    pub fn read(content: &[u8]) -> Result<Option<Self>, Error> {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let markers = match serde_json::from_slice::<Markers<'_>>(content) {
            Ok(markers) => markers,
            Err(source) if has_marker(content) => {
                return Err(Error::Invalid { format: "CycloneDX or SPDX".to_owned(), source });
            }
            Err(_) => return Ok(None),
        };
        let text = |raw: Option<&RawValue>| {
            raw.map_or_else(String::new, |raw| raw.get().trim_matches('"').chars().take(40).collect())
        };
        let is_spdx3 = |context: &RawValue| context.get().contains("://spdx.org/rdf/3.");
        if markers.bom_format.as_deref() == Some("CycloneDX") {
            let version = text(markers.spec_version);
            let format = format!("CycloneDX {version}");
            match version.as_str() {
                "1.2" | "1.3" | "1.4" | "1.5" | "1.6" | "1.7" => cyclonedx::read(content, format).map(Some),
                _ => Err(Error::Unsupported { format }),
            }
        } else if let Some(version) = markers.spdx_version {
            let version = version.trim_start_matches("SPDX-");
            let format = format!("SPDX {}", version.chars().take(40).collect::<String>());
            match version {
                "2.2" | "2.2.1" | "2.2.2" | "2.3" => spdx2::read(content, format).map(Some),
                _ => Err(Error::Unsupported { format }),
            }
        } else if let (Some(context), Some(_)) =
            (markers.context.filter(|context| is_spdx3(context)), markers.graph)
        {
            let version = if context.get().contains("/rdf/3.0") { "3.0" } else { "3" };
            let format = format!("SPDX {version}");
            if version == "3" {
                Err(Error::Unsupported { format })
            } else {
                spdx3::read(content, format).map(Some)
            }
        } else {
            Ok(None)
        }
    }

    fn collect(format: String, packages: impl Iterator<Item = Named>) -> Result<Self, Error> {
        let mut collected = BTreeSet::new();
        for named in packages {
            if named.name.is_empty() || named.name.len() > MAX_TEXT {
                return Err(Error::Name { format });
            }
            let package = named.package();
            let Package { purl_type, namespace, name, version, purl } = &package;
            // No name of a package has one, and PostgreSQL stores none.
            if [purl_type, namespace, name, version, purl].into_iter().any(|text| text.contains('\0')) {
                return Err(Error::Nul { format });
            }
            collected.insert(package);
            if collected.len() > MAX_PACKAGES {
                return Err(Error::TooMany { format });
            }
        }
        Ok(Self { format, packages: collected })
    }
}

/// A package before its URL is read.
struct Named {
    namespace: String,
    name: String,
    version: String,
    purl: Option<String>,
}

impl Named {
    /// The URL decides, if there is a valid one.
    fn package(self) -> Package {
        let purl = self.purl.filter(|purl| purl.len() <= MAX_PURL);
        if let Some(purl) = purl
            && let Ok(url) = PackageUrl::from_str(&purl)
            && url.name().len() <= MAX_TEXT
            && url.namespace().is_none_or(|namespace| namespace.len() <= MAX_TEXT)
        {
            let version = url.version().map_or(self.version, str::to_owned);
            let epoch = url.qualifiers().get("epoch").filter(|_| url.ty() == "rpm" && !version.contains(':'));
            return Package {
                purl_type: url.ty().to_owned(),
                namespace: url.namespace().unwrap_or_default().to_owned(),
                name: url.name().to_owned(),
                version: limited(epoch.map_or_else(|| version.clone(), |epoch| format!("{epoch}:{version}"))),
                purl,
            };
        }
        Package {
            purl_type: String::new(),
            namespace: limited(self.namespace),
            name: self.name,
            version: limited(self.version),
            purl: String::new(),
        }
    }
}

/// The text, or none if it is too long: a version that was cut would be another one.
fn limited(text: String) -> String {
    if text.len() > MAX_TEXT { String::new() } else { text }
}

/// Whether content that is not valid JSON looks like the beginning of a bill of materials.
fn has_marker(content: &[u8]) -> bool {
    let markers: [&[u8]; 3] = [b"\"bomFormat\"", b"\"spdxVersion\"", b"://spdx.org/rdf/3."];
    let beginning = content.get(..BEGINNING).unwrap_or(content);
    content.trim_ascii_start().first() == Some(&b'{')
        && markers.iter().any(|marker| beginning.windows(marker.len()).any(|part| part == *marker))
}

fn parse<'a, T: Deserialize<'a>>(content: &'a [u8], format: &str) -> Result<T, Error> {
    serde_json::from_slice(content).map_err(|source| Error::Invalid { format: format.to_owned(), source })
}
