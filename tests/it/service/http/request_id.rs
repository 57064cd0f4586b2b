//! Request IDs: in responses, errors, error pages and log lines.

use reqwest::Method;
use reqwest::header::HeaderValue;
use uuid::Uuid;

use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::process::{Process, client};
use crate::service::{ADMIN, Database, READER, Response, TestService};

const HEADER: &str = "x-request-id";

async fn requests_get_a_new_id_unless_the_client_sends_a_safe_one(database: Database) {
    let service = TestService::start(database).await;
    let id = async |path: &str, sent: &[&str]| {
        let mut request = service.request(Method::GET, READER, path);
        for id in sent {
            request = request.header(HEADER, HeaderValue::from_bytes(id.as_bytes()).unwrap());
        }
        let response = Response::from_request(request).await;
        assert_eq!(response.headers.get_all(HEADER).iter().count(), 1, "{response:?}");
        response.headers[HEADER].to_str().unwrap().to_owned()
    };
    let longest = "x".repeat(64);
    for sent in ["build-42.7_b", &longest] {
        for path in ["/trails/acme", "/trails/stranger", "/nothing"] {
            assert_eq!(id(path, &[sent]).await, sent, "{path}");
        }
    }
    for sent in
        [&[][..], &[""], &["a b"], &["ü"], &["a=b"], &["a\tb"], &[&format!("{longest}x")], &["a", "b c"]]
    {
        let id = id("/trails/acme", sent).await;
        assert_eq!(id.parse::<Uuid>().unwrap().get_version_num(), 7, "{sent:?}: {id}");
    }
    let page = Browser::new(&service).get("/ui/sign-in").await;
    assert!(page.headers.contains_key(HEADER), "{page:?}");
}

async fn server_error_shows_its_id_which_the_log_has(database: Database) {
    let process = Process::start(&database.url());
    database.execute("DROP TABLE audit").await;
    let request = client().get(format!("{}/api/v2/audit/acme", process.base));
    let request = request.bearer_auth(ADMIN).header(HEADER, "build-42");
    let error = Response::from_request(request).await.expect(500);
    let body = r#"{"message":"internal error; see the log of the service","request_id":"build-42"}"#;
    assert_eq!((error.text.as_str(), &error.headers[HEADER]), (body, &HeaderValue::from_static("build-42")));
    for line in ["unexpected database error", " admin GET /api/v2/audit/acme 500 "] {
        let line = process.wait_for_line(line);
        assert!(line.ends_with(" request_id=build-42"), "{line}");
    }
    // A client error explains itself.
    let request = client().get(format!("{}/api/v2/audit/acme", process.base)).header(HEADER, "build-43");
    let error = Response::from_request(request).await.expect(401);
    assert!(!error.text.contains("request_id"), "{error:?}");
    assert!(process.wait_for_line(" 401 ").ends_with(" request_id=build-43"));
}

async fn page_of_a_server_error_shows_its_id(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, ADMIN).await;
    service.database.execute("DROP TABLE audit").await;
    let page = browser.get("/ui/acme/audit").await;
    assert_eq!(page.status, 500);
    let id = page.headers[HEADER].to_str().unwrap();
    assert_contains(&page.text, &["internal error", &format!("Request ID: <code>{id}</code>")]);
}

crate::service::on_sqlite!(
    requests_get_a_new_id_unless_the_client_sends_a_safe_one,
    server_error_shows_its_id_which_the_log_has,
    page_of_a_server_error_shows_its_id,
);
