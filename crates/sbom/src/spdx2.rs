//! SPDX 2: <https://spdx.github.io/spdx-spec/v2.3/>.

use serde::Deserialize;

use crate::{Document, Error, Named};

#[derive(Deserialize)]
struct Bom {
    #[serde(default)]
    packages: Vec<Package>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    name: String,
    version_info: Option<String>,
    #[serde(default)]
    external_refs: Vec<ExternalRef>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExternalRef {
    reference_type: String,
    reference_locator: String,
}

pub(crate) fn read(content: &[u8], format: String) -> Result<Document, Error> {
    let Bom { packages } = crate::parse(content, &format)?;
    let packages = packages.into_iter().map(|Package { name, version_info, external_refs }| {
        let mut urls = external_refs.into_iter().filter(|reference| reference.reference_type == "purl");
        Named {
            namespace: String::new(),
            name,
            version: version_info.filter(|version| version != "NOASSERTION").unwrap_or_default(),
            purl: urls.next().map(|url| url.reference_locator),
        }
    });
    Document::collect(format, packages)
}
