//! Policy files, and the evaluation of their rules.

use super::assert_printable;
use model::{Fingerprint, Timestamp};
use rules::policy::facts::{Evidence, Facts, FlowEvidence};
use rules::policy::{InvalidPolicy, Policy, PolicyVersion};

/// A policy file.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let name = PolicyVersion { name: "rules".to_owned(), version: 1 };
    let policy = match Policy::parse(name, text) {
        Ok(policy) => policy,
        Err(error) => {
            let message = error.to_string();
            assert_printable(&message);
            if let InvalidPolicy::Yaml { key, .. } | InvalidPolicy::Value { key, .. } = error {
                assert!(!key.is_empty(), "{message}");
            }
            return;
        }
    };
    let environment = "prod".parse().expect("a valid name");
    let (fingerprint, namespaces) = (Fingerprint::from_content(bytes), ["pay".to_owned(), "shop".to_owned()]);
    let mut held = Evidence::default();
    held.flows.insert("cart".to_owned(), FlowEvidence::default());
    for evidence in [Evidence::default(), held] {
        let facts = Facts {
            environment: Some(&environment),
            name: "registry.example.com/shop/cart:1",
            fingerprint: &fingerprint,
            namespaces: &namespaces,
            evidence: &evidence,
        };
        let evaluated = policy.evaluate(&facts, Timestamp::EPOCH);
        assert_eq!(evaluated.rules.len(), policy.rules.len());
        assert_eq!(evaluated.is_fulfilled(), evaluated.reasons().next().is_none());
    }
}
