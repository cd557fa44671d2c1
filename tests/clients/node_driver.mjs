// The line protocol of the TypeScript drivers; see README.md.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const answer = value => process.stdout.write(`${JSON.stringify(value)}\n`);

const failure = error => ({
    error: { kind: error?.constructor?.name, code: error?.code ?? null, message: String(error?.message ?? error), data: error?.data ?? null },
});

/** Counts notifications that the list of tools has changed. */
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

/** All pages of the list. */
export async function allTools(client) {
    const tools = [];
    let cursor;
    do {
        const page = await client.listTools({ cursor });
        tools.push(...page.tools);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return { tools };
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
