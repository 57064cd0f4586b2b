//! Sign-in of people at an issuer: the authorization code flow with PKCE (OIDC Core 1.0, section 3.1; RFC 7636).
//!
//! Pages call it. The browser keeps the state of a sign-in in a cookie, so that an anonymous request writes nothing to the
//! database, and any replica can complete the sign-in.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use sqlx::types::Uuid;
use subtle::ConstantTimeEq;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

use crate::engine::notify::addresses::AddressBook;
use crate::identity::discovery::{self, DiscoveryError, TIMEOUT};
use crate::identity::token::Token;
use crate::identity::{AuthenticationError, Identities, Keys, Provider, Waiting};
use crate::maintenance::random::random;
use crate::outbound::GuardedClient;
use model::{Fingerprint, Timestamp};
use rules::identity::{Person, TokenError};
use store::Error;

/// Maximum length of the path to return to, in bytes: browsers keep at most 4 KiB per cookie.
const MAX_NEXT: usize = 1024;

/// The state of a sign-in. Secret, hence no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Attempt {
    issuer: String,
    state: String,
    nonce: String,
    verifier: String,
    /// The page to open afterwards.
    pub(crate) next: String,
}

/// A sign-in that failed at or after the provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInError {
    #[error("the ID token is rejected: {0}")]
    Token(#[from] TokenError),
    #[error("the provider did not complete the sign-in")]
    Provider(#[from] DiscoveryError),
    /// The service cannot tell.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

impl From<AuthenticationError> for SignInError {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::Invalid(error) => Self::Token(error),
            AuthenticationError::Unavailable(error) => Self::Unavailable(error),
        }
    }
}

impl SignInError {
    /// Whether the code or the ID token is the reason, as after an attack.
    pub(crate) fn is_invalid(&self) -> bool {
        match self {
            Self::Token(_) => true,
            Self::Provider(DiscoveryError::Rejected(_, code)) => code == "invalid_grant",
            _ => false,
        }
    }
}

impl Attempt {
    /// A new sign-in at a provider, and the value of its cookie.
    pub(crate) fn new(provider: &Provider, next: &str) -> io::Result<(Self, String)> {
        let secret = || random::<32>().map_err(io::Error::other);
        let next = if next.len() > MAX_NEXT { "" } else { next }.to_owned();
        let issuer = provider.id.to_string();
        let attempt = Self { issuer, state: secret()?, nonce: secret()?, verifier: secret()?, next };
        let cookie = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&attempt)?);
        Ok((attempt, cookie))
    }

    /// The sign-in of a cookie, which must be the one of this response.
    pub(crate) fn from_cookie(cookie: &str, state: &str) -> Option<Self> {
        let attempt: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cookie).ok()?).ok()?;
        bool::from(attempt.state.as_bytes().ct_eq(state.as_bytes())).then_some(attempt)
    }

    /// The row of its issuer.
    pub(crate) fn issuer(&self) -> Option<Uuid> {
        self.issuer.parse().ok()
    }
}

impl Provider {
    /// The URL that a browser opens to sign in. Does not wait for the provider, since anybody may request it.
    pub(crate) fn authorization_url(
        &self,
        attempt: &Attempt,
        redirect_uri: &str,
        now: Timestamp,
    ) -> Result<Url, SignInError> {
        const DOWN: Error =
            Error::Busy("the provider has not responded yet; it is requested at least once a minute");
        let found = self.remote.current(now).ok_or(DOWN)?;
        let url = found.endpoints.authorization.clone();
        let mut url = url.ok_or(DiscoveryError::Endpoint("authorization_endpoint"))?;
        let sign_in = self.issuer.sign_in.as_ref();
        let more = sign_in.into_iter().flat_map(|sign_in| sign_in.scopes.iter().map(String::as_str));
        let scopes: Vec<_> = ["openid", "profile", "email"].into_iter().chain(more).collect();
        let challenge =
            URL_SAFE_NO_PAD.encode(Fingerprint::from_content(attempt.verifier.as_bytes()).bytes());
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.issuer.audience)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if let Some(max_age) = sign_in.and_then(|sign_in| sign_in.max_age) {
            query.append_pair("max_age", &max_age.as_secs().to_string());
        }
        drop(query);
        Ok(url)
    }
}

/// The code of a provider's response, and the URL that the response was redirected to.
#[derive(Clone, Copy)]
pub(crate) struct AuthorizationCode<'a> {
    pub(crate) code: &'a str,
    pub(crate) redirect_uri: &'a str,
}

impl Identities {
    /// The person who signed in: exchanges the code of the response for an ID token, and verifies it.
    pub(crate) async fn person(
        &self,
        provider: &Provider,
        attempt: &Attempt,
        code: AuthorizationCode<'_>,
        allowed_internal: &[IpNet],
        book: &AddressBook,
        now: Timestamp,
    ) -> Result<Person, SignInError> {
        let Provider { organization, issuer, remote, .. } = provider;
        let _permit = remote.wait()?;
        let url = remote.current(now).and_then(|found| found.endpoints.token.clone());
        let url = url.ok_or(DiscoveryError::Endpoint("token_endpoint"))?;
        let secret = book.client_secrets.get(&(organization.clone(), issuer.name.clone()));
        let credentials = secret.map(|secret| (issuer.audience.as_str(), secret.expose_secret()));
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.code),
            ("redirect_uri", code.redirect_uri),
            ("code_verifier", &attempt.verifier),
        ];
        if credentials.is_none() {
            form.push(("client_id", &issuer.audience));
        }
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let client =
            GuardedClient::new(allowed_internal, &book.authorities).map_err(DiscoveryError::Client)?;
        let exchange = discovery::exchange(&client, &url, credentials, form);
        let exchanged = timeout(TIMEOUT, exchange).await;
        let token = exchanged.unwrap_or(Err(DiscoveryError::TimedOut(TIMEOUT)))?;
        let keys = Keys::Remote(remote.clone());
        let claims = self.verify(&Token::parse(&token)?, &keys, now, Waiting::Permitted).await?;
        Ok(Person::from_id_token(organization, issuer, &claims, &attempt.nonce, now)?)
    }
}
