//! Tokens of an issuer beside static tokens: the same request with each.

use std::time::SystemTime;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tempfile::TempDir;

use super::budgets::Budget;
use super::database::Database;
use super::server::{Organization, Server, get};

const ORGANIZATION: &str = "identity";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const SAMPLES: usize = 4_000;

/// An issuer whose keys are in a file, as those of a cluster.
pub(super) struct Issuer {
    key: RsaKeyPair,
    folder: TempDir,
}

impl Issuer {
    pub(super) fn new() -> Self {
        let (key, folder) = (RsaKeyPair::generate(KeySize::Rsa2048).unwrap(), tempfile::tempdir().unwrap());
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
        let jwk = json!({"kty": "RSA", "alg": "RS256", "kid": "k", "n": encode(n), "e": encode(e)});
        std::fs::write(folder.path().join("jwks.json"), json!({"keys": [jwk]}).to_string()).unwrap();
        Self { key, folder }
    }

    pub(super) fn organization(&self) -> Organization {
        let file = self.folder.path().join("jwks.json");
        let settings = format!(
            "    issuers: [{{name: cluster, issuer: '{ISSUER}', audience: supercargo, jwks: {{file: '{}'}},
               rules: [{{claims: {{sub: 'system:*'}}, role: read}}]}}]\n",
            file.display()
        );
        Organization::new(ORGANIZATION, settings)
    }

    /// A token as an API server signs it.
    fn token(&self) -> String {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let claims = json!({
            "iss": ISSUER, "sub": "system:serviceaccount:supercargo:supercargo", "aud": ["supercargo"],
            "exp": now + 3_600, "iat": now, "nbf": now, "jti": "0b3b6ab6-6d4c-4a3c-9f1b-5d8b4f6f0e57",
            "kubernetes.io": {"namespace": "supercargo", "pod": {"name": "supercargo-7d5b9c6f4-x2x9p"}},
        });
        let text = format!("{}.{}", encode(r#"{"alg":"RS256","kid":"k"}"#), encode(claims.to_string()));
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
        format!("{text}.{}", encode(signature))
    }

    /// Measures the additional CPU time of a request with a token of the issuer.
    pub(super) fn measure(&self, database: &Database, server: &Server) {
        let path = format!("/api/v2/trails/{ORGANIZATION}");
        let fixed = server.get(ORGANIZATION, &path, SAMPLES);
        fixed.print("trails, static token", "");
        let header = format!("Authorization: Bearer {}", self.token());
        let signed = server.measure(&get(&path, &header), SAMPLES);
        let (budget, more) = (Budget::find("serve.identity"), signed.cpu - fixed.cpu);
        signed.print("trails, token of an issuer", &format!("{more:.3} more; {}", budget.describe(more)));
        if database.is_sqlite() {
            budget.record(more, &format!("{:.2} ms CPU with a static token", fixed.cpu));
        }
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
