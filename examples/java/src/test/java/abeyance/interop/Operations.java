package abeyance.interop;

import abeyance.example.Waits;
import abeyance.example.Waits.AbeyanceException;
import abeyance.example.Waits.Attached;
import abeyance.example.Waits.Token;
import abeyance.v1.CancelWaitRequest;
import abeyance.v1.DeferredToolResults;
import abeyance.v1.DescribeWaitRequest;
import abeyance.v1.FailRequest;
import abeyance.v1.MarkAskedRequest;
import abeyance.v1.Opened;
import abeyance.v1.Outcome;
import abeyance.v1.Question;
import abeyance.v1.ResolveRequest;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.Wait;
import abeyance.v1.WaitEvent;
import abeyance.v1.WaitRequest;
import abeyance.v1.WaitResponse;
import abeyance.v1.WaitServiceGrpc;
import abeyance.v1.WaitSpec;
import com.google.gson.JsonObject;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.JsonFormat;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The operations of the protocol, against one broker. */
final class Operations {
    private final String target;
    private final Waits waits;

    Operations(String target) {
        this.target = target;
        waits = Waits.connect(target);
    }

    Followed open(JsonObject request) throws Exception {
        WaitSpec.Builder spec = WaitSpec.newBuilder().setName(text(request, "name"));
        spec.setKey(text(request, "key"));
        if (given(request, "timeout_ms")) {
            spec.setTimeout(Durations.fromMillis(request.get("timeout_ms").getAsLong()));
        } else {
            spec.setNoTimeout(true);
        }
        if (given(request, "question")) {
            Question.Builder question = Question.newBuilder();
            JsonFormat.parser().merge(request.get("question").toString(), question);
            spec.setQuestion(question);
        }
        if (given(request, "labels")) {
            request.getAsJsonObject("labels").asMap().forEach((key, value) -> spec.putLabels(key, value.getAsString()));
        }
        return Followed.of(Waits.await(waits.open(spec.build())));
    }

    Followed byDeadline(JsonObject request) {
        ManagedChannel channel = Waits.channel(target).build();
        var stub = WaitServiceGrpc.newBlockingStub(channel)
                .withDeadlineAfter(request.get("deadline_ms").getAsLong(), TimeUnit.MILLISECONDS);
        WaitSpec spec = WaitSpec.newBuilder().setName(text(request, "name")).build();
        return withStub(channel, stub, spec);
    }

    Followed hold(JsonObject request) {
        ManagedChannel channel = Waits.channel(target)
                .keepAliveTime(request.get("keepalive_ms").getAsLong(), TimeUnit.MILLISECONDS)
                .keepAliveWithoutCalls(true)
                .build();
        WaitSpec spec = WaitSpec.newBuilder()
                .setName(text(request, "name"))
                .setTimeout(Durations.fromMillis(request.get("timeout_ms").getAsLong()))
                .build();
        return withStub(channel, WaitServiceGrpc.newBlockingStub(channel), spec);
    }

    /** Opens a wait and follows its one stream, with nothing but the generated stub. */
    private static Followed withStub(
            ManagedChannel channel, WaitServiceGrpc.WaitServiceBlockingStub stub, WaitSpec spec) {
        Iterator<WaitResponse> stream =
                stub.wait(WaitRequest.newBuilder().setSpec(spec).build());
        Opened opened;
        try {
            opened = stream.next().getEvent().getOpened();
        } catch (StatusRuntimeException e) {
            throw AbeyanceException.from(e);
        }
        // Read at once, not when somebody asks for the outcome.
        CompletableFuture<Outcome> end = CompletableFuture.supplyAsync(
                        () -> last(stream), task -> new Thread(task).start())
                .whenComplete((outcome, failure) -> channel.shutdown());
        return new Followed(Followed.opened(opened, opened.getToken()), () -> Waits.await(end), () -> 0);
    }

    private static Outcome last(Iterator<WaitResponse> stream) {
        try {
            while (stream.hasNext()) {
                WaitEvent event = stream.next().getEvent();
                if (event.hasOutcome()) {
                    return event.getOutcome();
                }
            }
        } catch (StatusRuntimeException e) {
            throw AbeyanceException.from(e);
        }
        throw new IllegalStateException("the stream ended without an outcome");
    }

    JsonObject markAsked(Token token) throws Exception {
        var request = MarkAskedRequest.newBuilder().setToken(token.expose()).build();
        Waits.await(waits.call(WaitServiceGrpc.getMarkAskedMethod(), request));
        return new JsonObject();
    }

    JsonObject cancel(Token token, JsonObject request) throws Exception {
        return state(Waits.await(cancel(token, text(request, "reason"))).getState());
    }

    private CompletableFuture<Outcome> cancel(Token token, String reason) {
        var request = CancelWaitRequest.newBuilder()
                .setToken(token.expose())
                .setReason(reason)
                .build();
        return waits.call(WaitServiceGrpc.getCancelWaitMethod(), request).thenApply(response -> response.getOutcome());
    }

    JsonObject resolve(Token token, JsonObject request) throws Exception {
        ResolveRequest.Builder answer = ResolveRequest.newBuilder()
                .setToken(token.expose())
                .setPartial(given(request, "partial") && request.get("partial").getAsBoolean())
                .setAnsweredBy(text(request, "answered_by"))
                .setRequestId(text(request, "request_id"));
        if (given(request, "results")) {
            DeferredToolResults.Builder results = DeferredToolResults.newBuilder();
            JsonFormat.parser().merge(request.get("results").toString(), results);
            answer.setResults(results);
        } else {
            answer.setPayloadJson(request.get("payload_json").getAsString());
        }
        var response = Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer.build()));
        JsonObject ok = state(response.getState());
        ok.addProperty("replayed", response.getReplayed());
        ok.addProperty("answered_by", response.getAnsweredBy());
        return ok;
    }

    JsonObject fail(Token token, JsonObject request) throws Exception {
        var failure = FailRequest.newBuilder()
                .setToken(token.expose())
                .setReason(text(request, "reason"))
                .setErrorType(text(request, "error_type"))
                .setDetailsJson(text(request, "details_json"))
                .build();
        var response = Waits.await(waits.call(ResolveServiceGrpc.getFailMethod(), failure));
        JsonObject ok = state(response.getState());
        ok.addProperty("replayed", response.getReplayed());
        return ok;
    }

    JsonObject describe(Token token) throws Exception {
        var request = DescribeWaitRequest.newBuilder().setToken(token.expose()).build();
        Wait wait = Waits.await(waits.call(ResolveServiceGrpc.getDescribeWaitMethod(), request))
                .getWait();
        JsonObject ok = state(wait.getState());
        ok.addProperty("name", wait.getName());
        ok.addProperty("timeout_ms", Durations.toMillis(wait.getTimeout()));
        ok.addProperty("timeout_source", Followed.name(wait.getTimeoutSource(), "TIMEOUT_SOURCE_"));
        return ok;
    }

    JsonObject crowd(JsonObject request) throws Exception {
        WaitSpec spec = WaitSpec.newBuilder()
                .setName(text(request, "name"))
                .setTimeout(Durations.fromMinutes(5))
                .build();
        List<CompletableFuture<Attached>> opening = new ArrayList<>();
        for (int i = request.get("count").getAsInt(); i > 0; i--) {
            opening.add(waits.open(spec));
        }
        List<Attached> crowd = new ArrayList<>();
        for (CompletableFuture<Attached> wait : opening) {
            crowd.add(Waits.await(wait));
        }
        Attached last = crowd.remove(crowd.size() - 1);
        var answer = ResolveRequest.newBuilder()
                .setToken(last.token().expose())
                .setPayloadJson("true")
                .build();
        long begun = System.nanoTime();
        Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer));
        long taken = System.nanoTime() - begun;
        Waits.await(last.outcome());
        List<CompletableFuture<Outcome>> cancelling = new ArrayList<>();
        for (Attached wait : crowd) {
            cancelling.add(cancel(wait.token(), "The crowd goes home."));
        }
        for (CompletableFuture<Outcome> cancelled : cancelling) {
            Waits.await(cancelled);
        }
        JsonObject ok = new JsonObject();
        ok.addProperty("resolve_ms", taken / 1e6);
        return ok;
    }

    private static JsonObject state(Wait.State state) {
        JsonObject ok = new JsonObject();
        ok.addProperty("state", Followed.name(state, "STATE_"));
        return ok;
    }

    private static String text(JsonObject request, String key) {
        return given(request, key) ? request.get(key).getAsString() : "";
    }

    private static boolean given(JsonObject request, String key) {
        return request.has(key) && !request.get(key).isJsonNull();
    }
}
