//! The form that approves an artifact, on its page.

use reqwest::header::LOCATION;

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains, main_element};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, APPROVER, Database, READER, STRANGER, TestService, digest, pod};

const FORM: &str = "<form class=\"filter\" method=\"post\"";

const WITHDRAW: &str = "<form class=\"withdraw\" method=\"post\"";

fn path() -> String {
    format!("/ui/acme/artifacts/{}", digest('a'))
}

fn declared(generation: i64, approver: &str) -> String {
    let more = format!(
        "      - {approver}
    environments: [{{name: prod, policy: {{approval: true}}}}, {{name: stage, policy: {{approval: true}}}}]
    flows: [{{name: cart}}, {{name: web}}]"
    );
    // Instead of the approver of other tests.
    bootstrap(generation, &more).replacen(
        &format!(
            "      - {{name: kim, role: approve, environments: [prod], flows: [cart], file: {APPROVER}}}\n"
        ),
        "",
        1,
    )
}

const KIM: &str = "name: kim, role: approve, environments: [prod], flows: [cart], file: ";

/// A service whose environment `prod` runs the artifact.
async fn start(database: Database) -> TestService {
    let options = Options { bootstrap: declared(1, &format!("{{{KIM}{APPROVER}}}")), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'a')])).await.expect(201);
    service
}

async fn approver_approves_an_artifact_on_its_page(database: Database) {
    let service = start(database).await;
    let mut kim = Browser::signed_in(&service, APPROVER).await;
    let page = kim.get(&path()).await;
    assert_contains(&page.text, &["Approve this artifact", FORM, "not approved"]);
    // The scope of the token has one flow and one environment, which are filled in.
    let fields = [
        "name=\"flow\" list=\"flow-names\" value=\"cart\"",
        "name=\"environment\" required><option value=\"prod\">prod</option></select>",
    ];
    assert_contains(&page.text, &fields);
    assert!(!page.text.contains("value=\"stage\"") && !page.text.contains("value=\"web\""), "{}", page.text);
    let fields = [("flow", "cart"), ("environment", "prod"), ("comment", "load test\r\npassed ")];
    let sent = kim.post(&path(), &service.base, &fields).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let target = sent.headers[LOCATION].to_str().unwrap().to_owned();
    assert_eq!(target, format!("{}?flow=cart&approved=1", path()));
    let page = kim.get(&target).await;
    assert_eq!(page.status, 200);
    assert_contains(
        &page.text,
        &[
            "<p class=\"notice\" role=\"status\">Approved <bdi>cart:2</bdi> for <bdi>prod</bdi>: approval 1 of flow \
             <bdi>cart</bdi>, by <bdi>kim</bdi>",
            "<bdi>load test</bdi><br><bdi>passed</bdi>",
            "<td><bdi>kim</bdi></td>",
        ],
    );
    assert!(main_element(&page).contains(">compliant<"), "{}", page.text);
    // Sent again, for example after a reload, it is the same approval.
    let again = kim.post(&path(), &service.base, &fields).await;
    assert_eq!(again.headers[LOCATION], target);
    // A reader sees the approval, but no form; a page without this approval confirms nothing.
    let mut reader = Browser::signed_in(&service, READER).await;
    let page = reader.get(&path()).await.text;
    assert!(page.contains("load test") && !page.contains(FORM) && !page.contains("notice"), "{page}");
    assert!(!page.contains(WITHDRAW), "{page}");
    assert!(!reader.get(&format!("{}?flow=web&approved=1", path())).await.text.contains("notice"));
    assert_eq!(reader.get(&format!("{}?approved=x", path())).await.status, 400);
    // After its withdrawal, the page says so.
    assert_contains(&kim.get(&path()).await.text, &[WITHDRAW]);
    let fields = [("flow", "cart"), ("withdraw", "1"), ("comment", "broken")];
    assert_eq!(reader.post(&path(), &service.base, &fields).await.status, 403);
    assert_eq!(kim.post(&path(), "https://evil.example.com", &fields).await.status, 403);
    for (number, status, message) in
        [("2", 400, "approval 2 of flow"), ("x", 400, "expected an integer from 1")]
    {
        let fields = [("flow", "cart"), ("withdraw", number), ("comment", "")];
        let refused = kim.post(&path(), &service.base, &fields).await;
        assert_eq!(refused.status, status);
        assert_contains(&refused.text, &[message]);
    }
    let withdrawn = kim.post(&path(), &service.base, &fields).await;
    assert_eq!(
        (withdrawn.status.as_u16(), withdrawn.headers[LOCATION].to_str().unwrap()),
        (303, path().as_str())
    );
    let page = kim.get(&target).await.text;
    assert!(!page.contains(WITHDRAW), "{page}");
    assert_contains(&page, &[">withdrawn<", "withdrawn by <bdi>kim</bdi>", "<bdi>broken</bdi>", "load test"]);
    assert!(!page.contains("notice"), "{page}");
}

async fn approval_form_is_checked_like_an_operation(database: Database) {
    let service = start(database).await;
    let fields = |flow, environment| [("flow", flow), ("environment", environment), ("comment", "")];
    let valid = fields("cart", "prod");
    // Another site, no session, another organization, another role.
    let mut kim = Browser::signed_in(&service, APPROVER).await;
    let foreign = kim.post(&path(), "https://evil.example.com", &valid).await;
    assert_eq!(foreign.status, 403);
    assert!(foreign.text.contains("not sent by a page of this service"), "{foreign:?}");
    let anonymous = Browser::new(&service).post(&path(), &service.base, &valid).await;
    assert_eq!(anonymous.status, 303);
    assert_eq!(
        anonymous.headers[LOCATION],
        format!("/ui/sign-in?next=%2Fui%2Facme%2Fartifacts%2F{}", digest('a'))
    );
    let stranger = Browser::signed_in(&service, STRANGER).await.post(&path(), &service.base, &valid).await;
    assert_eq!(stranger.status, 404);
    let reader = Browser::signed_in(&service, READER).await.post(&path(), &service.base, &valid).await;
    assert_eq!(reader.status, 403);
    assert_contains(&reader.text, &["<h1>", "requires a token with role approve or admin, got role read"]);
    let long = "x".repeat(70_000);
    for (fields, status, message) in [
        (fields("web", "prod"), 403, "does not list this flow"),
        (fields("cart", "stage"), 403, "does not list this environment"),
        (fields("", "prod"), 400, "flow"),
        (fields("cart", ""), 400, "environment"),
        (fields("a b", "prod"), 400, "letter or digit"),
        (fields("cart", "a/b"), 400, "environment"),
        ([("flow", "cart"), ("environment", "prod"), ("comment", "a\0b")], 400, "without a NUL character"),
        (
            [("flow", "cart"), ("environment", "prod"), ("comment", &long)],
            400,
            "expected at most 65536 bytes",
        ),
    ] {
        let refused = kim.post(&path(), &service.base, &fields).await;
        assert_eq!(refused.status, status, "{fields:?}: {refused:?}");
        assert_contains(&refused.text, &["<!DOCTYPE html>", message]);
    }
    let huge = "x".repeat(300_000);
    let huge = [("flow", "cart"), ("environment", "prod"), ("comment", huge.as_str())];
    assert_eq!(kim.post(&path(), &service.base, &huge).await.status, 413);
    // An admin may approve everywhere; unknown names are explained.
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    for (fields, message) in [
        (fields("none", "prod"), "flow none not found"),
        (fields("cart", "none"), "environment none not found"),
    ] {
        let refused = admin.post(&path(), &service.base, &fields).await;
        assert_eq!(refused.status, 400);
        assert_contains(&refused.text, &[message]);
    }
    assert_eq!(admin.post("/ui/acme/artifacts/x", &service.base, &valid).await.status, 404);
    assert_eq!(service.database.rows("SELECT state FROM approvals").await, Vec::<String>::new());
    // The role of the session is that of its token now.
    service.reload(&declared(2, &format!("{{name: kim, role: read, file: {APPROVER}}}"))).await;
    let mut kim = Browser::signed_in(&service, APPROVER).await;
    assert!(!kim.get(&path()).await.text.contains(FORM));
    assert_eq!(kim.post(&path(), &service.base, &valid).await.status, 403);
}

async fn form_suggests_what_the_token_may_approve(database: Database) {
    let service = start(database).await;
    let page = Browser::signed_in(&service, ADMIN).await.get(&path()).await.text;
    let suggested = ["prod", "stage", "cart", "web"].map(|name| format!("<option value=\"{name}\">"));
    assert_contains(&page, &suggested.each_ref().map(String::as_str));
    // Several suggestions: nothing is filled in.
    assert_contains(
        &page,
        &["list=\"flow-names\" value=\"\"", "required><option value=\"\">choose</option>"],
    );
    // A token whose scope contains nothing that exists gets no form.
    let other =
        format!("{{name: kim, role: approve, environments: [later], flows: ['*'], file: {APPROVER}}}");
    service.reload(&declared(2, &other)).await;
    assert!(!Browser::signed_in(&service, APPROVER).await.get(&path()).await.text.contains(FORM));
}

crate::service::on_both!(approver_approves_an_artifact_on_its_page);

crate::service::on_sqlite!(
    approval_form_is_checked_like_an_operation,
    form_suggests_what_the_token_may_approve
);
