package shorttail;

import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.Callable;

/** The few words in which the Java suites speak; counts and prints cases. */
final class Checks {
    /** The bound only ends a run in which the expected never happens. */
    private static final long EXPIRY_SECONDS_MAX = 20;

    static int passed;
    static int failed;

    interface Case {
        void run() throws Exception;
    }

    private Checks() {}

    static void run(String name, Case test) {
        try {
            test.run();
            passed++;
            System.out.println("ok " + name);
        } catch (Throwable problem) {
            failed++;
            System.out.println("not ok " + name + ": " + problem);
            problem.printStackTrace(System.out);
        }
    }

    static void equal(Object wanted, Object got) {
        if (!Objects.deepEquals(wanted, got)) {
            throw new AssertionError("wanted " + text(wanted) + ", got " + text(got));
        }
    }

    static void holds(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static <E extends Throwable> String raises(Class<E> kind, Case call) throws Exception {
        try {
            call.run();
        } catch (Throwable problem) {
            for (Throwable each = problem; each != null; each = each.getCause()) {
                if (kind.isInstance(each)) {
                    return String.valueOf(each.getMessage());
                }
            }
            throw new AssertionError("wanted " + kind, problem);
        }
        throw new AssertionError("wanted " + kind + ", nothing was thrown");
    }

    /** Waits for the server's own clock. */
    static void becomes(Object wanted, Callable<?> read) throws Exception {
        long deadline = System.nanoTime() + EXPIRY_SECONDS_MAX * 1_000_000_000L;
        Object got = read.call();
        while (!Objects.deepEquals(wanted, got) && System.nanoTime() < deadline) {
            Thread.sleep(20);
            got = read.call();
        }
        equal(wanted, got);
    }

    static byte[] everyByte(int size) {
        byte[] value = new byte[size];
        for (int i = 0; i < size; i++) {
            value[i] = (byte) i;
        }
        return value;
    }

    private static String text(Object value) {
        String text = value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
        return text.length() < 300 ? text : text.substring(0, 300) + " ...";
    }
}
