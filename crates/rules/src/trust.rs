//! Whose signatures an organization trusts, and the patterns of signers, builders and sources.
//!
//! The bootstrap file declares the first, policies use the second. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ownership::Pattern;
use model::{SignedEvidence, checked_text};

checked_text! {
    /// An identity, builder or repository in which `*` stands for characters of one segment, or at the end for any. It never
    /// stands for an owner.
    OwnerPattern, InvalidOwnerPattern, owner_pattern
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid pattern: expected 1 to 255 bytes without spaces, with * only after the owner as in https://github.com/acme/*, or \
     as the name in *@example.com"
)]
pub struct InvalidOwnerPattern;

fn owner_pattern(text: String) -> Result<String, InvalidOwnerPattern> {
    if Pattern::new(text.as_str()).is_err() {
        return Err(InvalidOwnerPattern);
    }
    let Some((fixed, rest)) = text.split_once('*') else { return Ok(text) };
    let names_owner = if let Some((_, path)) = fixed.split_once("://") {
        let segments: Vec<_> = path.split('/').collect();
        matches!(segments.as_slice(), [host, owner, _, ..] if !host.is_empty() && !owner.is_empty())
    } else {
        let domain = rest.strip_prefix('@').filter(|_| fixed.is_empty());
        domain.is_some_and(|domain| domain.contains('.') && !domain.contains(['*', '@', '/']))
    };
    if names_owner { Ok(text) } else { Err(InvalidOwnerPattern) }
}

impl OwnerPattern {
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let pattern = self.0.as_str();
        let number = pattern.split('/').count();
        let parts: Vec<&str> = if pattern.ends_with('*') {
            text.splitn(number, '/').collect()
        } else {
            text.split('/').collect()
        };
        let segment = |(pattern, part): (&str, &&str)| {
            Pattern::new(pattern).map_or(pattern == *part, |pattern| pattern.matches(part))
        };
        !leaves_its_path(text) && parts.len() == number && pattern.split('/').zip(&parts).all(segment)
    }
}

/// Whether a reader of the URL may resolve it to another path, as of another owner.
fn leaves_its_path(text: &str) -> bool {
    let path = text.to_ascii_lowercase().replace("%2e", ".");
    let path = path.replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Signers that an organization trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    pub name: String,
    /// A trusted root of Sigstore in JSON. `None`: that of the public instance for identities; keys then need no log.
    pub root: Option<String>,
    /// Public keys in PEM.
    pub keys: Vec<String>,
    pub identities: Vec<Identity>,
}

/// The identity in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// URL of the issuer of its identity tokens.
    pub issuer: String,
    /// Email address, or URL of a workflow. * stands for characters of one segment or, at the end, for any, but never for the
    /// owner.
    #[cfg_attr(feature = "openapi", schemars(with = "String"))]
    pub subject: OwnerPattern,
}

impl Trust {
    /// Whether a certificate with this identity is one of a signer.
    #[must_use]
    pub fn allows(&self, issuer: &str, subject: &str) -> bool {
        self.identities.iter().any(|identity| identity.issuer == issuer && identity.subject.matches(subject))
    }
}

/// For the audit log.
impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identities =
            self.identities.iter().map(|Identity { issuer, subject }| format!("{subject} of {issuer}"));
        let signers = match self.keys.len() {
            0 => None,
            1 => Some("1 key".to_owned()),
            number => Some(format!("{number} keys")),
        };
        let signers: Vec<_> = identities.chain(signers).collect();
        let root = match &self.root {
            Some(_) => ", with a root from a file",
            None => "",
        };
        write!(f, "trust \"{}\" ({}{root})", self.name, signers.join("; "))
    }
}

/// The signer that a policy requires. Each given field must match.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SignerRule {
    /// Name of an entry of trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// URL of the issuer of its identity tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Email address, or URL of a workflow, with * as in trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub subject: Option<OwnerPattern>,
}

impl SignerRule {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { trust, issuer, subject } = self;
        trust.is_none() && issuer.is_none() && subject.is_none()
    }

    #[must_use]
    pub fn matches(&self, evidence: &SignedEvidence) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let subject = evidence.subject.as_deref();
        is(&self.trust, Some(&evidence.trust))
            && is(&self.issuer, evidence.issuer.as_deref())
            && self
                .subject
                .as_ref()
                .is_none_or(|wanted| subject.is_some_and(|subject| wanted.matches(subject)))
    }
}

/// `https://github.com/acme/* of https://token.actions.githubusercontent.com`.
impl fmt::Display for SignerRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trust, issuer, subject } = self;
        let subject = subject.as_ref().map(|subject| format!("{subject}"));
        let parts = [
            subject,
            issuer.as_ref().map(|issuer| format!("of {issuer}")),
            trust.as_ref().map(|trust| format!("trusted by {trust}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisk_of_an_owner_pattern_does_not_leave_the_owner_or_the_segment() {
        let release = "https://github.com/acme/*/.github/workflows/release.yml@refs/heads/main";
        let workflow = "https://github.com/acme/cart/.github/workflows/release.yml@refs/heads/main";
        for (pattern, text, expected) in [
            ("https://github.com/acme/*", workflow, true),
            ("https://github.com/acme/*", "https://github.com/acme/", true),
            ("https://github.com/acme/*", "https://github.com/acme", false),
            ("https://github.com/acme/*", "https://github.com/acme-evil/cart", false),
            ("https://github.com/acme/*", "https://github.com/Acme/cart", false),
            ("https://github.com/acme/*", "http://github.com/acme/cart", false),
            ("https://github.com/acme/*", "https://github.com.evil/acme/cart", false),
            ("https://github.com/acme/*", "https://github.com/acme/../evil/cart", false),
            ("https://github.com/acme/*", "https://github.com/acme/./cart", false),
            ("https://github.com/acme/*", "https://github.com/acme/%2E./evil/cart", false),
            ("https://github.com/acme/*", "https://github.com/acme/..%2fevil/cart", false),
            ("https://github.com/acme/*", r"https://github.com/acme/..\evil/cart", false),
            ("https://github.com/acme/*", "https://github.com/acme/cart/w.yml@refs/heads/v1..2", true),
            ("https://github.com/acme/*", "https://evil.example/https://github.com/acme/cart", false),
            ("https://github.com/acme/*", "https://github.com/%61cme/cart", false),
            ("https://github.com/acme/*", "https://github.com/acme\u{2215}evil/cart", false),
            ("https://github.com/acme/*", "https://github.com/\u{430}cme/cart", false),
            ("https://github.com/acme/*", "https://github.com//acme/cart", false),
            ("https://github.com/acme/*", "https://github.com@evil.example/acme/cart", false),
            ("https://github.com/acme/cart", "https://github.com/acme/cart/", false),
            ("https://github.com/acme/c.rt", "https://github.com/acme/cart", false),
            ("https://github.com/acme/(cart|x)", "https://github.com/acme/cart", false),
            (
                "https://github.com/acme/*/w.yml@refs/tags/*",
                "https://github.com/acme/cart/w.yml@refs/heads/refs/tags/v1",
                false,
            ),
            (
                "https://github.com/acme/*/w.yml@refs/tags/*",
                "https://github.com/acme/cart/x/w.yml@refs/tags/v1",
                false,
            ),
            (workflow, workflow, true),
            (workflow, "https://github.com/acme/cart", false),
            (release, workflow, true),
            // A branch may have such a name.
            (
                release,
                "https://github.com/acme/cart/.github/workflows/evil.yml@refs/heads/x/.github/workflows/release.yml@refs/heads/main",
                false,
            ),
            ("https://github.com/acme/lib-*", "https://github.com/acme/lib-x/y", true),
            ("https://github.com/acme/lib-*", "https://github.com/acme/cart/lib-x", false),
            ("*@example.com", "kim@example.com", true),
            ("*@example.com", "kim@example.com.evil", false),
            ("*@example.com", "kim@evilexample.com", false),
            ("*@example.com", "x/kim@example.com", false),
        ] {
            let parsed: OwnerPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(text), expected, "{pattern} {text}");
        }
        for invalid in [
            "",
            "*",
            "https://*",
            "https://github.com/*",
            "https://github.com/acme*",
            "https://github.com//*",
            "https:///acme/*",
            "https://*.com/acme/x",
            "kim@*",
            "*@*.com",
            "*@com",
            "k*@example.com",
            "repo:acme/*",
            "*/acme/cart",
            "a b",
        ] {
            assert_eq!(invalid.parse::<OwnerPattern>(), Err(InvalidOwnerPattern), "{invalid}");
        }
    }

    #[test]
    fn signer_must_match_each_field_of_its_rule() {
        let evidence = SignedEvidence {
            trust: "github".to_owned(),
            issuer: Some("https://i".to_owned()),
            subject: Some("https://h/acme/cart".to_owned()),
            key: None,
            predicate_type: None,
            builder: None,
            source: None,
            commit: None,
            signed_at: None,
        };
        let key =
            SignedEvidence { issuer: None, subject: None, trust: "release".to_owned(), ..evidence.clone() };
        for (rule, of_certificate, of_key) in [
            (r#"{"trust": "github"}"#, true, false),
            (r#"{"trust": "release"}"#, false, true),
            (r#"{"issuer": "https://i"}"#, true, false),
            (r#"{"issuer": "https://i", "subject": "https://h/acme/*"}"#, true, false),
            (r#"{"issuer": "https://j", "subject": "https://h/acme/*"}"#, false, false),
            (r#"{"trust": "release", "subject": "https://h/acme/*"}"#, false, false),
        ] {
            let parsed: SignerRule = serde_json::from_str(rule).unwrap();
            assert_eq!([parsed.matches(&evidence), parsed.matches(&key)], [of_certificate, of_key], "{rule}");
        }
    }
}
