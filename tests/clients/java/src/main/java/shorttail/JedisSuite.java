package shorttail;

import static shorttail.Checks.becomes;
import static shorttail.Checks.equal;
import static shorttail.Checks.everyByte;
import static shorttail.Checks.holds;
import static shorttail.Checks.raises;
import static shorttail.Checks.run;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.GetExParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

/** Jedis, unmodified, once for each version of the protocol. */
final class JedisSuite {
    private final Jedis redis;

    private JedisSuite(Jedis redis) {
        this.redis = redis;
    }

    static void runAll(HostAndPort server) {
        for (RedisProtocol protocol : RedisProtocol.values()) {
            var settings = DefaultJedisClientConfig.builder().timeoutMillis(60_000).protocol(protocol).clientName("tester").build();
            try (Jedis redis = new Jedis(server, settings)) {
                var suite = new JedisSuite(redis);
                String name = "jedis " + protocol + ": ";
                run(name + "strings and their options", suite::strings);
                run(name + "counters and errors", suite::counters);
                run(name + "many keys, ranges", suite::many);
                run(name + "expiry", suite::expiry);
                run(name + "pipeline of a thousand", suite::pipeline);
                run(name + "scan, dbsize, flush", suite::keyspace);
                run(name + "bytes of every kind and size", suite::bytes);
            }
        }
    }

    private void strings() {
        equal("PONG", redis.ping());
        equal("tester", redis.clientGetname());
        redis.del("jedis:a");
        equal(null, redis.set("jedis:a", "0", SetParams.setParams().xx()));
        equal("OK", redis.set("jedis:a", "1", SetParams.setParams().nx().ex(100)));
        equal(null, redis.set("jedis:a", "2", SetParams.setParams().nx()));
        equal("1", redis.setGet("jedis:a", "3"));
        equal("3", redis.getEx("jedis:a", GetExParams.getExParams().ex(50)));
        holds(redis.ttl("jedis:a") > 40, "GETEX set a time to live");
        equal("3", redis.getDel("jedis:a"));
        equal(null, redis.get("jedis:a"));
        equal("none", redis.type("jedis:a"));
    }

    private void counters() throws Exception {
        redis.del("jedis:n");
        equal(1L, redis.incr("jedis:n"));
        equal(42L, redis.incrBy("jedis:n", 41));
        equal(40L, redis.decrBy("jedis:n", 2));
        equal(40.5, redis.incrByFloat("jedis:n", 0.5));
        equal("ERR value is not an integer or out of range", raises(JedisDataException.class, () -> redis.incr("jedis:n")));
        redis.set("jedis:n", "" + Long.MAX_VALUE);
        equal("ERR increment or decrement would overflow", raises(JedisDataException.class, () -> redis.incr("jedis:n")));
    }

    private void many() {
        equal("OK", redis.mset("jedis:1", "a", "jedis:2", "b"));
        List<String> wanted = new ArrayList<>(List.of("a", "b"));
        wanted.add(null);
        equal(wanted, redis.mget("jedis:1", "jedis:2", "jedis:absent"));
        equal(3L, redis.append("jedis:1", "bc"));
        equal("bc", redis.getrange("jedis:1", 1, -1));
        equal(6L, redis.setrange("jedis:1", 4, "xy"));
        equal(6L, redis.strlen("jedis:1"));
        equal("abc\0xy", redis.get("jedis:1"));
        equal(2L, redis.exists("jedis:1", "jedis:2", "jedis:absent"));
        equal(2L, redis.unlink("jedis:1", "jedis:2", "jedis:absent"));
    }

    private void expiry() throws Exception {
        redis.psetex("jedis:soon", 50, "x");
        redis.setex("jedis:kept", 100, "y");
        holds(redis.pttl("jedis:kept") > 90_000, "time to live in milliseconds");
        equal(1L, redis.persist("jedis:kept"));
        equal(-1L, redis.ttl("jedis:kept"));
        equal(-2L, redis.ttl("jedis:absent"));
        long at = System.currentTimeMillis() / 1000 + 1000;
        equal(1L, redis.expireAt("jedis:kept", at));
        equal(at, redis.expireTime("jedis:kept"));
        becomes(null, () -> redis.get("jedis:soon"));
        equal(1L, redis.expire("jedis:kept", -1));
        equal(false, redis.exists("jedis:kept"));
    }

    private void pipeline() {
        List<Response<String>> answers = new ArrayList<>();
        try (Pipeline pipeline = redis.pipelined()) {
            for (int i = 0; i < 1000; i++) {
                pipeline.set("jedis:p" + i % 17, "v" + i);
                answers.add(pipeline.get("jedis:p" + i % 17));
            }
            pipeline.sync();
        }
        for (int i = 0; i < 1000; i++) {
            equal("v" + i, answers.get(i).get());
        }
    }

    private void keyspace() {
        equal("OK", redis.flushAll());
        equal(0L, redis.dbSize());
        var wanted = new TreeSet<String>();
        for (int i = 0; i < 300; i++) {
            wanted.add("jedis:k" + i);
            redis.set("jedis:k" + i, "x");
        }
        equal(300L, redis.dbSize());
        var got = new TreeSet<String>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            var page = redis.scan(cursor, new ScanParams().match("jedis:*").count(25));
            got.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        equal(wanted, got);
        equal("OK", redis.flushDB());
        equal(null, redis.randomKey());
    }

    private void bytes() {
        for (int size : new int[] {0, 1, 255, 4096, 65_536, 1_000_000}) {
            redis.set(everyByte(200), everyByte(size));
            equal(everyByte(size), redis.get(everyByte(200)));
        }
    }
}
