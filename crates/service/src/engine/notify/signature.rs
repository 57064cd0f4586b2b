//! The signature of a webhook's body. It proves sender and time to the receiver.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The header of the signature: `t=SECONDS,v1=HEX`, with one `v1` per secret.
pub const SIGNATURE: &str = "supercargo-signature";

/// The header of the notification's identifier.
pub const ID: &str = "supercargo-id";

/// The value of [`SIGNATURE`]: `v1` is HMAC-SHA256 (RFC 2104) of `t.id.body` under each secret, in hex.
#[must_use]
pub fn sign(secrets: &[SecretString], seconds: i64, id: &str, body: &[u8]) -> String {
    let mut value = format!("t={seconds}");
    for secret in secrets {
        value.push_str(",v1=");
        value.push_str(&hex::encode(mac(secret, seconds, id, body).finalize().into_bytes()));
    }
    value
}

/// Verifies a signature, as a receiver does. A receiver must also check that `t` is recent and that the identifier is
/// new.
#[must_use]
pub fn verify(secret: &SecretString, signature: &str, id: &str, body: &[u8]) -> bool {
    let parts = || signature.split(',').filter_map(|part| part.trim().split_once('='));
    let seconds = parts().find(|(key, _)| *key == "t").and_then(|(_, seconds)| seconds.parse().ok());
    let Some(seconds) = seconds else { return false };
    let is_valid = |digits: &str| {
        let code = hex::decode(digits).unwrap_or_default();
        mac(secret, seconds, id, body).verify_slice(&code).is_ok()
    };
    parts().any(|(key, digits)| key == "v1" && is_valid(digits))
}

fn mac(secret: &SecretString, seconds: i64, id: &str, body: &[u8]) -> Hmac<Sha256> {
    // HMAC takes a key of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
    mac.update(format!("{seconds}.{id}.").as_bytes());
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        text.to_owned().into()
    }

    #[test]
    fn signature_equals_openssl_hmac() {
        // printf '%s' '1790000000.n1.{}' | openssl dgst -sha256 -hmac whsec-0123456789abcdef
        assert_eq!(sign(&[secret("whsec-0123456789abcdef")], 1_790_000_000, "n1", b"{}"), EXPECTED);
    }

    const EXPECTED: &str = "t=1790000000,v1=04e65c7ec9c7a9dcff838ace826db2a12f47c235993a7b9a35e5a8537f8b635c";

    #[test]
    fn both_secrets_of_a_rotation_verify_and_others_do_not() {
        let (old, new) = (secret("old"), secret("new"));
        let signed = sign(&[new.clone(), old.clone()], 7, "n1", b"body");
        assert!(verify(&old, &signed, "n1", b"body") && verify(&new, &signed, "n1", b"body"));
        for (secret, signature, id, body) in [
            (secret("other"), signed.as_str(), "n1", &b"body"[..]),
            (new.clone(), &signed, "n2", b"body"),
            (new.clone(), &signed, "n1", b"bodx"),
            (new.clone(), &signed.replace("t=7", "t=8"), "n1", b"body"),
            (new.clone(), "", "n1", b"body"),
            (new.clone(), "t=7", "n1", b"body"),
            (new, "t=7,v1=", "n1", b"body"),
        ] {
            assert!(!verify(&secret, signature, id, body), "{signature} {id}");
        }
    }
}
