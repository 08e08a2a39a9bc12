import java.util.Objects;
import java.util.function.Supplier;

/** Expectations: each says what was expected and what came instead. */
final class Check {
    private static final long GLANCE_MS = 10;
    /** How much longer than on a quiet machine anything may take. */
    static final long PATIENCE = 3;

    /** A piece of work that is to fail. */
    interface Work {
        Object run() throws Exception;
    }

    /** Something that becomes true in time. */
    interface Condition {
        boolean holds() throws Exception;
    }

    static void that(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected " + brief(expected) + ", got " + brief(actual));
        }
    }

    static void contains(String part, String whole, String what) {
        that(whole != null && whole.contains(part), what + ": expected \"" + part + "\" in \"" + whole + "\"");
    }

    /** The work must throw this; the exception is returned. */
    static <T extends Throwable> T fails(Class<T> kind, Work work) {
        Object result;
        try {
            result = work.run();
        } catch (Throwable failure) {
            if (kind.isInstance(failure)) {
                return kind.cast(failure);
            }
            throw new AssertionError("expected " + kind.getSimpleName() + ", got " + failure, failure);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", but the work ended with " + brief(result));
    }

    /** Wait until the condition holds; how long that took. A busy machine is given three times as long. */
    static long await(long quietLimitMs, Supplier<String> otherwise, Condition condition) throws Exception {
        long begin = System.nanoTime();
        long limitMs = PATIENCE * quietLimitMs;
        while (!condition.holds()) {
            long waitedMs = (System.nanoTime() - begin) / 1_000_000;
            that(waitedMs < limitMs, "not within " + limitMs + " ms: " + otherwise.get());
            Thread.sleep(GLANCE_MS);
        }
        return (System.nanoTime() - begin) / 1_000_000;
    }

    private static String brief(Object value) {
        String text = String.valueOf(value);
        return text.length() > 600 ? text.substring(0, 600) + "…" : text;
    }
}
