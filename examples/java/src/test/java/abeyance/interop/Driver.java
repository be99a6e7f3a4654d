package abeyance.interop;

import abeyance.example.Waits;
import abeyance.example.Waits.AbeyanceException;
import abeyance.example.Waits.Token;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/**
 * Java's driver of {@code tests/interop}, whose README is the protocol: requests as lines of JSON on standard input,
 * answers on standard output, in any order.
 */
public final class Driver {
    private static final Gson GSON =
            new GsonBuilder().disableHtmlEscaping().serializeNulls().create();
    // Held here, since the logging library itself forgets a logger and its handlers.
    private static final Logger CLIENT = Logger.getLogger(Waits.class.getName());

    private final Map<String, Operations> targets = new ConcurrentHashMap<>();
    private final Map<String, Followed> followed = new ConcurrentHashMap<>();
    private final List<String> warnings = new ArrayList<>();
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        new Driver().run();
        // Waits that nobody asked about any more are left as they are.
        System.exit(0);
    }

    private void run() throws Exception {
        CLIENT.addHandler(new Collector());
        write(object("ready", object("language", "java")));
        ExecutorService requests = Executors.newCachedThreadPool();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            requests.execute(() -> answer(request));
        }
    }

    private void answer(JsonObject request) {
        JsonObject answer = new JsonObject();
        answer.add("id", request.get("id"));
        try {
            answer.add("ok", carryOut(request));
        } catch (Exception e) {
            answer.add("error", error(e));
        }
        write(answer);
    }

    private JsonObject carryOut(JsonObject request) throws Exception {
        String op = request.get("op").getAsString();
        if (op.equals("outcome")) {
            String waitId = request.get("wait_id").getAsString();
            Followed wait = followed.get(waitId);
            if (wait == null) {
                throw new IllegalArgumentException("no wait " + waitId + " is followed here");
            }
            return wait.outcome();
        }
        if (op.equals("warnings")) {
            return takeWarnings();
        }
        Operations target = targets.computeIfAbsent(request.get("target").getAsString(), Operations::new);
        return switch (op) {
            case "open" -> follow(target.open(request));
            case "by_deadline" -> follow(target.byDeadline(request));
            case "hold" -> follow(target.hold(request));
            case "mark_asked" -> target.markAsked(token(request));
            case "cancel" -> target.cancel(token(request), request);
            case "resolve" -> target.resolve(token(request), request);
            case "fail" -> target.fail(token(request), request);
            case "describe" -> target.describe(token(request));
            case "crowd" -> target.crowd(request);
            default -> throw new IllegalArgumentException("unknown op " + op);
        };
    }

    private JsonObject follow(Followed wait) {
        followed.put(wait.opened().get("wait_id").getAsString(), wait);
        return wait.opened();
    }

    private JsonObject takeWarnings() {
        JsonArray lines = new JsonArray();
        synchronized (warnings) {
            warnings.forEach(lines::add);
            warnings.clear();
        }
        JsonObject answer = new JsonObject();
        answer.add("warnings", lines);
        return answer;
    }

    private synchronized void write(JsonObject line) {
        out.println(GSON.toJson(line));
        out.flush();
    }

    private static Token token(JsonObject request) {
        return new Token(request.get("token").getAsString());
    }

    private static JsonObject error(Throwable failure) {
        while (failure instanceof CompletionException || failure instanceof ExecutionException) {
            failure = failure.getCause();
        }
        if (!(failure instanceof AbeyanceException e)) {
            JsonObject error = object("code", "CLIENT");
            error.addProperty("message", failure.toString());
            return error;
        }
        JsonObject error = object("code", e.code().name());
        error.addProperty("reason", e.reason());
        error.addProperty("message", e.getMessage());
        error.add("metadata", GSON.toJsonTree(e.metadata()));
        JsonArray violations = new JsonArray();
        for (Waits.Violation fault : e.violations()) {
            JsonObject violation = object("field", fault.field());
            violation.addProperty("description", fault.description());
            violations.add(violation);
        }
        error.add("violations", violations);
        return error;
    }

    private static JsonObject object(String key, Object value) {
        JsonObject object = new JsonObject();
        object.add(key, GSON.toJsonTree(value));
        return object;
    }

    /** Keeps what the client warns of, beside the log on standard error. */
    private final class Collector extends Handler {
        private Collector() {
            setLevel(Level.WARNING);
        }

        @Override
        public void publish(LogRecord record) {
            if (isLoggable(record)) {
                synchronized (warnings) {
                    warnings.add(new SimpleFormatter().formatMessage(record));
                }
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
