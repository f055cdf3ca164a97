package shorttail;

import static shorttail.Checks.becomes;
import static shorttail.Checks.equal;
import static shorttail.Checks.everyByte;
import static shorttail.Checks.holds;
import static shorttail.Checks.run;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;

/** Spymemcached, unmodified, over the text protocol; its optimiser merges pipelined gets by itself. */
final class SpymemcachedSuite {
    private final MemcachedClient client;

    private SpymemcachedSuite(MemcachedClient client) {
        this.client = client;
    }

    static void runAll(InetSocketAddress server) throws Exception {
        var settings = new ConnectionFactoryBuilder().setOpTimeout(60_000).setProtocol(ConnectionFactoryBuilder.Protocol.TEXT);
        MemcachedClient client = new MemcachedClient(settings.build(), List.of(server));
        var suite = new SpymemcachedSuite(client);
        run("spymemcached: set, get, delete, types", suite::setGetDelete);
        run("spymemcached: add, replace, append, prepend", suite::conditional);
        run("spymemcached: gets and cas", suite::compareAndSwap);
        run("spymemcached: incr, decr", suite::counters);
        run("spymemcached: pipelined sets and bulk get", suite::bulk);
        run("spymemcached: sizes and limits", suite::sizes);
        run("spymemcached: expiry and touch", suite::expiry);
        run("spymemcached: stats, versions, flush", suite::statisticsAndFlush);
        client.shutdown();
    }

    private void setGetDelete() throws Exception {
        equal(true, client.set("spy:a", 0, "one").get());
        equal("one", client.get("spy:a"));
        for (Object value : new Object[] {7, 8L, 1.5, true, everyByte(256), List.of("a", "b"), "ключ"}) {
            equal(true, client.set("spy:a", 0, value).get());
            equal(value, client.get("spy:a"));
        }
        equal(true, client.delete("spy:a").get());
        equal(false, client.delete("spy:a").get());
        equal(null, client.get("spy:a"));
    }

    private void conditional() throws Exception {
        client.delete("spy:c").get();
        equal(false, client.replace("spy:c", 0, "0").get());
        equal(false, client.append("spy:c", "0").get());
        equal(true, client.add("spy:c", 0, "1").get());
        equal(false, client.add("spy:c", 0, "2").get());
        equal(true, client.replace("spy:c", 0, "mid").get());
        equal(true, client.append("spy:c", ">").get());
        equal(true, client.prepend("spy:c", "<").get());
        equal("<mid>", client.get("spy:c"));
    }

    private void compareAndSwap() throws Exception {
        client.set("spy:cas", 0, "old").get();
        CASValue<Object> got = client.gets("spy:cas");
        equal("old", got.getValue());
        equal(CASResponse.OK, client.cas("spy:cas", got.getCas(), "new"));
        equal(CASResponse.EXISTS, client.cas("spy:cas", got.getCas(), "late"));
        equal("new", client.get("spy:cas"));
        client.delete("spy:cas").get();
        equal(CASResponse.NOT_FOUND, client.cas("spy:cas", got.getCas(), "gone"));
    }

    private void counters() throws Exception {
        client.set("spy:n", 0, "10").get();
        equal(42L, client.incr("spy:n", 32));
        equal(40L, client.decr("spy:n", 2));
        equal(0L, client.decr("spy:n", 1000));
        client.delete("spy:n").get();
        equal(-1L, client.incr("spy:n", 1));
        equal(5L, client.incr("spy:n", 1, 5));
        equal(6L, client.incr("spy:n", 1, 5));
    }

    private void bulk() throws Exception {
        Map<String, Object> wanted = new HashMap<>();
        List<Future<Boolean>> answers = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            wanted.put("spy:m" + i, everyByte(i * 7));
            answers.add(client.set("spy:m" + i, 0, everyByte(i * 7)));
        }
        for (Future<Boolean> answer : answers) {
            equal(true, answer.get());
        }
        List<String> keys = new ArrayList<>(wanted.keySet());
        keys.add("spy:absent");
        Map<String, Object> got = client.getBulk(keys);
        equal(wanted.keySet(), got.keySet());
        wanted.forEach((key, value) -> equal(value, got.get(key)));
    }

    private void sizes() throws Exception {
        for (int size : new int[] {0, 1, 100, 4096, 65_536, 300_001, 1_000_000}) {
            equal(true, client.set("spy:size", 0, everyByte(size)).get());
            equal(everyByte(size), client.get("spy:size"));
        }
        Checks.raises(IllegalArgumentException.class, () -> client.set("k".repeat(251), 0, "x").get());
        equal(true, client.set("k".repeat(250), 0, "x").get());
        equal("x", client.get("k".repeat(250)));
    }

    private void expiry() throws Exception {
        equal(true, client.set("spy:soon", 1, "x").get());
        equal(true, client.set("spy:kept", 1, "y").get());
        equal(true, client.touch("spy:kept", 1000).get());
        equal(false, client.touch("spy:absent", 1000).get());
        becomes(null, () -> client.get("spy:soon"));
        equal("y", client.get("spy:kept"));
        equal(true, client.set("spy:kept", -1, "z").get());
        equal(null, client.get("spy:kept"));
    }

    private void statisticsAndFlush() throws Exception {
        client.set("spy:f", 0, "x").get();
        Map<String, String> stats = client.getStats().values().iterator().next();
        holds(Long.parseLong(stats.get("curr_items")) >= 1, "curr_items counts");
        holds(!client.getVersions().values().iterator().next().isEmpty(), "a version");
        equal(true, client.flush().get());
        equal(null, client.get("spy:f"));
    }
}
