// Encodes documents with the reference encoder. Each line of standard input is `{"document": .., "options": ..}`, and each
// line of the output `{"json": .., "toon": ..}`: the document as JavaScript writes it, and as TOON.
import { createInterface } from "node:readline";
import { encode } from "@toon-format/toon";

for await (const line of createInterface({ input: process.stdin })) {
  const { document, options } = JSON.parse(line);
  console.log(JSON.stringify({ json: JSON.stringify(document), toon: encode(document, options) }));
}
