package abeyance.example;

import static abeyance.example.Fixture.payload;
import static abeyance.example.Fixture.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import abeyance.example.FakeBroker.Stream;
import abeyance.example.Waits.AbeyanceException;
import abeyance.example.Waits.Attached;
import abeyance.example.Waits.Settings;
import abeyance.example.Waits.Token;
import abeyance.v1.Detached;
import abeyance.v1.WaitSpec;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/** The rules that every client follows, against a broker that does as it is told. */
@Timeout(60)
class RulesTest {
    private static final WaitSpec SPEC = WaitSpec.newBuilder().setName("rules").build();

    private FakeBroker broker;
    private Waits waits;

    @BeforeEach
    void start() throws Exception {
        broker = new FakeBroker();
        connect(Settings.DEFAULT);
    }

    @AfterEach
    void stop() {
        waits.close();
        broker.close();
    }

    private void connect(Settings settings) {
        if (waits != null) {
            waits.close();
        }
        waits = new Waits(() -> Waits.channel(broker.address()), settings);
    }

    private Attached open() throws InterruptedException {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        broker.next().opened();
        return Waits.await(opening);
    }

    @ParameterizedTest
    // That one waits for up to 8 s; c12 of BrokerTest meets it.
    @EnumSource(mode = Mode.EXCLUDE, names = "RESOURCE_EXHAUSTED")
    void onlyAnOutcomeIsAnAnswerAndOnlyAVerdictEndsTheTrying(Status.Code code) throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream first = broker.next().opened();
        Attached wait = Waits.await(opening);
        first.end(code.toStatus());
        boolean verdict = List.of(
                        Status.Code.INVALID_ARGUMENT,
                        Status.Code.NOT_FOUND,
                        Status.Code.FAILED_PRECONDITION,
                        Status.Code.ALREADY_EXISTS,
                        Status.Code.DATA_LOSS,
                        Status.Code.UNIMPLEMENTED,
                        Status.Code.UNAUTHENTICATED,
                        Status.Code.PERMISSION_DENIED,
                        Status.Code.OUT_OF_RANGE)
                .contains(code);
        if (verdict) {
            assertEquals(code, refusal(wait.outcome()).code());
            return;
        }
        Stream second = broker.next();
        assertEquals("abey_fake", second.again().getToken());
        assertFalse(wait.outcome().isDone());
        second.opened().outcome("1").end(Status.OK);
        assertEquals("1", payload(wait.outcome()));
    }

    @Test
    void anOpenIsRepeatedUnderOneId() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream first = broker.next();
        first.end(Status.UNAVAILABLE);
        Stream second = broker.next();
        assertEquals(first.request(), second.request());
        assertTrue(
                first.request()
                        .getRequestId()
                        .matches("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
                first.request().getRequestId());
        assertTrue(first.request().getSpec().getNoTimeout(), "the stream's deadline must not become the timeout");
        second.opened();
        Waits.await(opening);
        waits.open(SPEC);
        assertNotEquals(first.request().getRequestId(), broker.next().request().getRequestId());
    }

    @Test
    void windowsAreJustBelowAnHourAndDrawnAnew() throws Exception {
        List<Long> windows = IntStream.range(0, 20)
                .mapToObj(n -> {
                    waits.open(SPEC);
                    try {
                        return broker.next().deadline().timeRemaining(TimeUnit.SECONDS);
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                })
                .toList();
        assertTrue(windows.stream().allMatch(s -> s >= 54 * 60 - 10 && s <= 60 * 60), windows.toString());
        assertTrue(windows.stream().distinct().count() > 5, windows.toString());
    }

    @Test
    void noWindowIsLongerThanAnHour() {
        Duration tooLong = Duration.ofMinutes(61);
        assertThrows(
                IllegalArgumentException.class,
                () -> new Settings(Duration.ofSeconds(15), Duration.ofSeconds(30), tooLong));
    }

    @Test
    void theEndOfAWindowCostsNoBackoff() throws Exception {
        connect(new Settings(Duration.ofSeconds(15), Duration.ofSeconds(30), Duration.ofSeconds(1)));
        Attached wait = open();
        long begun = System.nanoTime();
        for (int n = 0; n < 6; n++) {
            broker.next().opened();
        }
        // Six backed-off tries would take eight seconds more.
        assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(9));
        assertFalse(wait.outcome().isDone());
    }

    @Test
    void aPlannedEndWaitsOnlyAsLongAsWasAsked() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream stream = broker.next().opened();
        Attached wait = Waits.await(opening);
        // Only a stream that lived for a while has a planned end that is no trouble.
        assertThrows(TimeoutException.class, () -> wait.outcome().get(5, TimeUnit.SECONDS));
        long begun = System.nanoTime();
        stream.detached(Detached.Reason.REASON_LIFETIME, 700).end(Status.OK);
        stream = broker.next().opened();
        assertTrue(stream.at() - begun >= TimeUnit.MILLISECONDS.toNanos(700));
        begun = System.nanoTime();
        stream.detached(Detached.Reason.REASON_DRAIN, 700).end(Status.UNAVAILABLE);
        stream = broker.next().opened();
        assertTrue(stream.at() - begun >= TimeUnit.MILLISECONDS.toNanos(700));
    }

    @Test
    void shortPlannedStreamsAreBackedOffFrom() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream stream = broker.next().opened();
        Waits.await(opening);
        long begun = System.nanoTime();
        for (int n = 0; n < 5; n++) {
            stream.detached(Detached.Reason.REASON_LIFETIME, 0).end(Status.OK);
            stream = broker.next().opened();
        }
        // The bounds add up to eight seconds; that full jitter stays below this is three cases in a million.
        assertTrue(System.nanoTime() - begun >= TimeUnit.MILLISECONDS.toNanos(200));
    }

    @Test
    void whatIsNoAnswerIsNeverTakenForOne() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream stream = broker.next().opened();
        Attached wait = Waits.await(opening);
        stream.outcome("");
        assertThrows(ExecutionException.class, () -> wait.outcome().get(20, TimeUnit.SECONDS));
    }

    @Test
    void aStreamThatDoesNotBeginIsLeftWithItsConnection() throws Exception {
        connect(new Settings(Duration.ofSeconds(2), Duration.ofSeconds(30), Duration.ofHours(1)));
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream silent = broker.next();
        Stream second = broker.next();
        assertEquals(silent.request(), second.request());
        assertNotEquals(silent.peer(), second.peer());
        second.opened();
        Waits.await(opening);
    }

    @Test
    void othersStayOnAConnectionThatOneStreamLeft() throws Exception {
        connect(new Settings(Duration.ofSeconds(2), Duration.ofSeconds(30), Duration.ofHours(1)));
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream good = broker.next().opened();
        Attached wait = Waits.await(opening);
        waits.open(SPEC);
        Stream silent = broker.next();
        assertEquals(good.peer(), silent.peer());
        assertNotEquals(good.peer(), broker.next().peer());
        good.outcome("6").end(Status.OK);
        assertEquals("6", payload(wait.outcome()));
        assertEquals(0, wait.reattached());
    }

    @Test
    void eventsOfAnUnknownKindArePassedOver() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream stream = broker.next().unknown().opened().unknown().alive();
        Attached wait = Waits.await(opening);
        stream.unknown().outcome("2").end(Status.OK);
        assertEquals("2", payload(wait.outcome()));
        assertEquals(0, wait.reattached());
    }

    @Test
    void anOutcomeBeforeOpenedIsACut() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        broker.next().outcome("3").end(Status.OK);
        broker.next().opened().outcome("4").end(Status.OK);
        assertEquals("4", payload(Waits.await(opening).outcome()));
    }

    @Test
    void aStreamIsReadToItsEnd() throws Exception {
        CompletableFuture<Attached> opening = waits.open(SPEC);
        Stream stream = broker.next().opened();
        Attached wait = Waits.await(opening);
        stream.outcome("5");
        assertEquals("5", payload(wait.outcome()));
        wait.close();
        // A second is granted, in which nothing is reset; then it is given up.
        long begun = System.nanoTime();
        stream.cancelled().get(10, TimeUnit.SECONDS);
        assertTrue(System.nanoTime() - begun > TimeUnit.MILLISECONDS.toNanos(800));
    }

    @Test
    void attachingToWhatIsUnknownIsRefused() throws Exception {
        CompletableFuture<Attached> attaching = waits.attach(new Token("abey_fake"));
        broker.next().end(Status.NOT_FOUND);
        assertEquals(Status.Code.NOT_FOUND, refusal(attaching).code());
    }

    @Test
    void boundsDoubleUpToHalfAMinute() {
        assertEquals(
                List.of(250L, 500L, 1000L, 2000L, 4000L, 8000L, 16_000L, 30_000L, 30_000L),
                IntStream.range(0, 9).mapToObj(n -> Waits.bound(n).toMillis()).toList());
        assertEquals(Duration.ofSeconds(30), Waits.bound(Integer.MAX_VALUE));
    }

    @Test
    void delaysAreSpreadOverAllOfTheirBound() {
        assertSpread(() -> Waits.jitter(7), Duration.ofSeconds(30));
    }

    @Test
    void restraintBeginsAtEightSecondsAndIsNotSetBack() {
        AbeyanceException scolded = cut(Status.RESOURCE_EXHAUSTED);
        long longAgo = System.nanoTime() - TimeUnit.MINUTES.toNanos(1);
        assertSpread(() -> waits.new Pace(null).next(scolded, longAgo).orElseThrow(), Duration.ofSeconds(8));
        assertSpread(
                () -> {
                    Waits.Pace pace = waits.new Pace(null);
                    pace.next(scolded, longAgo);
                    return pace.next(scolded, longAgo).orElseThrow();
                },
                Duration.ofSeconds(16));
    }

    @Test
    void aStreamThatLivedSetsTheBackoffBack() {
        AbeyanceException cut = cut(Status.UNAVAILABLE);
        for (int seconds : new int[] {1, 6}) {
            Supplier<Duration> third = () -> {
                Waits.Pace pace = waits.new Pace(null);
                pace.next(cut, 0);
                pace.next(cut, 0);
                long opened = System.nanoTime() - TimeUnit.SECONDS.toNanos(seconds);
                return pace.next(cut, opened).orElseThrow();
            };
            assertSpread(third, seconds < 5 ? Duration.ofSeconds(1) : Duration.ofMillis(250));
        }
    }

    @Test
    void theLastTryIsMadeWhenPatienceEnds() {
        AbeyanceException scolded = cut(Status.RESOURCE_EXHAUSTED);
        Duration patience = Duration.ofMillis(100);
        Optional<Duration> last = waits.new Pace(patience).next(scolded, 0);
        assertTrue(last.orElseThrow().compareTo(patience) <= 0);
        assertTrue(waits.new Pace(Duration.ZERO).next(scolded, 0).isEmpty());
    }

    private static AbeyanceException cut(Status status) {
        return AbeyanceException.from(status.asRuntimeException());
    }

    /** Holds with a probability that differs from 1 by 2^-100. */
    private static void assertSpread(Supplier<Duration> delay, Duration bound) {
        List<Duration> delays =
                IntStream.range(0, 100).mapToObj(n -> delay.get()).sorted().toList();
        assertTrue(delays.get(99).compareTo(bound) < 0, delays.toString());
        assertTrue(delays.get(99).compareTo(bound.dividedBy(2)) > 0, delays.toString());
        assertTrue(delays.get(0).compareTo(bound.dividedBy(2)) < 0, delays.toString());
    }
}
