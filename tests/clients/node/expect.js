// The few words in which the Node suites speak; prints `ok` and `not ok` lines and a last line `N passed, N failed`.
'use strict';

const assert = require('node:assert');

// Who ends otherwise than by `runAll`, as nothing is left that a case could wait for, has failed.
process.exitCode = 1;

// The bound only ends a run in which the expected never happens.
const EXPIRY_SECONDS_MAX = 20;
const cases = [];

const test = (name, body) => cases.push({ name, body });

async function becomes(wanted, read) {
  const deadline = Date.now() + EXPIRY_SECONDS_MAX * 1000;
  let got = await read();
  while (got !== wanted && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    got = await read();
  }
  assert.deepStrictEqual(got, wanted);
}

function everyByte(size) {
  const value = Buffer.alloc(size);
  for (let i = 0; i < size; i++) value[i] = i & 255;
  return value;
}

async function runAll() {
  let failed = 0;
  for (const { name, body } of cases) {
    try {
      await body();
      console.log(`ok ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${name}: ${error && error.stack}`);
    }
  }
  console.log(`${cases.length - failed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

module.exports = { assert, becomes, everyByte, runAll, test };
