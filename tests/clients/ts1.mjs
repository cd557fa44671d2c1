// Drives the TypeScript SDK v1 (`@modelcontextprotocol/sdk`), which knows the legacy era only.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import { ListChanges, cancelled, reads, run } from "./node_driver.mjs";

await run(async ({ url, command, elicits, samples, roots }) => {
    const changes = new ListChanges();
    const client = new Client(
        { name: "tamis-tests", version: "1" },
        {
            listChanged: changes.option,
            capabilities: { ...(elicits && { elicitation: {} }), ...(samples && { sampling: {} }), ...(roots && { roots: {} }) },
        },
    );
    if (elicits) {
        client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: elicits }));
    }
    if (samples) {
        client.setRequestHandler(CreateMessageRequestSchema, async () => ({
            role: "assistant",
            model: "test",
            content: { type: "text", text: samples },
        }));
    }
    if (roots) {
        client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots }));
    }
    const transport = command
        ? new StdioClientTransport({ command: command[0], args: command.slice(1) })
        : new StreamableHTTPClientTransport(new URL(url));
    let protocolVersion = null;
    const set = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => {
        protocolVersion = version;
        set?.(version);
    };
    await client.connect(transport);
    return {
        hello: { protocolVersion, server: client.getServerVersion()?.name, instructions: client.getInstructions() ?? null },
        ...reads(client),
        call: ({ name, arguments: args }) => client.callTool({ name, arguments: args }),
        progress: async ({ name, arguments: args }) => {
            const progress = [];
            const onprogress = params => progress.push(params);
            return { result: await client.callTool({ name, arguments: args }, undefined, { onprogress }), progress };
        },
        cancel: ({ name, arguments: args, after }) =>
            cancelled(signal => client.callTool({ name, arguments: args }, undefined, { signal }), after),
        watch: async () => ({}),
        changed: options => changes.changed(options),
        ping: () => client.ping(),
        close: () => client.close(),
    };
});
