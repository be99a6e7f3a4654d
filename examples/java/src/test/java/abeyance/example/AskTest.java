package abeyance.example;

import static abeyance.example.Fixture.answer;
import static abeyance.example.Fixture.describe;
import static abeyance.example.Fixture.payload;
import static abeyance.example.Fixture.resolve;
import static abeyance.example.Fixture.spec;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import abeyance.example.Waits.Ask;
import abeyance.example.Waits.Attached;
import abeyance.example.Waits.Token;
import abeyance.v1.Outcome;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.Wait;
import abeyance.v1.WaitSpec;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Asking beside the open stream. */
@Timeout(60)
class AskTest {
    private static final Ask NEVER = wait -> {
        throw new AssertionError("asked again");
    };

    private static Broker broker;
    private static Waits waits;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
        waits = Waits.connect(broker.address());
    }

    @AfterAll
    static void stop() throws Exception {
        waits.close();
        broker.close();
    }

    private static WaitSpec keyed(String key) {
        return spec("ask").toBuilder().setKey(key).build();
    }

    private static Throwable failure(CompletableFuture<Outcome> outcome) {
        return assertThrows(CompletionException.class, () -> Waits.await(outcome))
                .getCause();
    }

    @Test
    void aWaitIsAskedAboutOnceAndThenMarked() throws Exception {
        CompletableFuture<Token> asked = new CompletableFuture<>();
        CompletableFuture<Outcome> outcome = waits.ask(keyed("once"), wait -> asked.complete(wait.token()));
        Token token = asked.get(30, TimeUnit.SECONDS);
        Wait shown = describe(waits, token);
        while (!shown.hasAskTime()) {
            shown = describe(waits, token);
        }
        CompletableFuture<Outcome> again = waits.ask(keyed("once"), NEVER);
        resolve(waits, token, "\"yes\"");
        assertEquals("\"yes\"", payload(outcome));
        assertEquals("\"yes\"", payload(again));
    }

    @Test
    void aWaitWithoutAKeyIsCancelledWhenItsAskFails() throws Exception {
        CompletableFuture<Token> asked = new CompletableFuture<>();
        IOException broken = new IOException("no mail today");
        CompletableFuture<Outcome> outcome = waits.ask(spec("ask"), wait -> {
            asked.complete(wait.token());
            throw broken;
        });
        assertEquals(broken, failure(outcome));
        assertEquals(Wait.State.STATE_CANCELLED, describe(waits, asked.get()).getState());
    }

    @Test
    void aWaitWithAKeyIsAskedAboutAgainAfterItsAskFailed() throws Exception {
        CompletableFuture<Token> first = new CompletableFuture<>();
        IOException broken = new IOException("no mail today");
        assertEquals(broken, failure(waits.ask(keyed("again"), wait -> {
            first.complete(wait.token());
            throw broken;
        })));
        Wait shown = describe(waits, first.get());
        assertEquals(Wait.State.STATE_PENDING, shown.getState());
        assertFalse(shown.hasAskTime());

        CompletableFuture<Outcome> outcome = waits.ask(keyed("again"), wait -> resolve(waits, wait.token(), "1"));
        assertEquals("1", payload(outcome));
        assertEquals(Wait.State.STATE_RESOLVED, describe(waits, first.get()).getState(), "it was the same wait");
    }

    @Test
    void anOutcomeCutsTheAskShort() throws Exception {
        CompletableFuture<Token> asked = new CompletableFuture<>();
        CompletableFuture<String> interrupted = new CompletableFuture<>();
        CompletableFuture<Outcome> outcome = waits.ask(spec("ask"), wait -> {
            asked.complete(wait.token());
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.complete("interrupted");
                throw e;
            }
        });
        resolve(waits, asked.get(30, TimeUnit.SECONDS), "2");
        assertEquals("2", payload(outcome));
        assertEquals("interrupted", interrupted.get(30, TimeUnit.SECONDS));
    }

    @Test
    void nobodyIsAskedAboutWhatIsSettled() throws Exception {
        Attached wait = Waits.await(waits.open(keyed("settled")));
        resolve(waits, wait.token(), "3");
        assertEquals("3", payload(waits.ask(keyed("settled"), NEVER)));
    }

    @Test
    void whoeverAnswersFirstCounts() throws Exception {
        CompletableFuture<Outcome> outcome = waits.ask(keyed("race"), wait -> {
            resolve(waits, wait.token(), "\"theirs\"");
            Waits.await(waits.call(ResolveServiceGrpc.getResolveMethod(), answer(wait.token(), "\"ours\"")));
        });
        assertEquals("\"theirs\"", payload(outcome));
    }

    @Test
    void anAnswerBeforeTheAskFailedCounts() throws Exception {
        CompletableFuture<Outcome> outcome = waits.ask(spec("ask"), wait -> {
            resolve(waits, wait.token(), "4");
            throw new IOException("sent, but the receipt was lost");
        });
        assertEquals("4", payload(outcome));
    }

    @Test
    void closingInTheMiddleOfAnAskCancelsNothing() throws Exception {
        CompletableFuture<Token> asked = new CompletableFuture<>();
        Waits closing = Waits.connect(broker.address());
        CompletableFuture<Outcome> outcome = closing.ask(spec("ask"), wait -> {
            asked.complete(wait.token());
            new CountDownLatch(1).await();
        });
        Token token = asked.get(30, TimeUnit.SECONDS);
        closing.close();
        assertThrows(RuntimeException.class, () -> Waits.await(outcome));
        assertEquals(Wait.State.STATE_PENDING, describe(waits, token).getState());
    }
}
