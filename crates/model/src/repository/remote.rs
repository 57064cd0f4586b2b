//! Derives the pages and names of repositories from git remotes (git documentation, "GIT URLS"), and removes credentials
//! from URLs.
//!
//! One repository has one page and one name, in whichever form a remote names it.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::Provider;
use crate::escape::needs_escape;

/// The port of Bitbucket Data Center's SSH server.
const BITBUCKET_SSH_PORT: &str = "7999";

/// A repository, by one of its remotes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    page: String,
    name: String,
    /// The provider whose form of URLs the remote has.
    provider: Option<&'static str>,
}

/// The address of a remote, as the URL of a web server.
struct Address<'a> {
    url: Url,
    ssh: Option<Ssh<'a>>,
}

struct Ssh<'a> {
    user: Option<&'a str>,
    port: Option<&'a str>,
}

/// The web page of a remote, without credentials, query and fragment. `None` for paths and invalid URLs.
#[must_use]
pub fn repository_page(remote: &str) -> Option<String> {
    locate(remote).map(|location| location.page)
}

/// The name of a remote's repository with its owners: `acme/cart`.
#[must_use]
pub fn repository_path(remote: &str) -> Option<String> {
    locate(remote).map(|location| location.name)
}

/// The provider that the path of a remote shows.
pub(super) fn provider_of_path(remote: &str) -> Option<&'static str> {
    locate(remote)?.provider
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

/// The name of a repository as people write it: `Web Shop` for `Web%20Shop`. Decoding the result changes nothing, so that a
/// name passes through any number of requests. A name that would not be one after decoding is unchanged.
#[must_use]
pub fn decoded_name(name: &str) -> String {
    let decoded = percent_decode_str(name).decode_utf8().unwrap_or_default();
    let is_name = !decoded.is_empty() && !decoded.chars().any(|c| c == '%' || needs_escape(c));
    if is_name { decoded.into_owned() } else { name.to_owned() }
}

fn locate(remote: &str) -> Option<Location> {
    let Address { url, ssh } = Address::parse(remote)?;
    let host = match url.host_str()? {
        // SSH through the port of HTTPS.
        "ssh.github.com" | "www.github.com" => "github.com",
        "altssh.gitlab.com" => "gitlab.com",
        "altssh.bitbucket.org" => "bitbucket.org",
        host => host,
    };
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.is_empty() {
        return None;
    }
    if let Some(parts) = azure_repository(host, ssh.as_ref().and_then(|ssh| ssh.user), &segments) {
        let [owner, project, name] = parts;
        return Some(Location {
            page: format!("https://dev.azure.com/{owner}/{project}/_git/{name}"),
            name: decoded_path(&parts),
            provider: Some("azure-devops"),
        });
    }
    if matches!(host, "ssh.dev.azure.com" | "vs-ssh.visualstudio.com") {
        return None;
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let site = format!("{}://{host}{port}", url.scheme());
    let provider = Provider::of_host(host);
    let is_other = host == "bitbucket.org" || provider.is_some_and(|provider| provider != "bitbucket");
    let is_data_center =
        ssh.as_ref().is_some_and(|ssh| is_bitbucket(host) || ssh.port == Some(BITBUCKET_SSH_PORT));
    if let Some(DataCenterRepository { context, owner, name }) =
        data_center_repository(&segments, host, is_data_center).filter(|_| !is_other)
    {
        let (kind, key) =
            owner.strip_prefix('~').map_or(("projects", owner.as_str()), |user| ("users", user));
        let page = [context, &[kind, key, "repos", name]].concat();
        return Some(Location {
            page: format!("{site}/{}", page.join("/")),
            // Bitbucket ignores the case of a project's key: remotes have it in lower case, pages in upper case.
            name: decoded_path(&[&owner, name]).to_lowercase(),
            provider: Some("bitbucket"),
        });
    }
    if let Some(GerritProject { context, name }) =
        gerrit_project(&segments, host).filter(|_| provider.is_none() && ssh.is_none())
    {
        return Some(Location {
            page: format!("{site}/{}", [context, name].concat().join("/")),
            name: decoded_path(name),
            provider: None,
        });
    }
    let page = format!("{site}/{}", segments.join("/"));
    // Azure DevOps Server inserts this between project and repository.
    if provider.is_none() && segments.iter().skip(1).any(|segment| *segment == "_git") {
        let names: Vec<&str> = segments.iter().copied().filter(|segment| *segment != "_git").collect();
        return Some(Location { page, name: decoded_path(&names), provider: Some("azure-devops") });
    }
    Some(Location { page, name: decoded_path(&segments), provider: None })
}

/// Whether a label of the host names Bitbucket or its former name.
fn is_bitbucket(host: &str) -> bool {
    host.split('.').any(is_bitbucket_word)
}

fn is_bitbucket_word(word: &str) -> bool {
    matches!(word, "bitbucket" | "stash")
}

fn decoded_path(segments: &[&str]) -> String {
    decoded_name(&segments.join("/"))
}

impl<'a> Address<'a> {
    fn parse(remote: &'a str) -> Option<Self> {
        let Some((scheme, rest)) = remote.split_once("://") else {
            // scp syntax: the path follows the first colon.
            let (authority, path) = remote.split_once(':')?;
            let (user, host) = split_user(authority);
            return Some(Self { url: url_from_host(host, path)?, ssh: Some(Ssh { user, port: None }) });
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Some(Self { url: Url::parse(remote).ok()?, ssh: None }),
            "ssh" | "git" | "git+ssh" | "ssh+git" => {
                let (authority, path) = rest.split_once('/')?;
                let (user, host) = split_user(authority);
                // The SSH port is not the port of the web page.
                let (host, port) =
                    host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port)));
                Some(Self { url: url_from_host(host, path)?, ssh: Some(Ssh { user, port }) })
            }
            _ => None,
        }
    }
}

/// Splits `user:password@host`, and omits the password.
fn split_user(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((user, host)) => (user.split(':').next(), host),
        None => (None, authority),
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

/// Organization, project and repository of a remote of Azure DevOps Services, whose organizations have two hosts each.
fn azure_repository<'a>(host: &'a str, user: Option<&'a str>, segments: &[&'a str]) -> Option<[&'a str; 3]> {
    let (owner, rest) = match (host, segments) {
        ("ssh.dev.azure.com" | "vs-ssh.visualstudio.com", ["v3", owner, project, name, ..]) => {
            return Some([*owner, *project, *name]);
        }
        // The first version of SSH: the user is the organization.
        ("vs-ssh.visualstudio.com", rest) => (user?, rest),
        ("dev.azure.com", [owner, rest @ ..]) => (*owner, rest),
        (host, rest) => (host.strip_suffix(".visualstudio.com")?, rest),
    };
    let rest = match rest {
        [first, rest @ ..] if first.eq_ignore_ascii_case("DefaultCollection") => rest,
        rest => rest,
    };
    let (project, rest) = rest.split_at(rest.iter().position(|segment| matches!(*segment, "_git" | "_ssh"))?);
    // Remotes of partial clones have a word before the repository.
    let name = rest.iter().skip(1).find(|segment| !matches!(**segment, "_full" | "_optimized"))?;
    // The project is omitted if its repository has the same name.
    Some([owner, project.last().copied().unwrap_or(name), *name])
}

struct DataCenterRepository<'a> {
    /// The path of the server.
    context: &'a [&'a str],
    /// The key of a project, or `~` and the name of a user.
    owner: String,
    name: &'a str,
}

struct GerritProject<'a> {
    /// The path of the server.
    context: &'a [&'a str],
    name: &'a [&'a str],
}

/// The project of a remote over HTTP or a page of Gerrit, which is often below `/r`, and has the prefix `a` for requests with
/// credentials. A server of another kind may have a user of either name.
fn gerrit_project<'a>(segments: &'a [&'a str], host: &str) -> Option<GerritProject<'a>> {
    let is_named = host.split('.').any(|label| matches!(label, "gerrit" | "review"));
    let is_context = |first: &str| first == "r" || (is_named && first == "gerrit");
    let is_name = |name: &[&str]| name.len() > 1 || (is_named && !name.is_empty());
    let (context, rest) = match segments.split_first() {
        Some((first, rest)) if is_context(first) && is_name(rest) => segments.split_at(1),
        _ => segments.split_at(0),
    };
    let name = match rest {
        ["a", name @ ..] if is_name(name) => name,
        name => name,
    };
    (name.len() < segments.len()).then_some(GerritProject { context, name })
}

/// The repository of a remote or a page of Bitbucket Data Center. `is_data_center`: the remote is of such a server, and has
/// no prefix.
fn data_center_repository<'a>(
    segments: &'a [&'a str],
    host: &str,
    is_data_center: bool,
) -> Option<DataCenterRepository<'a>> {
    let owner = |key: &str| {
        let user = key.strip_prefix("%7E").or_else(|| key.strip_prefix("%7e"));
        user.map_or_else(|| key.to_owned(), |user| format!("~{user}"))
    };
    match segments {
        // Below the path of another server, `scm` is a name.
        [context @ .., "scm", key, name]
            if context.last().is_none_or(|last| is_bitbucket_word(last)) || is_bitbucket(host) =>
        {
            return Some(DataCenterRepository { context, owner: owner(key), name });
        }
        [key, name] if is_data_center => {
            return Some(DataCenterRepository { context: &[], owner: owner(key), name });
        }
        _ => {}
    }
    let is_page = |part: &[&str]| matches!(part, ["projects" | "users", _, "repos", _]);
    let at = segments.windows(4).position(is_page)?;
    let (context, page) = segments.split_at(at);
    let [kind, key, _, name, ..] = page else { return None };
    let owner = if *kind == "users" { format!("~{key}") } else { owner(key) };
    Some(DataCenterRepository { context, owner, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_name_are_derived_from_the_remote() {
        for (remote, expected, name) in [
            ("https://github.com/acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("https://github.com/acme/cart.git/", "https://github.com/acme/cart", "acme/cart"),
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
            ("ssh://git@ssh.github.com:443/acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("git@ssh.github.com:acme/cart.git", "https://github.com/acme/cart", "acme/cart"),
            ("ssh://git@altssh.gitlab.com:443/a/b/cart.git", "https://gitlab.com/a/b/cart", "a/b/cart"),
            ("ssh://git@altssh.bitbucket.org:443/a/cart.git", "https://bitbucket.org/a/cart", "a/cart"),
            ("https://github.com/a/cart", "https://github.com/a/cart", "a/cart"),
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
            "git@vs-ssh.visualstudio.com:v3/x",
        ] {
            assert_eq!(repository_page(invalid), None, "{invalid}");
        }
    }

    /// The remotes of one repository, its page and its name.
    type Case = (&'static [&'static str], &'static str, &'static str);

    const CASES: &[Case] = &[
        (
            &[
                "git@ssh.dev.azure.com:v3/acme/shop/cart",
                "ssh://git@ssh.dev.azure.com/v3/acme/shop/cart",
                "ssh://git@ssh.dev.azure.com:22/v3/acme/shop/cart",
                "acme@vs-ssh.visualstudio.com:v3/acme/shop/cart",
                "ssh://acme@vs-ssh.visualstudio.com:22/shop/_git/cart",
                "ssh://acme@vs-ssh.visualstudio.com:22/DefaultCollection/shop/_ssh/cart",
                "https://acme.visualstudio.com/shop/_git/cart",
                "https://acme.visualstudio.com/DefaultCollection/shop/_git/cart",
                "https://jo:s3cret@Acme.VisualStudio.com/defaultcollection/shop/_git/cart/",
                "https://acme@dev.azure.com/acme/shop/_git/cart",
                "https://dev.azure.com/acme/shop/_git/_optimized/cart",
                "https://dev.azure.com/acme/shop/_git/cart?version=GBmain",
            ],
            "https://dev.azure.com/acme/shop/_git/cart",
            "acme/shop/cart",
        ),
        (
            &[
                "https://dev.azure.com/acme/_git/cart",
                "https://acme.visualstudio.com/_git/cart",
                "https://acme.visualstudio.com/DefaultCollection/_git/cart",
                "git@ssh.dev.azure.com:v3/acme/cart/cart",
            ],
            "https://dev.azure.com/acme/cart/_git/cart",
            "acme/cart/cart",
        ),
        (
            &[
                "https://dev.azure.com/acme/Web%20Shop/_git/cart",
                "https://dev.azure.com/acme/Web Shop/_git/cart",
                "git@ssh.dev.azure.com:v3/acme/Web%20Shop/cart",
                "https://acme.visualstudio.com/Web%20Shop/_git/cart",
            ],
            "https://dev.azure.com/acme/Web%20Shop/_git/cart",
            "acme/Web Shop/cart",
        ),
        (
            &["https://tfs.example.com:8080/tfs/Main/shop/_git/cart"],
            "https://tfs.example.com:8080/tfs/Main/shop/_git/cart",
            "tfs/Main/shop/cart",
        ),
        (
            &[
                "https://bitbucket.example.com/scm/pay/cart.git",
                "https://jo@bitbucket.example.com/scm/pay/cart.git/",
                "ssh://git@bitbucket.example.com:7999/pay/cart.git",
                "ssh://git@bitbucket.example.com/pay/cart.git",
                "git@bitbucket.example.com:pay/cart.git",
                "https://bitbucket.example.com/projects/pay/repos/cart/browse?at=main",
            ],
            "https://bitbucket.example.com/projects/pay/repos/cart",
            "pay/cart",
        ),
        (
            &["https://bitbucket.example.com/projects/PAY/repos/cart/commits"],
            "https://bitbucket.example.com/projects/PAY/repos/cart",
            "pay/cart",
        ),
        (
            &["https://git.example.com/scm/pay/cart.git", "ssh://git@git.example.com:7999/pay/cart.git"],
            "https://git.example.com/projects/pay/repos/cart",
            "pay/cart",
        ),
        (
            &[
                "https://git.example.com:8443/stash/scm/~jo/cart.git",
                "https://git.example.com:8443/stash/scm/%7Ejo/cart.git",
                "https://git.example.com:8443/stash/users/jo/repos/cart/browse",
            ],
            "https://git.example.com:8443/stash/users/jo/repos/cart",
            "~jo/cart",
        ),
        (
            &["https://bitbucket.example.com/team/scm/pay/cart.git"],
            "https://bitbucket.example.com/team/projects/pay/repos/cart",
            "pay/cart",
        ),
        // Not Bitbucket Data Center.
        (
            &["https://git.example.com/team/scm/pay/cart.git", "git@git.example.com:team/scm/pay/cart.git"],
            "https://git.example.com/team/scm/pay/cart",
            "team/scm/pay/cart",
        ),
        (&["git@bitbucket.org:pay/cart.git"], "https://bitbucket.org/pay/cart", "pay/cart"),
        (&["https://gitlab.com/scm/pay/cart.git"], "https://gitlab.com/scm/pay/cart", "scm/pay/cart"),
        (
            &["https://scm.example.com/scm/repo/pay/cart"],
            "https://scm.example.com/scm/repo/pay/cart",
            "scm/repo/pay/cart",
        ),
        (
            &[
                "https://gerrit.example.com/a/acme/cart",
                "https://jo@gerrit.example.com/a/acme/cart.git",
                "https://gerrit.example.com/acme/cart",
                "ssh://jo@gerrit.example.com:29418/acme/cart",
            ],
            "https://gerrit.example.com/acme/cart",
            "acme/cart",
        ),
        (
            &["https://gerrit.example.com/a/cart", "ssh://jo@gerrit.example.com:29418/cart"],
            "https://gerrit.example.com/cart",
            "cart",
        ),
        (
            &[
                "https://jo@git.example.com/r/a/acme/cart",
                "https://git.example.com/r/a/acme/cart.git",
                "https://git.example.com/r/acme/cart",
            ],
            "https://git.example.com/r/acme/cart",
            "acme/cart",
        ),
        (
            &["https://gerrit.example.com/r/a/acme/cart", "https://gerrit.example.com/r/acme/cart"],
            "https://gerrit.example.com/r/acme/cart",
            "acme/cart",
        ),
        // Not Gerrit.
        (
            &["git@git.example.com:a/cart", "https://git.example.com/a/cart.git"],
            "https://git.example.com/a/cart",
            "a/cart",
        ),
        (
            &["git@git.example.com:r/cart", "https://git.example.com/r/cart.git"],
            "https://git.example.com/r/cart",
            "r/cart",
        ),
        (
            &["git@gitlab.example.com:r/a/acme/cart.git", "https://gitlab.example.com/r/a/acme/cart.git"],
            "https://gitlab.example.com/r/a/acme/cart",
            "r/a/acme/cart",
        ),
    ];

    #[test]
    fn all_remotes_of_a_repository_have_one_page_and_one_name() {
        for (remotes, page, name) in CASES {
            for remote in remotes.iter().chain([page]) {
                assert_eq!(
                    (repository_page(remote).as_deref(), repository_path(remote).as_deref()),
                    (Some(*page), Some(*name)),
                    "{remote}"
                );
            }
        }
    }

    #[test]
    fn name_is_decoded_once_and_only_to_a_name() {
        for (name, expected) in [
            ("acme/Web%20Shop/cart", "acme/Web Shop/cart"),
            ("acme%2Fcart", "acme/cart"),
            ("%C3%B6", "ö"),
            ("100%/ä", "100%/ä"),
            ("a%2520b", "a%2520b"),
            ("a%00b", "a%00b"),
            ("a%0Ab", "a%0Ab"),
            ("%FF", "%FF"),
            ("", ""),
        ] {
            assert_eq!(decoded_name(name), expected);
            assert_eq!(decoded_name(expected), expected);
        }
    }
}
