package abeyance.example;

import abeyance.v1.DeferredToolCall;
import abeyance.v1.DeferredToolRequests;
import abeyance.v1.Outcome;
import abeyance.v1.Question;
import abeyance.v1.ToolApproval;
import abeyance.v1.WaitSpec;
import com.google.gson.JsonObject;
import com.google.protobuf.Duration;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * A worker: an agent wants to pay money back and needs an approval. It opens a wait, hands the token to a resolver
 * service, and goes on with the decision, minutes or days later.
 *
 * <p>Arguments: the amount, and an order number to run again after a crash: the same order is the same wait, and nobody
 * is asked twice. {@code ABEYANCE_SERVER} and {@code RESOLVER} name the broker and the service.
 */
public final class RefundWorker {
    private static final String CALL = "call_1";

    private final Waits waits;
    private final URI resolver;

    RefundWorker(Waits waits, URI resolver) {
        this.waits = waits;
        this.resolver = resolver;
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 0) {
            System.err.println("usage: RefundWorker AMOUNT [ORDER]");
            System.exit(64);
        }
        String broker = System.getenv().getOrDefault("ABEYANCE_SERVER", "127.0.0.1:2239");
        URI resolver = URI.create(System.getenv().getOrDefault("RESOLVER", "http://127.0.0.1:8088"));
        try (Waits waits = Waits.connect(broker)) {
            RefundWorker worker = new RefundWorker(waits, resolver);
            System.out.println(worker.refund(new BigDecimal(args[0]), args.length > 1 ? args[1] : ""));
        } catch (Waits.AbeyanceException e) {
            System.err.println("error: " + e.getMessage());
            e.violations().forEach(fault -> System.err.println("  " + fault.field() + ": " + fault.description()));
            System.exit(1);
        }
    }

    /**
     * Asks whether a tool call may run, and tells what becomes of it.
     *
     * @param order names the wait, so that a worker that runs again finds it; empty for a wait that dies with its ask
     */
    String refund(BigDecimal amount, String order) throws InterruptedException {
        JsonObject arguments = new JsonObject();
        arguments.addProperty("order", order);
        arguments.addProperty("amount", amount);
        var call = DeferredToolCall.newBuilder()
                .setToolCallId(CALL)
                .setToolName("issue_refund")
                .setArgsJson(arguments.toString())
                .setKind(DeferredToolCall.Kind.KIND_APPROVAL)
                .setDescription("Pays money back to a customer.");
        WaitSpec spec = WaitSpec.newBuilder()
                .setName("refund-approval")
                .setKey(order.isEmpty() ? "" : "refund/" + order)
                .setTimeout(Duration.newBuilder().setSeconds(3600))
                .setQuestion(Question.newBuilder()
                        .setDeferred(DeferredToolRequests.newBuilder().addCalls(call)))
                .build();
        Outcome outcome = Waits.await(waits.ask(spec, this::handOn));
        return decision(outcome, arguments.toString());
    }

    private void handOn(Waits.Attached wait) throws IOException, InterruptedException {
        System.out.println("wait " + wait.waitId() + " is open; its token goes to " + resolver);
        // In a header: addresses end up in logs.
        HttpRequest request = HttpRequest.newBuilder(resolver.resolve("/review"))
                .header("Authorization", "Bearer " + wait.token().expose())
                .POST(HttpRequest.BodyPublishers.noBody())
                .build();
        HttpResponse<String> response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException("the resolver answered " + response.statusCode() + ": " + response.body());
        }
        System.out.println("the resolver answered " + response.body());
    }

    private static String decision(Outcome outcome, String arguments) {
        // However the wait ended, each call has a decision: where nobody answered, a denial.
        ToolApproval approval = outcome.getResults().getApprovalsOrDefault(CALL, ToolApproval.getDefaultInstance());
        return switch (approval.getDecisionCase()) {
            case APPROVED -> {
                String instead = approval.getApproved().getOverrideArgsJson();
                yield "approved: issue_refund(" + (instead.isEmpty() ? arguments : instead) + ") runs";
            }
            case DENIED ->
                "denied, and the model is told: " + approval.getDenied().getMessage();
            // Only a clear yes is a yes.
            case DECISION_NOT_SET -> "not approved";
        };
    }
}
