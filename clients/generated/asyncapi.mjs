// Reads docs/asyncapi.yaml as AsyncAPI's own parser does: no errors, no warnings.

import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

const text = readFileSync(new URL("../../docs/asyncapi.yaml", import.meta.url), "utf8");
const { document, diagnostics } = await new Parser().parse(text);
const SEVERITIES = ["error", "warning"];
const faults = diagnostics.filter(({ severity }) => severity < SEVERITIES.length);
for (const { severity, path, message } of faults) console.error(`${SEVERITIES[severity]} at ${path.join(".")}: ${message}`);
if (faults.length || !document) process.exit(1);
console.log(`asyncapi ${document.version()}: ${document.allChannels().length} channels, ${document.allMessages().length} messages`);
