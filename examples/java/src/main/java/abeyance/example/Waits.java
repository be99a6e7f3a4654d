package abeyance.example;

import abeyance.v1.AttachRequest;
import abeyance.v1.AttachResponse;
import abeyance.v1.CancelWaitRequest;
import abeyance.v1.DescribeWaitRequest;
import abeyance.v1.Detached;
import abeyance.v1.MarkAskedRequest;
import abeyance.v1.Opened;
import abeyance.v1.Outcome;
import abeyance.v1.ResolveServiceGrpc;
import abeyance.v1.Wait;
import abeyance.v1.WaitEvent;
import abeyance.v1.WaitRequest;
import abeyance.v1.WaitResponse;
import abeyance.v1.WaitServiceGrpc;
import abeyance.v1.WaitSpec;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.Serializable;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A client of one Abeyance broker whose waits attach again by themselves. One file, made to be
 * copied: beside it you need the generated stubs, {@code grpc-stub}, {@code grpc-protobuf} and a
 * transport.
 *
 * <p>A cut connection, a restarted broker or a proxy in between never becomes an answer: a wait
 * stays attached until the broker tells its outcome. Every other call is repeated while the broker
 * cannot be reached, which is safe for all calls of the contract. A clear refusal is never repeated
 * and arrives as an {@link AbeyanceException}.
 *
 * <p>Nothing here blocks but {@link #await} and {@link #close}. What depends on a future runs in
 * the common pool, so it cannot hold up a stream. Thread safe.
 */
public final class Waits implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Waits.class.getName());

    /** The period of signs of life where a broker does not name it. */
    private static final Duration ALIVE_INTERVAL = Duration.ofSeconds(25);

    /** How long the end of a stream may take after its last event. */
    private static final Duration END_OF_STREAM = Duration.ofSeconds(1);

    /** How often a channel that cannot connect is made to try again at most, however many waits are behind it. */
    private static final Duration RECONNECT_INTERVAL = Duration.ofMillis(250);

    /** The longest time that a broker may keep a client from trying again. */
    private static final Duration LONGEST_RETRY_DELAY = Duration.ofMinutes(10);

    private final Settings settings;
    private final Connection streams;
    private final Connection calls;
    private final Set<Attached> attached = ConcurrentHashMap.newKeySet();
    private final Set<CompletableFuture<?>> unanswered = ConcurrentHashMap.newKeySet();
    private final ScheduledThreadPoolExecutor timers;
    private final ExecutorService asks;
    private final AtomicLong scoldedAt = new AtomicLong();
    private final AtomicLong absentAt = new AtomicLong();
    private volatile boolean closed;

    /**
     * How patient a client is.
     *
     * @param attemptTimeout how long one try of a call may take, and a stream to its first event
     * @param patience for how long a call, or the opening of a wait, is tried again while the broker
     *     cannot be reached. It does not bound a wait that is attached
     * @param window how long a stream lives at most before it is attached to again; each stream draws
     *     a time between nine tenths of it and all of it. At most an hour
     */
    public record Settings(Duration attemptTimeout, Duration patience, Duration window) {
        /** 15 s, 30 s and an hour. */
        public static final Settings DEFAULT =
                new Settings(Duration.ofSeconds(15), Duration.ofSeconds(30), Duration.ofHours(1));

        public Settings {
            if (window.compareTo(Duration.ofHours(1)) > 0) {
                throw new IllegalArgumentException("a window of more than an hour: " + window);
            }
        }
    }

    /** The bearer credential of one wait. Whoever holds it can answer, so no log shows it. */
    public static final class Token {
        // Not a record, and transient: what writes objects as JSON would show it.
        private final transient String text;

        /** Takes a token that was handed on. */
        public Token(String text) {
            this.text = text;
        }

        /** Its text, to hand on to whoever may answer. */
        public String expose() {
            return text;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Token token && token.text.equals(text);
        }

        @Override
        public int hashCode() {
            return text.hashCode();
        }

        @Override
        public String toString() {
            return "Token(hidden)";
        }
    }

    /** Hands question and token on to whoever can answer. */
    @FunctionalInterface
    public interface Ask {
        /**
         * May block; is interrupted when the outcome arrives meanwhile. One that knows the answer
         * resolves the wait like anybody else.
         *
         * @param wait the wait. Its token is the same each time the same wait is asked about, so key
         *     what you send on it
         */
        void handOn(Attached wait) throws Exception;
    }

    /** A client with the default settings for the broker at {@code host:port}, without TLS. */
    public static Waits connect(String target) {
        return new Waits(() -> channel(target), Settings.DEFAULT);
    }

    /**
     * A channel with settings that no server or proxy punishes, for {@code host:port} or {@code
     * http://host:port}. Streams of {@code WatchWaits} belong on one of their own.
     */
    public static ManagedChannelBuilder<?> channel(String target) {
        return ManagedChannelBuilder.forTarget(target.replaceFirst("^http://", ""))
                .usePlaintext()
                .keepAliveTime(330, TimeUnit.SECONDS)
                .keepAliveTimeout(20, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(false)
                .maxInboundMessageSize(64 << 20)
                .maxInboundMetadataSize(64 << 10);
    }

    /**
     * A client that connects as told.
     *
     * @param channels makes a channel, {@link #channel} or the like. Called twice: streams of waits
     *     have a connection of their own, so that no number of them keeps a call from its turn
     * @param settings how patient it is
     */
    public Waits(Supplier<? extends ManagedChannelBuilder<?>> channels, Settings settings) {
        this.settings = settings;
        streams = new Connection(channels.get().build());
        calls = new Connection(channels.get().build());
        ThreadFactory daemons = task -> {
            Thread thread = new Thread(task, "abeyance");
            thread.setDaemon(true);
            return thread;
        };
        timers = new ScheduledThreadPoolExecutor(1, daemons);
        timers.setRemoveOnCancelPolicy(true);
        asks = Executors.newCachedThreadPool(daemons);
    }

    /**
     * Opens a wait, or re-opens it by its key, and stays attached. Done once the wait is durable; its
     * outcome may be there already. A spec without {@code timeout} gets {@code no_timeout}.
     */
    public CompletableFuture<Attached> open(WaitSpec spec) {
        WaitSpec.Builder whole = spec.toBuilder();
        if (spec.getExpiryCase() == WaitSpec.ExpiryCase.EXPIRY_NOT_SET) {
            // Else the deadline of the stream would become the wait's timeout.
            whole.setNoTimeout(true);
        }
        String requestId = newRequestId();
        return new Attached(
                        WaitRequest.newBuilder()
                                .setSpec(whole)
                                .setRequestId(requestId)
                                .build(),
                        null)
                .first();
    }

    /** Attaches to a wait by its token, in any state. Never opens one. */
    public CompletableFuture<Attached> attach(Token token) {
        return new Attached(null, token).first();
    }

    /**
     * Opens a wait, asks beside its open stream, and gives the outcome, whatever it is. Does not ask
     * about a wait that was asked about before or is settled. If the ask fails, a wait without a key
     * is cancelled; one with a key stays open and not asked, so that running again asks again. A
     * worker that was killed runs again with the same key.
     *
     * <p>Fails with what the ask threw, or an {@link AbeyanceException}. Cancelling the future leaves
     * the wait as it is.
     */
    public CompletableFuture<Outcome> ask(WaitSpec spec, Ask ask) {
        return open(spec)
                .thenCompose(wait -> handOnce(wait, ask)
                        .handle((done, failure) -> failure)
                        .thenCompose(f -> f == null ? wait.outcome() : giveUp(spec, wait, f)));
    }

    /**
     * Makes a call that has one answer and repeats it for as long as {@link Settings#patience} while
     * the broker cannot be reached: {@code waits.call(ResolveServiceGrpc.getResolveMethod(), …)}.
     */
    public <Q, A> CompletableFuture<A> call(MethodDescriptor<Q, A> method, Q request) {
        return new Call<>(method, request, new Pace(settings.patience())).begin();
    }

    /**
     * Waits for a future of this class.
     *
     * @throws AbeyanceException if the call was refused, or the broker could not be reached
     * @throws CancellationException if the wait was detached
     * @throws CompletionException around anything else that went wrong, such as what an ask threw
     */
    public static <T> T await(CompletableFuture<T> future) throws InterruptedException {
        try {
            return future.get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof AbeyanceException || e.getCause() instanceof CancellationException) {
                throw (RuntimeException) e.getCause();
            }
            throw new CompletionException(e.getCause());
        }
    }

    /** Detaches all waits, which lets them be as they are, and ends connections and calls. */
    @Override
    public void close() {
        closed = true;
        attached.forEach(Attached::close);
        Status over = Status.CANCELLED.withDescription("the client was closed");
        unanswered.forEach(call -> refuse(call, AbeyanceException.from(over.asRuntimeException())));
        asks.shutdownNow();
        streams.close();
        calls.close();
        timers.shutdownNow();
    }

    private CompletableFuture<?> handOnce(Attached wait, Ask ask) {
        Opened opened = wait.opened();
        if (opened.getAsked()) {
            return CompletableFuture.completedFuture(null);
        }
        // Opened tells nothing of the state, and the outcome of a settled wait is the event after it:
        // nobody must be asked in between. A wait that this call created is pending.
        var describe =
                DescribeWaitRequest.newBuilder().setToken(wait.token().expose()).build();
        CompletableFuture<Boolean> pending = opened.getResumed()
                ? call(ResolveServiceGrpc.getDescribeWaitMethod(), describe)
                        .thenApply(found -> found.getWait().getState() == Wait.State.STATE_PENDING)
                : CompletableFuture.completedFuture(true);
        return pending.thenCompose(is -> is
                ? CompletableFuture.anyOf(wait.outcome(), handOn(wait, ask))
                : CompletableFuture.completedFuture(null));
    }

    private CompletableFuture<?> handOn(Attached wait, Ask ask) {
        CompletableFuture<Void> asked = new CompletableFuture<>();
        Future<?> running = asks.submit(() -> {
            try {
                ask.handOn(wait);
                asked.complete(null);
            } catch (Throwable failure) {
                asked.completeExceptionally(failure);
            }
        });
        wait.outcome().whenComplete((outcome, failure) -> running.cancel(true));
        return asked.exceptionallyCompose(failure ->
                        // An ask that answered found that somebody was faster: the stream brings theirs.
                        cause(failure) instanceof AbeyanceException e
                                        && e.reason().equals("ALREADY_SETTLED")
                                ? CompletableFuture.completedFuture(null)
                                : CompletableFuture.failedFuture(failure))
                .thenCompose(done ->
                        // For as long as it takes: what was handed on cannot be taken back.
                        new Call<>(
                                        WaitServiceGrpc.getMarkAskedMethod(),
                                        MarkAskedRequest.newBuilder()
                                                .setToken(wait.token().expose())
                                                .build(),
                                        new Pace(null))
                                .begin());
    }

    private CompletableFuture<Outcome> giveUp(WaitSpec spec, Attached wait, Throwable failure) {
        if (wait.outcome.isDone()) {
            // The ask was cut short by it.
            return wait.outcome();
        }
        if (!spec.getKey().isEmpty()) {
            wait.close();
            return CompletableFuture.failedFuture(cause(failure));
        }
        var cancel = CancelWaitRequest.newBuilder()
                .setToken(wait.token().expose())
                .setReason("The ask failed.")
                .build();
        return call(WaitServiceGrpc.getCancelWaitMethod(), cancel).handle((cancelled, unreachable) -> {
            if (unreachable != null) {
                wait.close();
                throw new CompletionException(cause(failure));
            }
            // An answer that was recorded before the ask failed counts like one that cut it
            // short.
            if (cancelled.getOutcome().getState() == Wait.State.STATE_CANCELLED) {
                throw new CompletionException(cause(failure));
            }
            return cancelled.getOutcome();
        });
    }

    private static void refuse(CompletableFuture<?> future, AbeyanceException why) {
        future.completeAsync(() -> {
            throw why;
        });
    }

    private static Throwable cause(Throwable failure) {
        return failure instanceof CompletionException e ? e.getCause() : failure;
    }

    private ScheduledFuture<?> after(Duration delay, Runnable task) {
        return timers.schedule(task, delay.toNanos(), TimeUnit.NANOSECONDS);
    }

    private static String newRequestId() {
        SecureRandom random = new SecureRandom();
        // A UUIDv7: its time makes ids that are new lie together in the broker's index.
        long high = System.currentTimeMillis() << 16 | 0x7000 | random.nextInt(0x1000);
        return new UUID(high, 1L << 63 | random.nextLong() >>> 2).toString();
    }

    /** A wait that is attached to, through cuts and restarts of the broker, until its outcome. */
    public final class Attached implements AutoCloseable {
        private final WaitRequest request;
        private final CompletableFuture<Attached> first = new CompletableFuture<>();
        private final CompletableFuture<Outcome> outcome = new CompletableFuture<>();
        private Pace pace = new Pace(settings.patience());
        private Token token;
        private Opened opened;
        private Stream<?> stream;
        private ScheduledFuture<?> timer;
        private long count;
        private boolean over;

        private Attached(WaitRequest request, Token token) {
            this.request = request;
            this.token = token;
        }

        private CompletableFuture<Attached> first() {
            attached.add(this);
            if (closed) {
                close();
            } else {
                begin();
            }
            return first;
        }

        /** The wait's token. */
        public Token token() {
            return token;
        }

        /**
         * What the wait was when it was first attached to. Its token is left out, see {@link #token}.
         */
        public Opened opened() {
            return opened;
        }

        /** The wait's public name, fit for logs. */
        public String waitId() {
            return opened.getWaitId();
        }

        /** How many times the wait was attached to again. */
        public synchronized long reattached() {
            return Math.max(0, count - 1);
        }

        /**
         * The outcome: resolved, failed, expired or cancelled, and nothing else. Delivered at least
         * once, so act on it idempotently, by wait id. Fails with an {@link AbeyanceException} only if
         * the broker no longer knows the wait; is cancelled by {@link #close}.
         */
        public CompletableFuture<Outcome> outcome() {
            return outcome.copy();
        }

        /** Detaches and nothing more: the wait stays as it is. */
        @Override
        public synchronized void close() {
            if (!over) {
                end();
                outcome.cancel(false);
                first.cancel(false);
            }
        }

        @Override
        public synchronized String toString() {
            return "Attached[" + (opened == null ? "not yet" : opened.getWaitId()) + "]";
        }

        private synchronized void begin() {
            if (over) {
                return;
            }
            if (opened == null && request != null) {
                start(WaitServiceGrpc.getWaitMethod(), request, WaitResponse::getEvent);
            } else {
                AttachRequest again =
                        AttachRequest.newBuilder().setToken(token.expose()).build();
                start(WaitServiceGrpc.getAttachMethod(), again, AttachResponse::getEvent);
            }
        }

        private <Q, A> void start(MethodDescriptor<Q, A> rpc, Q request, Function<A, WaitEvent> event) {
            long window = settings.window().toMillis();
            long drawn = window - ThreadLocalRandom.current().nextLong(window / 10 + 1);
            Deadline deadline = Deadline.after(drawn, TimeUnit.MILLISECONDS);
            Stream<A> begun = new Stream<>(this, event, deadline, streams.ready());
            ClientCall<Q, A> call = streams.channel.newCall(rpc, CallOptions.DEFAULT.withDeadline(deadline));
            begun.call = call;
            stream = begun;
            watch(begun, settings.attemptTimeout());
            ClientCalls.asyncServerStreamingCall(call, request, begun);
        }

        /** Gives up a stream that stays silent for so long. */
        private void watch(Stream<?> watched, Duration silence) {
            stopTimer();
            timer = after(silence, () -> silent(watched));
        }

        private synchronized void silent(Stream<?> silent) {
            if (stream != silent) {
                return;
            }
            silent.call.cancel("no sign of life", null);
            if (!over && silent.detached == null) {
                // The whole connection may be frozen, and would swallow the next stream too.
                streams.dead(silent.connection);
            }
            ended(silent, Status.UNAVAILABLE.withDescription("no sign of life").asRuntimeException());
        }

        private synchronized void arrived(Stream<?> from, WaitEvent event) {
            if (stream != from || over || from.detached != null) {
                return;
            }
            switch (event.getEventCase()) {
                case OPENED -> opened(from, event.getOpened());
                case OUTCOME -> {
                    if (from.openedAt == 0) {
                        break;
                    }
                    if (!isKnown(event.getOutcome())) {
                        Status unknown =
                                Status.INTERNAL.withDescription("the broker sent an outcome of an unknown kind");
                        fail(AbeyanceException.from(unknown.asRuntimeException()));
                        return;
                    }
                    over = true;
                    attached.remove(this);
                    outcome.completeAsync(event::getOutcome);
                }
                case DETACHED -> from.detached = event.getDetached();
                default -> {}
            }
            if (over || from.detached != null) {
                watch(from, END_OF_STREAM);
            } else if (from.openedAt != 0) {
                watch(from, from.silence);
            }
        }

        /** What is not known is never taken for an answer. */
        private boolean isKnown(Outcome outcome) {
            return switch (outcome.getResultCase()) {
                case RESULT_NOT_SET -> false;
                case RESOLVED ->
                    !outcome.getResolved().getPayloadJson().isEmpty()
                            || !outcome.getResultsJson().isEmpty();
                default -> true;
            };
        }

        private void opened(Stream<?> from, Opened event) {
            if (from.openedAt != 0) {
                return;
            }
            from.openedAt = System.nanoTime();
            Duration interval = duration(event.getAliveInterval());
            from.silence = (interval.isZero() ? ALIVE_INTERVAL : interval).multipliedBy(2);
            count++;
            if (opened == null) {
                token = new Token(event.getToken());
                opened = event.toBuilder().clearToken().build();
                pace = new Pace(null);
                first.completeAsync(() -> this);
            }
        }

        private synchronized void ended(Stream<?> from, Throwable why) {
            if (stream != from) {
                return;
            }
            stream = null;
            stopTimer();
            if (over) {
                return;
            }
            AbeyanceException cut = AbeyanceException.from(why);
            Duration delay;
            if (from.detached != null) {
                cut = new AbeyanceException("the broker let go of the stream", from.detached);
            }
            boolean lifetime = from.detached != null && from.detached.getReason() == Detached.Reason.REASON_LIFETIME;
            // A broker that plans short streams must not be called as fast as it can answer.
            boolean planned =
                    lifetime && from.openedAt != 0 && since(from.openedAt).compareTo(Pace.HEALTHY) >= 0;
            if (planned || from.hasReachedItsWindow(cut)) {
                delay = cut.askedFor();
            } else {
                Optional<Duration> next = pace.next(cut, from.openedAt);
                if (next.isEmpty()) {
                    fail(cut);
                    return;
                }
                delay = next.get();
                LOG.log(System.Logger.Level.DEBUG, "{0} was cut ({1}); again in {2}", this, cut.code(), delay);
            }
            timer = after(delay, this::begin);
        }

        private void fail(AbeyanceException failure) {
            end();
            refuse(first, failure);
            refuse(outcome, failure);
        }

        private void stopTimer() {
            if (timer != null) {
                timer.cancel(false);
            }
        }

        private void end() {
            over = true;
            attached.remove(this);
            stopTimer();
            if (stream != null) {
                stream.call.cancel("detached", null);
                stream = null;
            }
        }
    }

    /** One stream of a wait, read at once and to its end. */
    private static final class Stream<A> implements StreamObserver<A> {
        private final Attached wait;
        private final Function<A, WaitEvent> event;
        private final Deadline deadline;
        private final int connection;
        private ClientCall<?, A> call;
        private Detached detached;
        private Duration silence;
        private long openedAt;

        private Stream(Attached wait, Function<A, WaitEvent> event, Deadline deadline, int connection) {
            this.wait = wait;
            this.event = event;
            this.deadline = deadline;
            this.connection = connection;
        }

        private boolean hasReachedItsWindow(AbeyanceException cut) {
            return cut.code() == Status.Code.DEADLINE_EXCEEDED && deadline.timeRemaining(TimeUnit.MILLISECONDS) < 1000;
        }

        @Override
        public void onNext(A response) {
            wait.arrived(this, event.apply(response));
        }

        @Override
        public void onError(Throwable why) {
            wait.ended(this, why);
        }

        @Override
        public void onCompleted() {
            // Whatever the status: without an outcome it is a cut.
            String why = "the stream ended without an outcome";
            wait.ended(this, Status.UNAVAILABLE.withDescription(why).asRuntimeException());
        }
    }

    /** One call with one answer, and its repetitions. */
    private final class Call<Q, A> {
        private final MethodDescriptor<Q, A> method;
        private final Q request;
        private final Pace pace;
        private final CompletableFuture<A> result = new CompletableFuture<>();

        private Call(MethodDescriptor<Q, A> method, Q request, Pace pace) {
            this.method = method;
            this.request = request;
            this.pace = pace;
            unanswered.add(result);
            result.whenComplete((answer, failure) -> unanswered.remove(result));
        }

        private CompletableFuture<A> begin() {
            if (result.isDone()) {
                return result;
            }
            int connection = calls.ready();
            CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(
                    settings.attemptTimeout().toNanos(), TimeUnit.NANOSECONDS);
            StreamObserver<A> observer = new StreamObserver<>() {
                @Override
                public void onNext(A answer) {
                    result.completeAsync(() -> answer);
                }

                @Override
                public void onError(Throwable why) {
                    ended(AbeyanceException.from(why), connection);
                }

                @Override
                public void onCompleted() {}
            };
            ClientCalls.asyncUnaryCall(calls.channel.newCall(method, options), request, observer);
            return result;
        }

        private void ended(AbeyanceException why, int connection) {
            if (why.code() == Status.Code.DEADLINE_EXCEEDED && why.reason().isEmpty()) {
                calls.dead(connection);
            }
            Optional<Duration> delay = closed ? Optional.empty() : pace.next(why, 0);
            if (delay.isEmpty()) {
                refuse(result, why);
            } else {
                after(delay.get(), this::begin);
            }
        }
    }

    /** A channel, and which of its connections, one after the other, is the present one. */
    private static final class Connection {
        private final ManagedChannel channel;
        private int number;
        private long reconnected = System.nanoTime() - RECONNECT_INTERVAL.toNanos();

        private Connection(ManagedChannel channel) {
            this.channel = channel;
        }

        /** Makes sure that the next try connects if need be, and numbers its connection. */
        private synchronized int ready() {
            long now = System.nanoTime();
            if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE
                    && now - reconnected >= RECONNECT_INTERVAL.toNanos()) {
                // The channel's own backoff would refuse calls for up to two minutes. Ours is enough.
                reconnected = now;
                channel.enterIdle();
            }
            return number;
        }

        /** Leaves a connection to the calls that are on it, once; later ones get another. */
        private synchronized void dead(int connection) {
            if (connection == number) {
                number++;
                channel.enterIdle();
            }
        }

        private void close() {
            channel.shutdown();
            try {
                // Streams that had their outcome end by themselves, which no server takes for abuse.
                channel.awaitTermination(END_OF_STREAM.toMillis(), TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            channel.shutdownNow();
        }
    }

    /** When to try again: full jitter, since all clients of a broker lose their streams at once. */
    final class Pace {
        /** Where restraint begins: a random time below 8 s. */
        private static final int RESTRAINT = 5;

        /** A stream that lived for this long makes the next cut a first one. */
        private static final Duration HEALTHY = Duration.ofSeconds(5);

        private final Duration patience;
        private final long begun = System.nanoTime();
        private int tries;

        /** Null: patient for ever. */
        Pace(Duration patience) {
            this.patience = patience;
        }

        /** The delay before the next try; none if there is no use in one. */
        synchronized Optional<Duration> next(AbeyanceException cut, long openedAt) {
            if (!cut.isPassing()) {
                return Optional.empty();
            }
            if (cut.asksForRestraint()) {
                warn(cut);
                tries = Math.max(tries, RESTRAINT);
            } else if (openedAt != 0 && since(openedAt).compareTo(HEALTHY) >= 0) {
                tries = 0;
            }
            boolean isFirst = tries == 0;
            Duration delay = jitter(tries++).plus(cut.askedFor());
            if (patience == null) {
                return Optional.of(delay);
            }
            if (isFirst) {
                tellOfAbsence(cut);
            }
            Duration left = patience.minus(since(begun));
            // The last try is made when patience ends, not given up because its delay would be longer.
            return left.isNegative() || left.isZero() ? Optional.empty() : Optional.of(least(delay, left));
        }

        /** Once in a minute: whoever waits for a call would otherwise see nothing until its patience ends. */
        private void tellOfAbsence(AbeyanceException cut) {
            long last = absentAt.get();
            long now = System.nanoTime();
            if ((last == 0 || now - last > Duration.ofMinutes(1).toNanos()) && absentAt.compareAndSet(last, now)) {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "the broker cannot be reached (is it running?); trying again: {0}",
                        cut.getMessage());
            }
        }

        /** Once, not for each of a thousand waits; but again for trouble that is another. */
        private void warn(AbeyanceException cut) {
            long last = scoldedAt.get();
            long now = System.nanoTime();
            boolean isNews = last == 0 || now - last > Duration.ofHours(1).toNanos();
            if (isNews && scoldedAt.compareAndSet(last, now)) {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "the broker, or a proxy, asks for restraint: {0}",
                        cut.getMessage());
            }
        }
    }

    /** What the delay before try number {@code n} (from 0) stays below. */
    static Duration bound(int n) {
        return least(Duration.ofMillis(250L << Math.min(n, 20)), Duration.ofSeconds(30));
    }

    static Duration jitter(int n) {
        return Duration.ofNanos(ThreadLocalRandom.current().nextLong(bound(n).toNanos()));
    }

    private static Duration least(Duration one, Duration other) {
        return one.compareTo(other) < 0 ? one : other;
    }

    private static Duration since(long nanoTime) {
        return Duration.ofNanos(System.nanoTime() - nanoTime);
    }

    private static Duration duration(com.google.protobuf.Duration wire) {
        return Duration.ofSeconds(wire.getSeconds(), wire.getNanos());
    }

    /**
     * One fault of a request.
     *
     * @param field its path, for {@code INVALID_ANSWER} that in the answer, such as {@code
     *     approvals["call_2"].override_args}
     * @param description what is wrong with it
     */
    public record Violation(String field, String description) implements Serializable {}

    /** Why a call gave no answer. */
    public static final class AbeyanceException extends RuntimeException {
        private static final long serialVersionUID = 1;

        private static final Set<Status.Code> VERDICTS = Set.of(
                Status.Code.INVALID_ARGUMENT,
                Status.Code.NOT_FOUND,
                Status.Code.FAILED_PRECONDITION,
                Status.Code.ALREADY_EXISTS,
                Status.Code.DATA_LOSS,
                Status.Code.UNIMPLEMENTED,
                Status.Code.UNAUTHENTICATED,
                Status.Code.PERMISSION_DENIED,
                Status.Code.OUT_OF_RANGE);

        private final Status.Code code;
        private final Details details;

        private record Details(
                String reason, Map<String, String> metadata, List<Violation> violations, Duration retryDelay)
                implements Serializable {}

        private AbeyanceException(Status status, Details details, Throwable cause) {
            super(text(status, details), cause);
            code = status.getCode();
            this.details = details;
        }

        private AbeyanceException(String message, Detached detached) {
            this(
                    Status.UNAVAILABLE.withDescription(message),
                    new Details("", Map.of(), List.of(), duration(detached.getRetryDelay())),
                    null);
        }

        /** Decodes what a generated stub threw. Other failures get the code {@code UNKNOWN}. */
        public static AbeyanceException from(Throwable failure) {
            return new AbeyanceException(Status.fromThrowable(failure), details(failure), failure);
        }

        /** The status code. */
        public Status.Code code() {
            return code;
        }

        /**
         * A name of {@code ErrorReason} without its prefix, such as {@code ALREADY_SETTLED}. Empty if
         * the status did not come from the broker.
         */
        public String reason() {
            return details.reason();
        }

        /** More about the reason, such as {@code wait_id}. */
        public Map<String, String> metadata() {
            return details.metadata();
        }

        /** The faults of the request, one by one. */
        public List<Violation> violations() {
            return details.violations();
        }

        /** How long the broker asks to wait before the call is repeated. */
        public Optional<Duration> retryDelay() {
            return Optional.ofNullable(details.retryDelay());
        }

        /**
         * Whether the same call may succeed later: then the broker could not be reached for as long as
         * the client was patient. Meshes end calls with any status, so only a clear verdict is none.
         */
        public boolean isPassing() {
            return !VERDICTS.contains(code);
        }

        private Duration askedFor() {
            Duration delay = retryDelay().orElse(Duration.ZERO);
            return delay.isNegative() ? Duration.ZERO : least(delay, LONGEST_RETRY_DELAY);
        }

        private boolean asksForRestraint() {
            return code == Status.Code.RESOURCE_EXHAUSTED || getMessage().contains("ENHANCE_YOUR_CALM");
        }

        private static String text(Status status, Details details) {
            String description = status.getDescription();
            Throwable cause = status.getCause();
            String why = cause == null ? "" : ": " + cause.getMessage();
            String name = details.reason().isEmpty() ? status.getCode().name() : details.reason();
            return (description == null ? "the call failed" : description) + why + " (" + name + ")";
        }

        private static Details details(Throwable failure) {
            String reason = "";
            Map<String, String> metadata = Map.of();
            List<Violation> violations = new ArrayList<>();
            Duration retryDelay = null;
            try {
                com.google.rpc.Status status = StatusProto.fromThrowable(failure);
                List<Any> all = status == null ? List.of() : status.getDetailsList();
                for (Any detail : all) {
                    if (detail.is(ErrorInfo.class)) {
                        ErrorInfo info = detail.unpack(ErrorInfo.class);
                        reason = info.getReason();
                        metadata = Map.copyOf(info.getMetadataMap());
                    } else if (detail.is(BadRequest.class)) {
                        for (var fault : detail.unpack(BadRequest.class).getFieldViolationsList()) {
                            violations.add(new Violation(fault.getField(), fault.getDescription()));
                        }
                    } else if (detail.is(RetryInfo.class)) {
                        retryDelay = duration(detail.unpack(RetryInfo.class).getRetryDelay());
                    }
                }
            } catch (InvalidProtocolBufferException | IllegalArgumentException e) {
                LOG.log(System.Logger.Level.DEBUG, "a status with details that cannot be read", e);
            }
            return new Details(reason, metadata, List.copyOf(violations), retryDelay);
        }
    }
}
