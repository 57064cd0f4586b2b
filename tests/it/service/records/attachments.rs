//! Downloads of attached files, with a token, from a page and by command.

use model::Fingerprint;
use reqwest::multipart::Part;
use serde_json::json;

use crate::fake::{Reply, Server};
use crate::program::supercargo;
use crate::service::support::browser::Browser;
use crate::service::support::test_service::eventually;
use crate::service::{ADMIN, ATTESTER, Database, READER, STRANGER, TestService, form};

/// A page that a browser must not render.
const CONTENT: &str = "<script>alert(1)</script>";
const UNKNOWN: &str = "0197ab00-0000-7000-8000-000000000000";

/// Attests with a file of this name, and returns the identifier.
async fn attested(service: &TestService, file: Option<&str>) -> String {
    let mut form = form(&json!({"attestation_name": "unit", "junit_results": []}));
    if let Some(name) = file {
        form = form.part("attachment_file", Part::text(CONTENT).file_name(name.to_owned()));
    }
    service.attest(ADMIN, "cart", "t", form).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    listed["data"][0]["attestation_id"].as_str().unwrap().to_owned()
}

/// Removes all files as the retention does.
async fn remove_files(service: &TestService) {
    let removed = "INSERT INTO removed_attachments (organization, sha256, size, removed_at)
                   SELECT organization, sha256, 25, 1790000000000000 FROM attachments";
    service.database.execute(removed).await;
    service.database.execute("DELETE FROM attachments").await;
}

async fn file_is_downloaded_and_never_rendered(database: Database) {
    let service = TestService::start(database).await;
    let id = attested(&service, Some("a b*+ö.html")).await;
    let (operation, page) = (format!("/attachments/acme/{id}"), format!("/api/v2/attachments/acme/{id}"));
    let mut reader = Browser::signed_in(&service, READER).await;
    for response in [service.get(READER, &operation).await, reader.get(&page).await] {
        assert_eq!((response.status.as_u16(), response.text.as_str()), (200, CONTENT));
        for (header, expected) in [
            ("content-type", "application/octet-stream"),
            ("content-disposition", "attachment; filename*=UTF-8''a%20b%2A%2B%C3%B6.html"),
            ("content-security-policy", "default-src 'none'; sandbox"),
            ("x-content-type-options", "nosniff"),
            ("repr-digest", "sha-256=:XBQNNdy0amIuLO3171zDY4zf/RwRjJMx+MhGafC3R4M=:"),
        ] {
            assert_eq!(response.headers[header], expected, "{header}");
        }
    }
    let trail = "/ui/acme/flows/cart/trails/t/attestations";
    let link = format!("<a href=\"{page}\">download</a>");
    assert!(reader.get(&format!("{trail}/{id}")).await.text.contains(&link));
    let without = attested(&service, None).await;
    for (id, message) in [(&*without, "no file is attached to the attestation"), (UNKNOWN, "not found")] {
        let missing = service.get(READER, &format!("/attachments/acme/{id}")).await.expect(404);
        assert!(missing.text.contains(message), "{missing:?}");
    }
    service.get(READER, "/attachments/acme/1").await.assert_field_error("attestation_id", "");
    service.get(STRANGER, &operation.replace("acme", "stranger")).await.expect(404);
    assert_eq!(Browser::signed_in(&service, STRANGER).await.get(&page).await.status, 403);
    assert_eq!(Browser::new(&service).get(&page).await.status, 401);
    remove_files(&service).await;
    let removed = service.get(READER, &operation).await.expect(410);
    let sha256 = Fingerprint::from_content(CONTENT.as_bytes());
    let message = format!("at 2026-09-21 14:13:20 UTC; its SHA-256 was {sha256}");
    assert!(
        removed.text.contains("retention removed the file") && removed.text.contains(&message),
        "{removed:?}"
    );
    assert!(!reader.get(&format!("{trail}/{id}")).await.text.contains(">download<"));
}

async fn command_saves_the_file_in_the_directory_only(database: Database) {
    let service = TestService::start(database).await;
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("evidence");
    let download = async |token: &str, id: &str| {
        service.program(token, &format!("download attestation {id} --output-dir {}", output.display())).await
    };
    let plain = attested(&service, Some("junit.xml")).await;
    download(READER, &plain).await.expect_result(&["saved \"", "junit.xml\", sha256:5c14"]);
    download(READER, &plain).await.expect(2, &["junit.xml\" exists: remove it"]);
    let mut names = vec!["junit.xml".to_owned()];
    for name in ["../evil", "/etc/passwd", "..", ".bashrc", "a\\b", "\u{202e}lmx.exe"] {
        let id = attested(&service, Some(name)).await;
        download(READER, &id).await.expect(0, &["is not used: expected a plain file name"]);
        names.push(id);
    }
    let nowhere = format!("download attestation {plain} --output-dir /dev/null/evidence");
    service.program(READER, &nowhere).await.expect(2, &["failed to write \"/dev/null/evidence/junit.xml\""]);
    // A link is not replaced or followed.
    let linked = attested(&service, Some("link")).await;
    std::os::unix::fs::symlink(folder.path().join("target"), output.join("link")).unwrap();
    download(READER, &linked).await.expect(2, &["link\" exists"]);
    names.push("link".to_owned());
    let mut written: Vec<_> = std::fs::read_dir(&output).unwrap().map(|file| file.unwrap()).collect();
    written.sort_by_key(std::fs::DirEntry::file_name);
    names.sort();
    assert!(
        written.iter().map(std::fs::DirEntry::file_name).eq(names.iter().map(|name| &**name)),
        "{written:?}"
    );
    for file in written.iter().filter(|file| file.file_name() != "link") {
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), CONTENT);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);

    let without = attested(&service, None).await;
    download(READER, &without).await.expect(4, &["no file is attached to the attestation"]);
    download(READER, UNKNOWN).await.expect(4, &["not found"]);
    download(ATTESTER, &plain).await.expect(3, &["requires a token with role read or admin"]);
    for id in ["", "../x", "a/b"] {
        download(READER, id).await.expect(2, &["expected the identifier of an attestation"]);
    }
    remove_files(&service).await;
    download(READER, &plain).await.expect(5, &["410 Gone", "retention removed the file"]);
}

/// A service that sends this digest with `content`.
fn download_with(digest: Option<&'static str>) -> (i32, String, usize) {
    let server = Server::start(move |_| {
        let reply = Reply::text(200, "content").with("content-disposition", "attachment; filename*=UTF-8''a");
        match digest {
            Some(digest) => reply.with("repr-digest", digest),
            None => reply,
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().to_str().unwrap();
    let outcome =
        supercargo().service(&server).args(["download", "attestation", "id", "--output-dir", output]).run();
    (outcome.code, outcome.stderr, std::fs::read_dir(folder.path()).unwrap().count())
}

#[test]
fn file_that_does_not_match_its_digest_is_not_saved() {
    let (code, stderr, files) = download_with(Some("sha-256=:7XACtDnprIRfIjV9giusFERzD722AW0+yUMil7nsn3M=:"));
    assert_eq!((code, files), (0, 1), "{stderr}");
    for digest in ["sha-256=:AAACtDnprIRfIjV9giusFERzD722AW0+yUMil7nsn3M=:", "sha-256=:x:", "md5=:7XAC:", ""]
    {
        let (code, stderr, files) = download_with(Some(digest));
        assert_eq!((code, files), (11, 0), "{digest}: {stderr}");
        assert!(stderr.contains("does not match the SHA-256"), "{stderr}");
    }
    let (code, stderr, files) = download_with(None);
    assert_eq!((code, files), (6, 0), "{stderr}");
}

async fn log_of_sqlite_is_written_back_while_the_service_runs(database: Database) {
    const SIZE: usize = 5_000_000;
    let service = TestService::start(database).await;
    let file = Part::bytes(vec![b'x'; SIZE]).file_name("unit.xml");
    let form = form(&json!({"attestation_name": "unit", "junit_results": []})).part("attachment_file", file);
    service.attest(ADMIN, "cart", "t", form).await.expect(201);
    let url = service.database.url();
    let file = url.strip_prefix("sqlite:").unwrap();
    eventually("the database file contains the attachment", async || {
        std::fs::metadata(file).unwrap().len() > SIZE as u64
    })
    .await;
}

crate::service::on_both!(file_is_downloaded_and_never_rendered);

crate::service::on_sqlite!(
    command_saves_the_file_in_the_directory_only,
    log_of_sqlite_is_written_back_while_the_service_runs,
);
