package shorttail;

import java.net.InetSocketAddress;
import redis.clients.jedis.HostAndPort;

/** Runs the Java suites against the servers that SHORTTAIL_MEMCACHED and SHORTTAIL_REDIS name. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        HostAndPort memcached = HostAndPort.from(System.getenv("SHORTTAIL_MEMCACHED"));
        SpymemcachedSuite.runAll(new InetSocketAddress(memcached.getHost(), memcached.getPort()));
        JedisSuite.runAll(HostAndPort.from(System.getenv("SHORTTAIL_REDIS")));
        System.out.println(Checks.passed + " passed, " + Checks.failed + " failed");
        System.exit(Checks.failed > 0 ? 1 : 0);
    }
}
