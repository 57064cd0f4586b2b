"""Hooks of .ci/schemathesis, for rules that a JSON Schema cannot express."""

import hashlib
import itertools
import json

import jsonschema_rs
import schemathesis

FILES = {
    "template_file": b"version: 1\ntrail: {attestations: [{name: unit-tests, type: junit}]}\n",
    "policy_file": b"_schema: https://example.com/schemas/policy/environment/v1\n"
    b"artifacts: {provenance: {required: true}}\n",
}


# Values of a check of a policy, which must exist.
EXISTING = {"environment_name": "prod", "policy_name": "rules"}

# An image index and its digest.
INDEX = json.dumps({"manifests": [{"digest": "sha256:" + "0" * 63 + "1"}]})
DOCUMENT = {"document": INDEX, "fingerprint": hashlib.sha256(INDEX.encode()).hexdigest()}


# A key belongs to one request.
KEYS = itertools.count()


@schemathesis.hook
def map_case(context, case):
    """Makes valid requests follow the rules below."""
    is_valid = case.meta is None or case.meta.generation.mode.is_positive
    if is_valid and case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key-{next(KEYS)}"
    if is_valid and isinstance(case.body, dict):
        data = case.body.get("data_json")
        data = data if isinstance(data, dict) else case.body
        limit_to_total(data.get("junit_results"))
        separate(data.get("repo_info"))
        if case.operation.path.endswith("/{type_or_name}") and case.operation.method == "post":
            schemas = case.operation.schema.raw_schema["components"]["schemas"]
            case.path_parameters["type_or_name"] = type_of(data, schemas)
        if case.operation.path.endswith("/policies/{org}/check"):
            case.body.update({name: value for name, value in EXISTING.items() if case.body.get(name) is not None})
        if case.operation.path.endswith("/image-index"):
            case.body.update(DOCUMENT)
        # The bootstrap file declares the other environment.
        if case.operation.path.endswith("/environments/{org}") and case.body.get("name") == "prod":
            case.body["name"] = "stage"
        for name, content in FILES.items():
            if case.body.get(name) is not None:
                case.body[name] = content.decode() if case.media_type == "application/json" else content
    return case


@schemathesis.hook
def filter_case(context, case):
    """Drops forms that are meant to violate their schema, but fulfill it: a violated alternative of `oneOf` may leave
    another one, such as null."""
    if case.meta is None or not isinstance(case.body, dict) or case.media_type != "multipart/form-data":
        return True
    parts = case.meta.components.items()
    if {location.value for location, part in parts if part.mode.is_negative} != {"body"}:
        return True
    document, operation = case.operation.schema.raw_schema, case.operation
    content = document["paths"][operation.path][operation.method]["requestBody"]["content"]
    schema = {**content[case.media_type]["schema"], "components": document["components"]}
    # Files are no JSON.
    body = json.loads(json.dumps(case.body, default=lambda file: ""))
    return not jsonschema_rs.Draft202012Validator(schema).is_valid(body)


@schemathesis.deserializer("application/octet-stream")
def read_file(context, response):
    """Files have any bytes."""
    return response.content.decode("latin-1")


# The fields of each type of attestation.
TYPES = {
    "junit": "JunitFields",
    "generic": "GenericFields",
    "custom": "CustomFields",
    "system": "SystemFields",
    "snyk": "SnykFields",
    "jira": "JiraFields",
    "sonar": "SonarFields",
    "pull_request": "PullRequestFields",
}


def type_of(data, schemas):
    """The type of an attestation: the one of whose fields it has most. The document cannot say that the path decides which
    fields are valid."""
    def is_valid(fields):
        schema = {"$ref": f"#/components/schemas/{fields}", "components": {"schemas": schemas}}
        return jsonschema_rs.Draft202012Validator(schema).is_valid(data)

    return max(
        (kind for kind, fields in TYPES.items() if is_valid(fields)),
        key=lambda kind: len(schemas[TYPES[kind]]["properties"].keys() & data.keys()),
    )


def limit_to_total(results):
    """Limits failures, errors and skipped tests to the total."""
    for result in results if isinstance(results, list) else []:
        left = result["total"]
        for name in ("failures", "errors", "skipped"):
            if result.get(name) is not None:
                result[name] = min(result[name], left)
                left -= result[name]


def separate(repository):
    """Gives repositories that lack a provider or an identifier a name of their own. Otherwise such a request may match
    several repositories, which the service rejects."""
    if isinstance(repository, dict):
        missing = [name for name in ("provider", "id") if not repository.get(name)]
        if missing and isinstance(repository.get("name"), str):
            repository["name"] = "/".join([*missing, repository["name"]])[:255].rstrip("/ ")
