//! Stores the packages of bills of materials, and finds the running images that contain them.
//!
//! A bill belongs to the content of an attachment, and an image has the bills of its latest attestations and of the other
//! digests of its image. A digest does not change, so a bill that was attested later also counts for the past. The cost of a
//! search grows with what runs, and not with the history.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sbom::{Document, Package};
use serde::Deserialize;
use sqlx::types::Uuid;

use crate::database::columns::Micros;
use crate::database::rows::{Bytes, Id, rows};
use crate::database::transaction::{
    MAX_STATEMENT_ROWS, execute, fetch_for_all, fetch_scalar, for_all, insert,
};
use crate::{Error, Transaction};
use model::{Fingerprint, Timestamp};

/// A package that some bill of materials names. The columns in the order of `named`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct StoredPackage {
    id: Id,
    /// The type of its package URL, such as `maven`; empty without one.
    pub purl_type: String,
    pub namespace: String,
    pub name: String,
    pub version: String,
    /// Its package URL; empty without one.
    pub purl: String,
}

impl StoredPackage {
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id.0
    }
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
        package.name.to_lowercase() == self.whole
            || (package.purl_type == "pypi" && search_name("pypi", &package.name) == self.normalized)
            || (!self.namespace.is_empty() && package.namespace.to_lowercase() == self.namespace)
    }
}

/// What runs at a point in time, and what is known of it.
#[derive(Debug)]
pub struct RunningImages {
    pub images: BTreeSet<Fingerprint>,
    /// The bills of materials of those that have some.
    bills: HashMap<Fingerprint, BTreeSet<Uuid>>,
}

impl RunningImages {
    /// The number of images without a bill of materials.
    #[must_use]
    pub fn without_bill(&self) -> usize {
        self.images.len() - self.bills.len()
    }
}

/// A run of an image in an environment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ImageRun {
    pub environment: String,
    pub environment_id: Uuid,
    pub last_report_at: Option<Timestamp>,
    /// `None` for the service's default.
    #[sqlx(try_from = "Micros")]
    pub silent_after: Option<Duration>,
    /// Whether the environment was not reported at the time.
    pub is_in_gap: bool,
    pub fingerprint: Fingerprint,
    pub image: String,
    pub started_at: Timestamp,
}

/// Identifies a package by its fields. None contains NUL, which PostgreSQL would reject.
fn id(package: &Package) -> Uuid {
    let Package { purl_type, namespace, name, version, purl } = package;
    let content = [purl_type, namespace, name, version, purl].map(String::as_str).join("\0");
    let hash = Fingerprint::from_content(content.as_bytes());
    Uuid::from_bytes(*hash.bytes().first_chunk().unwrap_or(&[0; 16]))
}

/// Stores the packages of an attached file, once per organization and content.
pub async fn insert(
    transaction: &mut Transaction,
    organization: &str,
    file: Fingerprint,
    document: &Document,
) -> Result<(), Error> {
    const BILL: &str = "
        INSERT INTO bills (organization, id, sha256, format) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let bill = crate::new_id();
    if execute!(transaction, BILL, organization, bill, file, &document.format) == 0 {
        return Ok(());
    }
    let packages: Vec<_> = document.packages.iter().map(|package| (id(package), package)).collect();
    insert!(
        transaction,
        "INSERT INTO packages (organization, id, search_name, purl_type, namespace, name, version, purl) ",
        " ON CONFLICT DO NOTHING",
        &packages,
        |values, (id, package)| {
            values
                .push_bind(organization)
                .push_bind(*id)
                .push_bind(search_name(&package.purl_type, &package.name));
            values.push_bind(&package.purl_type).push_bind(&package.namespace).push_bind(&package.name);
            values.push_bind(&package.version).push_bind(&package.purl);
        }
    );
    insert!(transaction, "INSERT INTO bill_packages (organization, package, bill) ", "", &packages, |values,
                                                                                                     (
        id,
        _,
    )| {
        values.push_bind(organization).push_bind(*id).push_bind(bill);
    });
    Ok(())
}

/// Removes the bills of these files, and the packages that no other bill names. The caller has locked the organization.
pub(crate) async fn remove(
    transaction: &mut Transaction,
    organization: &str,
    files: &[Fingerprint],
) -> Result<(), Error> {
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
    let bills: Vec<(Uuid,)> = fetch_for_all!(transaction, BILLS, files.iter().copied(), organization);
    let bills = || bills.iter().map(|(bill,)| *bill);
    let packages: Vec<(Uuid,)> = fetch_for_all!(transaction, PACKAGES, bills(), organization);
    for removal in REMOVALS {
        for_all!(transaction, removal, bills(), organization);
    }
    let packages: BTreeSet<Uuid> = packages.into_iter().map(|(package,)| package).collect();
    for_all!(transaction, ORPHANS, packages, organization);
    Ok(())
}

/// The packages with a name, of every version.
pub async fn named(
    transaction: &mut Transaction,
    organization: &str,
    name: &PackageName,
) -> Result<Vec<StoredPackage>, Error> {
    let mut packages: Vec<StoredPackage> = rows!(
        transaction,
        "hex(id), purl_type, namespace, name, version, purl",
        "SELECT id, purl_type, namespace, name, version, purl FROM packages
         WHERE organization = $1 AND search_name IN ($2, $3, $4)",
        |query| query.bind(organization).bind(&name.whole).bind(&name.name).bind(&name.normalized)
    );
    packages.retain(|package| name.matches(package));
    Ok(packages)
}

/// What runs anywhere at a point in time; `None`: now.
pub async fn running(
    transaction: &mut Transaction,
    organization: &str,
    at: Option<Timestamp>,
) -> Result<RunningImages, Error> {
    const BILLS: &str = "
        SELECT DISTINCT l.fingerprint, b.id
        FROM latest_attestations l CROSS JOIN attestations a CROSS JOIN bills b
        WHERE a.organization = l.organization AND a.id = l.attestation AND b.organization = l.organization
          AND b.sha256 = a.attachment AND l.organization = ? AND l.fingerprint IN (?)";
    let at = at.map_or(i64::MAX, Timestamp::micros);
    // Without a time, ended artifacts are not read.
    let images: Vec<(Bytes,)> = rows!(
        transaction,
        "hex(fingerprint)",
        "SELECT fingerprint FROM artifact_runs
         WHERE organization = $1 AND ended_at IS NULL AND started_at <= $2
         UNION
         SELECT fingerprint FROM artifact_runs
         WHERE organization = $1 AND ended_at IS NOT NULL AND $2 < 9223372036854775807 AND ended_at > $2
           AND started_at <= $2",
        |query| query.bind(organization).bind(at)
    );
    let images: BTreeSet<Fingerprint> = images.into_iter().map(|(Bytes(image),)| image).collect();
    let listed = crate::image_indexes::listed_manifests(transaction, organization, &images).await?;
    let mut attested = images.clone();
    attested.extend(crate::image_indexes::related(&listed));
    let found: Vec<(Fingerprint, Uuid)> = fetch_for_all!(transaction, BILLS, attested, organization);
    let mut of_digest: HashMap<Fingerprint, BTreeSet<Uuid>> = HashMap::new();
    for (digest, bill) in found {
        of_digest.entry(digest).or_default().insert(bill);
    }
    let mut bills: HashMap<Fingerprint, BTreeSet<Uuid>> = HashMap::new();
    let pairs = listed.iter().filter(|pair| pair.counts);
    let pairs = pairs.flat_map(|pair| [(pair.manifest, pair.index), (pair.index, pair.manifest)]);
    for (image, digest) in images.iter().map(|image| (*image, *image)).chain(pairs) {
        if let Some(of_digest) = of_digest.get(&digest).filter(|_| images.contains(&image)) {
            bills.entry(image).or_default().extend(of_digest);
        }
    }
    Ok(RunningImages { images, bills })
}

/// The packages among these that each running image contains.
pub async fn contained(
    transaction: &mut Transaction,
    organization: &str,
    running: &RunningImages,
    packages: &[Uuid],
) -> Result<BTreeMap<Fingerprint, BTreeSet<Uuid>>, Error> {
    let bills: HashSet<Uuid> = running.bills.values().flatten().copied().collect();
    let mut of_bill: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for chunk in packages.chunks(MAX_STATEMENT_ROWS) {
        let found: Vec<(Uuid, Uuid)> = fetch_for_all!(
            transaction,
            |query| {
                query.push("SELECT bill, package FROM bill_packages WHERE organization = ");
                query.push_bind(organization).push(" AND package IN (");
                let mut list = query.separated(", ");
                for package in chunk {
                    list.push_bind(*package);
                }
                query.push(") AND bill IN (");
            },
            bills.iter().copied(),
            ")"
        );
        for (bill, package) in found {
            of_bill.entry(bill).or_default().push(package);
        }
    }
    let mut contained: BTreeMap<Fingerprint, BTreeSet<Uuid>> = BTreeMap::new();
    for (image, bills) in &running.bills {
        let packages: BTreeSet<Uuid> =
            bills.iter().filter_map(|bill| of_bill.get(bill)).flatten().copied().collect();
        if !packages.is_empty() {
            contained.insert(*image, packages);
        }
    }
    Ok(contained)
}

/// Where images ran at a point in time; `None`: now.
pub async fn runs(
    transaction: &mut Transaction,
    organization: &str,
    at: Option<Timestamp>,
    images: impl Iterator<Item = Fingerprint> + Clone,
) -> Result<Vec<ImageRun>, Error> {
    // Running and ended runs have an index each.
    macro_rules! select {
        ($condition:literal) => {
            concat!(
                "SELECT e.name AS environment, e.id AS environment_id, e.last_report_at, e.silent_after,
                        COALESCE((SELECT g.to_at FROM gaps g
                                  WHERE g.organization = e.organization AND g.environment = e.id AND g.from_at < ?
                                  ORDER BY g.from_at DESC LIMIT 1) > ?, FALSE) AS is_in_gap,
                        r.fingerprint, r.name AS image, r.started_at
                 FROM artifact_runs r CROSS JOIN environments e
                 WHERE e.organization = r.organization AND e.id = r.environment AND r.started_at <= ? AND ",
                $condition,
                " AND r.organization = ? AND r.fingerprint IN (?)"
            )
        };
    }
    const RUNNING: &str = select!("r.ended_at IS NULL");
    const ENDED: &str = select!("r.ended_at IS NOT NULL AND r.ended_at > ?");
    let time = at.map_or(i64::MAX, Timestamp::micros);
    let mut runs: Vec<ImageRun> =
        fetch_for_all!(transaction, RUNNING, images.clone(), time, time, time, organization);
    if at.is_some() {
        runs.append(&mut fetch_for_all!(transaction, ENDED, images, time, time, time, time, organization));
    }
    Ok(runs)
}

/// The number of environments whose history at a point in time was removed by the retention.
pub async fn environments_without_history(
    transaction: &mut Transaction,
    organization: &str,
    at: Timestamp,
) -> Result<u64, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM environments WHERE organization = $1 AND horizon_at > $2";
    let count: i64 = fetch_scalar!(transaction, COUNT, organization, at);
    Ok(count.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_matches_by_name_and_namespace_in_any_case() {
        let package = |namespace: &str, name: &str| StoredPackage {
            id: Id(Uuid::nil()),
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
