//! What the URL of a git remote tells (git documentation, "GIT URLS").

/// The page of a repository: its remote's URL as a browser opens it, without credentials. `None` for a
/// path, and for what is no URL.
#[must_use]
pub fn page(remote: &str) -> Option<String> {
    let (scheme, authority, path) = if let Some((scheme, rest)) = remote.split_once("://") {
        let (authority, path) = rest.split_once('/')?;
        (scheme.to_ascii_lowercase(), authority, path)
    } else {
        // As scp: what is behind the first colon is a path.
        let (authority, path) = remote.split_once(':').filter(|(authority, _)| !authority.contains('/'))?;
        ("ssh".to_owned(), authority, path)
    };
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    let is_web = matches!(scheme.as_str(), "http" | "https");
    // The port of SSH is not where pages are.
    let host = if is_web { host } else { host.split(':').next()? };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    match scheme.as_str() {
        _ if path.is_empty() => None,
        "http" | "https" => Some(format!("{scheme}://{host}/{path}")),
        "ssh" | "git" | "git+ssh" if host == "ssh.dev.azure.com" => {
            let mut segments = path.split('/').skip(1);
            let (owner, project, name) = (segments.next()?, segments.next()?, segments.next()?);
            Some(format!("https://dev.azure.com/{owner}/{project}/_git/{name}"))
        }
        "ssh" | "git" | "git+ssh" => Some(format!("https://{host}/{path}")),
        _ => None,
    }
}

/// The path of a repository's page, which is its name with its owners: `acme/cart`.
#[must_use]
pub fn path(url: &str) -> Option<String> {
    let page = page(url)?;
    let (_, rest) = page.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    // Azure DevOps has this between project and repository.
    Some(path.replace("/_git/", "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_has_a_page_and_a_name() {
        for (remote, expected, name) in [
            ("https://github.com/acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("https://x-token:s3cret@gitlab.com/a/b/cart/", "https://gitlab.com/a/b/cart", "a/b/cart"),
            ("HTTP://git.example.com:8080/acme/cart", "http://git.example.com:8080/acme/cart", "acme/cart"),
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
                (page(remote).as_deref(), path(remote).as_deref()),
                (Some(expected), Some(name)),
                "{remote}"
            );
        }
        for none in [
            "",
            "/var/lib/mirror/cart.git",
            "../cart",
            "./a:b",
            "file:///srv/cart.git",
            "https://github.com",
            "C",
            "git@ssh.dev.azure.com:v3/x",
        ] {
            assert_eq!(page(none), None, "{none}");
        }
    }
}
