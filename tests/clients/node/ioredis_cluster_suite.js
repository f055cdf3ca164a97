// ioredis' Cluster, unmodified, against gateways that have keys where they belong: it finds them, and goes straight to each.
'use strict';

const Redis = require('ioredis');
const slotOf = require('cluster-key-slot');
const { assert, runAll, test } = require('./expect.js');

const { equal, deepStrictEqual } = assert;
const [host, port] = process.env.SHORTTAIL_REDIS.split(':');
const SLOTS = 16384;
const KEYS = 300;
const cluster = new Redis.Cluster([{ host, port: Number(port) }], { enableAutoPipelining: true, slotsRefreshTimeout: 30000 });

const key = (i) => `ioc:${i}`;

test('finds every gateway, and a gateway for every slot', async () => {
  const slots = await cluster.cluster('SLOTS');
  const covered = slots.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  equal(covered, SLOTS);
  const masters = cluster.nodes('master');
  equal(masters.length, new Set(slots.map(([, , [, masterPort]]) => masterPort)).size);
  equal(masters.length, 3);
  deepStrictEqual(await Promise.all(masters.map((node) => node.ping())), ['PONG', 'PONG', 'PONG']);
  equal(cluster.nodes('slave').length, 0);
});

test('each key is set and read where it belongs', async () => {
  await Promise.all(Array.from({ length: KEYS }, (_, i) => cluster.set(key(i), `value ${i}`)));
  const found = await Promise.all(Array.from({ length: KEYS }, (_, i) => cluster.get(key(i))));
  deepStrictEqual(found, Array.from({ length: KEYS }, (_, i) => `value ${i}`));
  const sizes = await Promise.all(cluster.nodes('master').map((node) => node.dbsize()));
  equal(sizes.every((size) => size > 0), true, `each gateway has some: ${sizes}`);
  equal(sizes.reduce((sum, size) => sum + size, 0), KEYS);
});

test('a gateway that is asked for another\'s key says where it is', async () => {
  const slot = slotOf(key(0));
  const answers = await Promise.all(cluster.nodes('master').map((node) => node.get(key(0)).catch((error) => error.message)));
  equal(answers.filter((answer) => answer === 'value 0').length, 1, String(answers));
  const moved = answers.filter((answer) => answer !== 'value 0');
  equal(moved.length, 2);
  equal(moved.every((message) => new RegExp(`^MOVED ${slot} [^ ]+:[0-9]+$`).test(message)), true, String(moved));
});

test('keys of one slot at once; of several an error', async () => {
  equal(await cluster.mset('{ioc}:a', '1', '{ioc}:b', '2'), 'OK');
  deepStrictEqual(await cluster.mget('{ioc}:a', '{ioc}:b', '{ioc}:absent'), ['1', '2', null]);
  equal(await cluster.del('{ioc}:a', '{ioc}:b'), 2);
  // The client itself refuses such a command, so a gateway is asked.
  await assert.rejects(cluster.nodes('master')[0].mget(key(1), key(2)), { message: "CROSSSLOT Keys in request don't hash to the same slot" });
});

test('a pipeline of one slot', async () => {
  const pipeline = cluster.pipeline();
  for (let i = 0; i < 200; i++) pipeline.incr('{ioc}:n').append('{ioc}:text', 'x');
  const answers = await pipeline.exec();
  deepStrictEqual(answers, Array.from({ length: 400 }, (_, i) => [null, (i >> 1) + 1]));
});

test('who begins with a stale picture of the slots learns the right one', async () => {
  // All slots at the wrong gateway: each answer says where to go.
  const wrong = new Redis.Cluster([{ host, port: Number(port) }], { slotsRefreshTimeout: 30000 });
  await new Promise((resolve, reject) => wrong.once('ready', resolve).once('error', reject));
  const masters = wrong.nodes('master').map((node) => `${node.options.host}:${node.options.port}`);
  const owners = wrong.slots.map(([owner]) => owner);
  wrong.slots = owners.map((owner) => [masters[(masters.indexOf(owner) + 1) % masters.length]]);
  equal(await wrong.get(key(7)), 'value 7');
  wrong.disconnect();
});

runAll();
