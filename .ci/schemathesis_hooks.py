"""Hooks of .ci/schemathesis, for a rule that a JSON Schema cannot express."""

import schemathesis


@schemathesis.hook
def map_case(context, case):
    """Limits failures, errors and skipped tests of valid requests to the total."""
    if case.meta is None or case.meta.generation.mode.is_positive:
        document = case.body.get("data_json") if isinstance(case.body, dict) else None
        results = document.get("junit_results") if isinstance(document, dict) else None
        for result in results if isinstance(results, list) else []:
            left = result["total"]
            for name in ("failures", "errors", "skipped"):
                if result.get(name) is not None:
                    result[name] = min(result[name], left)
                    left -= result[name]
    return case
