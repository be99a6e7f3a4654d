package abeyance.example;

import abeyance.v1.Alive;
import abeyance.v1.AttachRequest;
import abeyance.v1.AttachResponse;
import abeyance.v1.Detached;
import abeyance.v1.Opened;
import abeyance.v1.Outcome;
import abeyance.v1.Resolved;
import abeyance.v1.Wait;
import abeyance.v1.WaitEvent;
import abeyance.v1.WaitRequest;
import abeyance.v1.WaitResponse;
import abeyance.v1.WaitServiceGrpc;
import com.google.protobuf.util.Durations;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Deadline;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A broker whose streams do what a test tells them. It holds one wait for each client. */
final class FakeBroker implements AutoCloseable {
    private static final Context.Key<String> PEER = Context.key("peer");

    private final BlockingQueue<Stream> streams = new LinkedBlockingQueue<>();
    private final Server server;

    FakeBroker() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new Service())
                .intercept(new Peers())
                .build()
                .start();
    }

    String address() {
        return "127.0.0.1:" + server.getPort();
    }

    /** The next stream that a client begins. */
    Stream next() throws InterruptedException {
        Stream stream = streams.poll(30, TimeUnit.SECONDS);
        if (stream == null) {
            throw new AssertionError("no stream was begun");
        }
        return stream;
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    /**
     * A stream that has begun.
     *
     * @param request the request, if it was {@code Wait}
     * @param again the request, if it was {@code Attach}
     * @param peer the client's end of the connection
     * @param at when it began, in nanoseconds
     * @param cancelled done when the client gave it up
     */
    record Stream(
            WaitRequest request,
            AttachRequest again,
            Deadline deadline,
            String peer,
            long at,
            Consumer<WaitEvent> events,
            ServerCallStreamObserver<?> end,
            CompletableFuture<Void> cancelled) {
        Stream opened() {
            events.accept(WaitEvent.newBuilder()
                    .setOpened(Opened.newBuilder()
                            .setToken("abey_fake")
                            .setWaitId("fake")
                            .setAliveInterval(Durations.fromSeconds(5)))
                    .build());
            return this;
        }

        Stream alive() {
            events.accept(
                    WaitEvent.newBuilder().setAlive(Alive.getDefaultInstance()).build());
            return this;
        }

        /** An event of a kind that this client does not know. */
        Stream unknown() {
            events.accept(WaitEvent.getDefaultInstance());
            return this;
        }

        Stream outcome(String payloadJson) {
            events.accept(WaitEvent.newBuilder()
                    .setOutcome(Outcome.newBuilder()
                            .setState(Wait.State.STATE_RESOLVED)
                            .setResolved(Resolved.newBuilder().setPayloadJson(payloadJson)))
                    .build());
            return this;
        }

        Stream detached(Detached.Reason reason, long retryMillis) {
            events.accept(WaitEvent.newBuilder()
                    .setDetached(
                            Detached.newBuilder().setReason(reason).setRetryDelay(Durations.fromMillis(retryMillis)))
                    .build());
            return this;
        }

        void end(Status status) {
            if (status.isOk()) {
                end.onCompleted();
            } else {
                end.onError(status.asRuntimeException());
            }
        }
    }

    private final class Service extends WaitServiceGrpc.WaitServiceImplBase {
        @Override
        public void wait(WaitRequest request, StreamObserver<WaitResponse> out) {
            begun(
                    request,
                    null,
                    (ServerCallStreamObserver<WaitResponse>) out,
                    event ->
                            out.onNext(WaitResponse.newBuilder().setEvent(event).build()));
        }

        @Override
        public void attach(AttachRequest request, StreamObserver<AttachResponse> out) {
            begun(
                    null,
                    request,
                    (ServerCallStreamObserver<AttachResponse>) out,
                    event -> out.onNext(
                            AttachResponse.newBuilder().setEvent(event).build()));
        }

        private void begun(
                WaitRequest wait, AttachRequest attach, ServerCallStreamObserver<?> end, Consumer<WaitEvent> events) {
            CompletableFuture<Void> cancelled = new CompletableFuture<>();
            end.setOnCancelHandler(() -> cancelled.complete(null));
            Deadline deadline = Context.current().getDeadline();
            streams.add(new Stream(wait, attach, deadline, PEER.get(), System.nanoTime(), events, end, cancelled));
        }
    }

    private static final class Peers implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            String peer = String.valueOf(call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR));
            return Contexts.interceptCall(Context.current().withValue(PEER, peer), call, headers, next);
        }
    }
}
