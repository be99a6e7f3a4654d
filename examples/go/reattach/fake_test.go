package reattach

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "example.com/abeyance/abeyancev1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
)

const token = "abey_AQGiLEnP23hWOOPS"

// fake is a broker whose every word the test says. It lives in a bubble of synctest, where time passes only while everybody waits.
type fake struct {
	v1.UnimplementedWaitServiceServer
	v1.UnimplementedResolveServiceServer

	client   *Client
	log      *log
	streams  chan *fakeStream
	describe func(context.Context) (*v1.DescribeWaitResponse, error)
	recorded *v1.Outcome // What CancelWait finds.

	mu    sync.Mutex
	wires []*wire
}

// inBubble runs a test with a client of a fake broker, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{streams: make(chan *fakeStream), log: &log{}}
		listener := bufconn.Listen(1 << 20)
		server := grpc.NewServer()
		v1.RegisterWaitServiceServer(server, f)
		v1.RegisterResolveServiceServer(server, f)
		go func() { _ = server.Serve(listener) }()
		dial := func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := listener.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			w := &wire{Conn: conn}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.wires = append(f.wires, w)
			return w, nil
		}
		client, err := NewClient("passthrough:///fake", grpc.WithContextDialer(dial))
		if err != nil {
			t.Fatal(err)
		}
		client.Log = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		f.client = client
		test(t, f)
		client.Close()
		server.Stop()
	})
}

// connections returns the connections that were made so far.
func (f *fake) connections() []*wire {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*wire{}, f.wires...)
}

// wire is a connection that can fall silent towards the client, without an end.
type wire struct {
	net.Conn
	frozen, closed atomic.Bool
}

func (w *wire) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	for err == nil && w.frozen.Load() {
		n, err = w.Conn.Read(p)
	}
	return n, err
}

// log collects the lines of a client's log.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *log) warnings() int { return l.count("level=WARN") }

// fakeStream is one stream that a client began.
type fakeStream struct {
	open   *v1.WaitRequest   // What it began with: this,
	attach *v1.AttachRequest // or this.
	ctx    context.Context
	send   func(*v1.WaitEvent)
	end    func(error)
}

func (f *fake) Wait(r *v1.WaitRequest, out grpc.ServerStreamingServer[v1.WaitResponse]) error {
	return f.stream(&fakeStream{open: r, ctx: out.Context()}, func(e *v1.WaitEvent) error {
		return out.Send(&v1.WaitResponse{Event: e})
	})
}

func (f *fake) Attach(r *v1.AttachRequest, out grpc.ServerStreamingServer[v1.AttachResponse]) error {
	return f.stream(&fakeStream{attach: r, ctx: out.Context()}, func(e *v1.WaitEvent) error {
		return out.Send(&v1.AttachResponse{Event: e})
	})
}

func (f *fake) stream(s *fakeStream, send func(*v1.WaitEvent) error) error {
	events, ended := make(chan *v1.WaitEvent, 1000), make(chan error, 1)
	s.send = func(e *v1.WaitEvent) { events <- e }
	s.end = func(err error) { ended <- err; close(events) }
	select {
	case f.streams <- s:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return <-ended
			}
			if err := send(e); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (f *fake) DescribeWait(ctx context.Context, _ *v1.DescribeWaitRequest) (*v1.DescribeWaitResponse, error) {
	return f.describe(ctx)
}

func (f *fake) OpenWait(context.Context, *v1.OpenWaitRequest) (*v1.OpenWaitResponse, error) {
	return &v1.OpenWaitResponse{Opened: openedEvent().GetOpened()}, nil
}

func (f *fake) CancelWait(_ context.Context, r *v1.CancelWaitRequest) (*v1.CancelWaitResponse, error) {
	if r.GetToken() != token {
		return nil, refused(codes.NotFound, "TOKEN_UNKNOWN")
	}
	return &v1.CancelWaitResponse{Outcome: f.recorded}, nil
}

// next returns the next stream that a client begins.
func (f *fake) next(t *testing.T) *fakeStream {
	t.Helper()
	select {
	case s := <-f.streams:
		if s.attach != nil && s.attach.GetToken() != token {
			t.Fatalf("attached with the token %q", s.attach.GetToken())
		}
		return s
	case <-time.After(24 * time.Hour):
		t.Fatal("no stream was begun within a day")
		return nil
	}
}

// attached returns the next stream, once it has begun with opened.
func (f *fake) attached(t *testing.T) *fakeStream {
	t.Helper()
	s := f.next(t)
	s.send(openedEvent())
	return s
}

// wait opens a wait and returns its first stream.
func (f *fake) wait(t *testing.T) (*Wait, *fakeStream) {
	t.Helper()
	began := make(chan *fakeStream, 1)
	go func() { began <- f.attached(t) }()
	wait, err := f.client.Open(t.Context(), &v1.WaitSpec{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return wait, <-began
}

// finish attaches a client again and gives it the answer.
func (f *fake) finish(t *testing.T, wait *Wait) {
	t.Helper()
	s := f.attached(t)
	s.send(answeredEvent("1"))
	s.end(nil)
	wantAnswer(t, wait, "1")
}

func wantAnswer(t *testing.T, wait *Wait, payload string) {
	t.Helper()
	outcome, err := wait.Outcome(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome.GetResolved().GetPayloadJson(); got != payload {
		t.Fatalf("the answer is %q instead of %q", got, payload)
	}
}

func openedEvent() *v1.WaitEvent {
	return &v1.WaitEvent{Event: &v1.WaitEvent_Opened{Opened: &v1.Opened{Token: token, WaitId: "w"}}}
}

func aliveEvent() *v1.WaitEvent { return &v1.WaitEvent{Event: &v1.WaitEvent_Alive{}} }

func answeredEvent(payload string) *v1.WaitEvent {
	return &v1.WaitEvent{Event: &v1.WaitEvent_Outcome{Outcome: &v1.Outcome{
		WaitId: "w",
		State:  v1.Wait_STATE_RESOLVED,
		Result: &v1.Outcome_Resolved{Resolved: &v1.Resolved{PayloadJson: payload}},
	}}}
}

// refused is a status as the broker gives it.
func refused(code codes.Code, reason string) error {
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: reason, Domain: "abeyance.v1", Metadata: map[string]string{"wait_id": "w"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "f", Description: "d"}}},
	}
	s, err := status.New(code, "refused").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// wantRefusal makes sure that an error is a refusal with all that belongs to it.
func wantRefusal(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("%v is no refusal", err)
	}
	if refusal.Code != code || refusal.Reason != reason || status.Code(err) != code {
		t.Fatalf("refused with %v %q", refusal.Code, refusal.Reason)
	}
	if len(refusal.Violations) != 1 || refusal.Violations[0] != (Violation{"f", "d"}) || refusal.Metadata["wait_id"] != "w" {
		t.Fatalf("the refusal lost details: %+v", refusal)
	}
}
