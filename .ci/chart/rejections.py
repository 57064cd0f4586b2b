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
    # A misspelt key, at each level.
    ("enviroments: []", "'enviroments' not allowed"),
    ("image: {repo: x}", "/image': additional properties 'repo'"),
    ("compliance: {url: x}", "/compliance': additional properties 'url'"),
    ("compliance: {token: {secret: x}}", "/compliance/token': additional properties 'secret'"),
    ("compliance: {token: {projected: {aud: x}}}", "/compliance/token/projected': additional properties 'aud'"),
    ("compliance: {caBundle: {file: x}}", "/compliance/caBundle': additional properties"),
    ("environments: [{name: a, namespace: [x]}]", "/environments/0': additional properties 'namespace'"),
    ("agent: {exclude_self: true}", "/agent': additional properties"),
    ("cronjob: {cron: x}", "/cronjob': additional properties"),
    ("proxy: {http: x}", "/proxy': additional properties"),
    ("rbac: {enabled: true}", "/rbac': additional properties"),
    ("serviceAccount: {annotation: {}}", "/serviceAccount': additional properties"),
    ("resources: {limit: {}}", "/resources': additional properties"),
    ("networkPolicy: {ingress: []}", "/networkPolicy': additional properties"),
    ("networkPolicy: {service: {metricsFrom: []}}", "/networkPolicy/service': additional properties"),
    ("monitoring: {serviceMonitor: {}}", "/monitoring': additional properties"),
    ("monitoring: {podMonitor: {enable: true}}", "/monitoring/podMonitor': additional properties"),
    ("service: {replicaCount: 2}", "/service': additional properties"),
    ("service: {database: {mysql: {}}}", "/service/database': additional properties"),
    ("service: {database: {sqlite: {storage: 1Gi}}}", "/service/database/sqlite': additional properties"),
    ("service: {ingress: {host: x}}", "/service/ingress': additional properties"),
    ("service: {bootstrap: {generation: 1, organisations: []}}", "'organisations' not allowed"),
    (
        "service: {bootstrap: {generation: 1, organizations: [{name: a, tokens: [{name: b, role: read, token: c}]}]}}",
        "/service/bootstrap/organizations/0/tokens/0': additional properties 'token'",
    ),
    # A value with a wrong type or out of bounds.
    ("mode: daemonset", "/mode': value must be one of"),
    ("environments: {name: prod}", "/environments': got object, want array"),
    ("environments: [{namespaces: [a]}]", "missing property 'name'"),
    ("environments: [{name: a/b}]", "/environments/0/name': 'a/b' does not match"),
    ("environments: [{name: ..}]", "/environments/0/name': 'not' failed"),
    ("environments: [{name: a, namespaces: [Shop]}]", "'Shop' does not match"),
    ("environments: [{name: a, namespaces: shop}]", "got string, want array"),
    ("environments: [{name: a, namespaces: [b, b]}]", "items at 0 and 1 are equal"),
    ("environments: [{name: a, namespacesRegex: ['']}]", "minLength"),
    ("environments: [{name: a, namespaceSelector: ''}]", "minLength"),
    ("environments: [{name: a, namespaceSelector: {matchLabels: {team: a}}}]", "got object, want string"),
    ("compliance: {token: {value: \"a b\"}}", "/compliance/token/value"),
    ("compliance: {token: {projected: {audience: a b}}}", "/compliance/token/projected/audience"),
    ("compliance: {token: {projected: {expirationSeconds: 599}}}", "/compliance/token/projected/expirationSeconds"),
    ("compliance: {caBundle: {value: certificate}}", "/compliance/caBundle/value"),
    ("agent: {interval: 60}", "/agent/interval': got number, want string"),
    ("agent: {interval: 1 minute}", "/agent/interval': '1 minute' does not match"),
    ("agent: {debounce: 5s1m}", "/agent/debounce': '5s1m' does not match"),
    ("agent: {bindAddress: localhost}", "/agent/bindAddress"),
    ("agent: {verbosity: 4}", "/agent/verbosity': maximum"),
    ("agent: {enabled: 'true'}", "/agent/enabled': got string, want boolean"),
    ("cronjob: {schedule: hourly}", "/cronjob/schedule"),
    ("proxy: {https: proxy.example.com}", "/proxy/https"),
    ("proxy: {https: 'http://user:password@proxy.example.com'}", "/proxy/https"),
    ("proxy: {noProxy: ['a,b']}", "/proxy/noProxy/0"),
    ("proxy: {noProxy: ['']}", "/proxy/noProxy/0"),
    ("image: {digest: sha256:abc}", "/image/digest"),
    ("image: {pullPolicy: Sometimes}", "/image/pullPolicy"),
    ("commonLabels: {a: 1}", "/commonLabels/a': got number, want string"),
    ("service: {port: 0}", "/service/port': minimum"),
    ("service: {port: 65536}", "/service/port': maximum"),
    ("service: {maxReport: 67108865}", "/service/maxReport': maximum"),
    ("service: {allowInternal: [intranet]}", "/service/allowInternal/0"),
    ("service: {type: ExternalName}", "/service/type"),
    ("service: {ipFamilies: [IPv5]}", "/service/ipFamilies/0"),
    ("service: {database: {sqlite: {size: large}}}", "/service/database/sqlite/size"),
    ("service: {bootstrap: {generation: one, organizations: []}}", "/service/bootstrap/generation': got string"),
    ("service: {bootstrap: {generation: 9007199254740993, organizations: []}}", "/service/bootstrap/generation': maximum"),
    ("service: {allowInternal: [999.1.1.1]}", "/service/allowInternal/0"),
    ("service: {allowInternal: [10.1.0.0/33]}", "/service/allowInternal/0"),
    ("agent: {bindAddress: 999.0.0.1}", "/agent/bindAddress"),
    ("compliance: {baseUrl: 1}", "/compliance/baseUrl': got number, want string"),
    ("compliance: {caBundle: {value: '-----BEGIN CERTIFICATE-----'}}", "/compliance/caBundle/value"),
    ("proxy: {noProxy: [é]}", "/proxy/noProxy/0"),
    # An unset value has no default.
    ("tolerations: null", "missing property 'tolerations'"),
    ("compliance: {token: null}", "missing property 'token'"),
    ("cronjob: null", "missing property 'cronjob'"),
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
    (f"environments: [{{name: {'é' * 128}}}]", "expected at most 255 bytes"),
    ("extraEnv: [{name: SUPERCARGO_TOKEN_FILE, value: /x}]", "the chart already sets SUPERCARGO_TOKEN_FILE"),
    ("extraEnv: [{name: NO_PROXY, value: x}]", "the chart already sets NO_PROXY"),
    ("compliance: {org: ''}", "compliance.org is empty"),
    ("compliance: {baseUrl: ''}", "compliance.baseUrl is empty"),
    ("compliance: {baseUrl: compliance.example.com}", 'compliance.baseUrl is "compliance.example.com": expected a URL'),
    ("compliance: {baseUrl: 'https://x.example.com/api/v2'}", 'compliance.baseUrl is "https://x.example.com/api/v2": remove'),
    ("compliance: {baseUrl: 'https://x.example.com/api/v2//'}", "/api/v2, which the agent appends"),
    ("compliance: {baseUrl: 'https://user:password@x.example.com'}", "compliance.baseUrl is redacted: expected a URL"),
    ("compliance: {baseUrl: 'https://x.example.com:99999'}", "expected a URL"),
    ("compliance: {baseUrl: 'https://x.example.com?a=b'}", "expected a URL"),
    ("compliance: {baseUrl: 'http://compliance.example.com'}", "set compliance.allowHttp"),
    ("compliance: {baseUrl: 'http://localhost.example.com'}", "set compliance.allowHttp"),
    ("compliance: {token: {value: x}}", "more than one of projected.audience, existingSecret and value"),
    ("compliance: {token: {projected: {audience: x}}}", "more than one of projected.audience, existingSecret and value"),
    ("compliance: {token: {existingSecret: ''}}", "compliance.token is empty"),
    ("compliance: {caBundle: {configMap: a, secret: b}}", "more than one of configMap, secret and value"),
    ("agent: {interval: 0s}", "agent.interval is 0s"),
    ("agent: {interval: 24h1s}", "agent.interval is 24h1s"),
    ("cronjob: {timeout: 25h}", "cronjob.timeout is 25h"),
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
    (
        "service: {enabled: true, bootstrap: {generation: 1, organizations: []}, serviceAccount: {name: supercargo}}",
        "the service must not have the agent's permissions",
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
    "environments: [{name: прод eu-1}]",
    "extraEnv: [{name: HTTPS_PROXY, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
]


def over(base, more):
    """Merges `more` over `base`, as Helm merges files of values."""
    if not (isinstance(base, dict) and isinstance(more, dict)):
        return more
    return base | {key: over(base.get(key), value) for key, value in more.items()}


def faults():
    for base, cases in [(MINIMAL, SCHEMA), (MINIMAL, TEMPLATES), (SERVICE_ONLY, SERVICE)]:
        for text, says in cases:
            try:
                render(over(values(base), values(text)))
                yield f"accepted, expected to be rejected: {text}"
            except Rejected as rejected:
                if says not in str(rejected):
                    yield f"{text}: rejected with {rejected}, expected {says!r}"
    for text in ACCEPTED:
        try:
            render(over(values(MINIMAL), values(text)))
        except Rejected as rejected:
            yield f"rejected, expected to be accepted: {text}: {rejected}"
