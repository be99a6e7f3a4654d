package abeyance.example;

import static abeyance.example.Fixture.refunds;
import static abeyance.example.Fixture.spec;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import abeyance.example.Waits.Attached;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The worker and the resolver service, with a real broker between them. */
@Timeout(60)
class ExamplesTest {
    private static Broker broker;
    private static Waits waits;
    private static ResolverService service;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
        waits = Waits.connect(broker.address());
        service = new ResolverService(waits, URI.create("http://127.0.0.1:0"));
    }

    @AfterAll
    static void stop() throws Exception {
        service.close();
        waits.close();
        broker.close();
    }

    private static HttpResponse<String> post(String path, String token, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(service.address().resolve(path))
                .header("Authorization", "Bearer " + token)
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }

    private static String refund(int amount, String order) throws Exception {
        return new RefundWorker(waits, service.address()).refund(new BigDecimal(amount), order);
    }

    @Test
    void smallRefundsRunAndLargeOnesDoNot() throws Exception {
        assertEquals("approved: issue_refund({\"order\":\"\",\"amount\":50}) runs", refund(50, ""));
        assertEquals("denied, and the model is told: Nobody refunds more than 1000.", refund(5000, ""));
    }

    @Test
    void aWorkerThatRunsAgainAsksNobody() throws Exception {
        String decision = refund(60, "order-7");
        URI nobody = URI.create("http://127.0.0.1:1");
        assertEquals(decision, new RefundWorker(waits, nobody).refund(new BigDecimal(60), "order-7"));
    }

    @Test
    void aPersonIsToldWhatIsWrongAndMayTryAgain() throws Exception {
        Attached wait = Waits.await(
                waits.open(spec("refund").toBuilder().setQuestion(refunds(2)).build()));
        String token = wait.token().expose();
        HttpResponse<String> refused = post("/answer", token, "{\"approvals\":{\"call_1\":\"yes\",\"call_2\":true}}");
        assertEquals(400, refused.statusCode());
        JsonObject details = JsonParser.parseString(refused.body()).getAsJsonObject();
        assertEquals("INVALID_ANSWER", details.get("reason").getAsString());
        JsonArray violations = details.getAsJsonArray("violations");
        assertEquals(1, violations.size());
        assertEquals(
                "approvals[\"call_1\"]",
                violations.get(0).getAsJsonObject().get("field").getAsString());

        String good = "{\"approvals\":{\"call_1\":true,\"call_2\":true}}";
        assertEquals(200, post("/answer", token, good).statusCode());
        assertTrue(post("/answer", token, good).body().contains("\"replayed\":true"));
        assertEquals(
                409,
                post("/answer", token, "{\"approvals\":{\"call_1\":false,\"call_2\":true}}")
                        .statusCode());
        assertTrue(wait.outcome()
                .get(30, TimeUnit.SECONDS)
                .getResults()
                .getApprovalsOrThrow("call_1")
                .hasApproved());
        assertEquals(404, post("/answer", token + "x", good).statusCode());
    }
}
