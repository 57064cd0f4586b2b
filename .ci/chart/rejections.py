"""Values that the chart rejects, each with a part of the error message."""

from helm import Rejected, render, values

# Minimal values, over which each case is merged.
MINIMAL = """
environments: [{name: prod}]
compliance: {baseUrl: "https://compliance.example.com", org: acme, token: {existingSecret: token}}
"""
SERVICE_ONLY = """
agent: {enabled: false}
service: {enabled: true, bootstrap: {generation: 1, organizations: []}}
"""

SCHEMA = [
    # A misspelt key. `values.py` checks that each level rejects unknown keys.
    ("enviroments: []", "'enviroments' not allowed"),
    ("compliance: {token: {secret: x}}", "/compliance/token': additional properties 'secret'"),
    ("environments: [{name: a, namespace: [x]}]", "/environments/0': additional properties 'namespace'"),
    ("resources: {limit: {}}", "/resources': additional properties"),
    ("service: {bootstrap: {generation: 1, organisations: []}}", "'organisations' not allowed"),
    (
        "service: {bootstrap: {generation: 1, organizations: [{name: a, tokens: [{name: b, role: read, token: c}]}]}}",
        "/service/bootstrap/organizations/0/tokens/0': additional properties 'token'",
    ),
    # A value with a wrong type or out of bounds.
    ("environments: {name: prod}", "/environments': got object, want array"),
    ("environments: [{namespaces: [a]}]", "missing property 'name'"),
    ("environments: [{name: a/b}]", "/environments/0/name': 'a/b' does not match"),
    ("environments: [{name: a, namespaces: [Shop]}]", "'Shop' does not match"),
    ("environments: [{name: a, namespaces: shop}]", "got string, want array"),
    ("environments: [{name: a, namespaceSelector: {matchLabels: {team: a}}}]", "got object, want string"),
    ("compliance: {token: {projected: {audience: a b}}}", "/compliance/token/projected/audience"),
    ("agent: {interval: 60}", "/agent/interval': got number, want string"),
    ("agent: {interval: 1 minute}", "/agent/interval': '1 minute' does not match"),
    ("agent: {bindAddress: localhost}", "/agent/bindAddress"),
    ("proxy: {https: 'http://user:password@proxy.example.com'}", "/proxy/https"),
    ("proxy: {noProxy: ['a,b']}", "/proxy/noProxy/0"),
    ("image: {digest: sha256:abc}", "/image/digest"),
    ("commonLabels: {a: 1}", "/commonLabels/a': got number, want string"),
    ("service: {port: 65536}", "/service/port': maximum"),
    ("service: {allowInternal: [intranet]}", "/service/allowInternal/0"),
    ("service: {trustedProxies: [intranet]}", "/service/trustedProxies/0"),
    ("service: {database: {sqlite: {size: large}}}", "/service/database/sqlite/size"),
    ("service: {bootstrap: {generation: one, organizations: []}}", "/service/bootstrap/generation': got string"),
    ("service: {bootstrap: {generation: 9007199254740993, organizations: []}}", "/service/bootstrap/generation': maximum"),
]

TEMPLATES = [
    ("environments: []", "environments is empty"),
    ("environments: [{name: a}, {name: b}, {name: a}]", 'duplicate name "a" (2 times)'),
    ("environments: [{name: a, namespaces: [x], excludeNamespaces: [x]}]", 'both includes and excludes the namespace "x"'),
    (f"environments: [{{name: a, namespaces: {[f'n{n}' for n in range(51)]}}}]", "51 namespaces are named"),
    (
        "environments: [{name: a, namespaces: [x], excludeNamespacesRegex: ['^x']}]",
        'both includes and excludes the namespace "x"',
    ),
    ("environments: [{name: a, namespacesRegex: ['(']}]", "error parsing regexp"),
    (f"environments: [{{name: {'a' * 256}}}]", "maxLength: got 256, want 255"),
    ("environments: [{name: прод eu-1}]", "does not match pattern"),
    ("extraEnv: [{name: SUPERCARGO_TOKEN_FILE, value: /x}]", "the chart already sets SUPERCARGO_TOKEN_FILE"),
    ("extraEnv: [{name: NO_PROXY, value: x}]", "the chart already sets NO_PROXY"),
    ("compliance: {org: ''}", "compliance.org is empty"),
    ("compliance: {baseUrl: ''}", "compliance.baseUrl is empty"),
    ("compliance: {baseUrl: compliance.example.com}", 'compliance.baseUrl is "compliance.example.com": expected a URL'),
    ("compliance: {baseUrl: 'https://x.example.com/api/v2'}", 'compliance.baseUrl is "https://x.example.com/api/v2": remove'),
    ("compliance: {baseUrl: 'https://user:password@x.example.com'}", "compliance.baseUrl is redacted: expected a URL"),
    ("compliance: {baseUrl: 'https://x.example.com:99999'}", "expected a URL"),
    ("compliance: {baseUrl: 'http://compliance.example.com'}", "set compliance.allowHttp"),
    ("compliance: {baseUrl: 'http://localhost.example.com'}", "set compliance.allowHttp"),
    ("compliance: {token: {projected: {audience: x}}}", "has both projected.audience and existingSecret"),
    ("compliance: {token: {existingSecret: ''}}", "compliance.token is empty"),
    ("compliance: {caBundle: {configMap: a, secret: b}}", "has both configMap and secret"),
    ("agent: {interval: 0s}", "agent.interval is 0s"),
    ("serviceAccount: {create: false}", "serviceAccount.name is empty"),
    ("service: {enabled: true}", "service.bootstrap is empty"),
    (
        "{compliance: {baseUrl: ''}, service: {enabled: true, bootstrap: {generation: 1, organizations: [{name: acme}]}}}",
        "is http://supercargo-serve.supercargo.svc:8080",
    ),
    (
        "{compliance: {baseUrl: '', allowHttp: true}, service: {enabled: true, bootstrap: {generation: 1, organizations: []}}}",
        'service.bootstrap has no organization "acme"',
    ),
]

SERVICE = [
    ("service: {publicUrl: compliance.example.com}", 'service.publicUrl is "compliance.example.com": expected a URL'),
    ("service: {existingBootstrap: {configMap: a}}", "more than one bootstrap file"),
    ("service: {ingress: {enabled: true}}", "service.ingress.hosts is empty"),
    ("service: {ingress: {enabled: true, hosts: ['*.example.com']}}", "service.publicUrl is empty"),
    ("service: {extraEnv: [{name: SUPERCARGO_DATABASE, value: x}]}", "the chart already sets SUPERCARGO_DATABASE"),
]

# Accepted values at the limits.
ACCEPTED = [
    f"environments: [{{name: a, namespaces: {[f'n{n}' for n in range(50)]}}}]",
    f"environments: [{{name: a, namespacesRegex: ['^n'], namespaces: {[f'n{n}' for n in range(51)]}}}]",
    "compliance: {baseUrl: 'http://127.0.0.1:8080'}",
    "agent: {interval: 24h, debounce: 1m30s}",
    "{global: {x: 1}, enabled: true}",
    f"environments: [{{name: prod.eu-1_~{'a' * 244}}}]",
    "extraEnv: [{name: HTTPS_PROXY, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
]


def over(base, more):
    """Merges `more` over `base`, as Helm merges files of values."""
    if not (isinstance(base, dict) and isinstance(more, dict)):
        return more
    return base | {key: over(base.get(key), value) for key, value in more.items()}


def rejection(given, **options):
    """The message with which the chart rejects values, or an empty text."""
    try:
        render(given, **options)
        return ""
    except Rejected as rejected:
        return str(rejected)


def faults():
    for base, cases in [(MINIMAL, SCHEMA), (MINIMAL, TEMPLATES), (SERVICE_ONLY, SERVICE)]:
        for text, says in cases:
            message = rejection(over(values(base), values(text)))
            if says not in message:
                yield f"{text}: expected {says!r}, got {message!r}"
    for text in ACCEPTED:
        message = rejection(over(values(MINIMAL), values(text)))
        if message:
            yield f"{text}: rejected with {message}"
    if "set fullnameOverride" not in rejection(values(SERVICE_ONLY), name="1st"):
        yield "a release name that is no name of a Service was accepted"
