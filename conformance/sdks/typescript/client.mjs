// The client of this folder on version 2 of the TypeScript SDK. MODE is `auto`, which probes for the
// newest era, or `legacy`.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { FILLED_IN, look, readArguments } from "./look.mjs";

const { mode, url, command, args, plan } = readArguments();
const asked = [];
const logs = [];
const client = new Client(
  { name: "peer", version: "1.0.0" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: FILLED_IN };
});
client.setNotificationHandler("notifications/message", ({ params }) => {
  logs.push([params.level, params.data]);
});
const transport = url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport({ command, args });
await client.connect(transport);
const call = (params, options) => client.callTool(params, options);
await look(client, call, client.getNegotiatedProtocolVersion(), plan, asked, logs);
await client.close();
