// GitHub's schema behind graphql-yoga, on loopback. Every field has a value that follows from its type and name, so that a test
// knows each answer. Arguments of root fields are members of their values.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";

import { GraphQLError, buildSchema, isAbstractType, isEnumType, isListType, isNonNullType, isObjectType } from "graphql";
import { createYoga } from "graphql-yoga";

// The package exports only its program, next to which the schema lies.
const own = new URL("schema.graphql", import.meta.resolve("@octokit/graphql-schema"));
const path = process.env.SCHEMA ?? own;
const schema = buildSchema(readFileSync(path, "utf8"), { assumeValidSDL: true });

function value(type, name, parent) {
  if (isNonNullType(type)) return value(type.ofType, name, parent);
  if (isListType(type)) return [value(type.ofType, `${name}_1`, parent), value(type.ofType, `${name}_2`, parent)];
  if (isAbstractType(type)) return { __typename: schema.getPossibleTypes(type)[0].name };
  if (isObjectType(type)) return {};
  if (isEnumType(type)) return type.getValues()[0].value;
  switch (type.name) {
    case "Int": return name.length;
    case "Float": return name.length + 0.5;
    case "Boolean": return true;
    default: return `${parent}.${name}`;
  }
}

for (const type of Object.values(schema.getTypeMap())) {
  if (!isObjectType(type) || type.name.startsWith("__")) continue;
  for (const [name, field] of Object.entries(type.getFields())) {
    field.resolve = (source, args) => {
      if (args.login === "nobody") throw new GraphQLError("Could not resolve to a User with the login of 'nobody'.");
      if (source?.login === "partly" && name === "bio") throw new GraphQLError("The bio is a secret of its own.");
      if (source && name in source) return source[name];
      const made = value(field.type, name, type.name);
      return made !== null && typeof made === "object" && !Array.isArray(made) ? { ...args, ...made } : made;
    };
  }
}

const seen = [];
const yoga = createYoga({ schema, logging: false, maskedErrors: false });
const server = createServer((request, response) => {
  if (request.url === "/seen") {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(seen));
    return;
  }
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", async () => {
    const body = Buffer.concat(chunks).toString();
    seen.push({ method: request.method, url: request.url, authorization: request.headers.authorization ?? null, body });
    const answer = await yoga.fetch(`http://localhost${request.url}`, {
      method: request.method,
      headers: { "content-type": "application/json", accept: request.headers.accept ?? "*/*" },
      body: request.method === "POST" ? body : undefined,
    });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
});
server.listen(Number(process.env.PORT ?? 4000), "127.0.0.1");
