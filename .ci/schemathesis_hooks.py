"""Hooks of .ci/schemathesis, for rules that a JSON Schema cannot express."""

import schemathesis

FILES = {
    "template_file": b"version: 1\ntrail: {attestations: [{name: unit-tests, type: junit}]}\n",
    "policy_file": b"_schema: https://example.com/schemas/policy/environment/v1\n"
    b"artifacts: {provenance: {required: true}}\n",
}


@schemathesis.hook
def map_case(context, case):
    """Makes valid requests follow the rules below."""
    is_valid = case.meta is None or case.meta.generation.mode.is_positive
    if is_valid and isinstance(case.body, dict):
        data = case.body.get("data_json")
        data = data if isinstance(data, dict) else case.body
        limit_to_total(data.get("junit_results"))
        separate(data.get("repo_info"))
        for name, content in FILES.items():
            if case.body.get(name) is not None:
                case.body[name] = content.decode() if case.media_type == "application/json" else content
    return case


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
