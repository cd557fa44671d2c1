#!/usr/bin/env python3
"""Writes the payloads beside this file from the packages that ../SOURCES.md names.

    python3 make.py --github api.github.com.json --notion DIR

The first is a file of the npm package @octokit/openapi, the second an unpacked notion-client. The result depends on nothing else.
"""

import argparse
import json
import pathlib

HERE = pathlib.Path(__file__).parent
EXAMPLES = HERE / "../../examples/payloads"


def write(name, value):
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    (HERE / name).parent.mkdir(exist_ok=True)
    (HERE / name).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text.encode())} bytes")


# --- GitHub: the examples of the description, unchanged ---------------------------------------------------------------

GITHUB = {
    "list-org-repos": ("repos/list-for-org", "200"),
    "get-repo": ("repos/get", "200"),
    "create-issue": ("issues/create", "201"),
    "list-comments": ("issues/list-comments", "200"),
    "create-comment": ("issues/create-comment", "201"),
    "search-issues": ("search/issues-and-pull-requests", "200"),
    "list-pulls": ("pulls/list", "200"),
    "get-pull": ("pulls/get", "200"),
    "list-pull-files": ("pulls/list-files", "200"),
    "list-pull-reviews": ("pulls/list-reviews", "200"),
    "list-commits": ("repos/list-commits", "200"),
    "get-content": ("repos/get-content", "200"),
    "search-code": ("search/code", "200"),
    "list-workflow-runs": ("actions/list-workflow-runs-for-repo", "200"),
    "list-releases": ("repos/list-releases", "200"),
}


def github(description):
    operations = {
        operation["operationId"]: operation
        for methods in description["paths"].values()
        for operation in methods.values()
        if isinstance(operation, dict)
    }
    for tool, (operation, status) in GITHUB.items():
        examples = operations[operation]["responses"][status]["content"]["application/json"]["examples"]
        example = next(iter(examples.values()))
        if "$ref" in example:
            example = description["components"]["examples"][example["$ref"].rsplit("/", 1)[1]]
        write(f"github/{tool}.json", example["value"])
    issues = json.loads((EXAMPLES / "github-list-issues.json").read_text(encoding="utf-8"))
    # The one with the most in it.
    issues = [issue for issue in issues if "pull_request" not in issue]
    write("github/get-issue.json", max(issues, key=lambda issue: len(json.dumps(issue))))


# --- Notion: what the tests of a client hold, unchanged ---------------------------------------------------------------

NOTION = {
    "search": "search/tests/search_by_title_200.json",
    "get-database": "databases/tests/retrieve_200.json",
    "get-page": "pages/tests/retrieve_200.json",
    "get-block-children": "blocks/tests/retrieve_block_children_200.json",
    "create-page": "pages/tests/create_200.json",
    "append-blocks": "blocks/tests/append_200.json",
}


def notion(directory):
    for tool, file in NOTION.items():
        write(f"notion/{tool}.json", json.loads((directory / "src/endpoints" / file).read_text(encoding="utf-8")))


# --- Slack and Linear: invented, in the shapes that they document -----------------------------------------------------

PEOPLE = ["Asha Rao", "Ben Okafor", "Chiara Conti", "Dmitri Volkov", "Elena Petrova", "Farid Haddad", "Grace Kim", "Hugo Silva"]
TOPICS = [
    ("Export stops at 10,000 rows", "started", "In Progress", "High"),
    ("Retry uploads after a dropped connection", "started", "In Review", "Medium"),
    ("Sign-in loop with expired invitations", "unstarted", "Todo", "Urgent"),
    ("Dark mode: table headers are unreadable", "backlog", "Backlog", "Low"),
    ("Search ignores accents", "unstarted", "Todo", "Medium"),
    ("Move nightly reports to the queue", "started", "In Progress", "No priority"),
    ("Audit log shows the wrong time zone", "completed", "Done", "High"),
    ("Webhook signatures for the new key", "backlog", "Backlog", "Medium"),
    ("Rate limits per workspace", "unstarted", "Todo", "High"),
    ("Document the import format", "backlog", "Backlog", "Low"),
    ("Flaky test in the billing suite", "started", "In Progress", "Medium"),
    ("Keyboard navigation in the picker", "completed", "Done", "Low"),
    ("Large attachments block the editor", "started", "In Review", "High"),
    ("Rename projects from the sidebar", "canceled", "Canceled", "Low"),
    ("Show who approved a change", "unstarted", "Todo", "Medium"),
]


def identifier(n):
    return f"{0x5f3a9c10 + n * 7919:08x}-4b2e-4c1d-8a7f-{0x91d3e5b70000 + n * 104729:012x}"


def handle(person):
    return person.lower().replace(" ", ".")


def slack():
    channels = ["general", "random", "eng-platform", "eng-mobile", "design", "support", "releases", "incidents", "hiring", "office"]

    def channel(n, name):
        return {
            "id": f"C0{n:02}TAMIS{n % 7}", "name": name, "is_channel": True, "is_group": False, "is_im": False,
            "created": 1449252889 + n * 86400, "creator": f"U0{n % 8}PERSON", "is_archived": False, "is_general": n == 0,
            "unlinked": 0, "name_normalized": name, "is_shared": False, "is_ext_shared": False, "is_org_shared": False,
            "pending_shared": [], "is_pending_ext_shared": False, "is_member": n % 3 != 1, "is_private": False, "is_mpim": False,
            "updated": 1718000000000 + n,
            "topic": {"value": f"All about {name}" if n % 2 else "", "creator": f"U0{n % 8}PERSON" if n % 2 else "", "last_set": 1449252889 if n % 2 else 0},
            "purpose": {"value": f"For everyone who works on {name}.", "creator": f"U0{n % 8}PERSON", "last_set": 1449252889},
            "previous_names": [], "num_members": 4 + n * 3,
        }

    write("slack/list-channels.json", {
        "ok": True, "channels": [channel(n, name) for n, name in enumerate(channels)],
        "response_metadata": {"next_cursor": "dGVhbTpDMDYxRkE1UEI="},
    })

    def user(n, person):
        picture = f"https://avatars.example.com/2024-01-01/{n:02}a3cde_{{}}.jpg"
        return {
            "id": f"U0{n}PERSON", "team_id": "T0KR3QX7B", "name": handle(person), "deleted": n == 7, "color": "9f69e7",
            "real_name": person, "tz": "Europe/Paris", "tz_label": "Central European Summer Time", "tz_offset": 7200,
            "profile": {
                "title": ["Engineer", "Designer", "Support"][n % 3], "phone": "", "skype": "", "real_name": person,
                "real_name_normalized": person, "display_name": handle(person).split(".")[0],
                "display_name_normalized": handle(person).split(".")[0], "status_text": "On holiday" if n == 2 else "",
                "status_emoji": ":palm_tree:" if n == 2 else "", "status_expiration": 0, "avatar_hash": f"e3b51ca7{n}",
                "email": f"{handle(person)}@example.com", "first_name": person.split()[0], "last_name": person.split()[1],
                **{f"image_{size}": picture.format(size) for size in (24, 32, 48, 72, 192, 512)}, "team": "T0KR3QX7B",
            },
            "is_admin": n == 0, "is_owner": n == 0, "is_primary_owner": n == 0, "is_restricted": False, "is_ultra_restricted": False,
            "is_bot": False, "is_app_user": False, "updated": 1718001843, "is_email_confirmed": True, "who_can_share_contact_card": "EVERYONE",
        }

    users = [user(n, person) for n, person in enumerate(PEOPLE)]
    write("slack/list-users.json", {"ok": True, "members": users, "cache_ts": 1718001900, "response_metadata": {"next_cursor": ""}})
    write("slack/get-user.json", {"ok": True, "user": users[2]})

    def block(text, n):
        section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        return [{"type": "rich_text", "block_id": f"b{n}xQ", "elements": [section]}]

    texts = ["Exports stop at 10,000 rows since this morning", "I can reproduce it with the large workspace",
             "The new limit of the queue, most likely", "Confirmed: the limit is read from the wrong setting",
             "A fix is in review", "Deployed, please try again", "Works, thanks!"]
    thread = f"{1718001843}.991730"
    write("slack/get-thread-replies.json", {
        "ok": True,
        "messages": [{
            "user": f"U0{n % 5}PERSON", "type": "message", "ts": f"{1718001843 + n * 311}.99173{n}", "text": text,
            "client_msg_id": identifier(n), "team": "T0KR3QX7B", "thread_ts": thread,
            **({"reply_count": len(texts) - 1, "reply_users_count": 4, "latest_reply": f"{1718001843 + 6 * 311}.991736",
                "reply_users": [f"U0{m}PERSON" for m in range(1, 5)], "is_locked": False, "subscribed": False}
               if n == 0 else {"parent_user_id": "U00PERSON"}),
            "blocks": block(text, n),
        } for n, text in enumerate(texts)],
        "has_more": False, "response_metadata": {"next_cursor": ""},
    })
    write("slack/search-messages.json", {
        "ok": True, "query": "export",
        "messages": {
            "total": len(texts), "pagination": {"total_count": len(texts), "page": 1, "per_page": 20, "page_count": 1, "first": 1, "last": 7},
            "paging": {"count": 20, "total": len(texts), "page": 1, "pages": 1},
            "matches": [{
                "iid": identifier(n), "team": "T0KR3QX7B", "score": 0,
                "channel": {"id": f"C0{n:02}TAMIS{n % 7}", "is_channel": True, "is_group": False, "is_im": False, "name": channels[n],
                            "is_shared": False, "is_org_shared": False, "is_ext_shared": False, "is_private": False, "is_mpim": False,
                            "pending_shared": [], "is_pending_ext_shared": False},
                "type": "message", "user": f"U0{n % 5}PERSON", "username": handle(PEOPLE[n % 5]), "ts": f"{1718001843 + n * 311}.99173{n}",
                "blocks": block(text, n), "text": text,
                "permalink": f"https://example.slack.com/archives/C0{n:02}TAMIS{n % 7}/p{1718001843 + n * 311}99173{n}", "no_reactions": True,
            } for n, text in enumerate(texts)],
        },
    })
    write("slack/post-message.json", {
        "ok": True, "channel": "C002TAMIS2", "ts": "1718003000.000247",
        "message": {"user": "U0BBOT", "type": "message", "ts": "1718003000.000247", "bot_id": "B0BBOT", "app_id": "A0BBOT",
                    "text": "The nightly report is ready", "team": "T0KR3QX7B",
                    "bot_profile": {"id": "B0BBOT", "app_id": "A0BBOT", "name": "reports", "deleted": False, "updated": 1718000000,
                                    "team_id": "T0KR3QX7B", "icons": {"image_36": "https://avatars.example.com/b_36.png"}},
                    "blocks": block("The nightly report is ready", 1)},
    })


def linear():
    def person(n):
        return {"name": PEOPLE[n % 8], "email": f"{handle(PEOPLE[n % 8])}@example.com"}

    def url(n, title):
        slug = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")
        return f"https://linear.app/example/issue/ENG-{101 + n}/{slug}"

    def short(n, topic):
        title, kind, state, priority = topic
        return {
            "identifier": f"ENG-{101 + n}", "title": title, "url": url(n, title), "priorityLabel": priority,
            "updatedAt": f"2026-03-{28 - n:02}T09:{n:02}:12.481Z", "state": {"name": state, "type": kind},
            "assignee": person(n) if n % 4 else None, "team": {"key": "ENG"},
            "project": {"name": "Spring release"} if n % 3 == 0 else None,
            "labels": {"nodes": [{"name": name} for name in [["Bug"], ["Feature", "Customer"], []][n % 3]]},
        }

    page = {"hasNextPage": True, "endCursor": identifier(15)}
    issues = [short(n, topic) for n, topic in enumerate(TOPICS)]
    mine = [dict(issue, assignee=person(1)) for issue in issues if issue["state"]["type"] in ("started", "unstarted")]
    last = {"hasNextPage": False, "endCursor": identifier(8)}
    write("linear/list-issues.json", {"data": {"issues": {"nodes": issues, "pageInfo": page}}})
    write("linear/list-my-issues.json", {"data": {"viewer": {"assignedIssues": {"nodes": mine, "pageInfo": last}}}})
    said = ["I can reproduce it with the large workspace.", "The limit is read from the wrong setting, a fix is in review.",
            "Customers ask when this is released."]
    write("linear/get-issue.json", {"data": {"issue": {
        **issues[0], "id": identifier(0), "description": "The export ends after 10,000 rows.\n\n1. Open a large workspace\n2. Export it as CSV\n",
        "branchName": "asha/eng-101-export-stops-at-10000-rows", "estimate": 3, "dueDate": "2026-04-10", "createdAt": "2026-03-20T08:12:45.118Z",
        "completedAt": None, "creator": person(5), "parent": {"identifier": "ENG-90", "title": "Exports for large workspaces"},
        "children": {"nodes": [{"identifier": "ENG-131", "title": "Test with 1,000,000 rows"}]},
        "comments": {"nodes": [{"body": body, "createdAt": f"2026-03-2{n + 1}T10:01:00.000Z", "user": person(n + 2)} for n, body in enumerate(said)]},
    }}})
    found = [{key: issue[key] for key in ("identifier", "title", "url", "priorityLabel", "updatedAt", "state", "assignee", "team")}
             for issue in issues[:10]]
    write("linear/search-issues.json", {"data": {"searchIssues": {"totalCount": 10, "nodes": found, "pageInfo": last}}})
    names = ["Spring release", "Mobile sign-in", "Exports", "Billing move", "Accessibility", "Search"]
    write("linear/list-projects.json", {"data": {"projects": {"nodes": [{
        "id": identifier(40 + n), "name": name, "description": f"Everything that belongs to {name.lower()}.",
        "url": f"https://linear.app/example/project/{name.lower().replace(' ', '-')}-{n}a9c10", "progress": round(0.15 * n, 2),
        "health": ["onTrack", "atRisk", None][n % 3], "startDate": f"2026-0{1 + n % 3}-05", "targetDate": f"2026-0{4 + n % 3}-30" if n % 4 else None,
        "status": {"name": ["In Progress", "Planned"][n % 2], "type": ["started", "planned"][n % 2]}, "lead": person(n) if n % 3 else None,
        "teams": {"nodes": [{"key": "ENG"}] + ([{"key": "DES"}] if n % 2 else [])},
    } for n, name in enumerate(names)], "pageInfo": last}}})
    states = [("Backlog", "backlog"), ("Todo", "unstarted"), ("In Progress", "started"), ("In Review", "started"), ("Done", "completed"), ("Canceled", "canceled")]
    write("linear/list-teams.json", {"data": {"teams": {"nodes": [{
        "id": identifier(60 + n), "key": key, "name": name, "description": None,
        "states": {"nodes": [{"id": identifier(70 + n * 10 + m), "name": state, "type": kind} for m, (state, kind) in enumerate(states)]},
    } for n, (key, name) in enumerate([("ENG", "Engineering"), ("DES", "Design")])]}}})
    write("linear/create-issue.json", {"data": {"issueCreate": {"success": True, "issue": {
        "id": identifier(99), "identifier": "ENG-140", "title": "Retry uploads", "url": url(39, "Retry uploads")}}}})
    write("linear/create-comment.json", {"data": {"commentCreate": {"success": True, "comment": {
        "id": identifier(98), "url": url(0, TOPICS[0][0]) + "#comment-5f3d"}}}})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--github", type=pathlib.Path, required=True)
    parser.add_argument("--notion", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    github(json.loads(arguments.github.read_text(encoding="utf-8")))
    notion(arguments.notion)
    slack()
    linear()


main()
