// The line protocol of the TypeScript drivers; see README.md.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const answer = value => process.stdout.write(`${JSON.stringify(value)}\n`);

const failure = error => ({
    error: { kind: error?.constructor?.name, code: error?.code ?? null, message: String(error?.message ?? error), data: error?.data ?? null },
});

/** Counts notifications that a list has changed. */
export class Changes {
    #pending = false;
    #wake = () => {};

    note() {
        this.#pending = true;
        this.#wake();
    }

    async changed({ timeout }) {
        if (!this.#pending) {
            await Promise.race([new Promise(resolve => (this.#wake = resolve)), sleep(timeout * 1000)]);
        }
        const changed = this.#pending;
        this.#pending = false;
        return { changed };
    }
}

/** Counts the notifications of each list: the option of a client, and the command that asks for them. */
export class ListChanges {
    #lists = { tools: new Changes(), prompts: new Changes(), resources: new Changes() };

    get option() {
        const each = Object.entries(this.#lists);
        return Object.fromEntries(
            each.map(([list, changes]) => [list, { autoRefresh: false, debounceMs: 0, onChanged: () => changes.note() }]),
        );
    }

    changed({ list = "tools", ...options }) {
        return this.#lists[list].changed(options);
    }
}

/** Calls a tool and gives up after some milliseconds. */
export async function cancelled(call, after) {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort("test"), after);
    try {
        await call(abort.signal);
        return { cancelled: false };
    } catch (error) {
        if (!abort.signal.aborted) throw error;
        return { cancelled: true };
    } finally {
        clearTimeout(timer);
    }
}

/** All pages of a list. */
async function all(member, list) {
    const found = [];
    let cursor;
    do {
        const page = await list({ cursor });
        found.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return { [member]: found };
}

/** The commands for lists, prompts and resources, which both SDKs name alike. */
export function reads(client) {
    return {
        list: () => all("tools", params => client.listTools(params)),
        prompts: () => all("prompts", params => client.listPrompts(params)),
        prompt: ({ name, arguments: args }) => client.getPrompt({ name, arguments: args }),
        resources: () => all("resources", params => client.listResources(params)),
        templates: () => all("resourceTemplates", params => client.listResourceTemplates(params)),
        read: ({ uri }) => client.readResource({ uri }),
        complete: ({ ref, argument }) => client.complete({ ref, argument }),
    };
}

/** Connects by the first command, then answers commands until the input ends. */
export async function run(connect) {
    let session;
    for await (const line of createInterface({ input: process.stdin })) {
        if (line.trim() === "") continue;
        const { op, ...rest } = JSON.parse(line);
        try {
            if (op === "connect") {
                session = await connect(rest);
                answer({ ok: session.hello });
            } else {
                answer({ ok: await session[op](rest) });
            }
        } catch (error) {
            answer(failure(error));
        }
    }
    await session?.close();
    process.exit(0);
}
