//! `supercargo search --package`.

use clap::Args;
use serde_json::Value;

use super::columns::Format::{Ago, Commit, Custom, Digest, Text};
use super::columns::{Column, at, items, table};
use super::common::{Common, organization};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::Cell;
use model::{PointInTime, pluralize};

#[derive(Debug, Args)]
pub(super) struct PackageOptions {
    /// Package to find in what runs, such as log4j-core, org.apache.logging.log4j:log4j-core or @angular/core
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Versions of the package, such as '<2.17.1' or '>=2.0, <2.17.1'
    #[arg(long = "version", value_name = "VERSIONS", requires = "package")]
    versions: Option<String>,
    /// Type of the package URL, such as maven
    #[arg(long, value_name = "TYPE", requires = "package")]
    purl_type: Option<String>,
    /// Search what ran at this time, such as 2026-10-03T14:00Z or 2w
    #[arg(long, value_name = "TIME", requires = "package", value_parser = time)]
    at: Option<String>,
}

pub(crate) const PACKAGES: &[Column] = &[
    Column::new("ENVIRONMENT", "", Custom(environment)),
    Column::new("WORKLOADS", "/workloads", Text).optional(1),
    Column::new("IMAGE", "/image", Text),
    Column::new("DIGEST", "/fingerprint", Digest).optional(2),
    Column::new("PACKAGE", "/package", Custom(package)),
    Column::new("VERSION", "", Custom(version)),
    Column::new("SINCE", "/started_at", Ago),
    Column::new("COMMIT", "/git_commit", Commit),
];

/// How many of the searched images could not be found.
pub(crate) fn coverage(found: &Value) -> String {
    let [running, without] = ["/running_images", "/images_without_bill"]
        .map(|pointer| at(found, pointer).as_u64().unwrap_or_default());
    let have = if without == 1 { "has" } else { "have" };
    format!("{without} of {} {have} no bill of materials", pluralize(running, "running image"))
}

fn time(text: &str) -> Result<String, model::InvalidExpression> {
    text.parse().map(|_: PointInTime| text.to_owned())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).as_str().unwrap_or_default()
}

fn environment(found: &Value) -> Cell {
    let name = text(found, "/environment");
    Cell::text(if *at(found, "/is_silent") == true { format!("{name} (silent)") } else { name.to_owned() })
}

/// As its ecosystem writes it.
fn package(package: &Value) -> Cell {
    let (namespace, name) = (text(package, "/namespace"), text(package, "/name"));
    Cell::text(match (namespace, text(package, "/purl_type")) {
        ("", _) => name.to_owned(),
        (namespace, "maven") => format!("{namespace}:{name}"),
        (namespace, _) => format!("{namespace}/{name}"),
    })
}

fn version(found: &Value) -> Cell {
    match (text(found, "/package/version"), *at(found, "/is_unclear") == true) {
        ("", _) => Cell::text("unknown"),
        (version, true) => Cell::text(format!("{version} (not comparable)")),
        (version, false) => Cell::text(version),
    }
}

impl PackageOptions {
    pub(super) async fn search(&self, service: &ServiceOptions, common: &Common) -> Result<(), Failure> {
        let operation = organization(&["packages"])
            .with("name", &self.package)
            .with("version", &self.versions)
            .with("purl_type", &self.purl_type)
            .with("at", &self.at);
        let list = common.read_list(service, &operation).await?;
        if list.items.is_empty() {
            tracing::info!("no running image is known to contain this package");
        }
        let found = list.into_raw();
        let rows = || items(&found, "/data");
        common.output.print(&found, || table(PACKAGES, rows()))?;
        if rows().any(|row| *at(row, "/is_unclear") == true) {
            tracing::warn!(
                "versions that are not comparable are listed too: they are unknown, or of an ecosystem whose order is not known"
            );
        }
        let removed = at(&found, "/environments_without_history").as_u64().unwrap_or_default();
        if removed > 0 {
            tracing::warn!("the retention removed what {} ran then", pluralize(removed, "environment"));
        }
        tracing::info!("{}", coverage(&found));
        Ok(())
    }
}
