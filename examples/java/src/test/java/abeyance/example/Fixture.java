package abeyance.example;

import abeyance.example.Waits.AbeyanceException;
import abeyance.example.Waits.Token;
import abeyance.v1.DeferredToolCall;
import abeyance.v1.DeferredToolRequests;
import abeyance.v1.DescribeWaitRequest;
import abeyance.v1.Outcome;
import abeyance.v1.Question;
import abeyance.v1.ResolveRequest;
import abeyance.v1.ResolveResponse;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.Wait;
import abeyance.v1.WaitSpec;
import com.google.protobuf.util.Durations;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assertions;

/** What many tests do. */
final class Fixture {
    private Fixture() {}

    static WaitSpec spec(String name) {
        return WaitSpec.newBuilder()
                .setName(name)
                .setTimeout(Durations.fromMinutes(5))
                .build();
    }

    /** A question about so many refunds, {@code call_1} and so on. */
    static Question refunds(int count) {
        var requests = DeferredToolRequests.newBuilder();
        for (int n = 1; n <= count; n++) {
            requests.addCalls(DeferredToolCall.newBuilder()
                    .setToolCallId("call_" + n)
                    .setToolName("issue_refund")
                    .setArgsJson("{\"amount\":50}")
                    .setKind(DeferredToolCall.Kind.KIND_APPROVAL));
        }
        return Question.newBuilder().setDeferred(requests).build();
    }

    static ResolveRequest answer(Token token, String json) {
        return ResolveRequest.newBuilder()
                .setToken(token.expose())
                .setPayloadJson(json)
                .build();
    }

    static ResolveResponse resolve(Waits waits, Token token, String json) throws InterruptedException {
        return Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer(token, json)));
    }

    static Wait describe(Waits waits, Token token) throws InterruptedException {
        var request = DescribeWaitRequest.newBuilder().setToken(token.expose()).build();
        return Waits.await(waits.call(ResolveServiceGrpc.getDescribeWaitMethod(), request))
                .getWait();
    }

    /** The payload of a wait that is resolved within a minute. */
    static String payload(CompletableFuture<Outcome> outcome) throws Exception {
        return outcome.get(1, TimeUnit.MINUTES).getResolved().getPayloadJson();
    }

    /** Deletes a directory and what is in it, but not what links in it lead to. */
    static void delete(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }

    /** What a call is refused with. */
    static AbeyanceException refusal(CompletableFuture<?> call) {
        return Assertions.assertThrows(AbeyanceException.class, () -> Waits.await(call));
    }
}
