package abeyance.example;

import static abeyance.example.Fixture.answer;
import static abeyance.example.Fixture.describe;
import static abeyance.example.Fixture.payload;
import static abeyance.example.Fixture.refunds;
import static abeyance.example.Fixture.refusal;
import static abeyance.example.Fixture.resolve;
import static abeyance.example.Fixture.spec;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import abeyance.example.Waits.AbeyanceException;
import abeyance.example.Waits.Attached;
import abeyance.example.Waits.Settings;
import abeyance.example.Waits.Token;
import abeyance.v1.Opened;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.TimeoutSource;
import abeyance.v1.Wait;
import abeyance.v1.WaitSpec;
import com.google.protobuf.util.Durations;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Waits against a real broker, with nothing and with a faulty proxy in between. */
@Timeout(120)
class BrokerTest {
    private static Broker broker;
    private Waits waits;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
    }

    @AfterAll
    static void stop() throws Exception {
        broker.close();
    }

    @BeforeEach
    void connect() {
        waits = Waits.connect(broker.address());
    }

    @AfterEach
    void close() {
        waits.close();
    }

    @Test
    void c64NumbersKeepTheirText() throws Exception {
        for (String json : List.of(
                "9007199254740993", "9223372036854775807", "12345678901234567890123", "1.10", "[1e2, \"🙂\"]")) {
            Attached wait = Waits.await(waits.open(spec("numbers")));
            resolve(waits, wait.token(), json);
            assertEquals(json, payload(wait.outcome()));
        }
    }

    @Test
    void c16SixtyDaysAreSixtyDaysAndNothingSaidIsTheMaximum() throws Exception {
        WaitSpec sixtyDays = WaitSpec.newBuilder()
                .setName("long")
                .setTimeout(Durations.fromDays(60))
                .build();
        Attached wait = Waits.await(waits.open(sixtyDays));
        assertEquals(Durations.fromDays(60), describe(waits, wait.token()).getTimeout());

        Opened opened = Waits.await(
                        waits.open(WaitSpec.newBuilder().setName("long").build()))
                .opened();
        assertEquals(TimeoutSource.TIMEOUT_SOURCE_SERVER_MAXIMUM, opened.getTimeoutSource());
        assertEquals(Durations.fromDays(366), opened.getTimeout());
    }

    @Test
    void aRefusalSaysAllThatIsWrong() throws Exception {
        WaitSpec spec = spec("refused").toBuilder().setQuestion(refunds(2)).build();
        Attached wait = Waits.await(waits.open(spec));
        String json = "{\"approvals\":{\"call_1\":\"yes\"}}";
        AbeyanceException e = refusal(waits.call(ResolveServiceGrpc.getResolveMethod(), answer(wait.token(), json)));
        assertEquals(Status.Code.INVALID_ARGUMENT, e.code());
        assertEquals("INVALID_ANSWER", e.reason());
        assertEquals(wait.waitId(), e.metadata().get("wait_id"));
        assertEquals(
                List.of("approvals[\"call_1\"]", "approvals[\"call_2\"]"),
                e.violations().stream().map(Waits.Violation::field).toList());
        assertFalse(e.isPassing());
        assertEquals(
                Wait.State.STATE_PENDING, describe(waits, wait.token()).getState(), "a bad answer settles nothing");
    }

    @Test
    void anAnswerBeforeItsQuestionIsToldWhenToComeBack() throws Exception {
        WaitSpec later = spec("later").toBuilder().setQuestionLater(true).build();
        Attached wait = Waits.await(waits.open(later));
        AbeyanceException e = refusal(waits.call(ResolveServiceGrpc.getResolveMethod(), answer(wait.token(), "true")));
        assertEquals("QUESTION_NOT_SET", e.reason());
        assertTrue(e.retryDelay().orElseThrow().compareTo(Duration.ZERO) > 0);
    }

    @Test
    void theLargestRefusalFitsTheStrictestDefault() throws Exception {
        WaitSpec spec = spec("refused").toBuilder().setQuestion(refunds(64)).build();
        Attached wait = Waits.await(waits.open(spec));
        // A channel as it comes takes 8 KiB of headers.
        ManagedChannel stock =
                ManagedChannelBuilder.forTarget(broker.address()).usePlaintext().build();
        try {
            var stub = ResolveServiceGrpc.newBlockingStub(stock);
            AbeyanceException e = AbeyanceException.from(
                    assertThrows(RuntimeException.class, () -> stub.resolve(answer(wait.token(), "{}"))));
            assertEquals("INVALID_ANSWER", e.reason(), e.getMessage());
            assertTrue(e.violations().size() > 10, "only " + e.violations());
            String last = e.violations().get(e.violations().size() - 1).description();
            assertTrue(last.matches(".*\\d+ more.*"), last);
        } finally {
            stock.shutdownNow();
        }
    }

    @Test
    void nothingShowsAToken() throws Exception {
        Attached wait = Waits.await(waits.open(spec("secret")));
        Token token = wait.token();
        assertTrue(token.expose().startsWith("abey_"));
        AbeyanceException e = refusal(waits.attach(new Token(token.expose() + "x")));
        assertEquals("TOKEN_UNKNOWN", e.reason());
        for (Object shown : List.of(token, wait, wait.opened(), e, waits)) {
            assertFalse(shown.toString().contains("abey_"), shown.toString());
        }
    }

    @Test
    void closingDetachesAndNothingMore() throws Exception {
        Attached wait = Waits.await(waits.open(spec("detached")));
        CompletableFuture<?> outcome = wait.outcome();
        wait.close();
        assertThrows(CancellationException.class, () -> Waits.await(outcome));
        assertEquals(Wait.State.STATE_PENDING, describe(waits, wait.token()).getState());

        Attached again = Waits.await(waits.attach(wait.token()));
        assertTrue(again.opened().getResumed());
        resolve(waits, wait.token(), "1");
        assertEquals("1", payload(again.outcome()));
    }

    @Test
    void aCutIsNeverAnAnswer() throws Exception {
        try (FaultProxy proxy = new FaultProxy(broker);
                Waits cut = Waits.connect(proxy.address())) {
            Attached wait = Waits.await(cut.open(spec("cut")));
            for (int n = 1; n <= 3; n++) {
                proxy.tell("cut");
                while (wait.reattached() < n) {
                    assertFalse(wait.outcome().isDone());
                    Thread.sleep(5);
                }
            }
            resolve(waits, wait.token(), "\"yes\"");
            assertEquals("\"yes\"", payload(wait.outcome()));
            assertEquals(3, wait.reattached());
        }
    }

    @Test
    void c06SilenceIsDeath() throws Exception {
        try (FaultProxy proxy = new FaultProxy(broker);
                Waits frozen = Waits.connect(proxy.address())) {
            Attached wait = Waits.await(frozen.open(spec("frozen")));
            long begun = System.nanoTime();
            proxy.tell("freeze");
            resolve(waits, wait.token(), "2");
            assertEquals("2", payload(wait.outcome()));
            // Twice the second between signs of life, a quarter of one to come back, and a busy machine.
            assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(10));
            assertEquals(1, wait.reattached());
        }
    }

    @Test
    void aFrozenConnectionSwallowsNoSecondCall() throws Exception {
        Settings hasty = new Settings(Duration.ofSeconds(1), Duration.ofSeconds(30), Duration.ofHours(1));
        try (FaultProxy proxy = new FaultProxy(broker);
                Waits frozen = new Waits(() -> Waits.channel(proxy.address()), hasty)) {
            Token token = Waits.await(waits.open(spec("frozen"))).token();
            describe(frozen, token);
            proxy.tell("freeze");
            assertFalse(resolve(frozen, token, "3").getWaitId().isEmpty());
        }
    }

    @Test
    void c12AScoldingIsMetWithRestraintAndOneWarning() throws Exception {
        List<String> warnings = Collections.synchronizedList(new ArrayList<>());
        Logger logger = Logger.getLogger(Waits.class.getName());
        Handler handler = new Collector(warnings);
        logger.addHandler(handler);
        try (FaultProxy proxy = new FaultProxy(broker, "--scold-after", "0.5");
                Waits scolded = Waits.connect(proxy.address())) {
            Attached wait = Waits.await(scolded.open(spec("scolded")));
            proxy.await("scolded");
            proxy.await("scolded");
            proxy.tell("calm");
            resolve(waits, wait.token(), "4");
            assertEquals("4", payload(wait.outcome()));
            // Other tests may warn of other things at the same time.
            assertEquals(
                    1,
                    warnings.stream().filter(w -> w.contains("too_many_pings")).count(),
                    warnings.toString());
        } finally {
            logger.removeHandler(handler);
        }
    }

    @Test
    void c19FiveHundredWaitsKeepNoCallFromItsTurn() throws Exception {
        List<CompletableFuture<Attached>> opening = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            opening.add(waits.open(spec("crowd")));
        }
        Attached last = null;
        for (CompletableFuture<Attached> wait : opening) {
            last = Waits.await(wait);
        }
        long begun = System.nanoTime();
        resolve(waits, last.token(), "true");
        long taken = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
        // A second, on a machine that does nothing else.
        assertTrue(taken < 3000, taken + " ms");
        assertEquals("true", payload(last.outcome()));
    }

    @Test
    void aBrokerThatIsKilledTakesNothingWithIt() throws Exception {
        try (Broker mortal = new Broker();
                Waits client = Waits.connect(mortal.address())) {
            Attached wait = Waits.await(client.open(spec("restart")));
            mortal.kill();
            // Begun while nobody listens: it is repeated until somebody does.
            var resolving = client.call(ResolveServiceGrpc.getResolveMethod(), answer(wait.token(), "5"));
            mortal.start();
            assertEquals(Wait.State.STATE_RESOLVED, Waits.await(resolving).getState());
            assertEquals("5", payload(wait.outcome()));
            assertEquals(1, wait.reattached());
        }
    }

    @Test
    void patienceEnds() throws Exception {
        Settings hasty = new Settings(Duration.ofSeconds(1), Duration.ofMillis(300), Duration.ofHours(1));
        String address;
        try (ServerSocket free = new ServerSocket(0)) {
            address = "127.0.0.1:" + free.getLocalPort();
        }
        try (Waits nobody = new Waits(() -> Waits.channel(address), hasty)) {
            AbeyanceException e = refusal(nobody.open(spec("nobody")));
            assertEquals(Status.Code.UNAVAILABLE, e.code());
            assertTrue(e.isPassing());
            assertTrue(e.getMessage().contains("Connection refused"), e.getMessage());
        }
    }

    @Test
    void aClientThatIsClosedLeavesNobodyWaiting() throws Exception {
        Waits closing = Waits.connect("127.0.0.1:1");
        CompletableFuture<Attached> opening = closing.open(spec("closed"));
        CompletableFuture<?> calling =
                closing.call(ResolveServiceGrpc.getResolveMethod(), answer(new Token("abey_x"), "1"));
        closing.close();
        assertThrows(CancellationException.class, () -> Waits.await(opening));
        assertTrue(Set.of(Status.Code.CANCELLED, Status.Code.UNAVAILABLE)
                .contains(refusal(calling).code()));
    }

    private static final class Collector extends Handler {
        private final List<String> warnings;

        private Collector(List<String> warnings) {
            this.warnings = warnings;
        }

        @Override
        public synchronized void publish(LogRecord record) {
            if (record.getLevel().intValue() >= Level.WARNING.intValue()) {
                warnings.add(String.valueOf(record.getParameters() == null ? "" : record.getParameters()[0]));
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
