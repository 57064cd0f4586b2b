"""Names of objects: no two releases share one, and none is too long."""

from helm import Refused, render, values
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
    # Two releases in one namespace; two of one name in two namespaces; two that differ in their last letter.
    (("supercargo", "one"), ("other", "one")),
    (("supercargo", "one"), ("supercargo", "other")),
    ((f"{LONG}1", "one"), (f"{LONG}2", "one")),
    # Whose name and namespace are the same letters.
    (("supercargo", "a-b"), ("supercargo-a", "b")),
    ((LONG, "n" * 62 + "1"), (LONG, "n" * 62 + "2")),
]


def faults():
    for pair in PAIRS:
        for more in ({}, {"mode": "cronjob"}, {"environments": [{"name": "prod"}]}):
            both = [objects(render(EVERYTHING | more, name=name, namespace=namespace)) for name, namespace in pair]
            left, right = ({identity(object) for object in rendered} for rendered in both)
            for shared in left & right:
                yield f"{pair[0]} and {pair[1]} both have {shared}"
            for rendered in both:
                if len({identity(object) for object in rendered}) != len(rendered):
                    yield f"{pair}: one name is given twice"
                for object in rendered:
                    for fault in faults_of(object):
                        yield f"{identity(object)}: {fault}"
    try:
        render(EVERYTHING, name="1st")
        yield "taken, and no Service may have that name: 1st-supercargo-serve"
    except Refused as refused:
        if "give fullnameOverride" not in str(refused):
            yield str(refused)
