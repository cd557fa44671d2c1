// Drives the TypeScript client v2 (`@modelcontextprotocol/client`), which speaks both eras and begins with the legacy
// one unless it is told to negotiate.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { ListChanges, cancelled, reads, run } from "./node_driver.mjs";

await run(async ({ url, command, mode = "auto", elicits }) => {
    const changes = new ListChanges();
    const client = new Client(
        { name: "tamis-tests", version: "1" },
        {
            versionNegotiation: { mode },
            listChanged: changes.option,
            ...(elicits && { capabilities: { elicitation: {} } }),
        },
    );
    if (elicits) {
        client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: elicits }));
    }
    const transport = command
        ? new StdioClientTransport({ command: command[0], args: command.slice(1) })
        : new StreamableHTTPClientTransport(new URL(url));
    await client.connect(transport);
    return {
        hello: {
            protocolVersion: client.getNegotiatedProtocolVersion(),
            server: client.getServerVersion()?.name,
            instructions: client.getInstructions() ?? null,
        },
        ...reads(client),
        call: ({ name, arguments: args }) => client.callTool({ name, arguments: args }),
        progress: async ({ name, arguments: args }) => {
            const progress = [];
            const onprogress = params => progress.push(params);
            return { result: await client.callTool({ name, arguments: args }, { onprogress }), progress };
        },
        cancel: ({ name, arguments: args, after }) =>
            cancelled(signal => client.callTool({ name, arguments: args }, { signal }), after),
        watch: async () => ({}),
        changed: options => changes.changed(options),
        ping: () => client.ping(),
        close: () => client.close(),
    };
});
