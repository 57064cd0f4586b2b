"""Names of objects: unique between releases, and within the length limits."""

from helm import Rejected, render, values
from manifests import faults as faults_of
from manifests import identity, objects

EVERYTHING = values("""
environments: [{name: prod, namespaces: [shop]}]
compliance: {org: acme, allowHttp: true, token: {value: x}}
networkPolicy: {enabled: true}
monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}
service:
  enabled: true
  bootstrap: {generation: 1, organizations: [{name: acme}]}
  ingress: {enabled: true, hosts: [x.example.com]}
""")
LONG = "a-release-whose-name-is-as-long-as-helm-allows-it-to"
PAIRS = [
    # Two releases in one namespace; the same name in two namespaces; names that differ in the last character.
    (("supercargo", "one"), ("other", "one")),
    (("supercargo", "one"), ("supercargo", "other")),
    ((f"{LONG}1", "one"), (f"{LONG}2", "one")),
    # Name and namespace concatenate to the same text.
    (("supercargo", "a-b"), ("supercargo-a", "b")),
    ((LONG, "n" * 62 + "1"), (LONG, "n" * 62 + "2")),
]


def faults():
    for pair in PAIRS:
        for more in ({}, {"mode": "cronjob"}, {"environments": [{"name": "prod"}]}):
            both = [objects(render(EVERYTHING | more, name=name, namespace=namespace)) for name, namespace in pair]
            left, right = ({identity(object) for object in rendered} for rendered in both)
            for shared in left & right:
                yield f"{pair[0]} and {pair[1]} share {shared}"
            for rendered in both:
                if len({identity(object) for object in rendered}) != len(rendered):
                    yield f"{pair}: duplicate name"
                for object in rendered:
                    for fault in faults_of(object):
                        yield f"{identity(object)}: {fault}"
    try:
        render(EVERYTHING, name="1st")
        yield "invalid Service name accepted: 1st-supercargo-serve"
    except Rejected as rejected:
        if "set fullnameOverride" not in str(rejected):
            yield str(rejected)
