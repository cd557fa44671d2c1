#!/usr/bin/env python3
"""Writes the payloads beside this file, for docs/format.md.

    python3 make.py

Issues are recorded (SOURCES.md), apart from three. Everything else is made here, from the words below and a generator
of numbers with a fixed seed: the result depends on nothing else, so that `git diff` after a run shows whether the
payloads still are what SOURCES.md says.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent.parent


class Numbers:
    """The generator of Numerical Recipes: the same numbers in every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 8) % limit

    def pick(self, values):
        return values[self.below(len(values))]

    def some(self, values, most):
        return [value for value in values if self.below(len(values)) < most]

    def hexadecimal(self, digits):
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(digits))


def write(name, items):
    """One item a line, without further white space: small, and a change shows where it is."""
    lines = ",\n".join(json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in items)
    save(name, f"[\n{lines}\n]\n")


def save(name, text):
    (HERE / name).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text.encode())} bytes")


# --- Words ------------------------------------------------------------------------------------------------------

PEOPLE = ["ada-m", "bosko", "carla.reyes", "dmitri-k", "eun-ji", "farah-n", "goran", "hana-ito", "ivo", "jun-wei"]
PARTS = ["scheduler", "retry loop", "config loader", "connection pool", "index builder", "session store", "parser",
         "upload handler", "rate limiter", "cache layer", "migration runner", "metrics exporter"]
VERBS = ["drops", "duplicates", "ignores", "truncates", "blocks on", "retries", "reorders", "leaks"]
THINGS = ["the last batch", "requests with an empty body", "events that arrive during a reload", "headers in upper case",
          "timestamps with an offset", "files larger than 2 GB", "the first response after a timeout",
          "keys that contain a slash", "rows with a null tenant", "connections that were closed by the peer"]
SENTENCES = [
    "This started after the upgrade to {major}.{minor}.{patch}; the version before is not affected.",
    "I can reproduce it on two machines, one of them with a fresh install.",
    "The {part} {verb} {thing}, and nothing in the log says so.",
    "As far as I can see, the lock is held while `{name}()` waits for the disk.",
    "A workaround is to set `{flag}` to {count}, which costs about {count} ms a request.",
    "The failing case is covered by a test now, see `tests/{name}_test.go`.",
    "We measured {count} requests a second before, and {patch}{count} afterwards.",
    "I would rather not change the public interface for this, since two plugins depend on it.",
    "The documentation says that {thing} are handled by the {part}, but that has not been true for a while.",
    "Could we make the limit configurable? The default of {count} is too small for our nightly job.",
    "That is a good point. I have moved the check into the {part}, so that both callers share it.",
    "Memory grows by {count} MB an hour until the process is restarted.",
    "Nit: `{name}` reads better than `{name}Impl` here.",
    "The stack trace points at the {part}, but the cause is one level up.",
    "Let us do that in a follow-up; this change is large enough.",
    "With `{flag}=debug` the {part} prints every decision, which helped a lot.",
]
NAMES = ["flushBatch", "loadConfig", "acquireLease", "mergeRanges", "parseHeader", "openSegment", "rotateKeys"]
FLAGS = ["MAX_INFLIGHT", "POOL_SIZE", "RETRY_BUDGET", "LOG_LEVEL", "FLUSH_INTERVAL"]
LABELS = [("bug", "d73a4a"), ("documentation", "0075ca"), ("performance", "fbca04"), ("needs-triage", "ededed"),
          ("area/storage", "1d76db"), ("area/api", "5319e7"), ("good first issue", "7057ff")]


def sentence(numbers):
    return numbers.pick(SENTENCES).format(
        major=2, minor=numbers.below(9), patch=1 + numbers.below(9), part=numbers.pick(PARTS),
        verb=numbers.pick(VERBS), thing=numbers.pick(THINGS), name=numbers.pick(NAMES), flag=numbers.pick(FLAGS),
        count=8 + numbers.below(240))


def prose(numbers, least, more):
    count = least + numbers.below(more)
    return " ".join(sentence(numbers) for _ in range(count))


def title(numbers):
    return f"{numbers.pick(PARTS).capitalize()} {numbers.pick(VERBS)} {numbers.pick(THINGS)}"


def time(day, numbers):
    """A time of 2026; `day` counts from the first of May."""
    month, day = 5 + day // 28, 1 + day % 28
    return f"2026-{month:02d}-{day:02d}T{6 + numbers.below(14):02d}:{numbers.below(60):02d}:{numbers.below(60):02d}Z"


# --- Issues: recorded -------------------------------------------------------------------------------------------


def issues():
    saved = json.loads((HERE.parent / "github-list-issues.json").read_text(encoding="utf-8"))
    lines = (ROOT / "bench/data/issues.json").read_text(encoding="utf-8").splitlines()
    saved += [json.loads(line.rstrip(",")) for line in lines if line.startswith("{")]
    recorded = []
    for issue in saved:
        if issue not in recorded:
            recorded.append(issue)
    numbers = Numbers(25)
    derived = []
    for n in range(25 - len(recorded)):
        issue = json.loads(json.dumps(recorded[4 * n]))
        issue.update(id=issue["id"] + 7 + n, number=issue["number"] + 40 + n, title=title(numbers),
                     body=prose(numbers, 4, 4))
        derived.append(issue)
    return recorded + derived


# --- GitHub: pull requests, their files, comments of an issue ---------------------------------------------------

REPOSITORY = "https://api.github.com/repos/octo-org/ledger"
PAGES = "https://github.com/octo-org/ledger"


def github_user(login):
    number = 4_100_000 + 7919 * PEOPLE.index(login)
    return {
        "login": login, "id": number, "node_id": f"MDQ6VXNlcj{number}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "url": f"https://api.github.com/users/{login}", "html_url": f"https://github.com/{login}",
        "type": "User", "site_admin": False,
    }


def label(numbers, name, color):
    number = 900_000 + numbers.below(90_000)
    return {"id": number, "node_id": f"LA_{numbers.hexadecimal(16)}", "url": f"{REPOSITORY}/labels/{name}",
            "name": name, "color": color, "default": name == "bug", "description": None}


def branch(numbers, login, ref):
    return {"label": f"{login}:{ref}", "ref": ref, "sha": numbers.hexadecimal(40), "user": github_user(login),
            "repo": {"id": 481516, "name": "ledger", "full_name": f"{login}/ledger", "private": False}}


def pulls():
    """30 pull requests, as "List pull requests" returns them; `head.repo` and `base.repo` have four members."""
    numbers = Numbers(30)
    for n in range(30):
        number, login = 1412 - 3 * n, numbers.pick(PEOPLE)
        merged = numbers.below(3) == 0
        text = title(numbers)
        created = time(60 - 2 * n, numbers)
        links = {name: {"href": f"{REPOSITORY}/{path}"} for name, path in [
            ("self", f"pulls/{number}"), ("html", f"pull/{number}"), ("issue", f"issues/{number}"),
            ("comments", f"issues/{number}/comments"), ("commits", f"pulls/{number}/commits")]}
        yield {
            "url": f"{REPOSITORY}/pulls/{number}", "id": 1_900_000_000 + number, "node_id": f"PR_{numbers.hexadecimal(18)}",
            "html_url": f"{PAGES}/pull/{number}", "diff_url": f"{PAGES}/pull/{number}.diff",
            "patch_url": f"{PAGES}/pull/{number}.patch", "issue_url": f"{REPOSITORY}/issues/{number}",
            "number": number, "state": "closed" if merged else "open", "locked": False, "title": text,
            "user": github_user(login), "body": "" if numbers.below(8) == 0 else prose(numbers, 2, 9),
            "created_at": created, "updated_at": created.replace("T0", "T1"), "closed_at": created if merged else None,
            "merged_at": created if merged else None, "merge_commit_sha": numbers.hexadecimal(40),
            "assignee": None, "assignees": [github_user(person) for person in numbers.some(PEOPLE, 1)],
            "requested_reviewers": [github_user(person) for person in numbers.some(PEOPLE, 2)], "requested_teams": [],
            "labels": [label(numbers, name, color) for name, color in numbers.some(LABELS, 2)], "milestone": None,
            "draft": numbers.below(6) == 0, "commits_url": f"{REPOSITORY}/pulls/{number}/commits",
            "review_comments_url": f"{REPOSITORY}/pulls/{number}/comments",
            "statuses_url": f"{REPOSITORY}/statuses/{numbers.hexadecimal(40)}",
            "head": branch(numbers, login, text.lower().replace(" ", "-")[:28]),
            "base": branch(numbers, "goran", "main"), "_links": links,
            "author_association": numbers.pick(["MEMBER", "CONTRIBUTOR", "COLLABORATOR"]), "auto_merge": None,
            "active_lock_reason": None,
        }


FILES = [
    "src/store/segment.rs", "src/store/index.rs", "src/store/compaction.rs", "src/api/routes.rs", "src/api/errors.rs",
    "src/api/auth.rs", "src/config/load.rs", "src/config/defaults.rs", "src/net/pool.rs", "src/net/retry.rs",
    "src/metrics/export.rs", "src/lib.rs", "src/main.rs", "tests/store_test.rs", "tests/api_test.rs",
    "tests/retry_test.rs", "migrations/0042_add_tenant.sql", "migrations/0043_backfill_tenant.sql",
    "web/src/app.ts", "web/src/ledger/table.tsx", "web/src/ledger/table.test.tsx", "web/dist/app.min.js",
    "web/dist/app.min.css", "docs/configuration.md", "docs/upgrade.md", "README.md", "CHANGELOG.md", "Cargo.toml",
    "Cargo.lock", "web/package-lock.json",
]
CODE = [
    "    let {n} = self.{m}(limit)?;", "    if {n}.is_empty() {{", "        return Ok(None);", "    }}",
    "    for entry in {n}.iter().take({c}) {{", "        self.{m}(entry, {c}).await?;",
    "    // Held for one batch only: readers must not wait for the disk.", "    metrics::counter!(\"{m}_total\").increment({c});",
    "    match {n} {{", "        Some(value) if value.len() > {c} => self.{m}(value),", "        _ => Err(Error::Closed),",
    "    tracing::debug!(count = {c}, \"{m}\");", "",
]


def code(numbers):
    return numbers.pick(CODE).format(n=numbers.pick(["batch", "ranges", "lease", "header", "row"]),
                                     m=numbers.pick(["flush", "load", "acquire", "merge", "rotate"]), c=numbers.below(512))


def locked(numbers):
    return f'"node_modules/{numbers.pick(NAMES).lower()}-{numbers.below(90)}": {{"version": "{numbers.below(9)}.' \
           f'{numbers.below(30)}.{numbers.below(9)}", "integrity": "sha512-{numbers.hexadecimal(48)}=="}},'


def minified(numbers):
    return ";".join(f"function {chr(97 + numbers.below(26))}{n}(e,t){{return e.{numbers.pick(NAMES)}(t,{numbers.below(99)})}}"
                    for n in range(6))


def diffs():
    numbers = Numbers(31)
    for name in FILES:
        generated = name.endswith(("lock", "lock.json")) or ".min." in name
        line = locked if "lock" in name else minified if ".min." in name else code
        lines, added, removed = [], 0, 0
        for _ in range(1 + numbers.below(3)):
            start = 10 + numbers.below(300)
            lines.append(f"@@ -{start},7 +{start},12 @@ fn {numbers.pick(NAMES)}()")
            for _ in range(8 + numbers.below(24 if generated else 14)):
                mark = numbers.pick("   ++++-")
                added, removed = added + (mark == "+"), removed + (mark == "-")
                lines.append(mark + line(numbers))
        sha = numbers.hexadecimal(40)
        yield {
            "sha": sha, "filename": name, "status": "added" if name.endswith(".sql") else "modified",
            "additions": added, "deletions": removed, "changes": added + removed,
            "blob_url": f"{PAGES}/blob/{sha}/{name}", "raw_url": f"{PAGES}/raw/{sha}/{name}",
            "contents_url": f"{REPOSITORY}/contents/{name}?ref={sha}", "patch": "\n".join(lines),
        }


def comments():
    numbers = Numbers(100)
    for n in range(100):
        number, login = 2_310_000_000 + 977 * n, numbers.pick(PEOPLE)
        # The oldest first, as the API returns them.
        when = f"2026-{5 + n // 56:02d}-{1 + n // 2 % 28:02d}T{7 + 8 * (n % 2):02d}:{numbers.below(60):02d}:00Z"
        yield {
            "url": f"{REPOSITORY}/issues/comments/{number}", "html_url": f"{PAGES}/issues/1204#issuecomment-{number}",
            "issue_url": f"{REPOSITORY}/issues/1204", "id": number, "node_id": f"IC_{numbers.hexadecimal(14)}",
            "user": github_user(login), "created_at": when, "updated_at": when, "author_association": "MEMBER",
            "body": prose(numbers, 1, 4), "performed_via_github_app": None,
        }


# --- GitLab: merge requests and discussions ---------------------------------------------------------------------

PROJECT = "https://gitlab.example.com/octo/ledger"


def gitlab_user(login):
    number = 310 + PEOPLE.index(login)
    return {"id": number, "username": login, "name": login.replace("-", " ").replace(".", " ").title(),
            "state": "active", "locked": False, "avatar_url": f"https://gitlab.example.com/uploads/user/{number}/avatar.png",
            "web_url": f"https://gitlab.example.com/{login}"}


def merge_requests():
    numbers = Numbers(32)
    for n in range(30):
        iid, state = 877 - n, numbers.pick(["opened", "opened", "merged", "closed"])
        text, created, who = title(numbers), time(58 - n, numbers), numbers.pick(PEOPLE)
        merged = created if state == "merged" else None
        yield {
            "id": 52_000 + iid, "iid": iid, "project_id": 77, "title": text, "description": prose(numbers, 1, 8),
            "state": state, "created_at": created, "updated_at": created, "merged_by": gitlab_user(who) if merged else None,
            "merged_at": merged, "closed_by": None, "closed_at": None, "target_branch": "main",
            "source_branch": text.lower().replace(" ", "-")[:28], "user_notes_count": numbers.below(30), "upvotes": 0,
            "downvotes": 0, "author": gitlab_user(who), "assignees": [], "assignee": None,
            "reviewers": [gitlab_user(person) for person in numbers.some(PEOPLE, 2)], "source_project_id": 77,
            "target_project_id": 77, "labels": [name for name, _ in numbers.some(LABELS, 2)], "draft": numbers.below(5) == 0,
            "work_in_progress": False, "milestone": None, "merge_when_pipeline_succeeds": False,
            "merge_status": "can_be_merged", "detailed_merge_status": numbers.pick(["mergeable", "not_approved", "conflict"]),
            "sha": numbers.hexadecimal(40), "merge_commit_sha": numbers.hexadecimal(40) if merged else None,
            "squash_commit_sha": None, "discussion_locked": None, "should_remove_source_branch": True,
            "reference": f"!{iid}", "references": {"short": f"!{iid}", "relative": f"!{iid}", "full": f"octo/ledger!{iid}"},
            "web_url": f"{PROJECT}/-/merge_requests/{iid}",
            "time_stats": {"time_estimate": 0, "total_time_spent": 0, "human_time_estimate": None,
                           "human_total_time_spent": None},
            "squash": False, "task_completion_status": {"count": 0, "completed_count": 0}, "has_conflicts": False,
            "blocking_discussions_resolved": numbers.below(2) == 0,
        }


def discussions():
    numbers = Numbers(33)
    for n in range(30):
        path, line, resolved = numbers.pick(FILES), 1 + numbers.below(300), numbers.below(5) < 2
        base, head = numbers.hexadecimal(40), numbers.hexadecimal(40)
        notes = []
        for reply in range(1 + numbers.below(6)):
            who, when = numbers.pick(PEOPLE), time(n, numbers)
            note = {
                "id": 120_000 + 10 * n + reply, "type": "DiffNote", "body": prose(numbers, 1, 3), "attachment": None,
                "author": gitlab_user(who), "created_at": when, "updated_at": when, "system": False,
                "noteable_id": 52_877, "noteable_type": "MergeRequest", "noteable_iid": 877, "resolvable": True,
                "resolved": resolved, "resolved_by": gitlab_user(who) if resolved else None,
            }
            if reply == 0:
                note["position"] = {"base_sha": base, "start_sha": base, "head_sha": head, "old_path": path,
                                    "new_path": path, "position_type": "text", "old_line": None, "new_line": line}
            notes.append(note)
        yield {"id": numbers.hexadecimal(40), "individual_note": False, "notes": notes}


# --- A log of a job ----------------------------------------------------------------------------------------------


def log():
    numbers = Numbers(34)
    lines = ["Running with gitlab-runner 17.4.0 on runner-7 (docker)", "Using image rust:1.82-bookworm",
             "Checking out 3f9a1c77 as main", "RUSTFLAGS=-D warnings", "CARGO_TERM_COLOR=always", "$ cargo build --workspace"]
    crates = ["serde", "tokio", "hyper", "ring", "regex", "syn", "quote", "tracing", "ledger-store", "ledger-api"]
    for n in range(240):
        lines.append(f"   Compiling {numbers.pick(crates)}-{n} v{numbers.below(3)}.{numbers.below(40)}.{numbers.below(20)}")
    lines += ["    Finished `test` profile in 3m 12s", "$ cargo test --workspace", "running 520 tests"]
    failed = {91, 233, 407}
    for n in range(520):
        name = f"{numbers.pick(['store', 'api', 'net', 'config'])}::tests::{numbers.pick(NAMES).lower()}_{n}"
        lines.append(f"test {name} ... {'FAILED' if n in failed else 'ok'}")
    lines += ["", "failures:"]
    for n in sorted(failed):
        lines += [f"---- store::tests::case_{n} stdout ----",
                  f"thread 'case_{n}' panicked at crates/store/src/segment.rs:{100 + n}:9:",
                  f"ERROR segment {n}: expected {n * 8} bytes, found {n * 8 - 4}"]
        lines += [f"  {frame}: ledger_store::{numbers.pick(NAMES).lower()} at ./src/{numbers.pick(['segment', 'index'])}.rs:{numbers.below(900)}"
                  for frame in range(8)]
    lines += ["test result: FAILED. 517 passed; 3 failed; 0 ignored; finished in 42.18s",
              "error: test failed, to rerun pass `-p ledger-store --lib`", "ERROR: Job failed: exit code 101"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write("list-issues.json", issues())
    write("list-pulls.json", list(pulls()))
    write("list-merge-requests.json", list(merge_requests()))
    write("list-diffs.json", list(diffs()))
    write("list-comments.json", list(comments()))
    write("list-discussions.json", list(discussions()))
    save("get-job-log.txt", log())
