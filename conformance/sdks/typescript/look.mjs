// What the clients of this folder do once they are connected, and what they write.

export const FILLED_IN = { username: "ada", email: "ada@example.test" };

export function readArguments() {
  const [mode, wire, ...rest] = process.argv.slice(2);
  if (wire === "http") {
    const [url, plan] = rest;
    return { mode, url: new URL(url), plan: JSON.parse(plan) };
  }
  const [plan, command, ...args] = rest;
  return { mode, command, args, plan: JSON.parse(plan) };
}

// `call` is the client's `callTool` with params and options alone.
export async function look(client, call, protocol, plan, asked, logs) {
  const seen = {
    protocol,
    server: client.getServerVersion()?.name,
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    calls: [],
  };
  const capabilities = client.getServerCapabilities();
  if (capabilities?.logging) {
    await client.setLoggingLevel("info");
  }
  for (const [name, args] of plan) {
    const progress = [];
    asked.length = 0;
    logs.length = 0;
    const options = { onprogress: ({ progress: done, total }) => progress.push([done, total]) };
    const result = await call({ name, arguments: args }, options);
    seen.calls.push({ result, progress, asked: [...asked], logs: [...logs] });
  }
  if (capabilities?.resources) {
    seen.resource = (await client.readResource({ uri: "test://static-text" })).contents;
  }
  if (capabilities?.prompts) {
    const name = "test_prompt_with_arguments";
    seen.prompt = (await client.getPrompt({ name, arguments: { arg1: "a", arg2: "b" } })).messages;
  }
  console.log(JSON.stringify(seen));
}
