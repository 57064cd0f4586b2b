//! SPDX 3, a graph of elements: <https://spdx.github.io/spdx-spec/v3.0.1/>.

use serde::Deserialize;

use crate::{Document, Error, Named};

#[derive(Deserialize)]
struct Graph {
    #[serde(rename = "@graph")]
    elements: Vec<Element>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Element {
    #[serde(rename = "software_Package", alias = "ai_AIPackage", alias = "dataset_DatasetPackage")]
    Package(Package),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    #[serde(rename = "software_packageVersion")]
    version: Option<String>,
    #[serde(rename = "software_packageUrl")]
    url: Option<String>,
    #[serde(rename = "externalIdentifier", default)]
    identifiers: Vec<Identifier>,
}

#[derive(Deserialize)]
struct Identifier {
    #[serde(rename = "externalIdentifierType")]
    identifier_type: String,
    identifier: String,
}

pub(crate) fn read(content: &[u8], format: String) -> Result<Document, Error> {
    let Graph { elements } = crate::parse(content, &format)?;
    let packages = elements.into_iter().filter_map(|element| {
        let Element::Package(Package { name, version, url, identifiers }) = element else { return None };
        let mut identifiers = identifiers.into_iter();
        let url = url.or_else(|| {
            let identifier = identifiers.find(|identifier| identifier.identifier_type == "packageUrl");
            identifier.map(|identifier| identifier.identifier)
        });
        let version = version.unwrap_or_default();
        Some(Named { namespace: String::new(), name, version, purl: url })
    });
    Document::collect(format, packages)
}
