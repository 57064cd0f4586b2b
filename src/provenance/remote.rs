//! Derives repository pages from git remotes (git documentation, "GIT URLS"), and removes credentials from URLs.

use url::Url;

/// The web page of a remote, without credentials, query and fragment. `None` for paths and invalid URLs.
#[must_use]
pub fn repository_page(remote: &str) -> Option<String> {
    let url = match remote.split_once("://") {
        Some(("http" | "https" | "HTTP" | "HTTPS", _)) => Url::parse(remote).ok()?,
        // The SSH port is not the port of the web page.
        Some(("ssh" | "git" | "git+ssh", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            url_from_host(authority.rsplit('@').next()?.split(':').next()?, path)?
        }
        Some(_) => return None,
        // scp syntax: the path follows the first colon.
        None => {
            let (authority, path) = remote.split_once(':')?;
            url_from_host(authority.rsplit('@').next()?, path)?
        }
    };
    let host = url.host_str()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    match host {
        _ if path.is_empty() => None,
        "ssh.dev.azure.com" => {
            let mut segments = path.split('/').skip(1);
            let (owner, project, name) = (segments.next()?, segments.next()?, segments.next()?);
            Some(format!("https://dev.azure.com/{owner}/{project}/_git/{name}"))
        }
        host => Some(format!("{}://{host}{port}/{path}", url.scheme())),
    }
}

/// Builds a URL if the host is valid. An `@` in the path would mean that credentials precede it.
fn url_from_host(host: &str, path: &str) -> Option<Url> {
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    let is_invalid = path.contains(['@', ':', '\\']) || path.contains(char::is_whitespace);
    if is_host && !is_invalid {
        Url::parse(&format!("https://{host}/{}", path.trim_start_matches('/'))).ok()
    } else {
        None
    }
}

/// An http or https URL without credentials.
#[must_use]
pub fn web_url(text: &str) -> Option<String> {
    let mut url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    // Cannot fail for a URL with a host.
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.to_string())
}

/// The path of a remote's web page, which is the repository's name with its owners: `acme/cart`.
#[must_use]
pub fn repository_path(url: &str) -> Option<String> {
    let page = repository_page(url)?;
    let (_, rest) = page.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    // Azure DevOps inserts this between project and repository.
    Some(path.replace("/_git/", "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_name_are_derived_from_the_remote() {
        for (remote, expected, name) in [
            ("https://github.com/acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("https://x-token:s3cret@gitlab.com/a/b/cart/", "https://gitlab.com/a/b/cart", "a/b/cart"),
            ("HTTP://git.example.com:8080/acme/cart", "http://git.example.com:8080/acme/cart", "acme/cart"),
            (
                "https://github.com/acme/cart?private_token=S3CRET#S3CRET",
                "https://github.com/acme/cart",
                "acme/cart",
            ),
            ("git@github.com:acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("git.example.com:/acme/cart.git", "https://git.example.com/acme/cart", "acme/cart"),
            (
                "ssh://git@git.example.com:2222/acme/cart.git",
                "https://git.example.com/acme/cart",
                "acme/cart",
            ),
            (
                "git@ssh.dev.azure.com:v3/acme/shop/cart",
                "https://dev.azure.com/acme/shop/_git/cart",
                "acme/shop/cart",
            ),
            (
                "https://acme@dev.azure.com/acme/shop/_git/cart",
                "https://dev.azure.com/acme/shop/_git/cart",
                "acme/shop/cart",
            ),
        ] {
            assert_eq!(
                (repository_page(remote).as_deref(), repository_path(remote).as_deref()),
                (Some(expected), Some(name)),
                "{remote}"
            );
        }
        for invalid in [
            "x-token:S3CRET@gitlab.com/a/b",
            "user:S3CRET@github.com:acme/cart",
            "https://u:S3/CRET@github.com/a/b",
            "ext::sh -c \"curl -H S3CRET\"",
            "C:\\repos\\cart",
            "git@[::1]:a/b",
            "",
            "/var/lib/mirror/cart.git",
            "../cart",
            "./a:b",
            "file:///srv/cart.git",
            "https://github.com",
            "C",
            "git@ssh.dev.azure.com:v3/x",
        ] {
            assert_eq!(repository_page(invalid), None, "{invalid}");
        }
    }
}
