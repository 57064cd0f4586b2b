//! ID tokens of an OIDC provider: `auth-provider: oidc` of a kubeconfig, as client-go's `plugin/pkg/client/auth/oidc`.
//!
//! kube's feature for it needs an ID token and a client secret, and trusts only the system's certificate authorities.
//!
//! A provider may replace the refresh token with each use. Then it is replaced in the kubeconfig as well, or kubectl and
//! the next start could not use it. If the kubeconfig cannot be written, the tokens stay in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use tokio::runtime::Handle;
use tokio::time::timeout;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::IssueError;
use super::issue::Issue;
use crate::cluster::kubeconfig::pem::decode_base64;
use crate::cluster::kubeconfig::secrets::without_userinfo;
use crate::cluster::kubeconfig::{self, AuthProvider, KubeconfigError, Replacement};
use crate::cluster::proxy;
use crate::cluster::tls::Verifier;
use crate::cluster::transport::{HttpClient, client_of};
use runtime::error_causes;
use runtime::files::{Existing, Readers, write_atomically};
use runtime::loopback::is_loopback;
use runtime::token_file::Token;

/// An ID token is replaced this long before it expires, since clocks differ.
const EARLY: Duration = Duration::from_secs(10);

/// Timeout of each of the requests to the provider.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

pub(in crate::cluster) struct Oidc {
    issuer: Uri,
    client_id: String,
    client_secret: SecretString,
    client: HttpClient<Full<Bytes>>,
    file: PathBuf,
    tokens: Mutex<Tokens>,
    runtime: Handle,
}

struct Tokens {
    /// The ID token of the kubeconfig, until it was used.
    unused: Option<SecretString>,
    id: Option<SecretString>,
    refresh: Option<SecretString>,
}

/// There is no ID token. The messages quote no token and no response, which may contain one.
#[derive(Debug, thiserror::Error)]
pub(in crate::cluster) enum OidcError {
    #[error("its id-token is not a JWT with a valid expiry")]
    NoJwt,
    #[error("its id-token is expired or rejected, and there is no refresh-token")]
    NoRefreshToken,
    #[error("failed to reach the OIDC provider at {0}")]
    Unreachable(Uri, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the OIDC provider did not respond within {TIMEOUT:?}: {0}")]
    TimedOut(Uri),
    #[error("the OIDC provider rejected the refresh-token or the client: {0}")]
    Rejected(StatusCode),
    #[error("the OIDC provider has no usable {0}: {1}")]
    NoMetadata(&'static str, StatusCode),
    #[error("the OIDC provider returned no id_token; does the refresh-token have the scope openid?")]
    NoIdToken,
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Refreshed {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

/// How the client authenticates (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientAuthentication {
    Header,
    Form,
}

impl Oidc {
    /// The provider of a user of this kubeconfig.
    pub(in crate::cluster) fn new(provider: &AuthProvider, file: &Path) -> Result<Self, KubeconfigError> {
        let invalid = |problem: &str| KubeconfigError::AuthProvider(problem.to_owned());
        let get = |key: &str| provider.config.get(key).and_then(|value| value.get());
        let secret = |key: &str| get(key).map(SecretString::from);
        let issuer = get("idp-issuer-url").and_then(|url| url.parse::<Url>().ok());
        let is_safe = |url: &Url| url.scheme() == "https" || url.scheme() == "http" && is_loopback(url);
        let issuer = issuer.filter(is_safe).and_then(|url| url.as_str().parse().ok()).map(without_userinfo);
        let issuer = issuer.ok_or_else(|| invalid("idp-issuer-url: expected an https URL"))?;
        let client_id = get("client-id").ok_or_else(|| invalid("client-id: expected a value"))?;
        let authorities = match (get("idp-certificate-authority-data"), get("idp-certificate-authority")) {
            (Some(data), _) => {
                let no_base64 = || invalid("idp-certificate-authority-data: expected base64");
                Some(decode_base64(data).ok_or_else(no_base64)?)
            }
            (None, Some(path)) => {
                let unreadable = |error| KubeconfigError::Unreadable(path.into(), error);
                Some(std::fs::read(path).map_err(unreadable)?)
            }
            (None, None) => None,
        };
        let no_authority = |_| invalid("idp-certificate-authority: expected certificates in PEM");
        let authorities = authorities.map(|pem| Verifier::new(&pem)).transpose().map_err(no_authority)?;
        let proxy = proxy::from_environment(&issuer, |name| std::env::var(name).ok());
        let proxy = proxy.map_err(|error| KubeconfigError::Invalid(format!("HTTPS_PROXY: {error}")))?;
        let client = client_of(&issuer, authorities, proxy.as_ref());
        let client = client.map_err(|error| KubeconfigError::AuthProvider(error_causes::describe(&error)))?;
        Ok(Self {
            issuer,
            client_id: client_id.to_owned(),
            client_secret: secret("client-secret").unwrap_or_default(),
            client,
            file: file.to_owned(),
            tokens: Mutex::new(Tokens {
                unused: secret("id-token"),
                id: secret("id-token"),
                refresh: secret("refresh-token"),
            }),
            runtime: Handle::current(),
        })
    }

    /// The ID token of the kubeconfig if it is valid, and a new one from then on. Blocks.
    pub(in crate::cluster) fn issue(&self) -> Result<Issue, IssueError> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = tokens.unused.take() {
            let issue = read(&token)?;
            if issue.expires.is_some_and(|expires| Timestamp::now() < expires) {
                return Ok(issue);
            }
        }
        let refresh = tokens.refresh.clone().ok_or(OidcError::NoRefreshToken)?;
        let refreshed = self.runtime.block_on(self.refresh(&refresh))?;
        let id = refreshed.id_token.map(SecretString::from).ok_or(OidcError::NoIdToken)?;
        if let Some(new) =
            refreshed.refresh_token.filter(|new| !new.is_empty() && new != refresh.expose_secret())
        {
            let new = SecretString::from(new);
            if let Err(error) = self.write_back(&tokens, &id, &new) {
                tracing::warn!(
                    "failed to replace the refresh-token in {}, which the OIDC provider may accept only once more; it is kept in memory: {}",
                    kubeconfig::quoted(&self.file),
                    error_causes::describe(&error)
                );
            }
            tokens.refresh = Some(new);
        }
        tokens.id = Some(id.clone());
        Ok(read(&id)?)
    }

    async fn refresh(&self, refresh: &SecretString) -> Result<Refreshed, OidcError> {
        let discovery =
            format!("{}/.well-known/openid-configuration", self.issuer.to_string().trim_end_matches('/'));
        let no_metadata = |status| OidcError::NoMetadata("/.well-known/openid-configuration", status);
        let discovery: Uri = discovery.parse().map_err(|_| no_metadata(StatusCode::BAD_REQUEST))?;
        let request = Request::get(&discovery).body(Full::default());
        let (status, body) = self.send(&discovery, request).await?;
        let metadata: Option<Metadata> = serde_json::from_slice(&body).ok().filter(|_| status.is_success());
        let endpoint = metadata.map(|metadata| metadata.token_endpoint).ok_or_else(|| no_metadata(status))?;
        let endpoint = endpoint.parse().map_err(|_| OidcError::NoMetadata("token_endpoint", status))?;
        let endpoint = without_userinfo(endpoint);
        let mut rejected = StatusCode::OK;
        // Providers support only one, and say which one too rarely.
        for authentication in [ClientAuthentication::Header, ClientAuthentication::Form] {
            let request = self.token_request(&endpoint, refresh, authentication);
            let (status, body) = self.send(&endpoint, request).await?;
            if status.is_success() {
                return serde_json::from_slice(&body).map_err(|_| OidcError::NoIdToken);
            }
            rejected = status;
        }
        Err(OidcError::Rejected(rejected))
    }

    /// RFC 6749, section 6.
    fn token_request(
        &self,
        endpoint: &Uri,
        refresh: &SecretString,
        authentication: ClientAuthentication,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let (id, secret) = (self.client_id.as_str(), self.client_secret.expose_secret());
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh.expose_secret());
        let request = Request::post(endpoint).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = match authentication {
            ClientAuthentication::Header => {
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
                request.header(AUTHORIZATION, format!("Basic {pair}"))
            }
            ClientAuthentication::Form => {
                form.append_pair("client_id", id);
                if !secret.is_empty() {
                    form.append_pair("client_secret", secret);
                }
                request
            }
        };
        request.body(Full::from(form.finish()))
    }

    async fn send(
        &self,
        uri: &Uri,
        request: Result<Request<Full<Bytes>>, http::Error>,
    ) -> Result<(StatusCode, Bytes), OidcError> {
        let unreachable = |error| OidcError::Unreachable(uri.clone(), error);
        let request = request.map_err(|error| unreachable(error.into()))?;
        let sent = async {
            let response: Response<Incoming> = self.client.request(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?;
            Ok((head.status, body.to_bytes()))
        };
        let sent = timeout(TIMEOUT, sent).await.map_err(|_| OidcError::TimedOut(uri.clone()))?;
        sent.map_err(unreachable)
    }

    /// Replaces the tokens in the kubeconfig.
    fn write_back(&self, old: &Tokens, id: &SecretString, refresh: &SecretString) -> io::Result<()> {
        let text = std::fs::read_to_string(&self.file)?;
        let pairs = [(&old.refresh, refresh), (&old.id, id)].into_iter();
        let replacements: Vec<_> = pairs
            .filter_map(|(old, new)| {
                let old = old.as_ref()?.expose_secret();
                Some(Replacement { old, new: new.expose_secret() })
            })
            .collect();
        let replaced = kubeconfig::replace(&text, &replacements);
        let replaced =
            replaced.ok_or_else(|| io::Error::other("its text does not contain the previous token"))?;
        // Behind a link, the file itself.
        let file = std::fs::canonicalize(&self.file)?;
        write_atomically(&file, replaced.as_bytes(), Existing::Replace, Readers::Unchanged)
    }
}

/// Reads the expiry of an ID token (RFC 7519, section 4.1.4), which may be a fraction. Like Go, accepts a number in a string,
/// and any number. A token without one is not used from a kubeconfig, and otherwise until it is rejected.
fn read(token: &SecretString) -> Result<Issue, OidcError> {
    #[derive(Deserialize)]
    struct Claims {
        // `null` is invalid.
        #[serde(default, deserialize_with = "present")]
        exp: Option<Seconds>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Number(f64),
        Text(String),
    }
    fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Seconds>, D::Error> {
        Seconds::deserialize(deserializer).map(Some)
    }
    let mut parts = token.expose_secret().split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(OidcError::NoJwt);
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| OidcError::NoJwt)?;
    let claims: Claims = serde_json::from_slice(&payload).map_err(|_| OidcError::NoJwt)?;
    let expires = claims.exp.map(|exp| match exp {
        Seconds::Number(seconds) => Ok(time(seconds)),
        Seconds::Text(text) => serde_json::from_str(&text).map(time).map_err(|_| OidcError::NoJwt),
    });
    let expires = expires.transpose()?;
    let token = Token::parse(token).map_err(|_| OidcError::NoJwt)?;
    Ok(Issue { token: Some(token), identity: None, expires })
}

/// A time in seconds of Unix time, or the nearest one of the calendar, reduced by [`EARLY`].
fn time(seconds: f64) -> Timestamp {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and a fraction of a second does not matter"
    )]
    let seconds = (seconds as i64).clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN);
    time.checked_sub(EARLY).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(payload: &str) -> SecretString {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload)).into()
    }

    #[test]
    fn expiry_of_an_id_token_is_a_number() {
        for (payload, expires) in [
            (r#"{"exp":1800000010}"#, Some(1_800_000_000)),
            (r#"{"exp":1.80000001e9}"#, Some(1_800_000_000)),
            (r#"{"exp":1800000010.9,"iss":"x"}"#, Some(1_800_000_000)),
            (r#"{"exp":"1800000010"}"#, Some(1_800_000_000)),
            (r#"{"exp":"1.80000001e9"}"#, Some(1_800_000_000)),
            (r#"{"exp":999999999999}"#, Some(Timestamp::MAX.as_second() - 10)),
            (r#"{"exp":9223372036854775807}"#, Some(Timestamp::MAX.as_second() - 10)),
            (r#"{"exp":1e300}"#, Some(Timestamp::MAX.as_second() - 10)),
            (r#"{"exp":-1e300}"#, Some(Timestamp::MIN.as_second())),
            (r#"{"exp":"soon"}"#, None),
            (r#"{"exp":""}"#, None),
            (r#"{"exp":null}"#, None),
            ("{}", None),
            ("", None),
        ] {
            let read = read(&jwt(payload)).ok().and_then(|issue| issue.expires);
            assert_eq!(read.map(Timestamp::as_second), expires, "{payload}");
        }
        let without = read(&jwt(r#"{"iss":"x"}"#)).unwrap();
        assert!(without.token.is_some() && without.expires.is_none());
        for token in ["", "a.b", "e30.eyJleHAiOm51bGx9.c2ln", "a.!.b", "e30.e30.e30.e30"] {
            assert!(read(&token.into()).is_err(), "{token}");
        }
    }

    /// The provider of a user whose kubeconfig is this file.
    fn provider(issuer: &str, file: &Path) -> Oidc {
        let config =
            format!("name: oidc\nconfig: {{idp-issuer-url: '{issuer}', client-id: c, refresh-token: r}}");
        let provider: AuthProvider = serde_saphyr::from_str(&config).unwrap();
        Oidc::new(&provider, file).unwrap()
    }

    #[tokio::test]
    async fn kubeconfig_keeps_its_mode_owner_and_link_when_a_token_is_replaced() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink("file", &link).unwrap();
        for mode in [0o640, 0o600, 0o666] {
            std::fs::write(&file, "refresh-token: old\n").unwrap();
            // Succeeds only for root, whose kubeconfig may belong to a user.
            let _ = chown(&file, Some(1000), Some(1000));
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let before = file.metadata().unwrap();
            let old = Tokens { unused: None, id: None, refresh: Some("old".into()) };
            let oidc = provider("https://host", &link);
            oidc.write_back(&old, &"id".into(), &"new".into()).unwrap();
            let after = file.metadata().unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "refresh-token: new\n");
            assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
            assert!(link.is_symlink());
        }
    }

    #[tokio::test]
    async fn credentials_in_the_url_of_the_issuer_are_in_no_error() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let oidc = provider(&format!("http://u:s3cret@{closed}/x"), Path::new("config"));
        let issued = tokio::task::spawn_blocking(move || oidc.issue()).await.unwrap();
        let Err(error) = issued else { panic!("expected an error") };
        let text = format!("{error} {error:?} {}", error_causes::describe(&*error));
        assert!(
            text.contains(&format!("http://{closed}/x/.well-known")) && !text.contains("s3cret"),
            "{text}"
        );
    }
}
