//! Download the file of an attestation: an extension of the interface.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use url::form_urlencoded;

use super::client::Client;
use super::error::Error;
use model::Fingerprint;

/// An attached file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFile {
    /// Its name, unvalidated; `None` if it has none.
    pub name: Option<String>,
    /// Its SHA-256 as the service states it; `None` if that is unreadable.
    pub sha256: Option<Fingerprint>,
    /// The content.
    pub content: Vec<u8>,
}

impl Client {
    /// GETs the file of an attestation: `/attachments/{org}/{attestation_id}`.
    pub async fn attached_file(&self, attestation: &str) -> Result<AttachedFile, Error> {
        let request = self.request(Method::GET, &["attachments", attestation]);
        let (disposition, digest, content) = self.download(request).await?;
        // RFC 8187. The encoded name has no `=` and `&`.
        let name = disposition.split_once("filename*=UTF-8''").map(|(_, name)| name);
        let decode = |name: &str| Some(form_urlencoded::parse(name.as_bytes()).next()?.0.into_owned());
        let sha256 = || {
            let encoded = digest.strip_prefix("sha-256=:")?.strip_suffix(':')?;
            let bytes: [u8; 32] = STANDARD.decode(encoded).ok()?.try_into().ok()?;
            Some(Fingerprint::from(bytes))
        };
        Ok(AttachedFile { name: name.and_then(decode), sha256: sha256(), content })
    }
}
