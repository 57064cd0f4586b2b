//! The bodies of requests to chats and to PagerDuty.
//!
//! Pure. Names and reasons are chosen by the authors of pods: no format shows them as a link, a mention or markup.

use serde_json::{Value, json};

use crate::engine::notify::message::Message;
use model::{Fingerprint, Trigger};
use rules::notification::EventContent;

/// Maximum number of characters of a header of Slack.
const MAX_HEADER: usize = 150;

/// Maximum number of characters of a text of Slack.
const MAX_TEXT: usize = 3_000;

/// Maximum number of characters of a text in a card of Teams.
const MAX_RUN: usize = 1_000;

/// Maximum size of a card in bytes: Teams rejects messages of 28 KB.
const MAX_CARD: usize = 24 * 1024;

/// Maximum number of characters of a summary of PagerDuty.
const MAX_SUMMARY: usize = 1_024;

/// Maximum length of a deduplication key of PagerDuty.
const MAX_KEY: usize = 255;

/// A message of Slack: blocks, and a text for notifications and for chats that ignore blocks.
pub(crate) fn slack(message: &Message<'_>) -> Value {
    let headline = message.notification.content.headline();
    let all = std::iter::once(headline.clone()).chain(message.lines());
    let text = format!("{}\n{}", code_block(all), encoded_url(message.notification.html_url));
    let plain = |text: &str, max| json!({"type": "plain_text", "text": truncate(text, max), "emoji": false});
    let section = |text: &str| json!({"type": "section", "text": plain(text, MAX_TEXT)});
    let context = |links: &[(&str, String)]| {
        let mut left = MAX_TEXT;
        let fits = |link: &String| {
            left = left.saturating_sub(link.chars().count());
            left > 0
        };
        let links = links.iter().map(|(label, url)| format!("<{}|{label}> ", slack_url(url)));
        let text: String = links.take_while(fits).collect();
        json!({"type": "context", "elements": [{"type": "mrkdwn", "verbatim": true, "text": text}]})
    };
    let mut blocks = vec![json!({"type": "header", "text": plain(&headline, MAX_HEADER)})];
    for artifact in &message.artifacts {
        blocks.push(section(&artifact.lines().join("\n")));
        blocks.push(context(&artifact.links));
    }
    blocks.push(section(&message.notes().join("\n")));
    blocks.push(context(&[("page", message.notification.html_url.to_owned())]));
    json!({"text": text, "blocks": blocks})
}

/// A message of Teams with an Adaptive Card, and as many artifacts as fit.
pub(crate) fn teams(message: &Message<'_>) -> Value {
    let mut listed = message.artifacts.len();
    loop {
        let card = card(message, listed);
        if listed == 0 || card.to_string().len() <= MAX_CARD {
            return card;
        }
        listed -= 1;
    }
}

/// A card with the first artifacts. Only text runs show text as it is: text blocks and facts have markup.
fn card(message: &Message<'_>, listed: usize) -> Value {
    let block = |runs: Vec<Value>| json!({"type": "RichTextBlock", "inlines": runs});
    let run = |text: &str| json!({"type": "TextRun", "text": truncate(text, MAX_RUN)});
    let title = json!({
        "type": "TextRun", "text": truncate(&message.notification.content.headline(), MAX_RUN), "size": "large", "weight": "bolder",
    });
    let mut body = vec![block(vec![title])];
    for artifact in message.artifacts.iter().take(listed) {
        body.extend(artifact.lines().into_iter().map(|line| block(vec![run(line)])));
        let link = |(label, url): &(&str, String)| {
            let open = json!({"type": "Action.OpenUrl", "url": url});
            [json!({"type": "TextRun", "text": label, "selectAction": open}), run(" ")]
        };
        body.push(block(artifact.links.iter().flat_map(link).collect()));
    }
    if listed < message.artifacts.len() {
        body.push(block(vec![run("further artifacts: see the page")]));
    }
    let notes = message.notes();
    body.extend(notes.iter().map(|note| block(vec![run(note)])));
    let page = json!({"type": "Action.OpenUrl", "title": "page", "url": message.notification.html_url});
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [page],
    });
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": null, "content": card,
    });
    json!({"type": "message", "attachments": [attachment]})
}

/// An event of PagerDuty's Events API v2: it opens or resolves the incident of a condition of the environment, or opens
/// one about artifacts, or about a test. `None` for other events.
pub(crate) fn pagerduty(message: &Message<'_>, routing_key: &str) -> Option<Value> {
    let id = &message.notification.id;
    let event = match message.notification.content {
        EventContent::Environment(event) => event,
        EventContent::Checkpoint(_) => return None,
        EventContent::Test(test) => {
            return Some(json!({
                "routing_key": routing_key,
                "event_action": "trigger",
                "dedup_key": format!("supercargo/{id}"),
                "payload": {
                    "summary": truncate(&message.notification.content.headline(), MAX_SUMMARY),
                    "source": test.organization,
                    "severity": "info",
                },
                "client": "supercargo",
                "client_url": message.notification.html_url,
            }));
        }
    };
    let (organization, environment) = (&event.organization, &event.environment);
    // Each event about artifacts is an incident of its own: an open one would hide the next artifact.
    let (begin, mut key) = match event.trigger.condition() {
        Some([begin, _]) => (begin, format!("supercargo/{organization}/{environment}/{begin}")),
        None if event.trigger == Trigger::NonCompliantArtifact => {
            (event.trigger, format!("supercargo/{organization}/{environment}/{id}"))
        }
        None => return None,
    };
    if key.len() > MAX_KEY {
        key = Fingerprint::from_content(key.as_bytes()).to_string();
    }
    if event.trigger != begin {
        return Some(json!({"routing_key": routing_key, "event_action": "resolve", "dedup_key": key}));
    }
    let links = message.artifacts.iter().flat_map(|artifact| &artifact.links);
    let links: Vec<_> = links.map(|(label, url)| json!({"href": url, "text": label})).collect();
    let artifacts: Vec<_> = message.artifacts.iter().map(|artifact| artifact.lines().join("; ")).collect();
    Some(json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": key,
        "payload": {
            "summary": truncate(&message.notification.content.headline(), MAX_SUMMARY),
            "source": format!("{organization}/{environment}"),
            "severity": if begin == Trigger::SilentEnvironment { "critical" } else { "error" },
            "timestamp": event.occurred_at.iso_8601(),
            "component": environment,
            "group": organization,
            "class": event.trigger,
            "custom_details": {
                "compliance": event.compliance,
                "artifacts": artifacts,
                "notes": message.notes(),
            },
        },
        "links": links,
        "client": "supercargo",
        "client_url": message.notification.html_url,
    }))
}

/// Shortens a text to this number of characters.
fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A URL in the markup of Slack, which a URL cannot leave.
fn slack_url(url: &str) -> String {
    let url = url.replace('|', "%7C").replace('<', "%3C").replace('>', "%3E");
    url.replace('&', "&amp;")
}

/// Lines in a code block, where text that a pod's author chose is no link, mention or markup.
fn code_block(lines: impl Iterator<Item = String>) -> String {
    let escaped = |line: String| {
        let line = line.replace('`', "'").replace('&', "&amp;");
        line.replace('<', "&lt;").replace('>', "&gt;")
    };
    let lines: Vec<String> = lines.map(escaped).collect();
    format!("```\n{}\n```", lines.join("\n"))
}

/// A URL with percent-encoded names, so that chats see no end of the link, mention or markup in them.
fn encoded_url(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_alphanumeric() || b"/:.-_%[]".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(["%", &hex::encode_upper([byte])]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::notify::message::ShownArtifact;
    use rules::notification::{ActionName, Notification, SCHEMA_VERSION};

    #[test]
    fn url_stays_one_link_for_all_names() {
        let address = "https://[::1]:8080/ui/acme/environments/prod_1%20<!here>|@all*~`&)";
        let expected =
            "https://[::1]:8080/ui/acme/environments/prod_1%20%3C%21here%3E%7C%40all%2A%7E%60%26%29";
        assert_eq!(encoded_url(address), expected);
    }

    #[test]
    fn links_mentions_and_markup_become_text() {
        let lines = ["<!channel> & <http://x|y>", "@here https://evil.example `*b*`"].map(str::to_owned);
        let expected =
            "```\n&lt;!channel&gt; &amp; &lt;http://x|y&gt;\n@here https://evil.example '*b*'\n```";
        assert_eq!(code_block(lines.into_iter()), expected);
    }

    #[test]
    fn payloads_keep_the_limits_of_their_receivers() {
        let name = "n".repeat(255);
        let content: EventContent = serde_json::from_value(json!({
            "trigger": "ON_NON_COMPLIANT_ENV", "occurred_at": 1, "organization": name, "environment": name,
            "snapshot_index": 1, "compliance": "NON-COMPLIANT", "cause": {"type": "TIME"}, "artifacts": [],
            "artifacts_total": 10,
        }))
        .unwrap();
        let artifact = || ShownArtifact {
            line: "<ü>".repeat(4_000),
            origin: "o".repeat(4_000),
            links: vec![("artifact", format!("https://example.com/{name}"))],
        };
        let notification = Notification {
            schema_version: SCHEMA_VERSION,
            id: String::new(),
            action: ActionName { number: 1, name: "ops" },
            html_url: "https://example.com/",
            merged_events: 0,
            content: &content,
        };
        let message =
            Message { notification, artifacts: std::iter::repeat_with(artifact).take(10).collect() };
        let (slack, teams, key) = (slack(&message), teams(&message), "k".repeat(32));
        let blocks = slack["blocks"].as_array().unwrap();
        let count = |text: &Value| text.as_str().unwrap().chars().count();
        assert_eq!((blocks.len(), count(&blocks[0]["text"]["text"])), (23, MAX_HEADER));
        assert_eq!(count(&blocks[1]["text"]["text"]), MAX_TEXT);
        assert!(teams.to_string().len() <= MAX_CARD);
        assert!(teams.to_string().contains("further artifacts"));
        let event = pagerduty(&message, &key).unwrap();
        assert!(count(&event["payload"]["summary"]) <= MAX_SUMMARY && count(&event["dedup_key"]) <= MAX_KEY);
        assert!(event.to_string().len() < 512 * 1024);
    }
}
