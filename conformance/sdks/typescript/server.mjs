// The server of this folder on version 2 of the TypeScript SDK, which serves both eras: `stdio` or
// `http`. Over HTTP it takes a free port of loopback and prints `listening PORT`.

import { createServer } from "node:http";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const PIXEL = Buffer.from("89504e470d0a1a0a", "hex").toString("base64");
const Name = z.object({ name: z.string() });
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
      inputSchema: z.object({ a: z.int(), b: z.int() }),
      outputSchema: z.object({ sum: z.int() }),
    },
    async ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }),
  );
  server.registerTool("picture", {}, async () => ({
    content: [
      { type: "text", text: "a pixel" },
      { type: "image", mimeType: "image/png", data: PIXEL },
    ],
  }));
  server.registerTool("work", {}, async (context) => {
    const progressToken = context.mcpReq._meta?.progressToken;
    const progress = (progress, message) =>
      context.mcpReq.notify({
        method: "notifications/progress",
        params: { progressToken, progress, total: 2, message },
      });
    await progress(1, "half");
    await context.mcpReq.log("info", "halfway");
    await progress(2, "done");
    return text("worked");
  });
  server.registerTool("ask", {}, async (context) => {
    const responses = context.mcpReq.inputResponses;
    if (!responses?.name) {
      const question = inputRequired.elicit({ message: "Who are you?", requestedSchema: Name });
      return inputRequired({ inputRequests: { name: question } });
    }
    const accepted = acceptedContent(responses, "name", Name);
    return text(accepted ? `hello ${accepted.name}` : responses.name.action);
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
  serveStdio(build);
} else {
  const http = createServer(toNodeHandler(createMcpHandler(build)));
  http.listen(0, "127.0.0.1", () => console.log("listening", http.address().port));
}
