// The server of this folder on version 1 of the TypeScript SDK: `stdio` or `http`. Over HTTP it keeps
// sessions, takes a free port of loopback and prints `listening PORT`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const PIXEL = Buffer.from("89504e470d0a1a0a", "hex").toString("base64");
// Clients on this SDK lose a notification that arrives in one piece with the response after it.
const pause = () => new Promise((resume) => setTimeout(resume, 50));
const text = (text) => ({ content: [{ type: "text", text }] });

function build() {
  const server = new McpServer(
    { name: "peer", version: "1.2.3" },
    { instructions: "Ask in English.", capabilities: { logging: {} } },
  );
  server.registerTool(
    "add",
    {
      description: "Adds two whole numbers",
      inputSchema: { a: z.int(), b: z.int() },
      outputSchema: { sum: z.int() },
    },
    async ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }),
  );
  server.registerTool("picture", {}, async () => ({
    content: [
      { type: "text", text: "a pixel" },
      { type: "image", mimeType: "image/png", data: PIXEL },
    ],
  }));
  server.registerTool("work", {}, async (extra) => {
    const progressToken = extra._meta?.progressToken;
    const progress = async (progress, message) => {
      await extra.sendNotification({
        method: "notifications/progress",
        params: { progressToken, progress, total: 2, message },
      });
      await pause();
    };
    await progress(1, "half");
    await extra.sendNotification({
      method: "notifications/message",
      params: { level: "info", data: "halfway" },
    });
    await progress(2, "done");
    return text("worked");
  });
  server.registerTool("ask", {}, async (extra) => {
    const answer = await server.server.elicitInput(
      {
        message: "Who are you?",
        requestedSchema: {
          type: "object",
          properties: { name: { type: "string", title: "Name" } },
          required: ["name"],
        },
      },
      { relatedRequestId: extra.requestId },
    );
    return text(answer.action === "accept" ? `hello ${answer.content.name}` : answer.action);
  });
  server.registerTool("fail", {}, async () => {
    throw new Error("out of order");
  });
  server.registerResource("one", "note://one", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "first note" }],
  }));
  return server;
}

if (process.argv[2] === "stdio") {
  await build().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await build().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => console.log("listening", http.address().port));
}
