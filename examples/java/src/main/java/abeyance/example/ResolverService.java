package abeyance.example;

import abeyance.v1.DeferredToolCall;
import abeyance.v1.DeferredToolResults;
import abeyance.v1.DescribeWaitRequest;
import abeyance.v1.ResolveRequest;
import abeyance.v1.ResolveResponse;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.ToolApproval;
import abeyance.v1.ToolApproved;
import abeyance.v1.ToolDenied;
import abeyance.v1.Wait;
import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.grpc.Status;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A resolver: an HTTP service that decides refunds. It keeps nothing; a wait's token is all it needs.
 *
 * <ul>
 *   <li>{@code POST /review} applies the policy: up to 100 is approved, above 1000 denied, and what lies between is left
 *       to a person.
 *   <li>{@code POST /answer} records a person's answer: JSON in the body. One that does not fit what is asked comes back
 *       with each of its faults.
 * </ul>
 *
 * <p>Both take the token as {@code Authorization: Bearer}. {@code ABEYANCE_SERVER} and {@code RESOLVER} name the broker and
 * the address to serve at.
 */
public final class ResolverService implements AutoCloseable {
    private static final BigDecimal APPROVED_UP_TO = new BigDecimal(100);
    private static final BigDecimal DENIED_ABOVE = new BigDecimal(1000);
    private static final Gson GSON = new Gson();

    private final Waits waits;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    /** Serves at an address of this machine; a free port if it is 0. */
    ResolverService(Waits waits, URI address) throws IOException {
        this.waits = waits;
        server = HttpServer.create(new InetSocketAddress(address.getHost(), address.getPort()), 0);
        server.createContext("/review", exchange -> serve(exchange, this::review));
        server.createContext("/answer", exchange -> serve(exchange, this::answer));
        server.setExecutor(threads);
        server.start();
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        String broker = System.getenv().getOrDefault("ABEYANCE_SERVER", "127.0.0.1:2239");
        URI address = URI.create(System.getenv().getOrDefault("RESOLVER", "http://127.0.0.1:8088"));
        ResolverService service = new ResolverService(Waits.connect(broker), address);
        System.out.println("resolver on " + service.address());
        Thread.currentThread().join();
    }

    URI address() {
        InetSocketAddress bound = server.getAddress();
        return URI.create("http://" + bound.getAddress().getHostAddress() + ":" + bound.getPort());
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }

    private Object review(String token, String body) throws InterruptedException {
        var request = DescribeWaitRequest.newBuilder().setToken(token).build();
        Wait wait = Waits.await(waits.call(ResolveServiceGrpc.getDescribeWaitMethod(), request))
                .getWait();
        DeferredToolResults.Builder results = DeferredToolResults.newBuilder();
        for (DeferredToolCall call : wait.getQuestion().getDeferred().getCallsList()) {
            policy(call).ifPresent(decision -> results.putApprovals(call.getToolCallId(), decision));
        }
        if (results.getApprovalsCount() == 0 || wait.getState() != Wait.State.STATE_PENDING) {
            // A real one would send this to somebody who may decide it, and to nobody else.
            System.out.println(
                    "left to a person: curl -d '{\"approvals\":{\"call_1\":true}}' -H 'Authorization: Bearer " + token
                            + "' " + address() + "/answer");
            return Map.of("state", wait.getState(), "decided", 0);
        }
        // Partial: calls that the policy leaves to a person stay open.
        var answer = ResolveRequest.newBuilder()
                .setToken(token)
                .setResults(results)
                .setPartial(true)
                .setAnsweredBy("refund policy")
                .build();
        ResolveResponse settled = Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer));
        return Map.of("state", settled.getState(), "decided", results.getApprovalsCount());
    }

    private Object answer(String token, String body) throws InterruptedException {
        var answer = ResolveRequest.newBuilder()
                .setToken(token)
                .setPayloadJson(body)
                .setAnsweredBy("a person")
                .build();
        ResolveResponse settled = Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer));
        return Map.of("state", settled.getState(), "replayed", settled.getReplayed());
    }

    /** The decision on a call; none if a person is to decide. */
    private static Optional<ToolApproval> policy(DeferredToolCall call) {
        if (call.getKind() != DeferredToolCall.Kind.KIND_APPROVAL
                || !call.getToolName().equals("issue_refund")) {
            return Optional.empty();
        }
        BigDecimal amount;
        try {
            JsonObject arguments = JsonParser.parseString(call.getArgsJson()).getAsJsonObject();
            amount = arguments.get("amount").getAsBigDecimal();
        } catch (RuntimeException e) {
            // A model wrote the arguments, so they may be anything.
            return Optional.empty();
        }
        if (amount.signum() > 0 && amount.compareTo(APPROVED_UP_TO) <= 0) {
            return Optional.of(ToolApproval.newBuilder()
                    .setApproved(ToolApproved.getDefaultInstance())
                    .build());
        }
        if (amount.compareTo(DENIED_ABOVE) > 0) {
            var denied = ToolDenied.newBuilder().setMessage("Nobody refunds more than " + DENIED_ABOVE + ".");
            return Optional.of(ToolApproval.newBuilder().setDenied(denied).build());
        }
        return Optional.empty();
    }

    private interface Handler {
        Object handle(String token, String body) throws InterruptedException;
    }

    private static void serve(HttpExchange exchange, Handler handler) throws IOException {
        try (exchange) {
            String authorization = exchange.getRequestHeaders().getFirst("Authorization");
            if (authorization == null || !authorization.startsWith("Bearer ")) {
                respond(exchange, 401, Map.of("message", "Authorization: Bearer TOKEN is missing"));
                return;
            }
            String token = authorization.substring("Bearer ".length());
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            try {
                respond(exchange, 200, handler.handle(token, body));
            } catch (Waits.AbeyanceException e) {
                respond(exchange, httpStatus(e.code()), details(e));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** All that the broker said: whoever answered can mend it and send it again. */
    private static Object details(Waits.AbeyanceException e) {
        return Map.of(
                "reason", e.reason(),
                "message", e.getMessage(),
                "metadata", e.metadata(),
                "violations", e.violations());
    }

    private static int httpStatus(Status.Code code) {
        return switch (code) {
            case INVALID_ARGUMENT -> 400;
            case NOT_FOUND -> 404;
            case FAILED_PRECONDITION -> 409;
            default -> 503;
        };
    }

    private static void respond(HttpExchange exchange, int status, Object body) throws IOException {
        byte[] json = GSON.toJson(body).getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, json.length);
        exchange.getResponseBody().write(json);
    }
}
