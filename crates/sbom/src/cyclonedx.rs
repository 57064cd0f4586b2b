//! `CycloneDX`: <https://cyclonedx.org/docs/1.7/json/>.

use serde::Deserialize;

use crate::{Document, Error, Named};

#[derive(Deserialize)]
struct Bom {
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    r#type: String,
    group: Option<String>,
    name: String,
    version: Option<String>,
    purl: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    components: Vec<Component>,
}

pub(crate) fn read(content: &[u8], format: String) -> Result<Document, Error> {
    let Bom { components } = crate::parse(content, &format)?;
    let mut packages = Vec::new();
    flatten(components, &mut packages);
    Document::collect(format, packages.into_iter())
}

/// `serde_json` limits the depth to 128.
fn flatten(components: Vec<Component>, packages: &mut Vec<Named>) {
    for Component { r#type, group, name, version, purl, scope, components } in components {
        let is_package = !matches!(r#type.as_str(), "file" | "data" | "device" | "cryptographic-asset");
        if is_package && scope.as_deref() != Some("excluded") {
            let (namespace, version) = (group.unwrap_or_default(), version.unwrap_or_default());
            packages.push(Named { namespace, name, version, purl });
        }
        flatten(components, packages);
    }
}
