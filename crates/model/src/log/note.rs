//! Signed notes (C2SP, signed-note): a text, an empty line, and signature lines. `runtime::signing` signs and verifies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Fingerprint;
use crate::escape::Escaped;

/// The start of a signature line: an em dash and a space.
const PREFIX: &str = "\u{2014} ";

/// Maximum number of signatures; the specification requires at least 16.
const MAX_SIGNATURES: usize = 100;

/// A public key, as its identifier is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// Ed25519: the 32 bytes of RFC 8032.
    Ed25519([u8; 32]),
    /// ECDSA on P-256: the DER of its `SubjectPublicKeyInfo`.
    EcdsaP256(Vec<u8>),
}

/// A text with its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The signed text, with its final newline.
    pub text: String,
    pub signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub key_id: [u8; 4],
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid signature line \"{}\": expected \"\u{2014} NAME BASE64\"", Escaped(.0))]
pub struct InvalidNote(String);

impl PublicKey {
    /// The identifier of the key under a name.
    #[must_use]
    pub fn id(&self, name: &str) -> [u8; 4] {
        let hash = match self {
            Self::Ed25519(key) => {
                // The byte is the type of the signature.
                Fingerprint::from_content(&[name.as_bytes(), b"\n\x01", key].concat())
            }
            Self::EcdsaP256(key) => Fingerprint::from_content(key),
        };
        let [a, b, c, d, ..] = *hash.bytes();
        [a, b, c, d]
    }
}

impl Note {
    /// Splits a note into its text and its signatures. Accepts a text without signatures.
    ///
    /// # Errors
    ///
    /// [`InvalidNote`] for a line after the last empty line that is not a signature.
    pub fn parse(note: &str) -> Result<Self, InvalidNote> {
        let Some((text, signatures)) = note.rsplit_once("\n\n") else {
            return Ok(Self { text: note.to_owned(), signatures: Vec::new() });
        };
        let signatures = signatures.lines().take(MAX_SIGNATURES).map(Signature::parse);
        Ok(Self { text: format!("{text}\n"), signatures: signatures.collect::<Result<_, _>>()? })
    }

    #[must_use]
    pub fn format(&self) -> String {
        let mut note = self.text.clone();
        if !self.signatures.is_empty() {
            note.push('\n');
        }
        for Signature { name, key_id, bytes } in &self.signatures {
            let signature = STANDARD.encode([key_id.as_slice(), bytes].concat());
            note.extend([PREFIX, name, " ", &signature, "\n"]);
        }
        note
    }

    /// The signatures by a key. A key is known under any name: the identifier contains the name.
    pub fn signatures_by<'a>(&'a self, key: &'a PublicKey) -> impl Iterator<Item = &'a Signature> {
        self.signatures.iter().filter(|signature| key.id(&signature.name) == signature.key_id)
    }
}

impl Signature {
    fn parse(line: &str) -> Result<Self, InvalidNote> {
        let parsed = || {
            let (name, signature) = line.strip_prefix(PREFIX)?.split_once(' ')?;
            let is_name = !name.is_empty() && !name.contains('+') && !name.contains(char::is_whitespace);
            let signature = STANDARD.decode(signature).ok()?;
            let (key_id, bytes) = signature.split_first_chunk::<4>()?;
            let (name, bytes) = (name.to_owned(), bytes.to_vec());
            is_name.then_some(Self { name, key_id: *key_id, bytes })
        };
        parsed().ok_or_else(|| InvalidNote(line.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of checkpoints.
    const EXAMPLE: &str = "example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
";

    #[test]
    fn published_note_is_parsed_and_formatted() {
        let note = Note::parse(EXAMPLE).unwrap();
        assert!(note.text.ends_with("q2I=\n") && !note.text.contains("\n\n"));
        let [signature] = note.signatures.as_slice() else { panic!("{note:?}") };
        assert_eq!(signature.name, "example.com/behind-the-sofa");
        assert_eq!((signature.key_id, signature.bytes.len()), ([0x03, 0x3d, 0xe0, 0xae], 64));
        assert_eq!(note.format(), EXAMPLE);
    }

    /// The verifier key `PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW` of Go's package
    /// golang.org/x/mod/sumdb/note.
    #[test]
    fn key_identifier_is_that_of_another_implementation() {
        let key = STANDARD.decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW").unwrap();
        let key = PublicKey::Ed25519(key[1..].try_into().unwrap());
        assert_eq!(key.id("PeterNeumann"), [0xc7, 0x4f, 0x20, 0xa3]);
        assert_ne!(key.id("Peter"), key.id("PeterNeumann"));
    }

    #[test]
    fn text_may_contain_empty_lines_and_no_signature() {
        let note = Note::parse("one\n\ntwo\n\n\u{2014} a AAAAAAAA\n").unwrap();
        assert_eq!((note.text.as_str(), note.signatures.len()), ("one\n\ntwo\n", 1));
        let unsigned = Note::parse("one\n").unwrap();
        assert_eq!((unsigned.text.as_str(), unsigned.signatures.len()), ("one\n", 0));
    }

    #[test]
    fn other_signature_lines_are_rejected() {
        for line in [
            "- a AAAAAAAA",
            "\u{2014} a+b AAAAAAAA",
            "\u{2014} AAAAAAAA",
            "\u{2014} a AAA",
            "\u{2014} a AAA=",
            "",
        ] {
            assert!(Note::parse(&format!("one\n\n{line}\nx")).is_err(), "{line:?}");
        }
    }
}
