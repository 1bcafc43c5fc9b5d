// The gateway on its bad days: every scenario of `tipcast-rehearse`.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const BINARY = process.env.TIPCAST ?? new URL("../../../target/debug/tipcast", import.meta.url).pathname;
const REHEARSE = path.join(path.dirname(BINARY), "tipcast-rehearse");
const WATCHER = fileURLToPath(new URL("./watcher.mjs", import.meta.url));

test("the client does everything right on a gateway's bad days", async () => {
  const told = await new Promise((resolve) =>
    execFile(REHEARSE, ["--browser", "--slack-ms", "15000", "--", process.execPath, WATCHER], (error, out, err) =>
      resolve({ code: error?.code ?? 0, out: out + err }),
    ),
  );
  assert.equal(told.code, 0, told.out);
  assert.match(told.out, /18 played, 0 failed/);
});
