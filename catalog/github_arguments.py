"""Shortens what the tools of `github/` say about their arguments, which each conversation pays for. Usage, after `tamis import openapi`:

    python3 github_arguments.py github/github.openapi.json
"""
import json
import sys

# Arguments that a model has no use for, or that name a preview.
DROPPED = {
    "advanced_search", "search_type", "issue_field_values", "exclude_pull_requests", "check_suite_id", "mentioned", "committer",
}
SHORT = {
    "owner": "Account that owns the repository",
    "repo": "Name of the repository",
    "per_page": "Results a page, at most 100",
    "page": "Number of the page",
    "since": "Only what was updated after this time, such as 2026-01-31T00:00:00Z",
    "until": "Only what was made before this time, such as 2026-01-31T00:00:00Z",
    "event": "Event that started the run, such as push or pull_request",
    "created": "Time of the run, such as >=2026-01-31",
    "status": "Status or conclusion of the run",
    "milestone": "Number of a milestone, `*` for any, `none` for none",
    "labels": "Names of labels, with commas",
    "q": "Words and qualifiers of GitHub's search",
}


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    shared = document["components"].get("parameters", {})

    def resolved(parameter):
        return shared[parameter["$ref"].rsplit("/", 1)[1]] if "$ref" in parameter else parameter

    for methods in document["paths"].values():
        for operation in methods.values():
            kept = [one for one in operation.get("parameters", []) if resolved(one)["name"] not in DROPPED]
            operation["parameters"] = kept
            for parameter in map(resolved, kept):
                short = SHORT.get(parameter["name"])
                if short:
                    parameter["description"] = short
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


main()
