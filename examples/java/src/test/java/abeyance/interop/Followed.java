package abeyance.interop;

import abeyance.example.Waits;
import abeyance.v1.Expired;
import abeyance.v1.Opened;
import abeyance.v1.Outcome;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.JsonFormat;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;

/**
 * A wait that the driver follows, in the terms of the protocol.
 *
 * @param opened the answer to the request that opened it
 * @param end waits for its outcome
 * @param reattached how often it was attached to again
 */
record Followed(JsonObject opened, Callable<Outcome> end, LongSupplier reattached) {
    static Followed of(Waits.Attached wait) {
        JsonObject opened = opened(wait.opened(), wait.token().expose());
        return new Followed(opened, () -> Waits.await(wait.outcome()), wait::reattached);
    }

    static JsonObject opened(Opened opened, String token) {
        JsonObject answer = new JsonObject();
        answer.addProperty("token", token);
        answer.addProperty("wait_id", opened.getWaitId());
        answer.addProperty("asked", opened.getAsked());
        answer.addProperty("resumed", opened.getResumed());
        answer.addProperty("timeout_ms", Durations.toMillis(opened.getTimeout()));
        answer.addProperty("timeout_source", name(opened.getTimeoutSource(), "TIMEOUT_SOURCE_"));
        return answer;
    }

    JsonObject outcome() throws Exception {
        Outcome outcome = end.call();
        JsonObject answer = new JsonObject();
        answer.addProperty("state", name(outcome.getState(), "STATE_"));
        answer.addProperty("reattached", reattached.getAsLong());
        switch (outcome.getResultCase()) {
            case RESOLVED -> {
                answer.addProperty("payload_json", outcome.getResolved().getPayloadJson());
                answer.addProperty("answered_by", outcome.getResolved().getAnsweredBy());
            }
            case FAILED -> {
                answer.addProperty("reason", outcome.getFailed().getReason());
                answer.addProperty("error_type", outcome.getFailed().getErrorType());
                answer.addProperty("details_json", outcome.getFailed().getDetailsJson());
            }
            case EXPIRED -> {
                Expired expired = outcome.getExpired();
                answer.addProperty("reason", expired.getReason());
                answer.addProperty("cause", name(expired.getCause(), "CAUSE_"));
            }
            case CANCELLED ->
                answer.addProperty("reason", outcome.getCancelled().getReason());
            case RESULT_NOT_SET -> throw new IllegalStateException("an outcome without a result");
        }
        if (outcome.hasResults()) {
            answer.addProperty("results_json", outcome.getResultsJson());
            answer.add("results", JsonParser.parseString(JsonFormat.printer().print(outcome.getResults())));
        }
        return answer;
    }

    static String name(Enum<?> value, String prefix) {
        return value.name().substring(prefix.length());
    }
}
