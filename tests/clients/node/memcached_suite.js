// The `memcached` package, unmodified: the text protocol from Node.
'use strict';

const { promisify } = require('node:util');
const Memcached = require('memcached');
const { assert, becomes, everyByte, runAll, test } = require('./expect.js');

const { equal, deepStrictEqual } = assert;
const client = new Memcached(process.env.SHORTTAIL_MEMCACHED, { timeout: 60000, retries: 0, poolSize: 4 });
const call = {};
for (const name of ['get', 'set', 'gets', 'cas', 'getMulti', 'touch', 'add', 'replace', 'append', 'prepend', 'incr', 'decr', 'del', 'version', 'flush', 'stats', 'settings', 'slabs', 'items']) {
  call[name] = promisify(client[name].bind(client));
}

// The package reports a command that was not stored as an error or as false, by version.
const refused = async (promise) => equal(await promise.catch(() => false), false);

test('set, get, del', async () => {
  equal(await call.set('node:a', 'one', 0), true);
  equal(await call.get('node:a'), 'one');
  equal(await call.del('node:a'), true);
  equal(await call.del('node:a'), false);
  equal(await call.get('node:a'), undefined);
});

test('numbers, objects, buffers travel in the flags', async () => {
  for (const value of [7, 1.5, true, 'ключ', { a: [1, 2] }, everyByte(256), '']) {
    await call.set('node:t', value, 0);
    deepStrictEqual(await call.get('node:t'), value);
  }
});

test('add, replace, append, prepend', async () => {
  await call.del('node:c');
  await refused(call.replace('node:c', '0', 0));
  await refused(call.append('node:c', '0'));
  equal(await call.add('node:c', '1', 0), true);
  await refused(call.add('node:c', '2', 0));
  equal(await call.replace('node:c', 'mid', 0), true);
  equal(await call.append('node:c', '>'), true);
  equal(await call.prepend('node:c', '<'), true);
  equal(await call.get('node:c'), '<mid>');
});

test('gets and cas', async () => {
  await call.set('node:cas', 'old', 0);
  const got = await call.gets('node:cas');
  equal(got['node:cas'], 'old');
  equal(await call.cas('node:cas', 'new', got.cas, 0), true);
  equal(await call.cas('node:cas', 'late', got.cas, 0), false);
  equal(await call.get('node:cas'), 'new');
});

test('incr, decr', async () => {
  await call.set('node:n', 10, 0);
  equal(await call.incr('node:n', 32), 42);
  equal(await call.decr('node:n', 2), 40);
  equal(await call.decr('node:n', 1000), 0);
  equal(await call.incr('node:absent', 1), false);
  await call.set('node:n', 'text', 0);
  await assert.rejects(call.incr('node:n', 1), /non-numeric/);
});

test('many at once, getMulti', async () => {
  const wanted = {};
  for (let i = 0; i < 500; i++) wanted[`node:m${i}`] = 'v'.repeat(i);
  await Promise.all(Object.entries(wanted).map(([key, value]) => call.set(key, value, 0)));
  deepStrictEqual({ ...(await call.getMulti([...Object.keys(wanted), 'node:absent'])) }, wanted);
});

test('sizes and limits', async () => {
  for (const size of [1, 100, 4096, 65536, 300001, 600000]) {
    await call.set('node:size', everyByte(size), 0);
    deepStrictEqual(await call.get('node:size'), everyByte(size));
  }
  await assert.rejects(async () => call.set('node:size', everyByte((1 << 20) + 1), 0));
});

test('expiry and touch', async () => {
  await call.set('node:soon', 'x', 1);
  await call.set('node:kept', 'y', 1);
  equal(await call.touch('node:kept', 1000), true);
  equal(await call.touch('node:absent', 1000), false);
  await becomes(undefined, () => call.get('node:soon'));
  equal(await call.get('node:kept'), 'y');
});

test('version, stats, settings, items, flush', async () => {
  await call.set('node:f', 'x', 0);
  equal((await call.version())[0].version.length >= 5, true);
  equal((await call.stats())[0].curr_items >= 1, true);
  equal((await call.settings())[0].item_size_max, 1048576);
  equal(Array.isArray(await call.items()), true);
  deepStrictEqual(await call.flush(), [true]);
  equal(await call.get('node:f'), undefined);
});

runAll();
