// A client on version 1 of the TypeScript SDK: `old_client.mjs MODE http URL PLAN` or
// `old_client.mjs MODE stdio PLAN PROGRAM [ARGUMENT …]`. MODE is ignored.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

import { FILLED_IN, look, readArguments } from "./look.mjs";

const { url, command, args, plan } = readArguments();
const asked = [];
const logs = [];
const client = new Client({ name: "peer", version: "1.0.0" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: FILLED_IN };
});
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
  logs.push([params.level, params.data]);
});
const transport = url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport({ command, args });
let protocol;
const inner = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  protocol = version;
  inner?.(version);
};
await client.connect(transport);
const call = (params, options) => client.callTool(params, undefined, options);
await look(client, call, protocol, plan, asked, logs);
await client.close();
