#!/usr/bin/env python3
"""Writes the payloads beside this file from the packages that SOURCES.md names.

    python3 make.py --octocrab DIR --webhooks DIR --notion DIR

Each DIR is an unpacked package. The result depends on nothing else, so that `git diff` after a run shows whether the
payloads still are what SOURCES.md says.
"""

import argparse
import copy
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def write(name, value):
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    (HERE / name).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text.encode())} bytes")


def objects(value):
    """Every JSON object in a document, outer ones first."""
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from objects(member)
    elif isinstance(value, list):
        for element in value:
            yield from objects(element)


# --- GitHub: recorded objects, unchanged -------------------------------------------------------------------------

# Written by GitHub's documentation rather than recorded.
DOCUMENTATION = {"octocat/Hello-World", "octocat/Hello-World-Template", "octocat/hello-world", "github/hello-world"}


def repositories(octocrab, webhooks):
    found = {}
    for document in octocrab + webhooks:
        for o in objects(document):
            name = o.get("full_name")
            recorded = "forks_count" in o and isinstance(o.get("created_at"), str) and name not in DOCUMENTATION
            if recorded and name not in found:
                found[name] = o
    return list(found.values())[:20]


def issues(octocrab_dir, webhooks):
    def octocrab(name, *path):
        value = json.loads((octocrab_dir / "tests/resources" / name).read_text(encoding="utf-8"))
        for step in path:
            value = value[step]
        return value

    events = {event["name"]: event["examples"] for event in webhooks}
    return [
        octocrab("search_issues.json", "items", 0),
        octocrab("issues_labeled_webhook_event.json", "issue"),
        octocrab("issue_comment_created_webhook_event.json", "issue"),
        octocrab("issue_comment_edited_webhook_event.json", "issue"),
        octocrab("issue_comment_event.json", "payload", "issue"),
        octocrab("issues_event.json", "payload", "issue"),
        events["issues"][18]["changes"]["old_issue"],
        events["issues"][13]["issue"],
        events["issues"][5]["issue"],
        events["issues"][0]["issue"],
        events["issues"][4]["issue"],
        events["issues"][11]["issue"],
        events["issues"][16]["issue"],
        events["issues"][20]["issue"],
        events["issue_comment"][1]["issue"],
    ]


# --- Notion: one recorded page, repeated with other values ------------------------------------------------------

FOODS = [
    ("Tuscan kale", "🥬", "🥬 Vegetable", "pink", 2.5, True),
    ("Navel orange", "🍊", "🍎 Fruit", "blue", 1.25, True),
    ("Sourdough", "🍞", "🍞 Grain", "brown", 6, False),
    ("Basil", "🌿", "🥬 Vegetable", "pink", 2.99, True),
    ("Lentils", "🫘", "💪 Protein", "yellow", 3.4, True),
    ("Gala apple", "🍎", "🍎 Fruit", "blue", 0.99, False),
    ("Rolled oats", "🌾", "🍞 Grain", "brown", 4.5, True),
    ("Firm tofu", "🧈", "💪 Protein", "yellow", 2.75, True),
    ("Carrot", "🥕", "🥬 Vegetable", "pink", 1.1, False),
    ("Blueberries", "🫐", "🍎 Fruit", "blue", 5.25, True),
]


def database(recorded):
    page = recorded["results"][0]
    pages = []
    for i, (name, emoji, group, color, price, in_stock) in enumerate(FOODS):
        p = copy.deepcopy(page)
        if i > 0:
            p["id"] = f"{0x59833787 + i:08x}{page['id'][8:]}"
            p["created_time"] = f"2022-03-{i + 1:02d}T19:05:00.000Z"
            p["last_edited_time"] = f"2022-07-{i + 6:02d}T20:25:00.000Z"
            p["icon"]["emoji"] = emoji
            p["url"] = f"https://www.notion.so/{name.replace(' ', '-')}-{p['id'].replace('-', '')}"
            properties = p["properties"]
            properties["Food group"]["select"].update(name=group, color=color)
            properties["Price"]["number"] = price
            properties["In stock"]["checkbox"] = in_stock
            properties["Last ordered"]["date"]["start"] = f"2022-02-{22 - i:02d}"
            properties["Number of meals"]["rollup"]["number"] = 2 + i % 3
            title = properties["Name"]["title"][0]
            title["text"]["content"] = title["plain_text"] = name
        pages.append(p)
    return {**recorded, "results": pages}


# --- Slack: made, in the shape of the reference of conversations.history ----------------------------------------

TEAM, USERS = "T0KR3QX7B", ["U0A1SVENJ", "U0B2MIRAQ", "U0C3JONAS", "U0D4PRIYA", "U0E5DEPLOY"]
LINES = [
    (3, "Deploy of checkout-api 2.41.0 to production has started", []),
    (0, "Watching the error rate for the next ten minutes", ["eyes"]),
    (1, "p99 on the cart endpoint went from 180 ms to 420 ms right after the canary", ["eyes", "chart_with_upwards_trend"]),
    (2, "Same here, I see retries on the payment client as well", []),
    (0, "Holding the rollout at 10 % until we know more", ["+1"]),
    (3, "The new connection pool defaults to 8 connections, the old one had 32", ["bulb"]),
    (1, "That would explain the queueing. Can we raise it without a new build?", []),
    (3, "Yes, it is an environment variable: CHECKOUT_POOL_SIZE", ["pray"]),
    (0, "Setting it to 32 for the canary now", []),
    (4, "Configuration change applied: checkout-api canary, CHECKOUT_POOL_SIZE=32", []),
    (1, "p99 is back at 185 ms", ["tada", "+1"]),
    (2, "Retries are gone too", ["tada"]),
    (0, "Going on with the rollout, 50 % next", ["rocket"]),
    (4, "Deploy of checkout-api 2.41.0: 50 % of production", []),
    (1, "Flat so far", []),
    (4, "Deploy of checkout-api 2.41.0: 100 % of production", ["tada", "rocket"]),
    (2, "I will write the follow-up: the default has to be part of the load test", ["+1"]),
    (3, "Here is the dashboard that I used: https://grafana.example.com/d/checkout", []),
    (0, "Thanks all. Closing the incident channel tomorrow if nothing comes up", ["wave"]),
    (1, "Rollout notes are in the wiki under Releases / 2.41", ["heart"]),
]


def history():
    messages = []
    for i, (who, text, reactions) in enumerate(LINES):
        ts = f"{1718000000 + 97 * i}.{(i * 104729 + 1879) % 1000000:06d}"
        user = USERS[who]
        message = {
            "user": user,
            "type": "message",
            "ts": ts,
            "client_msg_id": f"{0x1F2E3D4C + i * 7919:08x}-6a5b-4c3d-8e2f-{0x0A1B2C3D4E5F + i * 104729:012x}",
            "text": text,
            "team": TEAM,
            "blocks": [
                {
                    "type": "rich_text",
                    "block_id": f"b{i:02d}Qx",
                    "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}],
                }
            ],
        }
        if who == 4:
            message |= {"subtype": "bot_message", "bot_id": "B0F6RELEAS", "app_id": "A0G7CICD42"}
            del message["client_msg_id"]
        if reactions:
            users = [USERS[(who + 1 + k) % 4] for k in range(2)]
            message["reactions"] = [{"name": name, "users": users, "count": len(users)} for name in reactions]
        if i % 6 == 2:
            latest = f"{1718000040 + 97 * i}.{(i * 7919 + 31) % 1000000:06d}"
            message |= {
                "thread_ts": ts,
                "reply_count": 2,
                "reply_users_count": 1,
                "latest_reply": latest,
                "reply_users": [USERS[(who + 1) % 4]],
                "is_locked": False,
                "subscribed": False,
            }
        if i % 9 == 8:
            message["edited"] = {"user": user, "ts": f"{1718000030 + 97 * i}.000000"}
        messages.append(message)
    messages.reverse()
    return {
        "ok": True,
        "messages": messages,
        "has_more": True,
        "pin_count": 2,
        "channel_actions_ts": None,
        "channel_actions_count": 0,
        "response_metadata": {"next_cursor": "bmV4dF90czoxNzE3OTk5OTAzMDAwMTg3OQ=="},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("octocrab", "webhooks", "notion"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path, metavar="DIR")
    args = parser.parse_args()
    octocrab = [json.loads(p.read_bytes()) for p in sorted((args.octocrab / "tests/resources").glob("*.json"))]
    webhooks = json.loads((args.webhooks / "api.github.com/index.json").read_bytes())
    recorded = json.loads((args.notion / "src/endpoints/databases/tests/query_200.json").read_bytes())
    write("github-list-repos.json", repositories(octocrab, webhooks))
    write("github-list-issues.json", issues(args.octocrab, webhooks))
    write("notion-query-database.json", database(recorded))
    write("slack-channel-history.json", history())


if __name__ == "__main__":
    main()
