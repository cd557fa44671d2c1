// Calls each tool of an OpenAPI document once, through `tamis serve`, with arguments made from the tool's input schema. Prism reads
// the original document, and judges each request.
//
//   node judge.mjs TAMIS DOCUMENT
//
// Prints one JSON object: how many operations there are, what became of them, and the judgement on each call.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { generate } from "json-schema-faker";

const PRISM = join(dirname(fileURLToPath(import.meta.url)), "node_modules/@stoplight/prism-cli/dist/index.js");
const [tamis, document] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "judge-"));
const children = [];

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// Starts a program, and returns what tells what it has said.
function start(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  child.stderr.on("data", (data) => (said += data));
  children.push(child);
  return () => said;
}

async function until(what, said, check) {
  const end = Date.now() + 120_000;
  while (!(await check().catch(() => false))) {
    if (Date.now() > end) throw new Error(`${what} did not start: ${said().slice(-400)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// The document without what makes prism answer for other reasons than the request: credentials, and answers other than success.
function judged() {
  const text = readFileSync(document, "utf8");
  const api = JSON.parse(text);
  delete api.security;
  // Some documents refer to the answers of other operations.
  const isReferred = /"\$ref":\s*"#\/paths\//.test(text);
  for (const item of Object.values(api.paths ?? {})) {
    for (const operation of Object.values(item)) {
      if (!operation?.responses) continue;
      delete operation.security;
      if (isReferred) continue;
      const success = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
      operation.responses = Object.fromEntries(success.length ? success : [["200", { description: "ok" }]]);
    }
  }
  const file = join(folder, "judged.openapi.json");
  writeFileSync(file, JSON.stringify(api));
  return file;
}

// The generator does not know `contentEncoding`, makes empty texts, which no path can have, and null where any value will do.
function adapted(schema, value) {
  const isEmpty = value === null ? !schema?.type : value === "" && !schema?.enum;
  const text = isEmpty ? "x" : value;
  if (typeof text === "string" && schema?.contentEncoding === "base64") return Buffer.from(text).toString("base64");
  return Array.isArray(text) ? text.map((one) => adapted(schema?.items, one)) : text;
}

async function args(schema) {
  const made = await generate(schema, {
    seed: 1,
    alwaysFakeOptionals: true,
    maxDepth: 10,
    refDepthMax: 3,
    maxItems: 2,
    minLength: 1,
  });
  return Object.fromEntries(
    Object.entries(made).map(([name, value]) => [name, adapted(schema.properties?.[name], value)]),
  );
}

function judgement(result, error) {
  const text = result ? result.content.map((block) => block.text).join("") : error.message;
  // An example of the document may contradict its own schema: the request has been accepted.
  const isAccepted = /errors#(VIOLATIONS|NO_RESPONSE_DEFINED|NOT_ACCEPTABLE|NO_COMPLEX_OBJECT_TEXT|NO_SUCCESS)/.test(text);
  if ((result && !result.isError) || (isAccepted && !/"location":\["(body|query|path|header)"/.test(text))) {
    return ["accepted"];
  }
  return [text.startsWith("Invalid arguments: ") ? "invalid" : /prism\/errors/.test(text) ? "refused" : "failed", text];
}

async function main() {
  const port = await freePort();
  const options = ["--name", "api", "--version", "1", "--base-url", `http://127.0.0.1:${port}`, "-o", folder];
  const imported = spawnSync(tamis, ["import", "openapi", document, ...options], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (imported.status !== 0) {
    const said = imported.stderr.replaceAll(document, basename(document)).trim();
    return { refusedDocument: said.split("\n").slice(0, 1) };
  }
  const [counts, ...leftOut] = imported.stdout.trim().split("\n");
  const [, became, operations] = counts.match(/: (\d+) of (\d+) operations became tools/);
  const manifest = readFileSync(join(folder, "api.yaml"), "utf8").replace(/^ {4}auth:.*(\n {6}.*)*\n/m, "");
  writeFileSync(join(folder, "api.yaml"), manifest);
  const open = "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: open}\n";
  const spec = "spec: {service: {name: api, version: '1'}, filters: [], output: {inputs: []}}\n";
  writeFileSync(join(folder, "open.yaml"), open + spec);

  const outcome = { operations: +operations, became: +became, leftOut, accepted: 0, invalid: [], refused: [], failed: [] };
  if (+became === 0) return outcome;
  const prism = start(process.execPath, [PRISM, "mock", "--errors", "-p", String(port), judged()]);
  const [listen, admin] = [await freePort(), await freePort()];
  const serve = ["serve", folder, "--listen", `127.0.0.1:${listen}`, "--admin", `127.0.0.1:${admin}`];
  const served = start(tamis, serve);
  try {
    await until("prism", prism, async () => /Prism is listening/.test(prism()) || /Error|✖/.test(prism()));
    if (!/Prism is listening/.test(prism())) throw new Error(prism().trim().split("\n").slice(-12).join(" ").slice(0, 300));
  } catch (error) {
    return { ...outcome, unjudged: error.message };
  }
  await until("tamis", served, async () => (await fetch(`http://127.0.0.1:${admin}/readyz`)).ok);
  const rpc = async (method, params) => {
    const answer = await fetch(`http://127.0.0.1:${listen}/mcp/default/open`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const text = await answer.text();
    return JSON.parse(text.startsWith("{") ? text : text.split("\n").find((line) => line.startsWith("data: {")).slice(6));
  };
  let cursor;
  do {
    const { result } = await rpc("tools/list", cursor ? { cursor } : {});
    cursor = result.nextCursor;
    for (const tool of result.tools) {
      const made = await args(tool.inputSchema).catch((error) => error);
      if (made instanceof Error) {
        outcome.invalid.push([tool.name, `no arguments can be made: ${made.message}`]);
        continue;
      }
      const { result, error } = await rpc("tools/call", { name: tool.name, arguments: made });
      const [kind, text] = judgement(result, error);
      if (kind === "accepted") outcome.accepted++;
      else outcome[kind].push([tool.name, text.slice(0, 600), JSON.stringify(made).slice(0, 300)]);
    }
  } while (cursor);
  return outcome;
}

try {
  console.log(JSON.stringify(await main()));
} catch (error) {
  console.error(error.stack);
  process.exitCode = 1;
} finally {
  children.forEach((child) => child.kill());
  rmSync(folder, { recursive: true, force: true });
}
