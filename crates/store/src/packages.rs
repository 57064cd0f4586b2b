//! Stores the packages of bills of materials, and finds the running images that contain them.
//!
//! A bill belongs to the content of an attachment, and an image has the bills of its latest attestations and of the other
//! digests of its image. A digest does not change, so a bill that was attested later also counts for the past. The cost of a
//! search grows with what runs, and has run since its time: not with the versions of a package.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use sbom::{Document, Package};
use serde::{Deserialize, Serialize};
use sqlx::types::Uuid;

use crate::database::columns::Micros;
use crate::database::rows::{Bytes, Id, converted, flag, rows};
use crate::database::transaction::{execute, fetch_for_all, fetch_scalar, for_all, insert};
use crate::{Error, Tenant};
use model::{Fingerprint, Timestamp};

/// A package as its bill of materials names it; empty fields are unknown.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
#[schema(as = PackageFields)]
pub struct StoredPackage {
    #[serde(skip)]
    pub id: Uuid,
    /// The type of its package URL, such as `maven`
    pub purl_type: String,
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub purl: String,
}

/// A name to search for, in lower case: `log4j-core`, `group:name`, `@scope/name` or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    /// Packages without a URL may have all of it as their name.
    whole: String,
    namespace: String,
    name: String,
    /// As `PyPI` compares names.
    normalized: String,
}

/// The name under which a package is found: in lower case, and as `PyPI` compares names (PEP 503).
fn search_name(purl_type: &str, name: &str) -> String {
    let name = name.to_lowercase();
    if purl_type != "pypi" {
        return name;
    }
    name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

impl PackageName {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let whole = text.trim().to_lowercase();
        let (namespace, name) = whole.rsplit_once([':', '/']).unwrap_or(("", &whole));
        let normalized = search_name("pypi", &whole);
        Self { namespace: namespace.to_owned(), name: name.to_owned(), normalized, whole: whole.clone() }
    }

    fn matches(&self, package: &StoredPackage) -> bool {
        let name = package.name.to_lowercase();
        name == self.whole
            || (package.purl_type == "pypi" && search_name("pypi", &name) == self.normalized)
            || (!self.namespace.is_empty()
                && name == self.name
                && package.namespace.to_lowercase() == self.namespace)
    }
}

/// The running images that may contain a package.
#[derive(Debug, Default)]
pub struct SearchedImages {
    /// The number of images that run, and of those with a bill of materials.
    pub running: u64,
    pub with_bill: u64,
    /// The packages of each image that may have the name. Others are few.
    pub packages: BTreeMap<Fingerprint, BTreeSet<Uuid>>,
}

/// A run of an image in an environment. The columns in the order of `runs`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct ImageRun {
    pub environment: String,
    #[serde(deserialize_with = "converted::<_, Id, _>")]
    pub environment_id: Uuid,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub last_report_at: Option<Timestamp>,
    /// `None` for the service's default.
    #[sqlx(try_from = "Micros")]
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub silent_after: Option<Duration>,
    /// Whether the environment was not reported at the time.
    #[serde(deserialize_with = "flag")]
    pub is_in_gap: bool,
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub fingerprint: Fingerprint,
    pub image: String,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub started_at: Timestamp,
}

/// The identifiers of the packages with a search name, and of few others: those that begin with the same bits of its hash.
fn ids(search_name: &str) -> RangeInclusive<Uuid> {
    let name = first_half(Fingerprint::from_content(search_name.as_bytes())).as_u128();
    Uuid::from_u128(name & !FIELDS)..=Uuid::from_u128(name | FIELDS)
}

/// The bits of an identifier that are of the hash of all fields.
const FIELDS: u128 = (1 << 80) - 1;

/// Identifies a package by its fields. None contains NUL, which PostgreSQL would reject.
fn id(package: &Package) -> Uuid {
    let Package { purl_type, namespace, name, version, purl } = package;
    let content = [purl_type, namespace, name, version, purl].map(String::as_str).join("\0");
    let fields = first_half(Fingerprint::from_content(content.as_bytes())).as_u128();
    Uuid::from_u128(ids(&search_name(purl_type, name)).start().as_u128() | (fields & FIELDS))
}

/// Identifies the bill of a file by the file's hash.
pub(crate) fn first_half(hash: Fingerprint) -> Uuid {
    Uuid::from_bytes(*hash.bytes().first_chunk().unwrap_or(&[0; 16]))
}

/// Stores the packages of an attached file, once per organization and content.
pub async fn insert(tenant: &mut Tenant<'_>, file: Fingerprint, document: &Document) -> Result<(), Error> {
    const BILL: &str = "
        INSERT INTO bills (organization, id, sha256, format) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let bill = first_half(file);
    if execute!(tenant.tx, BILL, tenant.name, bill, file, &document.format) == 0 {
        return Ok(());
    }
    // In the order of the indexes.
    let packages: BTreeMap<_, _> = document.packages.iter().map(|package| (id(package), package)).collect();
    insert!(
        tenant.tx,
        "INSERT INTO packages (organization, id, purl_type, namespace, name, version, purl) ",
        " ON CONFLICT DO NOTHING",
        &packages,
        |values, (id, package)| {
            values.push_bind(tenant.name).push_bind(**id).push_bind(&package.purl_type);
            values.push_bind(&package.namespace).push_bind(&package.name);
            values.push_bind(&package.version).push_bind(&package.purl);
        }
    );
    insert!(
        tenant.tx,
        "INSERT INTO bill_packages (organization, bill, package) ",
        "",
        packages.keys(),
        |values, id| {
            values.push_bind(tenant.name).push_bind(bill).push_bind(**id);
        }
    );
    Ok(())
}

/// Removes the bills of these files, and the packages that no other bill names. The caller has locked the organization.
pub(crate) async fn remove(tenant: &mut Tenant<'_>, files: &[Fingerprint]) -> Result<(), Error> {
    const BILLS: &str = "SELECT id FROM bills WHERE organization = ? AND sha256 IN (?)";
    const PACKAGES: &str =
        "SELECT DISTINCT package FROM bill_packages WHERE organization = ? AND bill IN (?)";
    const REMOVALS: [&str; 2] = [
        "DELETE FROM bill_packages WHERE organization = ? AND bill IN (?)",
        "DELETE FROM bills WHERE organization = ? AND id IN (?)",
    ];
    const ORPHANS: &str = "
        DELETE FROM packages WHERE organization = ?
          AND NOT EXISTS (SELECT 1 FROM bill_packages b WHERE b.organization = packages.organization
                            AND b.package = packages.id)
          AND id IN (?)";
    let bills: Vec<(Uuid,)> = fetch_for_all!(tenant.tx, BILLS, files.iter().copied(), tenant.name);
    let bills = || bills.iter().map(|(bill,)| *bill);
    let packages: Vec<(Uuid,)> = fetch_for_all!(tenant.tx, PACKAGES, bills(), tenant.name);
    for removal in REMOVALS {
        for_all!(tenant.tx, removal, bills(), tenant.name);
    }
    let packages: BTreeSet<Uuid> = packages.into_iter().map(|(package,)| package).collect();
    for_all!(tenant.tx, ORPHANS, packages, tenant.name);
    Ok(())
}

/// Searches what runs anywhere at a point in time; `None`: now.
pub async fn containing(
    tenant: &mut Tenant<'_>,
    at: Option<Timestamp>,
    name: &PackageName,
) -> Result<SearchedImages, Error> {
    let at = at.map_or(i64::MAX, Timestamp::micros);
    let names = BTreeSet::from([&name.whole, &name.name, &name.normalized]);
    let mut ranges = names.into_iter().map(|name| ids(name).into_inner());
    let [one, two, three] = [(); 3].map(|()| ranges.next().unwrap_or((Uuid::max(), Uuid::nil())));
    let rows: Vec<(Option<Bytes>, Option<Id>, i64, i64)> = rows!(
        tenant.tx,
        "CASE WHEN image IS NOT NULL THEN hex(image) END, CASE WHEN package IS NOT NULL THEN hex(package) END,
         running, with_bill",
        // Without a time, ended artifacts are not read. The bills of other digests count as their evidence does. For a name
        // without packages, and for the empty ranges of equal names, no bill is read: SQLite makes `EXISTS` the last join.
        "WITH images AS MATERIALIZED (
           SELECT fingerprint AS image FROM artifact_runs
           WHERE organization = $1 AND ended_at IS NULL AND started_at <= $2
           UNION
           SELECT fingerprint AS image FROM artifact_runs
           WHERE organization = $1 AND ended_at IS NOT NULL AND $2 < 9223372036854775807 AND ended_at > $2
             AND started_at <= $2),
         digests AS (
           SELECT image, image AS digest FROM images
           UNION ALL
           SELECT i.image, m.image_index FROM images i CROSS JOIN image_manifests m
           WHERE m.organization = $1 AND m.fingerprint = i.image AND m.is_recent
           UNION ALL
           SELECT i.image, m.fingerprint FROM images i CROSS JOIN image_manifests m
           WHERE m.organization = $1 AND m.image_index = i.image AND m.is_recent),
         billed AS MATERIALIZED (
           SELECT d.image, b.id AS bill FROM digests d CROSS JOIN latest_attestations l CROSS JOIN bills b
           WHERE l.organization = $1 AND l.fingerprint = d.digest AND l.attachment IS NOT NULL
             AND b.organization = $1 AND b.id = l.attachment)
         SELECT NULL AS image, NULL AS package, (SELECT COUNT(*) FROM images) AS running,
                (SELECT COUNT(DISTINCT image) FROM billed) AS with_bill
         UNION ALL
         SELECT b.image, p.package, 0, 0 FROM billed b CROSS JOIN bill_packages p
         WHERE (SELECT 1 FROM packages WHERE organization = $1 AND id >= $3 AND id <= $4 LIMIT 1) = 1
           AND p.organization = $1 AND p.bill = b.bill AND p.package >= $3 AND p.package <= $4
         UNION ALL
         SELECT b.image, p.package, 0, 0 FROM billed b CROSS JOIN bill_packages p
         WHERE (SELECT 1 FROM packages WHERE organization = $1 AND id >= $5 AND id <= $6 LIMIT 1) = 1
           AND p.organization = $1 AND p.bill = b.bill AND p.package >= $5 AND p.package <= $6
         UNION ALL
         SELECT b.image, p.package, 0, 0 FROM billed b CROSS JOIN bill_packages p
         WHERE (SELECT 1 FROM packages WHERE organization = $1 AND id >= $7 AND id <= $8 LIMIT 1) = 1
           AND p.organization = $1 AND p.bill = b.bill AND p.package >= $7 AND p.package <= $8",
        |query| {
            // PostgreSQL plans it for these names: a plan for any takes twice as long.
            let query = query.persistent(false).bind(tenant.name).bind(at).bind(one.0).bind(one.1);
            query.bind(two.0).bind(two.1).bind(three.0).bind(three.1)
        }
    );
    let mut searched = SearchedImages::default();
    for (image, package, running, with_bill) in rows {
        searched.running += running.unsigned_abs();
        searched.with_bill += with_bill.unsigned_abs();
        if let (Some(Bytes(image)), Some(Id(package))) = (image, package) {
            searched.packages.entry(image).or_default().insert(package);
        }
    }
    Ok(searched)
}

/// The packages among these that have a name.
pub async fn named(
    tenant: &mut Tenant<'_>,
    ids: BTreeSet<Uuid>,
    name: &PackageName,
) -> Result<Vec<StoredPackage>, Error> {
    const SELECT: &str = "
        SELECT id, purl_type, namespace, name, version, purl FROM packages WHERE organization = ? AND id IN (?)";
    let mut packages: Vec<StoredPackage> = fetch_for_all!(tenant.tx, SELECT, ids, tenant.name);
    packages.retain(|package| name.matches(package));
    Ok(packages)
}

/// All that ran at a point in time; `None`: now. With thousands of images as a parameter, PostgreSQL took several times as long.
pub async fn runs(tenant: &mut Tenant<'_>, at: Option<Timestamp>) -> Result<Vec<ImageRun>, Error> {
    // Running and ended runs have an index each.
    macro_rules! select {
        ($condition:literal) => {
            rows!(
                tenant.tx,
                "environment, hex(environment_id), last_report_at, silent_after, is_in_gap, hex(fingerprint), image, started_at",
                concat!(
                    "SELECT e.name AS environment, e.id AS environment_id, e.last_report_at, e.silent_after,
                            CASE WHEN $2 < 9223372036854775807 THEN COALESCE(
                              (SELECT g.to_at FROM gaps g
                               WHERE g.organization = e.organization AND g.environment = e.id AND g.from_at < $2
                               ORDER BY g.from_at DESC LIMIT 1) > $2, FALSE) ELSE FALSE END AS is_in_gap,
                            r.fingerprint, r.name AS image, r.started_at
                     FROM artifact_runs r CROSS JOIN environments e
                     WHERE e.organization = $1 AND e.id = r.environment AND r.organization = $1
                       AND r.started_at <= $2 AND ",
                    $condition
                ),
                |query| query.bind(tenant.name).bind(at.map_or(i64::MAX, Timestamp::micros))
            )
        };
    }
    let mut runs: Vec<ImageRun> = select!("r.ended_at IS NULL");
    if at.is_some() {
        let mut ended: Vec<ImageRun> = select!("r.ended_at IS NOT NULL AND r.ended_at > $2");
        runs.append(&mut ended);
    }
    Ok(runs)
}

/// The number of environments whose history at a point in time was removed by the retention.
pub async fn environments_without_history(tenant: &mut Tenant<'_>, at: Timestamp) -> Result<u64, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM environments WHERE organization = $1 AND horizon_at > $2";
    let count: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name, at);
    Ok(count.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_matches_by_name_and_namespace_in_any_case() {
        let package = |namespace: &str, name: &str| StoredPackage {
            id: Uuid::nil(),
            purl_type: if name.contains("typing") { "pypi".to_owned() } else { String::new() },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: String::new(),
            purl: String::new(),
        };
        for (text, namespace, name, expected) in [
            ("log4j-core", "org.apache", "log4j-core", true),
            ("Log4J-Core", "", "log4j-core", true),
            ("org.apache:log4j-core", "org.apache", "log4j-core", true),
            ("org.apache:log4j-core", "org.example", "log4j-core", false),
            ("org.apache:log4j-core", "", "log4j-core", false),
            ("@angular/core", "@angular", "core", true),
            ("github.com/acme/cart", "github.com/acme", "Cart", true),
            ("github.com/acme/cart", "", "github.com/acme/cart", true),
            ("org.apache:log4j-core", "", "org.apache:log4j-core", true),
            ("core", "@angular", "log4j-core", false),
            ("typing_extensions", "", "typing-extensions", true),
            ("Typing.Extensions", "", "typing_extensions", true),
            ("typing", "", "typing-extensions", false),
        ] {
            let is_found = PackageName::new(text).matches(&package(namespace, name));
            assert_eq!(is_found, expected, "{text}: {namespace} {name}");
        }
    }
}
